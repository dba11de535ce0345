//! OAuth for MCP servers: discovery, registration, storage, and refresh of tokens.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::network::NetworkServer;
use super::{answer, call, received_messages, set};
use crate::support::World;

#[test]
fn sign_in_is_discovered_completed_saved_and_renewed() {
    let script = call("echo", &json!({"text": "signed"}));
    let world = World::new(&script);
    let remote = NetworkServer::start(&world, "--http", "auth");
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
    let listed = world.run(&["mcp", "list"]);
    assert!(listed.stdout().contains("Authentication required"), "{}", listed.stdout());

    assert!(
        listed.stdout().contains("To sign in, run: parallax mcp auth test"),
        "{}",
        listed.stdout()
    );
    let address = sign_in(&world);
    assert!(
        address.contains("code_challenge_method=S256") && address.contains("resource="),
        "{address}"
    );
    let tokens = world.home.parallax().join("mcp-oauth-tokens.json");
    let text = std::fs::read_to_string(&tokens).expect("tokens");
    assert!(text.contains("access-1") && text.contains("refresh-1"), "{text}");
    let register = received_messages(&world)
        .into_iter()
        .find(|it| it["http"] == "register")
        .expect("registered");
    assert_eq!(register["body"]["client_name"], "Parallax");

    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());

    // The token is rejected, and a new one is fetched without the user.
    post(&format!("{}/expire", remote.base()));
    let world = World::in_home(world.home, &script);
    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
    assert!(std::fs::read_to_string(&tokens).expect("tokens").contains("access-2"));

    // The token endpoint is stored and not discovered again.
    let looked = || {
        let lines = received_messages(&world).into_iter();
        lines.filter(|it| it["path"].as_str().is_some_and(|it| it.contains("well-known"))).count()
    };
    let before = looked();
    world.run(&["mcp", "list"]);
    assert_eq!(looked(), before);
    assert!(world.run(&["mcp", "auth", "test", "--forget"]).stdout().contains("Signed out"));
}

#[test]
fn registered_client_secret_is_sent_on_token_renewal() {
    let script = call("echo", &json!({"text": "signed"}));
    let world = World::new(&script);
    let remote = NetworkServer::start(&world, "--http", "auth,secret");
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
    sign_in(&world);
    post(&format!("{}/expire", remote.base()));
    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
    let stdout = world.run(&["mcp", "list", "--json"]).stdout();
    assert!(!stdout.contains("s3cret"), "{stdout}");
}

#[test]
fn form_encoded_tokens_are_parsed_and_renewed() {
    let world = World::new(&call("echo", &json!({"text": "signed"})));
    let remote = NetworkServer::start(&world, "--http", "auth,form");
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
    sign_in(&world);
    post(&format!("{}/expire", remote.base()));
    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
}

#[test]
fn rejected_sign_in_names_the_reason() {
    let world = World::new("[]");
    for (how, expected) in [
        ("auth,denied", "the sign-in was rejected: Not for you. (access_denied)"),
        ("auth,closed", "set `oauth.clientId`"),
    ] {
        let remote = NetworkServer::start(&world, "--http", how);
        set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
        let mut command = world.command(&["mcp", "auth", "test", "--no-browser"]);
        command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut lines =
            std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("stderr")));
        let mut output = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.starts_with("http") {
                let back = follow(&line);
                let stdin = child.stdin.as_mut().expect("stdin");
                std::io::Write::write_all(stdin, format!("{back}\n").as_bytes()).expect("pasted");
            }
            output.push_str(&line);
        }
        assert!(!child.wait().expect("ended").success());
        assert!(output.contains(expected), "{output}");
    }
}

#[test]
fn configured_certificates_apply_to_sign_in() {
    let world = World::new("[]");
    let remote = NetworkServer::start(&world, "--http", "auth,tls");
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
    let authority = std::path::Path::new(&super::script()).with_file_name("authority.pem");
    for named in [true, false] {
        let mut command = world.command(&["mcp", "auth", "test", "--no-browser"]);
        if named {
            command.env("NODE_EXTRA_CA_CERTS", &authority);
        }
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().expect("started");
        let lines = std::io::BufReader::new(child.stderr.take().expect("stderr"));
        let starts = |line: &String| line.starts_with("https://") || line.starts_with("error:");
        let line = std::io::BufRead::lines(lines).map_while(Result::ok).find(starts);
        let line = line.expect("an address or why there is none");
        child.kill().expect("ended");
        child.wait().expect("ended");
        assert_eq!(line.starts_with("https://localhost"), named, "{line}");
    }
}

