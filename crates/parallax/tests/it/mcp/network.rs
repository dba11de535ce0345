//! MCP servers with a URL.

use serde_json::json;

use super::{answer, call, received_messages, script, set};
use crate::support::World;

/// A network server that stops when it is dropped.
pub(crate) struct NetworkServer {
    child: std::process::Child,
    pub(crate) address: String,
}

impl NetworkServer {
    pub(crate) fn start(world: &World, how: &str, r#do: &str) -> Self {
        let place = world.home.root().join(format!("address{how}"));
        let _ = std::fs::remove_file(&place);
        let mut command = world.home.command(std::path::Path::new("python3"), "");
        command.arg(script()).arg(how).arg(&place).args(["--do", r#do]);
        command.arg("--log").arg(world.home.root().join("log"));
        let child = command.spawn().expect("started");
        crate::support::wait_until("the server", || place.exists());
        Self { child, address: std::fs::read_to_string(&place).expect("the address") }
    }

    /// Returns the URL without its path.
    pub(crate) fn base(&self) -> &str {
        self.address.rsplit_once('/').map_or("", |(base, _)| base)
    }
}

impl Drop for NetworkServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn unreadable_responses_fail_their_calls() {
    let hows = ["latin1", "half", "deep", "cut", "shape"];
    let calls: Vec<_> = hows
        .iter()
        .map(|how| json!({"calls": [{"name": "mcp_test_garbled", "args": {"how": how}}]}))
        .chain([json!({"text": "done"})])
        .collect();
    let (letter, deep) = ("caf\u{fffd}", "nested too deeply");
    let (text, shape) = ("not valid JSON", "neither a result nor an error");
    for (how, kind, r#do, wanted) in [
        ("--http", "http", "garbled", ["not UTF-8", letter, deep, text, shape]),
        ("--sse", "sse", "garbled", [letter, letter, deep, text, shape]),
        (
            "--http",
            "http",
            "garbled,json,shallow",
            [text, text, deep, text, "not a JSON-RPC message"],
        ),
    ] {
        let world = World::new(&json!(calls).to_string());
        let remote = NetworkServer::start(&world, how, r#do);
        let server = json!({"url": remote.address, "type": kind, "timeout": 60_000});
        set(&world, &json!({"mcpServers": {"test": server}}));
        world.run_ok(&["-y", "-p", "go"]);
        for (number, expected) in wanted.iter().enumerate() {
            let actual = answer(&world, number + 1).to_string();
            assert!(actual.contains(expected), "{how} {do} {number}: {actual}");
        }
    }
}

#[test]
fn error_without_id_fails_the_posted_call() {
    for r#do in ["nullid", "nullid,json"] {
        let world = World::new(&call("echo", &json!({"text": "x"})));
        let remote = NetworkServer::start(&world, "--http", r#do);
        let server = json!({"url": remote.address, "type": "http", "timeout": 15_000});
        set(&world, &json!({"mcpServers": {"test": server}}));
        world.run_ok(&["-y", "-p", "go"]);
        let actual = answer(&world, 1).to_string();
        assert!(actual.contains("out of order"), "{do}: {actual}");
    }
}

#[test]
fn server_with_an_unpublished_protocol_version_is_rejected() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let remote = NetworkServer::start(&world, "--http", "future");
    set(&world, &json!({"mcpServers": {"test": {"url": remote.address, "type": "http"}}}));
    let output = world.run_ok(&["-y", "-p", "go"]);
    assert!(output.err().contains("`2031-01-01`"), "{}", output.err());
}

#[test]
fn html_response_has_a_readable_error() {
    let world = World::new(&call("echo", &json!({"text": "far"})));
    let remote = NetworkServer::start(&world, "--http", "html");
    set(&world, &json!({"mcpServers": {"test": {"url": remote.address, "type": "http"}}}));
    world.run_ok(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].to_string();
    assert!(
        error.contains("it responded with `text/html` instead of JSON or an event stream"),
        "{error}"
    );
}

#[test]
fn denied_call_is_not_repeated() {
    let world = World::new(&call("echo", &json!({"text": "far"})));
    let remote = NetworkServer::start(&world, "--http", "scope");
    set(&world, &json!({"mcpServers": {"test": {"url": remote.address, "type": "http"}}}));
    world.run_ok(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].to_string();
    assert!(error.contains("It requires the scope `files:write`"), "{error}");
    let calls = received_messages(&world).into_iter().filter(|it| it["http"] == "POST");
    // `initialize`, `initialized`, four lists, and the call.
    assert_eq!(calls.count(), 7, "{:?}", received_messages(&world));
}

#[test]
fn servers_are_reached_over_http_and_sse() {
    let echo = call("echo", &json!({"text": "far"}));
    for (how, r#do, kind) in [
        ("--http", "", Some("http")),
        ("--http", "nostream", None),
        ("--sse", "", Some("sse")),
        // Without a type: first streamable HTTP, then SSE.
        ("--sse", "", None),
    ] {
        let world = World::new(&echo);
        let remote = NetworkServer::start(&world, how, r#do);
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
        let keys =
            received_messages(&world).iter().filter(|it| it["headers"]["x-key"] == "k-1").count();
        assert!(keys >= 2, "{how}: the header goes with each request");
    }
}
