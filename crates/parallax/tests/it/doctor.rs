//! `parallax doctor` on misconfigured machines: it reports the cause and a fix.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{World, finish};

/// Returns the report and the exit code.
fn examine(mut command: Command) -> (Value, u8) {
    command.args(["doctor", "--json"]);
    let output = finish(command);
    let report =
        serde_json::from_str(&output.stdout()).unwrap_or_else(|_| panic!("{}", output.err()));
    (report, u8::try_from(output.code()).expect("a code"))
}

fn check(report: &Value, id: &str) -> Value {
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["id"] == id);
    found.unwrap_or_else(|| panic!("no check {id}: {report}")).clone()
}

/// Checks that the error names both the cause and a fix.
fn assert_error(report: &Value, id: &str, cause: &str) {
    let check = check(report, id);
    assert_eq!(check["status"], "error", "{check}");
    assert!(check["detail"].as_str().expect("text").contains(cause), "{cause}: {check}");
    assert!(check["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{check}");
}

#[test]
fn report_of_a_working_machine_is_valid_and_has_no_errors() {
    let world = World::new("[]");
    let (report, code) = examine(world.command(&[]));
    assert_eq!(code, 0, "{report}");
    for id in ["home", "settings", "credentials", "network.dns", "network.connection", "sandbox"] {
        assert_ne!(check(&report, id)["status"], "error", "{id}");
    }
    let schema = world.run_ok(&["schema", "doctor"]);
    let schema: Value = serde_json::from_str(&schema.stdout()).expect("a schema");
    let valid = jsonschema::validator_for(&schema).expect("a validator");
    assert!(valid.is_valid(&report), "{report}");
    let text = world.run(&["doctor"]);
    assert!(
        text.stdout().contains("Parallax ") && text.stdout().contains("Sandbox"),
        "{}",
        text.stdout()
    );
    // No key is shown.
    assert!(
        !text.stdout().contains(testkit::API_KEY) && !report.to_string().contains(testkit::API_KEY)
    );
}

#[test]
fn missing_key_and_unusable_settings_are_errors() {
    let world = World::new("[]");
    let mut command = world.command(&[]);
    command.env_remove("GEMINI_API_KEY").env_remove("GOOGLE_GEMINI_BASE_URL");
    let (report, code) = examine(command);
    assert_eq!(code, 1);
    assert_error(&report, "credentials", "no credentials");
    world.home.write_home(".gemini/settings.json", "{\"a\": ").expect("settings");
    let (report, code) = examine(world.command(&[]));
    assert_eq!(code, 1);
    assert_error(&report, "settings", "settings.json:1");
    assert_eq!(check(&report, "network")["status"], "skipped");
}

#[test]
fn settings_and_definitions_without_an_effect_are_reported() {
    let world = World::new("[]");
    let home = &world.home;
    let settings = json!({"general": {"vimMod": true}, "ui": {"theme": "Nope"}, "mine": 1});
    for (path, text) in [
        (".gemini/settings.json", settings.to_string().as_str()),
        (".gemini/keybindings.json", "{ bad"),
        (".gemini/commands/broken.toml", "prompt ="),
        (".gemini/skills/untitled/SKILL.md", "no front matter"),
        (".gemini/agents/untitled.md", "no front matter"),
    ] {
        home.write_home(path, text).expect("written");
    }
    let (report, _) = examine(world.command(&[]));
    let found = |id: &str, status: &str, words: &[&str]| {
        let check = check(&report, id);
        assert_eq!(check["status"], status, "{check}");
        let detail = check["detail"].as_str().unwrap_or_default();
        for word in words {
            assert!(detail.contains(word), "{word}: {check}");
        }
    };
    found("settings", "warning", &["keybindings.json", "Nope"]);
    found("settings.unknown", "warning", &["did you mean `general.vimMode`", "`mine`"]);
    found("definitions", "warning", &["broken.toml", "skills/untitled", "agents/untitled.md"]);
    let mut command = world.command(&[]);
    command.arg("--skip-trust");
    let (report, _) = examine(command);
    assert_eq!(check(&report, "trust")["status"], "ok");
}

#[test]
fn network_path_is_checked_step_by_step() {
    let world = World::new("[]");
    let with = |name: &str, value: &str| {
        let mut command = world.command(&[]);
        command.env(name, value);
        examine(command).0
    };
    let report = with("GOOGLE_GEMINI_BASE_URL", "https://host.invalid");
    assert_error(&report, "network.dns", "host.invalid");
    assert_eq!(check(&report, "network.key")["status"], "skipped");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let report = with("GOOGLE_GEMINI_BASE_URL", &format!("http://127.0.0.1:{port}"));
    assert_error(&report, "network.connection", "cannot be reached");
    let mut command = world.command(&[]);
    command.env("GOOGLE_GEMINI_BASE_URL", "https://example.com");
    command.env("HTTPS_PROXY", format!("http://127.0.0.1:{port}"));
    let (report, _) = examine(command);
    assert_error(&report, "network.connection", "the proxy cannot be reached");
    assert!(check(&report, "network.proxy")["detail"].as_str().unwrap().contains("127.0.0.1"));
}

/// Starts a service that sends the same response to every request.
fn service(status: &str, date: &str) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let body = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#;
    let answer = format!(
        "HTTP/1.1 {status}\r\ndate: {date}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn rejected_key_and_wrong_clock_are_errors() {
    let world = World::new("[]");
    let mut command = world.command(&[]);
    command.env("GOOGLE_GEMINI_BASE_URL", service("400 Bad", "Tue, 01 Feb 2022 10:00:00 GMT"));
    let (report, code) = examine(command);
    assert_eq!(code, 1);
    assert_error(&report, "network.key", "API key not valid");
    assert_error(&report, "network.clock", "ahead of the clock of the provider");
    let mut command = world.command(&[]);
    command.env("GOOGLE_GEMINI_BASE_URL", service("403 Forbidden", ""));
    let remedy = check(&examine(command).0, "network.key")["remedy"].to_string();
    assert!(remedy.contains("enable the API"), "{remedy}");
}

#[test]
fn setups_in_which_every_prompt_fails_are_errors() {
    let world = World::new("[]");
    let policy = ".parallax/policies/mine.toml";
    world.home.write_home(policy, "[[rule").expect("a policy");
    let (report, code) = examine(world.command(&[]));
    assert_eq!(code, 1);
    assert_error(&report, "policies", "mine.toml");
    std::fs::remove_file(world.home.home().join(policy)).expect("removed");

    let hook = json!({"hooks": {"BeforeAgent": [{"hooks": [
        {"type": "command", "command": "/nonexistent/check --fast"},
        {"type": "command", "command": "echo fine"},
        {"type": "command", "command": "$TOOL run"},
    ]}]}});
    world.home.write_home(".gemini/settings.json", &hook.to_string()).expect("settings");
    let (report, code) = examine(world.command(&[]));
    assert_eq!(code, 1);
    assert_error(&report, "hooks", "BeforeAgent");
    let detail = check(&report, "hooks")["detail"].to_string();
    assert!(detail.contains("/nonexistent/check") && !detail.contains("TOOL"), "{detail}");
    world.home.write_home(".gemini/settings.json", "{}").expect("settings");

    // A container engine that does not run.
    let script = "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n";
    let program = world.home.write_home("bin/docker", script).expect("a program");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("executable");
    let with_docker = |image: &str| {
        let mut command = world.command(&[]);
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = program.parent().expect("a directory").display();
        command.env("PATH", format!("{folder}:{path}"));
        command.env("GEMINI_SANDBOX", "docker").env("GEMINI_SANDBOX_IMAGE", image);
        examine(command).0
    };
    assert_error(&with_docker(""), "sandbox", "requires an image");
    assert_error(&with_docker("image"), "sandbox", "Cannot connect to the Docker daemon");
}

#[test]
fn remedy_for_credentials_fits_the_configured_method() {
    let world = World::new("[]");
    let remedy = |settings: &Value, variables: &[(&str, &str)]| {
        world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
        let mut command = world.command(&[]);
        command.env_remove("GEMINI_API_KEY").env_remove("GOOGLE_GEMINI_BASE_URL");
        command.envs(variables.iter().copied());
        check(&examine(command).0, "credentials")["remedy"].as_str().unwrap_or_default().to_owned()
    };
    let selected = |method: &str| json!({"security": {"auth": {"selectedType": method}}});
    let text = remedy(&selected("oauth-personal"), &[]);
    assert!(text.contains("`security.auth.selectedType`") && text.contains("auth add"), "{text}");
    let text = remedy(&selected("vertex-ai"), &[]);
    assert!(text.contains("GOOGLE_CLOUD_PROJECT") && !text.contains("auth add"), "{text}");
    let text = remedy(&json!({}), &[("GOOGLE_GENAI_USE_VERTEXAI", "true")]);
    assert!(text.contains("GOOGLE_CLOUD_PROJECT"), "{text}");
    let text = remedy(&json!({}), &[]);
    assert!(text.starts_with("Store a key with `parallax auth add gemini`"), "{text}");
}

#[test]
fn home_that_cannot_be_written_and_dead_servers_are_errors() {
    let world = World::new("[]");
    let servers = json!({"mcpServers": {"dead": {"command": "/nonexistent/server"}}});
    world.home.write_home(".gemini/settings.json", &servers.to_string()).expect("settings");
    let (report, code) = examine(world.command(&[]));
    assert_eq!(code, 1);
    assert_error(&report, "mcp.dead", "/nonexistent/server");
    let mut command = world.command(&[]);
    command.env("GEMINI_CLI_HOME", "/proc/1");
    let (report, code) = examine(command);
    assert_eq!(code, 1);
    assert_error(&report, "home", "/proc/1");
}

#[test]
fn server_that_exits_immediately_is_reported_with_code_and_last_output() {
    let world = World::new("[]");
    let failing = |script: &str| json!({"command": "sh", "args": ["-c", script]});
    let servers = json!({"mcpServers": {
        "talks": failing("echo 'boom: missing TOKEN' >&2; exit 3"),
        // It reads nothing, and its output comes late.
        "deaf": failing("exec <&-; sleep 0.2; echo late >&2; exit 4"),
        "mute": failing("kill -9 $$"),
    }});
    world.home.write_home(".gemini/settings.json", &servers.to_string()).expect("settings");
    for _ in 0..3 {
        let (report, code) = examine(world.command(&[]));
        assert_eq!(code, 1);
        assert_error(&report, "mcp.talks", "exit code 3; last output: boom: missing TOKEN");
        assert_error(&report, "mcp.deaf", "exit code 4; last output: late");
        assert_error(&report, "mcp.mute", "signal 9, without output");
    }
}

#[test]
fn other_program_with_the_same_name_is_a_warning() {
    let world = World::new("[]");
    let folder = world.home.root().join("first");
    std::fs::create_dir(&folder).expect("a folder");
    let other = folder.join("parallax");
    std::fs::write(&other, "#!/bin/sh\n").expect("write");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let mut command = world.command(&[]);
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", folder.display()));
    let (report, code) = examine(command);
    assert_eq!(code, 0);
    let program = check(&report, "program");
    assert_eq!(program["status"], "warning", "{program}");
    assert!(program["detail"].as_str().unwrap().contains(&*other.to_string_lossy()), "{program}");
}

#[test]
fn man_pages_and_completions_have_the_name_of_the_program() {
    let world = World::new("[]");
    let out = world.home.root().join("man");
    let output = world.run(&["man", "--out", &out.to_string_lossy()]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(output.stdout().lines().count() > 40, "{}", output.stdout());
    let page = std::fs::read_to_string(out.join("parallax-models-list.1")).expect("a page");
    assert!(page.contains(".SH SYNOPSIS"), "{page}");
    let link = world.home.root().join("gemini");
    std::os::unix::fs::symlink(crate::support::PROGRAM, &link).expect("a link");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish", "nushell"] {
        let mut command = world.home.command(&link, &world.server.url());
        command.args(["completions", shell]);
        let output = finish(command);
        assert!(
            output.stdout().contains("gemini") && !output.stdout().contains("_parallax"),
            "{shell}"
        );
    }
    let mut help = world.home.command(&link, &world.server.url());
    help.args(["--help"]);
    assert!(finish(help).stdout().contains("Usage: gemini [OPTIONS]"));
    let mut wrong = world.home.command(&link, &world.server.url());
    wrong.args(["--no-such-flag"]);
    assert!(finish(wrong).err().contains("`gemini --help`"));
}

#[test]
fn directories_that_cannot_be_used_are_errors() {
    let world = World::new("[]");
    let with = |name: &str, value: &str| {
        let mut command = world.command(&[]);
        command.env(name, value);
        examine(command).0
    };
    assert_error(&with("TMPDIR", "/no/such"), "temporary", "does not exist");
    let file = world.home.project().join("file");
    std::fs::write(&file, "").expect("written");
    let link = world.home.project().join("link");
    std::os::unix::fs::symlink("nowhere", &link).expect("a link");
    for place in [&file, &link] {
        let report = with("TMPDIR", &place.display().to_string());
        assert_error(&report, "temporary", "is not a directory");
        assert!(check(&report, "temporary")["remedy"].as_str().expect("text").contains("TMPDIR"));
    }
}

#[test]
fn settings_that_requests_ignore_are_errors() {
    let world = World::new("[]");
    let with = |name: &str, value: &str| {
        let mut command = world.command(&[]);
        command.env(name, value);
        examine(command).0
    };
    for proxy in ["http://:::bad", "not a url", "htp://127.0.0.1:1"] {
        assert_error(&with("HTTPS_PROXY", proxy), "network.proxy-variable", "HTTPS_PROXY");
    }
    for roots in ["/no/such.pem", "/etc/hostname"] {
        assert_error(&with("NODE_EXTRA_CA_CERTS", roots), "network.certificates", roots);
    }
    let mut command = world.command(&[]);
    command.env("GEMINI_SANDBOX", "podman").env("PATH", "/nonexistent");
    assert_error(&examine(command).0, "sandbox", "podman");
    let text = r#"{"mcpServers": {"empty": {}, "number": 5}}"#;
    world.home.write_home(".gemini/settings.json", text).expect("settings");
    let (report, code) = examine(world.command(&[]));
    assert_eq!(code, 1);
    assert_error(&report, "mcp.empty", "command");
    assert_error(&report, "mcp.number", "object");
    let text = r#"{"providers": {"mine": {"wire": "openai-chat", "baseUrl": 5}}}"#;
    world.home.write_home(".gemini/settings.json", text).expect("settings");
    let (report, code) = examine(world.command(&["--model", "mine:x"]));
    assert_eq!(code, 1);
    assert_error(&report, "settings", "providers.mine");
    assert!(!report.to_string().contains("unknown provider"), "{report}");
}

#[test]
fn api_key_is_accepted_only_when_the_service_confirms_it() {
    let world = World::new("[]");
    let date = "Tue, 01 Feb 2022 10:00:00 GMT";
    let with = |status: &str, kind: &str| {
        let mut command = world.command(&[]);
        let head = format!("{date}\r\ncontent-type: {kind}");
        command.env("GOOGLE_GEMINI_BASE_URL", service(status, &head));
        check(&examine(command).0, "network.key")
    };
    assert_eq!(with("200 OK", "text/html; charset=utf-8")["status"], "error");
    assert_eq!(with("429 Too Many Requests", "application/json")["status"], "warning");
    assert_eq!(with("404 Not Found", "application/json")["status"], "warning");
}
