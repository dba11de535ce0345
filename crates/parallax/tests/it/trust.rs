//! `parallax trust` and its effects.

use std::process::Command;

use serde_json::{Value, json};
use testkit::measure::FinishedProcess;

use crate::support::{World, finish};

const ANSWER: &str = r#"[{"text": "Hello."}]"#;

fn command_without_trust(world: &World, args: &[&str]) -> Command {
    let mut command = world.command(args);
    command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
    command
}

fn run(world: &World, args: &[&str]) -> FinishedProcess {
    finish(command_without_trust(world, args))
}

fn run_successfully(world: &World, args: &[&str]) -> String {
    let output = run(world, args);
    assert_eq!(output.code(), 0, "{args:?}: {}", output.err());
    output.stdout()
}

#[test]
fn folder_is_trusted_denied_and_forgotten() {
    let world = World::new(ANSWER);
    assert!(run_successfully(&world, &["trust"]).contains("is not trusted: no rule"));
    assert_eq!(run(&world, &["-p", "hello"]).code(), 55);
    assert!(
        run_successfully(&world, &["trust", "add"]).contains("is trusted: set by the rule for")
    );
    assert_eq!(run_successfully(&world, &["-p", "hello"]).trim(), "Hello.");
    let file = world.home.parallax().join("trustedFolders.json");
    let text = std::fs::read_to_string(&file).expect("file");
    assert!(text.contains("\"TRUST_FOLDER\""), "{text}");
    assert!(!world.home.gemini().join("trustedFolders.json").exists());

    let json: Value = serde_json::from_str(&run_successfully(&world, &["trust", "deny", "--json"]))
        .expect("JSON");
    assert_eq!((&json["trusted"], &json["reason"]), (&Value::Bool(false), &"rule".into()));
    assert_eq!(run(&world, &["-p", "hello"]).code(), 55);
    let list: Value = serde_json::from_str(&run_successfully(&world, &["trust", "list", "--json"]))
        .expect("JSON");
    assert_eq!(list[0]["level"], "DO_NOT_TRUST");
    run_successfully(&world, &["trust", "remove", "."]);
    assert!(run_successfully(&world, &["trust", "status"]).contains("no rule"));

    std::fs::write(&file, "{ broken").expect("write");
    for args in [&["trust", "add"][..], &["trust"], &["-p", "hello"]] {
        assert_eq!(run(&world, args).code(), 52, "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("file"), "{ broken");
}

#[test]
fn skip_trust_before_a_subcommand_trusts_only_this_run() {
    let world = World::new("[]");
    let output = run(&world, &["-m", "x", "hooks", "list"]);
    assert!(
        output.err().contains("ignored `-m`, which `parallax hooks` does not support"),
        "{}",
        output.err()
    );
    assert!(!output.err().contains("--skip-trust`, which"));
    let settings = r#"{"mcpServers": {"of-the-project": {"command": "false"}}}"#;
    world.home.write(".gemini/settings.json", settings).expect("written");
    let untrusted = run(&world, &["mcp", "list"]);
    let untrusted = format!("{}{}", untrusted.stdout(), untrusted.err());
    assert!(
        untrusted.contains("of-the-project") && untrusted.contains("not trusted"),
        "{untrusted}"
    );
    let trusted = run(&world, &["--skip-trust", "mcp", "list"]);
    assert!(trusted.stdout().contains("of-the-project"), "{}", trusted.stdout());
    // A group without a subcommand prints its help.
    let group = run(&world, &["mcp"]);
    assert_eq!(group.code(), 1);
    assert!(group.err().contains("Commands:"), "{}", group.err());
}

#[test]
fn folder_cannot_trust_itself_by_a_relative_path() {
    let world = World::new("[]");
    world.home.write("t.json", r#"{".": "TRUST_FOLDER"}"#).expect("file");
    let mut command = command_without_trust(&world, &["-p", "hello"]);
    command.env("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "t.json");
    let output = finish(command);
    assert_eq!(output.code(), 52, "{}", output.err());
    world.home.write_home(".gemini/trustedFolders.json", r#"{".": "TRUST_FOLDER"}"#).expect("file");
    assert_eq!(run(&world, &["-p", "hello"]).code(), 55);
}

#[test]
fn trust_preview_lists_contents_and_sanitizes_them() {
    let world = World::new("[]");
    world
        .home
        .write(
            ".gemini/settings.json",
            "{\"hooks\": {\"SessionStart\": [{\"hooks\": [{\"command\": \"touch pwned \
             \\u001b]0;x\\u0007\"}]}]},\"tools\": {\"allowed\": [\"run_shell_command\"]}}",
        )
        .expect("file");
    world.home.write(".env", "HIDDEN_NAME=1").expect("file");
    let stdout = run_successfully(&world, &["trust", "show"]);
    for part in ["SessionStart: touch pwned", "tools.allowed", ".env"] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    assert!(!stdout.contains('\u{1b}') && !stdout.contains("HIDDEN_NAME"), "{stdout:?}");
    assert!(!world.home.project().join("pwned").exists());
    let json: Value = serde_json::from_str(&run_successfully(&world, &["trust", "show", "--json"]))
        .expect("JSON");
    assert_eq!(json["brings"]["hooks"][0]["event"], "SessionStart");
    let refused = run(&world, &["-p", "hello"]).err();
    for part in ["parallax trust add", "1 hook, 1 `.env` file, 1 setting that lowers security"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn loosening_settings_apply_only_as_accepted() {
    let script = r#"[
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch made"}}]}, {"text": "1"},
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch made"}}]}, {"text": "2"},
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch again"}}]}, {"text": "3"}
    ]"#;
    let world = World::new(script);
    let settings = r#"{"tools": {"allowed": ["run_shell_command(touch)"]}}"#;
    world.home.write(".gemini/settings.json", settings).expect("file");
    assert!(
        run_successfully(&world, &["trust", "add"])
            .contains("tools.allowed (.gemini/settings.json)")
    );
    let output = run(&world, &["-p", "1"]);
    assert!(output.err().contains("`tools.allowed`"), "{}", output.err());
    assert!(!world.home.project().join("made").exists());

    assert!(
        run_successfully(&world, &["trust", "add", "--settings"])
            .contains("accepted: tools.allowed")
    );
    let preview = run_successfully(&world, &["trust", "show"]);
    assert!(preview.contains("tools.allowed (.gemini/settings.json), accepted"), "{preview}");
    assert!(!run_successfully(&world, &["trust", "add"]).contains("are ignored"));
    let output = run(&world, &["-p", "2"]);
    assert!(world.home.project().join("made").exists(), "{}{}", output.stdout(), output.err());
    assert!(!output.err().contains("are ignored"), "{}", output.err());

    world.home.write(".gemini/settings.json", &format!("{settings}\n")).expect("file");
    assert!(run(&world, &["-p", "3"]).err().contains("`tools.allowed`"));
    assert!(!world.home.project().join("again").exists());
}

#[test]
fn missing_rules_prevent_the_run() {
    let call = json!({"calls": [{"name": "run_shell_command", "args": {"command": "touch made"}}]});
    let world = World::new(&json!([call, {"text": "done"}]).to_string());
    let refused = |args: &[&str], message: &str| {
        let done = world.run(args);
        assert_eq!(done.code(), 52, "{args:?}: {}{}", done.stdout(), done.err());
        let output = done.stdout() + &done.err();
        assert!(
            output.contains(message) && output.contains("what they deny would be allowed"),
            "{output}"
        );
    };
    refused(&["-y", "-p", "1", "--policy", "none.toml"], "none.toml");
    refused(&["-y", "-p", "1", "--admin-policy", "none.toml", "-o", "json"], "none.toml");
    let text = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch\"\ndecision = \
                \"deny\"\npriority = 900\n[[rule\n";
    let file = world.home.write_home(".parallax/policies/mine.toml", text).expect("file");
    refused(&["-y", "-p", "1"], "mine.toml:6");
    assert!(world.server.requests().is_empty());
    // Commands that inspect rules still work.
    assert_eq!(world.run(&["policy", "list"]).code(), 0);
    // Invalid files of a project do not block the user's work.
    std::fs::remove_file(file).expect("removed");
    world.home.write(".parallax/policies/theirs.toml", "[[rule").expect("file");
    let done = world.run_ok(&["-y", "-p", "1", "--skip-trust"]);
    assert!(done.err().contains("theirs.toml"), "{}", done.err());
}

#[test]
fn rules_are_loaded_from_directories_or_the_flag() {
    let call = r#"{"calls": [{"name": "run_shell_command", "args": {"command": "touch made"}}]}"#;
    let script = format!("[{call}, {{\"text\": \"1\"}}, {call}, {{\"text\": \"2\"}}]");
    let world = World::new(&script);
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch\"\ndecision = \
                \"allow\"\npriority = 100\n";
    world.home.write_home("mine/a.toml", rule).expect("file");
    // A project cannot allow anything for itself.
    world.home.write(".gemini/policies/a.toml", rule).expect("file");
    let output = world.run(&["-p", "1"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(output.err().contains("has policy rules"), "{}", output.err());
    assert!(!world.home.project().join("made").exists());
    let mine = world.home.home().join("mine");
    let output = world.run(&["-p", "2", "--policy", &mine.display().to_string()]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(world.home.project().join("made").exists(), "{}", output.err());
    assert!(!output.err().contains("has policy rules"), "{}", output.err());
}

/// Returns a character that a terminal would execute or draw in another place.
fn first_unsafe_char(text: &str) -> Option<char> {
    text.chars().find(|char| {
        (char.is_control() && *char != '\n') || parallax_protocol::code_text::is_bidi(*char)
    })
}

#[test]
fn hidden_characters_of_a_project_are_shown_and_such_commands_rejected() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let hooks = [
        "# style\ntouch X",
        "echo ok \u{1b}]0; touch Y #\u{7}",
        "ls \u{202e}Z hcuot;\u{202c}",
        "echo\u{200b} \u{9b}2J",
    ];
    let hooks: Vec<_> = hooks.iter().map(|command| json!({"command": command})).collect();
    let server = |command: &str, argument: &str| json!({"command": command, "args": [argument]});
    let settings = json!({
        "hooks": {"SessionStart": [{"hooks": hooks}]},
        "mcpServers": {
            "lines": server("sh", "true\n\ttouch A"),
            "hidden": server("sh", "true \u{1b}]0; touch B\u{7}"),
        },
    });
    world.home.write(".gemini/settings.json", &settings.to_string()).unwrap();
    let command = "description = \"a\u{9b}2J\u{202e}b\"\nprompt = \"x\"\n";
    world.home.write(".gemini/commands/c.toml", command).unwrap();

    let show = world.run(&["trust", "show"]).stdout();
    for shown in
        ["# style␊touch X", "␛]0; touch Y #␇", "\\u{202e}Z hcuot;", "␊␉touch A", "touch B␇"]
    {
        assert!(show.contains(shown), "{shown}: {show}");
    }
    let list = world.run(&["hooks", "list"]).stdout();
    assert!(list.contains("# style␊touch X") && !list.contains('\u{1b}'), "{list}");
    assert!(list.contains("`echo ok ␛]0; touch Y #␇` contains the control"), "{list}");
    assert_eq!(list.matches("does not run: the command `").count(), 3, "{list}");
    let run = world.run(&["-p", "go"]);
    assert!(run.err().contains("# style␊touch X"), "{}", run.err());
    let servers = world.run(&["mcp", "list"]);
    let servers = servers.stdout() + &servers.err();
    assert!(servers.contains("true␊␉touch A"), "{servers}");
    assert!(servers.contains("contains the control character U+001B"), "{servers}");
    let commands = world.run(&["commands", "list"]).stdout();
    for text in [show, list, run.err(), servers, commands] {
        assert_eq!(first_unsafe_char(&text), None, "{text:?}");
    }
    for arguments in [
        &["trust", "show", "--json"][..],
        &["hooks", "list", "--json"],
        &["mcp", "list", "--json"],
        &["commands", "list", "--json"],
    ] {
        let json = world.run(arguments).stdout();
        assert_eq!(first_unsafe_char(&json), None, "{arguments:?}: {json:?}");
        serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
    }
}
