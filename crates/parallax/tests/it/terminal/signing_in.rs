//! Signing in to MCP servers from the terminal.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::mcp::network::NetworkServer;
use crate::mcp::{answer, set};
use crate::support::World;

const CALL: &str = r#"[
    {"calls": [{"name": "mcp_test_echo", "args": {"text": "signed"}}]}, {"text": "done"}
]"#;

/// Starts a session with a server that requires authentication, and a browser that immediately
/// follows URLs.
fn start_terminal(world: World, remote: &NetworkServer, oauth: &Value) -> TerminalDriver {
    let server = json!({"httpUrl": remote.address, "trust": true, "oauth": oauth});
    set(&world, &json!({"mcpServers": {"test": server}}));
    let browser = "#!/bin/sh\nexec python3 -c 'import sys, urllib.request as r; \
                   r.urlopen(sys.argv[1])' \"$1\"\n";
    for name in ["bin/xdg-open", "bin/open"] {
        world.home.write_home(name, browser).expect("a browser");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.home.home().join(name), mode).expect("a browser");
    }
    let path = format!("{}:/usr/bin:/bin", world.home.home().join("bin").display());
    // The dialog may appear before the composer.
    TerminalDriver::started(world, &StartOptions::sized(110, 40).with_variable("PATH", &path))
}

/// Checks that the server is connected without a restart.
fn assert_connected(seat: &TerminalDriver) {
    seat.has_seen("Signed in to `test`.");
    seat.wait_for_text(COMPOSER);
    seat.prompts("go");
    seat.has_seen("done");
    let answer = answer(&seat.world, 1);
    assert!(answer["output"].as_str().is_some_and(|it| it.contains("echo: signed")), "{answer}");
}

#[test]
fn server_with_sign_in_prompt_setting_opens_a_dialog() {
    let world = World::new(CALL);
    let remote = NetworkServer::start(&world, "--http", "auth");
    let seat = start_terminal(world, &remote, &json!({"enabled": true}));
    seat.wait_for_text("MCP server `test` requires authentication");
    seat.wait_for_text("Sign in with the browser");
    seat.press(Key::Enter);
    assert_connected(&seat);
}

#[test]
fn server_without_the_setting_shows_one_notice() {
    let world = World::new(CALL);
    let remote = NetworkServer::start(&world, "--http", "auth");
    let seat = start_terminal(world, &remote, &json!({}));
    seat.has_seen("MCP server `test` requires authentication. Run `/mcp auth test`.");
    seat.wait_for_text(COMPOSER);
    seat.prompts("/mcp auth");
    assert_connected(&seat);
    let report = seat.lines().join("\n").matches("requires authentication").count();
    assert_eq!(report, 1, "{:#?}", seat.lines());
}