#[test]
fn gemini_cli_token_is_renewed_at_its_recorded_endpoint() {
    let script = call("echo", &json!({"text": "renewed"}));
    let world = World::new(&script);
    let remote = NetworkServer::start(&world, "--http", "bare401,tok");
    let entry = |refresh: &str| {
        json!([{
            "serverName": "test", "clientId": "client-1", "updatedAt": 1,
            "tokenUrl": format!("{}/tok", remote.base()), "mcpServerUrl": remote.address,
            "token": {"accessToken": "old", "refreshToken": refresh, "expiresAt": 2,
                      "tokenType": "Bearer"}
        }])
        .to_string()
    };
    let file = ".gemini/mcp-oauth-tokens.json";
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));

    // If the refresh is rejected, the user must sign in again.
    world.home.write_home(file, &entry("no")).expect("written");
    let listed = world.run(&["mcp", "list"]);
    assert!(listed.stdout().contains("Authentication required"), "{}", listed.stdout());
    let done = world.run(&["-y", "-p", "/mcp"]);
    assert!(done.stdout().contains("sign in again"), "{}", done.stdout());

    world.home.write_home(file, &entry("refresh-0")).expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
    let is_search = |it: &Value| it["path"].as_str().is_some_and(|it| it.contains("well-known"));
    assert!(!received_messages(&world).iter().any(is_search), "it was checked for");
    // The settings also name the endpoint, for tokens stored without it.
    let ours = world.home.parallax().join("mcp-oauth-tokens.json");
    let text = std::fs::read_to_string(&ours).expect("tokens");
    assert!(text.contains("/tok\"") && text.contains("access-1"), "{text}");
}

/// Signs in with a fake browser that follows the URL and its redirects. Returns the URL.
fn sign_in(world: &World) -> String {
    let mut command = world.command(&["mcp", "auth", "test", "--no-browser"]);
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("stderr")));
    let address = lines
        .find_map(|line| line.ok().filter(|line| line.starts_with("http")))
        .expect("an address");
    let back = follow(&address);
    let mut stdin = child.stdin.take().expect("stdin");
    std::io::Write::write_all(&mut stdin, format!("{back}\n").as_bytes()).expect("pasted");
    assert!(child.wait().expect("ended").success());
    address
}

#[test]
fn sign_in_endpoint_is_found_in_the_401_header() {
    let world = World::new(&call("echo", &json!({"text": "signed"})));
    let remote = NetworkServer::start(&world, "--http", "auth,hidden");
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
    sign_in(&world);
    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
}

#[test]
fn endless_stream_does_not_delay_sign_in() {
    for what in ["auth,late401", "auth,hidden,open"] {
        let world = World::new("[]");
        let remote = NetworkServer::start(&world, "--http", what);
        set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
        let started_at = Instant::now();
        sign_in(&world);
        assert!(
            started_at.elapsed() < Duration::from_secs(15),
            "{what}: {:?}",
            started_at.elapsed()
        );
    }
}

#[test]
fn unauthorized_first_call_is_reported_with_the_auth_command() {
    let script = call("echo", &json!({"text": "signed"}));
    let world = World::new(&script);
    let remote = NetworkServer::start(&world, "--http", "auth,late401,nostream");
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
    let done = world.run_ok(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(
        error.contains("requires authentication") && error.contains("mcp auth test"),
        "{error}"
    );
    assert!(done.err().contains("`test`: it requires authentication"), "{}", done.err());
    assert!(done.err().contains("`parallax mcp auth test`"), "{}", done.err());
    sign_in(&world);
    let world = World::in_home(world.home, &script);
    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
    // A rejection in the middle of a session is reported like one at the start.
    post(&format!("{}/revoke", remote.base()));
    let world = World::in_home(world.home, &script);
    world.run_ok(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("again (the last sign-in is no longer valid)"), "{error}");
}

#[test]
fn stream_token_is_sent_in_the_url_if_configured() {
    let world = World::new(&call("echo", &json!({"text": "signed"})));
    let remote = NetworkServer::start(&world, "--sse", "auth,query");
    let oauth = json!({"tokenParamName": "key"});
    let server = json!({"url": remote.address, "type": "sse", "oauth": oauth});
    set(&world, &json!({"mcpServers": {"test": server}}));
    let tokens = json!([{
        "serverName": "test", "clientId": "client-1", "updatedAt": 1,
        "tokenUrl": format!("{}/token", remote.base()), "mcpServerUrl": remote.address,
        "token": {"accessToken": "given", "tokenType": "Bearer"}
    }]);
    let file = ".parallax/mcp-oauth-tokens.json";
    world.home.write_home(file, &tokens.to_string()).expect("written");
    post(&format!("{}/accept?given", remote.base()));
    world.run_ok(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
}

/// Sends one request over a plain socket; returns the head of the response.
fn exchange(method: &str, address: &str) -> String {
    let rest = address.strip_prefix("http://").expect("http");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("connected");
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: \
         close\r\n\r\n"
    );
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    answer
}

fn post(address: &str) {
    exchange("POST", address);
}

fn follow(address: &str) -> String {
    let answer = exchange("GET", address);
    let line = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    line.expect("a redirect").trim().to_owned()
}
