//! MCP servers from settings to the model, with a server that behaves badly.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// The server of the tests.
fn script() -> String {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    here.canonicalize().expect("the server").display().to_string()
}

/// A stdio server that does these things.
pub(crate) fn stdio(world: &World, r#do: &str) -> Value {
    let log = world.home.root().join("log").display().to_string();
    json!({"command": "python3", "args": [script(), "--log", log, "--do", r#do]})
}

pub(crate) fn set(world: &World, settings: &Value) {
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
}

fn with_server(script: &str, r#do: &str) -> World {
    let world = World::new(script);
    set(&world, &json!({"mcpServers": {"test": stdio(&world, r#do)}}));
    world
}

/// What the model was asked, as JSON.
fn request(world: &World, number: usize) -> Value {
    serde_json::from_slice(&world.server.requests()[number].body).expect("JSON")
}

/// The names that were declared with a request.
pub(crate) fn declared(world: &World, number: usize) -> Vec<String> {
    let request = request(world, number);
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let declarations = tools.iter().filter_map(|tool| tool["functionDeclarations"].as_array());
    declarations.flatten().filter_map(|it| it["name"].as_str()).map(str::to_owned).collect()
}

/// The answer that the model got to its last call.
pub(crate) fn answer(world: &World, number: usize) -> Value {
    let request = request(world, number);
    let contents = request["contents"].as_array().cloned().expect("contents");
    let parts = contents.last().expect("a content")["parts"].as_array().cloned().expect("parts");
    let response = parts.iter().find_map(|part| part.get("functionResponse"));
    response.expect("an answer")["response"].clone()
}

/// What the server was told.
fn told(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.home.root().join("log")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn call(tool: &str, args: &Value) -> String {
    json!([{"calls": [{"name": format!("mcp_test_{tool}"), "args": args}]}, {"text": "done"}])
        .to_string()
}

#[test]
fn the_model_calls_a_tool_of_a_server() {
    let world = with_server(&call("echo", &json!({"text": "hi", "wait_for_previous": true})), "");
    world.run_well(&["-y", "-p", "go"]);
    assert!(declared(&world, 0).contains(&"mcp_test_echo".to_owned()));
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    assert!(output.contains("<untrusted_context>\necho: hi\n"), "{output}");
    let first = request(&world, 0).to_string();
    assert!(first.contains("Be kind to the test server."), "its instructions");
    let calls: Vec<Value> =
        told(&world).into_iter().filter(|it| it["method"] == "tools/call").collect();
    assert_eq!(calls[0]["params"]["arguments"], json!({"text": "hi"}), "our own flag stays here");

    // Known now: the next session declares the tools before the server runs.
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    std::fs::remove_file(world.home.root().join("log")).expect("the log");
    world.run_well(&["-y", "-p", "go"]);
    assert!(declared(&world, 0).contains(&"mcp_test_echo".to_owned()));
    assert!(told(&world).is_empty(), "nobody called it, so it was not started");
}

#[test]
fn without_leave_nothing_runs() {
    let world = with_server(&call("env", &json!({})), "");
    world.run_well(&["-p", "go"]);
    assert!(answer(&world, 1)["error"].as_str().is_some_and(|error| error.contains("denied")));
    assert!(!told(&world).iter().any(|it| it["method"] == "tools/call"));
}

#[test]
fn a_trusted_server_needs_no_leave_and_gets_no_secrets() {
    let world = World::new(&call("env", &json!({})));
    let mut server = stdio(&world, "");
    server["trust"] = json!(true);
    server["env"] =
        json!({"OPEN": "$SECRET_TOKEN", "NODE_OPTIONS": "--x", "UNSET": "a${NO_SUCH}b"});
    set(&world, &json!({"mcpServers": {"test": server}}));
    let mut command = world.command(&["-p", "go"]);
    command.env("SECRET_TOKEN", "s3cret-value").env("PLAIN", "seen");
    assert_eq!(crate::support::finish(command).code(), 0);
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    let json = output.lines().nth(1).expect("the text");
    let variables: Value = serde_json::from_str(json).expect("variables");
    assert_eq!(variables["OPEN"], "s3cret-value");
    assert_eq!(variables["UNSET"], "ab");
    assert_eq!(variables["PLAIN"], "seen");
    assert_eq!(variables["GEMINI_CLI"], "1");
    assert_eq!(variables.get("SECRET_TOKEN"), None);
    assert_eq!(variables.get("GEMINI_API_KEY"), None);
}

#[test]
fn a_project_cannot_preload_into_its_servers() {
    let world = World::new(&call("env", &json!({})));
    let mut server = stdio(&world, "");
    server["env"] = json!({"PYTHONPATH": "/evil", "FINE": "1"});
    let settings = json!({"mcpServers": {"test": server}}).to_string();
    world.home.write(".gemini/settings.json", &settings).expect("settings");
    let done = world.run_well(&["-y", "-p", "go"]);
    assert!(done.err().contains("PYTHONPATH"), "{}", done.err());
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    assert!(output.contains("\"FINE\": \"1\"") && !output.contains("/evil"), "{output}");
}

#[test]
fn dead_hanging_and_shouting_servers_hold_nobody_up() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let mut servers = json!({
        "missing": {"command": "no-such-program"},
        "shouts": stdio(&world, "shouts"),
        "noise": stdio(&world, "noise"),
        "floods": stdio(&world, "floods"),
        "empty": stdio(&world, "empty"),
    });
    for name in ["die", "mute", "stubborn"] {
        servers[name] = stdio(&world, &format!("{name},mute"));
    }
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 30_000}}));
    let done = world.run_well(&["-y", "-p", "go"]);
    // Those that are not there are named, with the reason.
    for trouble in ["`missing`: it cannot be started: there is no program", "`empty`: ", "`mute`: "]
    {
        assert!(done.err().contains(trouble), "{trouble}: {}", done.err());
    }
    let names = declared(&world, 0);
    let place = |name: &str| names.iter().position(|it| *it == format!("mcp_{name}_echo"));
    assert!(place("floods") < place("noise") && place("noise") < place("shouts"), "{names:?}");
    for server in ["shouts", "noise", "floods"] {
        assert!(names.contains(&format!("mcp_{server}_echo")), "{server}: {names:?}");
    }
    // What did not answer is known by now: nobody waits for it again.
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    let begun = Instant::now();
    world.run_well(&["-y", "-p", "go"]);
    assert!(begun.elapsed().as_millis() < 2_500, "{:?}", begun.elapsed());
}

#[test]
fn the_first_request_waits_for_servers_that_get_on_and_not_for_those_that_hang() {
    let world = World::new(
        r#"[{"calls": [{"name": "mcp_late_echo", "args": {"text": "x"}}]}, {"text": "done"}]"#,
    );
    let mut servers = json!({
        "missing": {"command": "no-such-program"},
        "sleeps": {"command": "sleep", "args": ["60"]},
        "refuses": {"httpUrl": "http://127.0.0.1:9/mcp"},
        "far": {"httpUrl": "http://192.0.2.1/mcp"},
    });
    for (name, r#do) in [("die", "die"), ("mute", "mute"), ("good", ""), ("better", "")] {
        servers[name] = stdio(&world, r#do);
    }
    // Nobody can tell it from one that hangs, until it comes.
    let late = format!(
        "sleep 2; exec python3 {}",
        servers["good"]["args"][0].as_str().expect("the script")
    );
    servers["late"] = json!({"command": "sh", "args": ["-c", late]});
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 60_000}}));
    let begun = Instant::now();
    let running = world.start(&["-y", "-p", "go"]);
    world.asked(1);
    let took = begun.elapsed();
    assert!(took.as_secs() < 20, "{took:?}");
    let names = declared(&world, 0);
    for server in ["good", "better"] {
        assert!(names.contains(&format!("mcp_{server}_echo")), "{server}: {names:?}");
    }
    assert!(!names.contains(&"mcp_late_echo".to_owned()), "{names:?}");
    // It is there for what comes after.
    world.asked(2);
    assert!(declared(&world, 1).contains(&"mcp_late_echo".to_owned()));
    assert!(answer(&world, 1)["output"].as_str().is_some_and(|text| text.contains("echo: x")));
    drop(running);
}

#[test]
fn a_crash_is_told_and_the_server_comes_back() {
    let world = with_server(
        r#"[{"calls": [{"name": "mcp_test_crash", "args": {}}]},
            {"calls": [{"name": "mcp_test_echo", "args": {"text": "again"}}]},
            {"calls": [{"name": "mcp_test_crash_once", "args": {}}]}, {"text": "done"}]"#,
        "",
    );
    world.run_well(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("the end is near"), "{error}");
    assert!(answer(&world, 2)["output"].as_str().is_some_and(|it| it.contains("echo: again")));
    let repeated = answer(&world, 3);
    assert!(repeated["output"].as_str().is_some_and(|it| it.contains("second life")), "{repeated}");
}

