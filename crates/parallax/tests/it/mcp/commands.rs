//! `parallax mcp`, and which servers may start.

use serde_json::{Value, json};

use super::{declared, received_messages, script, set, stdio};
use crate::support::World;

#[test]
fn server_configured_elsewhere_is_reported_on_removal() {
    let world = World::new("[]");
    let file = world.home.home().join(".gemini/settings.json");
    world
        .home
        .write_home(".gemini/settings.json", r#"{"mcpServers": {"h": {"command": "x"}}}"#)
        .expect("written");
    let output = world.run(&["mcp", "remove", "h"]);
    assert_eq!(output.code(), 0);
    let display_path = file.display().to_string();
    assert!(
        output.stdout().contains(&display_path) && output.stdout().contains("mcp disable h"),
        "{}",
        output.stdout()
    );
    let refused = world.run(&["mcp", "add", "--bogus", "cmd"]);
    assert!(refused.code() != 0 && refused.err().contains("begin with `-`"), "{}", refused.err());
    for (server, transport) in [
        (r#"{"url": "http://x"}"#, "(http)"),
        (r#"{"url": "http://x", "type": "sse"}"#, "(sse)"),
        (r#"{"command": "x"}"#, "(stdio)"),
    ] {
        let output = world.run(&["mcp", "add-json", "j", server]);
        assert!(output.stdout().contains(transport), "{}", output.stdout());
    }
}

#[test]
fn server_details_include_description_and_trust() {
    let world = World::new("[]");
    set(
        &world,
        &json!({"mcpServers": {"s": {"command": "x", "description": "For tests",
        "trust": true}, "t": {"command": "x"}}}),
    );
    let stdout = world.run(&["mcp", "get", "s"]).stdout();
    assert!(
        stdout.contains("description: For tests") && stdout.contains("trust: true"),
        "{stdout}"
    );
    assert!(world.run(&["mcp", "get", "t"]).stdout().contains("trust: false"));
    // A project's `trust` is ignored. Commands that change servers do not repeat the warning.
    let project = r#"{"mcpServers": {"p": {"command": "x", "trust": true}}}"#;
    world.home.write(".gemini/settings.json", project).expect("written");
    for (words, report) in [(["mcp", "get", "p"], true), (["mcp", "disable", "s"], false)] {
        let output = world.run(&words);
        assert_eq!(output.err().contains("mcpServers.p.trust"), report, "{}", output.err());
    }
}

#[test]
fn server_of_an_untrusted_folder_is_found() {
    let world = World::new("[]");
    let servers = r#"{"mcpServers": {"pold": {"command": "x"}}}"#;
    world.home.write(".gemini/settings.json", servers).expect("written");
    let untrusted = |words: &[&str]| {
        let mut command = world.command(words);
        command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
        crate::support::finish(command)
    };
    let listed = untrusted(&["mcp", "list"]).stdout();
    assert!(listed.contains("○ pold: in ") && !listed.contains("No MCP servers"), "{listed}");
    // The server is removed from the file that contains it, and the rest of the file is kept.
    let output = untrusted(&["mcp", "remove", "pold"]);
    assert!(
        output.stdout().contains("\"pold\" removed from project settings"),
        "{}",
        output.stdout()
    );
    let file = world.home.project().join(".gemini/settings.json");
    assert!(!std::fs::read_to_string(file).expect("there").contains("pold"));
    assert!(!world.home.project().join(".parallax/settings.json").exists());
    let bare = world.run(&["mcp", "remove"]);
    assert_ne!(bare.code(), 0);
    let words = "Missing `<NAME>`";
    assert!(bare.err().contains(words), "{}", bare.err());
    assert!(bare.err().contains("parallax mcp remove"), "{}", bare.err());
}

#[test]
fn servers_are_added_listed_toggled_and_removed() {
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
    assert!(
        added.stdout().contains("added to project settings"),
        "{}{}",
        added.stdout(),
        added.err()
    );
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
    assert!(world.run(&web).stdout().contains("updated in"));
    assert_eq!(
        settings()["mcpServers"]["web"],
        json!({"url": "http://127.0.0.1:1/", "type": "http", "headers": {"X": "y:z"}, "includeTools": ["a", "b"]})
    );
    let list = world.run(&["mcp", "list"]).stdout();
    assert!(list.contains("✓ my_srv: python3") && list.contains("(stdio) - Connected"), "{list}");
    assert!(list.contains("✗ web: http://127.0.0.1:1/ (http) - Disconnected"), "{list}");
    assert!(world.run(&["mcp", "disable", "MY_SRV"]).stdout().contains("disabled"));
    assert!(world.run(&["mcp", "list"]).stdout().contains("○ my_srv"));
    let own = world.home.parallax().join("mcp-server-enablement.json");
    assert!(std::fs::read_to_string(own).expect("the file").contains("\"my_srv\""));
    assert!(world.run(&["mcp", "enable", "my_srv"]).stdout().contains("enabled"));
    assert!(world.run(&["mcp", "remove", "web"]).stdout().contains("removed"));
    let gone = world.run(&["mcp", "remove", "web"]);
    assert_eq!((gone.code(), gone.stdout().contains("not found")), (0, true));
    for invalid in [
        &["mcp", "add", "x"][..],
        &["mcp", "add", "x", "ftp://x", "-t", "http"],
        // A URL is not a program.
        &["mcp", "add", "x", "https://x/mcp"],
        &["mcp", "add", "x", "cmd", "-e", "novalue"],
        &["mcp", "add", "x", "http://x/", "-t", "http", "surplus"],
        &["mcp", "disable", "nobody"],
    ] {
        assert_ne!(world.run(invalid).code(), 0, "{invalid:?}");
    }
    assert_eq!(settings()["mcpServers"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn untrusted_folder_starts_no_servers() {
    let world = World::new("[]");
    set(&world, &json!({"mcpServers": {"test": stdio(&world, "")}}));
    let mut command = world.command(&["mcp", "list"]);
    command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
    let listed = crate::support::finish(command);
    assert!(
        listed.stdout().contains("○ test") && listed.err().contains("not trusted"),
        "{}",
        listed.stdout()
    );
    assert!(received_messages(&world).is_empty());
}

#[test]
fn unusable_server_is_listed_with_the_reason() {
    let world = World::new("[]");
    let server = json!({"httpUrl": "https://elsewhere.example/mcp", "oauth": {"scopes": ["a"]},
        "authProviderType": "google_credentials"});
    set(&world, &json!({"mcpServers": {"goo": server}}));
    let listed = world.run(&["mcp", "list"]).stdout();
    assert!(
        listed.contains("✗ goo - Invalid configuration") && listed.contains("luci.app"),
        "{listed}"
    );
    assert!(!listed.contains("No MCP servers"), "{listed}");
    let listed: Value =
        serde_json::from_str(&world.run(&["mcp", "list", "--json"]).stdout()).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["status"]), (&json!("goo"), &json!("unusable")));
}

#[test]
fn only_the_allowed_servers_start() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let servers = json!({"one": stdio(&world, ""), "two": stdio(&world, "names,malformed,pages")});
    set(&world, &json!({"mcpServers": servers, "mcp": {"excluded": ["two"]}}));
    let file = json!({"mcpServers": {"three": stdio(&world, "")}}).to_string();
    world.home.write_home(".parallax/mcp-config.json", &file).expect("the file");
    world.run_ok(&["-y", "-p", "go", "--allowed-mcp-server-names", "TWO,three"]);
    let names = declared(&world, 0);
    assert!(!names.iter().any(|name| name.starts_with("mcp_one_")), "{names:?}");
    assert!(names.contains(&"mcp_three_echo".to_owned()), "{names:?}");
    for tool in ["second_page", "with_blank", "bare", "odd"] {
        assert!(names.contains(&format!("mcp_two_{tool}")), "{tool}: {names:?}");
    }
    let long = format!("mcp_two_{}...{}", "x".repeat(22), "x".repeat(30));
    assert!(names.contains(&long), "{names:?}");
}