#[test]
fn another_description_is_asked_about_again() {
    let script = call("echo", &json!({"text": "x"}));
    let allow =
        "[[rule]]\nmcpName = \"test\"\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 500\n";
    let world = with_server(&script, "");
    world.home.write_home(".gemini/policies/mcp.toml", allow).expect("rules");
    world.run_well(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());

    let world = World::in_home(world.home, &script);
    set(&world, &json!({"mcpServers": {"test": stdio(&world, "changed")}}));
    world.run_well(&["-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("differently"), "{error}");

    // A person who looks at it lets it through, and it stays so.
    let world = World::in_home(world.home, &script);
    let mut face = Conversation::start(&world, &[]);
    face.prompt("go");
    let ask = face.next("ask");
    assert_eq!(ask["tool_name"], "mcp_test_echo");
    face.say(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(face.next("tool_result")["status"], "success");
    face.end();
    let world = World::in_home(world.home, &script);
    world.run_well(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());
}

#[test]
fn trust_holds_for_what_a_tool_said_when_it_was_called_first() {
    let script = call("echo", &json!({"text": "x"}));
    let world = World::new(&script);
    let mut server = stdio(&world, "");
    server["trust"] = json!(true);
    set(&world, &json!({"mcpServers": {"test": server}}));
    world.run_well(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());

    // Declared as it was; the server that starts says something else.
    std::fs::write(world.home.root().join("log.changed"), "").expect("a mark");
    let world = World::in_home(world.home, &script);
    world.run_well(&["-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("now describes it differently"), "{error}");
    assert!(!error.contains("untrusted_context"), "our words are no stranger's: {error}");

    // Declared as it is now: nobody has agreed to that.
    let world = World::in_home(world.home, &script);
    world.run_well(&["-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("differently than when it was last"), "{error}");

    // Who lets everything run is told at least, each time.
    let mut world = world;
    for _ in 0..2 {
        world = World::in_home(world.home, &script);
        let done = world.run_well(&["-y", "-p", "go", "-o", "json"]);
        assert!(answer(&world, 1)["output"].is_string());
        let told: Value = serde_json::from_str(&done.out()).expect("json");
        assert!(told["warnings"].to_string().contains("differently than when"), "{told}");
    }
}

#[test]
fn servers_that_are_not_there_are_told_to_programs_too() {
    let world = World::new(r#"[{"text": "done"}]"#);
    set(&world, &json!({"mcpServers": {"gone": {"command": "no-such-program"}}}));
    let done = world.run_well(&["-p", "go", "-o", "json"]);
    let out: Value = serde_json::from_str(&done.out()).expect("JSON");
    let warning = out["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("`gone`: ") && warning.contains("no-such-program"), "{warning}");
}

#[test]
fn tools_beyond_the_share_of_the_window_are_looked_for() {
    let world = World::new(
        r#"[{"calls": [{"name": "mcp_search_tools", "args": {"query": "says the text again"}}]},
            {"calls": [{"name": "mcp_test_echo", "args": {"text": "found"}}]}, {"text": "done"}]"#,
    );
    let server = stdio(&world, "heavy");
    set(&world, &json!({"mcpServers": {"test": server}, "mcp": {"toolBudget": 1}}));
    world.run_well(&["-y", "-p", "go"]);
    let (before, after) = (declared(&world, 0), declared(&world, 1));
    assert!(before.contains(&"mcp_search_tools".to_owned()), "{before:?}");
    assert!(!before.iter().any(|name| name.starts_with("mcp_test_")), "{before:?}");
    assert!(after.contains(&"mcp_test_echo".to_owned()), "{after:?}");
    assert!(!after.contains(&"mcp_test_heavy_1".to_owned()), "{after:?}");
    assert!(answer(&world, 2)["output"].as_str().is_some_and(|it| it.contains("echo: found")));
}

#[test]
fn an_interrupt_tells_the_server() {
    let world = with_server(&call("hang", &json!({})), "");
    let mut face = Conversation::start(&world, &["-y"]);
    face.prompt("go");
    face.next("tool_use");
    crate::support::until("the call", || {
        told(&world).iter().any(|it| it["params"]["name"] == "hang")
    });
    face.say(&json!({"type": "interrupt"}));
    face.next("result");
    face.end();
    let cancelled = told(&world).into_iter().find(|it| it["method"] == "notifications/cancelled");
    assert!(cancelled.is_some(), "the server was not told");
}

#[test]
fn a_changed_list_is_declared_in_the_same_turn() {
    let world = with_server(
        r#"[{"calls": [{"name": "mcp_test_bump", "args": {}}]},
            {"calls": [{"name": "run_shell_command", "args": {"command": "sleep 1.5"}}]},
            {"calls": [{"name": "mcp_test_extra", "args": {}}]}, {"text": "done"}]"#,
        "",
    );
    world.run_well(&["-y", "-p", "go"]);
    assert!(!declared(&world, 0).contains(&"mcp_test_extra".to_owned()));
    assert!(declared(&world, 2).contains(&"mcp_test_extra".to_owned()));
    let lists = told(&world).iter().filter(|it| it["method"] == "tools/list").count();
    assert!(lists <= 4, "a burst is one change: {lists}");
}

/// A server on the network, ended when dropped.
struct Remote {
    child: std::process::Child,
    address: String,
}

impl Remote {
    fn start(world: &World, how: &str, r#do: &str) -> Self {
        let place = world.home.root().join(format!("address{how}"));
        let _ = std::fs::remove_file(&place);
        let mut command = world.home.command(std::path::Path::new("python3"), "");
        command.arg(script()).arg(how).arg(&place).args(["--do", r#do]);
        command.arg("--log").arg(world.home.root().join("log"));
        let child = command.spawn().expect("started");
        crate::support::until("the server", || place.exists());
        Self { child, address: std::fs::read_to_string(&place).expect("the address") }
    }

    /// Without its path.
    fn base(&self) -> &str {
        self.address.rsplit_once('/').map_or("", |(base, _)| base)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn servers_are_reached_over_http_and_the_older_stream() {
    let echo = call("echo", &json!({"text": "far"}));
    for (how, r#do, kind) in [
        ("--http", "", Some("http")),
        ("--http", "nostream", None),
        ("--sse", "", Some("sse")),
        // Nothing said: streamable HTTP first, then the older way.
        ("--sse", "", None),
    ] {
        let world = World::new(&echo);
        let remote = Remote::start(&world, how, r#do);
        let mut server = json!({"url": remote.address, "headers": {"X-Key": "$MY_KEY"}});
        if let Some(kind) = kind {
            server["type"] = json!(kind);
        }
        set(&world, &json!({"mcpServers": {"test": server}}));
        let mut command = world.command(&["-y", "-p", "go"]);
        command.env("MY_KEY", "k-1");
        let done = crate::support::finish(command);
        assert_eq!(done.code(), 0, "{}", done.err());
        let answer = answer(&world, 1);
        assert!(
            answer["output"].as_str().is_some_and(|it| it.contains("echo: far")),
            "{how} {answer}"
        );
        let keys = told(&world).iter().filter(|it| it["headers"]["x-key"] == "k-1").count();
        assert!(keys >= 2, "{how}: the header goes with each request");
    }
}

#[test]
fn a_sign_in_is_found_made_kept_and_renewed() {
    let script = call("echo", &json!({"text": "signed"}));
    let world = World::new(&script);
    let remote = Remote::start(&world, "--http", "auth");
    set(&world, &json!({"mcpServers": {"test": {"httpUrl": remote.address}}}));
    let listed = world.run(&["mcp", "list"]);
    assert!(listed.out().contains("Needs a sign-in"), "{}", listed.out());

    // The browser, played: the address is followed to where it leads.
    let mut command = world.command(&["mcp", "auth", "test", "--no-browser"]);
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("stderr")));
    let address = lines
        .find_map(|line| line.ok().filter(|line| line.starts_with("http")))
        .expect("an address");
    assert!(
        address.contains("code_challenge_method=S256") && address.contains("resource="),
        "{address}"
    );
    let back = follow(&address);
    let mut stdin = child.stdin.take().expect("stdin");
    std::io::Write::write_all(&mut stdin, format!("{back}\n").as_bytes()).expect("pasted");
    assert!(child.wait().expect("ended").success());
    let tokens = world.home.parallax().join("mcp-oauth-tokens.json");
    let text = std::fs::read_to_string(&tokens).expect("tokens");
    assert!(text.contains("access-1") && text.contains("refresh-1"), "{text}");
    let register =
        told(&world).into_iter().find(|it| it["http"] == "register").expect("registered");
    assert_eq!(register["body"]["client_name"], "Parallax");

    world.run_well(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());

    // The token is refused: a new one is fetched without anybody.
    post(&format!("{}/expire", remote.base()));
    let world = World::in_home(world.home, &script);
    world.run_well(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
    assert!(std::fs::read_to_string(&tokens).expect("tokens").contains("access-2"));

    // Where it is renewed stands beside it: nobody looks for that again.
    let looked = || {
        let lines = told(&world).into_iter();
        lines.filter(|it| it["path"].as_str().is_some_and(|it| it.contains("well-known"))).count()
    };
    let before = looked();
    world.run(&["mcp", "list"]);
    assert_eq!(looked(), before);
    assert!(world.run(&["mcp", "auth", "test", "--forget"]).out().contains("forgotten"));
}

#[test]
fn a_token_of_gemini_cli_is_renewed_where_its_entry_says() {
    let script = call("echo", &json!({"text": "renewed"}));
    let world = World::new(&script);
    let remote = Remote::start(&world, "--http", "bare401,tok");
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

    // A renewal that is refused: the person must sign in again.
    world.home.write_home(file, &entry("no")).expect("written");
    let listed = world.run(&["mcp", "list"]);
    assert!(listed.out().contains("Needs a sign-in"), "{}", listed.out());
    let done = world.run(&["-y", "-p", "/mcp"]);
    assert!(done.out().contains("sign in again"), "{}", done.out());

    world.home.write_home(file, &entry("refresh-0")).expect("written");
    world.run_well(&["-y", "-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string(), "{}", answer(&world, 1));
    let is_search = |it: &Value| it["path"].as_str().is_some_and(|it| it.contains("well-known"));
    assert!(!told(&world).iter().any(is_search), "it was looked for");
    // The settings know it too, also for tokens that do not say it.
    let ours = world.home.parallax().join("mcp-oauth-tokens.json");
    let text = std::fs::read_to_string(&ours).expect("tokens");
    assert!(text.contains("/tok\"") && text.contains("access-1"), "{text}");
}

#[test]
fn a_server_that_did_not_answer_before_is_told_of_again() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let servers =
        json!({"far": {"httpUrl": "http://192.0.2.1/mcp"}, "mute": stdio(&world, "mute")});
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 1_500}}));
    world.run_well(&["-y", "-p", "go"]);
    let done = world.run_well(&["-y", "-p", "go"]);
    assert!(done.err().contains("`far`: no answer yet"), "{}", done.err());
    let done = world.run_well(&["-y", "-p", "/mcp"]);
    assert!(done.out().contains("no answer yet"), "{}", done.out());
}

#[test]
fn a_server_that_stands_elsewhere_too_is_not_said_to_be_gone() {
    let world = World::new("[]");
    let file = world.home.home().join(".gemini/settings.json");
    world
        .home
        .write_home(".gemini/settings.json", r#"{"mcpServers": {"h": {"command": "x"}}}"#)
        .expect("written");
    let done = world.run(&["mcp", "remove", "h"]);
    assert_eq!(done.code(), 0);
    let shown = file.display().to_string();
    assert!(done.out().contains(&shown) && done.out().contains("mcp disable h"), "{}", done.out());
    let refused = world.run(&["mcp", "add", "--bogus", "cmd"]);
    assert!(refused.code() != 0 && refused.err().contains("begin with `-`"), "{}", refused.err());
}

/// One request over a plain socket; gives the head of the answer.
fn exchange(method: &str, address: &str) -> String {
    let rest = address.strip_prefix("http://").expect("http");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("connected");
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
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

#[test]
fn servers_are_added_listed_switched_and_removed() {
    let world = World::new("[]");
    let settings = || -> Value {
        let text = std::fs::read_to_string(world.home.project().join(".parallax/settings.json"));
        serde_json::from_str(&text.unwrap_or_else(|_| "{}".into())).expect("JSON")
    };
    let path = script();
    let added = world.run(&[
        "mcp",
        "add",
        "my_srv",
        "python3",
        &path,
        "-e",
        "K=v=w",
        "--timeout",
        "4000",
        "--trust",
        "--description",
        "mine",
        "--include-tools",
        "echo,env",
        "--exclude-tools",
        "env",
        "--do",
        "pages",
    ]);
    assert!(added.out().contains("added to project settings"), "{}{}", added.out(), added.err());
    assert_eq!(
        settings()["mcpServers"]["my_srv"],
        json!({"command": "python3", "args": [path, "--do", "pages"], "env": {"K": "v=w"},
            "timeout": 4000, "trust": true, "description": "mine", "includeTools": ["echo", "env"],
            "excludeTools": ["env"]})
    );
    let web = [
        "mcp",
        "add",
        "--include-tools",
        "a,b",
        "-t",
        "http",
        "-H",
        "X: y:z",
        "web",
        "http://127.0.0.1:1/",
    ];
    assert_eq!(world.run(&web).code(), 0);
    assert!(world.run(&web).out().contains("updated in"));
    assert_eq!(
        settings()["mcpServers"]["web"],
        json!({"url": "http://127.0.0.1:1/", "type": "http", "headers": {"X": "y:z"}, "includeTools": ["a", "b"]})
    );
    let list = world.run(&["mcp", "list"]).out();
    assert!(list.contains("✓ my_srv: python3") && list.contains("(stdio) - Connected"), "{list}");
    assert!(list.contains("✗ web: http://127.0.0.1:1/ (http) - Disconnected"), "{list}");
    assert!(world.run(&["mcp", "disable", "MY_SRV"]).out().contains("disabled"));
    assert!(world.run(&["mcp", "list"]).out().contains("○ my_srv"));
    let own = world.home.parallax().join("mcp-server-enablement.json");
    assert!(std::fs::read_to_string(own).expect("the file").contains("\"my_srv\""));
    assert!(world.run(&["mcp", "enable", "my_srv"]).out().contains("enabled"));
    assert!(world.run(&["mcp", "remove", "web"]).out().contains("removed"));
    let gone = world.run(&["mcp", "remove", "web"]);
    assert_eq!((gone.code(), gone.out().contains("not found")), (0, true));
    for wrong in [
        &["mcp", "add", "x"][..],
        &["mcp", "add", "x", "ftp://x", "-t", "http"],
        // An address is no program.
        &["mcp", "add", "x", "https://x/mcp"],
        &["mcp", "add", "x", "cmd", "-e", "novalue"],
        &["mcp", "add", "x", "http://x/", "-t", "http", "surplus"],
        &["mcp", "disable", "nobody"],
    ] {
        assert_ne!(world.run(wrong).code(), 0, "{wrong:?}");
    }
    assert_eq!(settings()["mcpServers"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn an_untrusted_folder_starts_nothing() {
    let world = World::new("[]");
    set(&world, &json!({"mcpServers": {"test": stdio(&world, "")}}));
    let mut command = world.command(&["mcp", "list"]);
    command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
    let listed = crate::support::finish(command);
    assert!(
        listed.out().contains("○ test") && listed.err().contains("not trusted"),
        "{}",
        listed.out()
    );
    assert!(told(&world).is_empty());
}

#[test]
fn only_the_allowed_servers_start() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let servers = json!({"one": stdio(&world, ""), "two": stdio(&world, "names,malformed,pages")});
    set(&world, &json!({"mcpServers": servers, "mcp": {"excluded": ["two"]}}));
    let file = json!({"mcpServers": {"three": stdio(&world, "")}}).to_string();
    world.home.write_home(".parallax/mcp-config.json", &file).expect("the file");
    world.run_well(&["-y", "-p", "go", "--allowed-mcp-server-names", "TWO,three"]);
    let names = declared(&world, 0);
    assert!(!names.iter().any(|name| name.starts_with("mcp_one_")), "{names:?}");
    assert!(names.contains(&"mcp_three_echo".to_owned()), "{names:?}");
    for tool in ["second_page", "with_blank", "bare", "odd"] {
        assert!(names.contains(&format!("mcp_two_{tool}")), "{tool}: {names:?}");
    }
    let long = format!("mcp_two_{}...{}", "x".repeat(22), "x".repeat(30));
    assert!(names.contains(&long), "{names:?}");
}

#[test]
fn twenty_servers_known_from_before_cost_no_time() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let mut servers = json!({});
    for number in 0..20 {
        let r#do = match number {
            0 | 1 => "mute",
            2 => "die",
            _ => "",
        };
        servers[format!("s{number}")] = stdio(&world, r#do);
    }
    servers["s3"] = json!({"command": "no-such-program"});
    servers["s4"] = json!({"url": "http://127.0.0.1:9/mcp"});
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 8000}}));
    world.run_well(&["-y", "-p", "go"]);

    let asked_after = |world: &World| {
        let begun = Instant::now();
        let running = world.start(&["-y", "-p", "go"]);
        world.asked(1);
        let took = begun.elapsed();
        drop(running);
        took
    };
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    let with = asked_after(&world);
    assert_eq!(declared(&world, 0).iter().filter(|name| name.ends_with("_echo")).count(), 15);
    let bare = World::new(r#"[{"text": "done"}]"#);
    let without = asked_after(&bare);
    assert!(
        with < without + std::time::Duration::from_millis(500),
        "{with:?}, {without:?} with none"
    );
}

#[test]
fn a_prompt_of_a_server_is_a_command_of_a_run() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let settings =
        json!({"mcpServers": {"test": stdio(&world, "")}, "mcp": {"firstWaitMs": 15_000}});
    set(&world, &settings);
    let refused = world.run(&["-p", "/greet-me"]);
    assert_eq!(refused.code(), 42);
    assert!(refused.err().contains("missing: --"), "{}", refused.err());
    let help = world.run_well(&["-p", "/test.greet-me help"]);
    assert!(help.out().contains("it takes `--"), "{}", help.out());
    world.run_well(&["-p", "/greet-me \"Ada L\""]);
    let contents = request(&world, 0)["contents"].to_string();
    assert!(contents.contains("Ada L") && !contents.contains("/greet-me"), "{contents}");
    let near = world.run(&["-p", "/greet-mee"]);
    assert!(near.err().contains("there is `/greet-me`"), "{}", near.err());
    let unknown = world.run(&["-p", "/no-such-prompt"]);
    assert!(unknown.err().contains("no command `/no-such-prompt`"), "{}", unknown.err());
}

#[test]
fn a_prompt_that_several_servers_have_is_offered_by_its_longer_names() {
    let world = World::new("[]");
    let servers = json!({"one": stdio(&world, ""), "two": stdio(&world, "")});
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 15_000}}));
    let refused = world.run(&["-p", "/greet-me Ada"]);
    assert_eq!(refused.code(), 42);
    let told = refused.err();
    assert!(told.contains("`/one.greet-me`, `/two.greet-me`"), "{told}");
}

#[test]
fn trust_does_not_hide_that_a_description_changed() {
    let script = call("echo", &json!({"text": "x"}));
    let world = World::new(&script);
    let server = |world: &World, r#do: &str| {
        let mut server = stdio(world, r#do);
        server["trust"] = json!(true);
        json!({"mcpServers": {"test": server}})
    };
    set(&world, &server(&world, ""));
    world.run_well(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());
    let mut world = world;
    for _ in 0..2 {
        world = World::in_home(world.home, &script);
        set(&world, &server(&world, "changed"));
        let done = world.run_well(&["-p", "go"]);
        let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
        assert!(error.contains("differently") && !error.contains("untrusted"), "{error}");
        assert!(!done.err().contains("untrusted_context"), "{}", done.err());
    }
}
