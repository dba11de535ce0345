//! Projects and programs that were set up for Gemini CLI.

use serde_json::{Value, json};

use crate::support::World;

const ANSWER: &str = r#"[{"text": "done", "repeat": 0}]"#;

/// The names of the tools of a request.
fn declared(world: &World, request: usize) -> Vec<String> {
    let body = world.server.requests()[request].json();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let all = tools.iter().filter_map(|tool| tool["functionDeclarations"].as_array()).flatten();
    all.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

fn warnings(out: &str) -> Vec<String> {
    let json: Value = serde_json::from_str(out).expect("JSON");
    let warnings = json["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

#[test]
fn project_list_of_tools_narrows_and_never_empties() {
    for (user, project, wanted) in [
        (json!(null), json!(["run_shell_command"]), vec!["run_shell_command"]),
        (json!(["read_file", "glob"]), json!(["glob", "write_file"]), vec!["glob"]),
        (json!(["read_file"]), json!(["write_file"]), vec!["read_file"]),
        (json!(["read_file"]), json!([]), vec!["read_file"]),
    ] {
        let world = World::new(ANSWER);
        let settings = |core: &Value| json!({"tools": {"core": core}}).to_string();
        if !user.is_null() {
            world.home.write_home(".gemini/settings.json", &settings(&user)).expect("written");
        }
        world.home.write(".gemini/settings.json", &settings(&project)).expect("written");
        let done = world.run_well(&["--skip-trust", "--yolo", "-o", "json", "-p", "go"]);
        assert_eq!(declared(&world, 0), wanted, "{user} {project}");
        assert_eq!(warnings(&done.out()), Vec::<String>::new(), "narrowing is not loosening");
    }
}

#[test]
fn project_list_of_tools_grants_no_approval() {
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch made"}}]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    let core = r#"{"tools": {"core": ["run_shell_command"]}}"#;
    world.home.write(".gemini/settings.json", core).expect("written");
    world.run(&["-p", "go"]);
    assert!(!world.home.project().join("made").exists());
}

#[test]
fn project_settings_that_equal_the_users_are_not_gated() {
    let world = World::new(ANSWER);
    let settings = json!({
        "general": {"enableAutoUpdate": false, "defaultApprovalMode": "auto_edit"},
        "tools": {"allowed": ["run_shell_command(ls)"], "sandbox": false},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": true, "target": "local", "otlpEndpoint": ""},
        "mcpServers": {"s": {"command": "false", "trust": true}},
        "mcp": {"firstWaitMs": 0},
    })
    .to_string();
    world.home.write_home(".gemini/settings.json", &settings).expect("written");
    world.home.write(".gemini/settings.json", &settings).expect("written");
    let done = world.run_well(&["--skip-trust", "-o", "json", "-p", "go"]);
    let gated: Vec<String> =
        warnings(&done.out()).into_iter().filter(|it| it.contains("do not count")).collect();
    assert_eq!(gated, Vec::<String>::new());
}

#[test]
fn rejected_shown_and_accepted_settings_are_the_same() {
    let world = World::new(ANSWER);
    let server = |command: &str| json!({"command": command});
    let user = json!({"mcpServers": {"s": server("false")}, "mcp": {"firstWaitMs": 0}});
    world.home.write_home(".gemini/settings.json", &user.to_string()).expect("written");
    let project = json!({"mcpServers": {"s": server("true")}, "tools": {"allowed": ["glob"]}});
    world.home.write(".gemini/settings.json", &project.to_string()).expect("written");
    let keys = ["tools.allowed", "mcpServers.s"];
    let done = world.run_well(&["-o", "json", "-p", "go"]);
    let rejected = warnings(&done.out()).join("\n");
    let shown = world.run_well(&["trust", "show"]).out();
    let accepted = world.run_well(&["trust", "add", "--settings"]).out();
    for key in keys {
        assert!(rejected.contains(&format!("`{key}`")), "{rejected}");
        assert!(shown.contains(key), "{shown}");
        assert!(accepted.contains(&format!("accepted: {key}")), "{accepted}");
    }
    let listed = world.run_well(&["mcp", "list"]);
    assert!(listed.out().contains("s: true"), "{}", listed.out());
    // Accepted beside one server of the user's, it says nothing about another.
    let other = json!({"mcpServers": {"s": server("false")}, "tools": {"allowed": ["glob"]}});
    world.home.write_home(".gemini/settings.json", &other.to_string()).expect("written");
    let done = world.run_well(&["-o", "json", "-p", "go"]);
    assert!(warnings(&done.out()).join("\n").contains("`mcpServers.s`"), "{}", done.out());
}

#[test]
fn setting_of_the_gemini_file_is_changed_there() {
    let world = World::new(ANSWER);
    let text = "{\n  // ours\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}}\n}\n";
    let file = world.home.write(".gemini/settings.json", text).expect("written");
    world.run_well(&["mcp", "add", "b", "true", "--scope", "project"]);
    world.run_well(&["mcp", "remove", "a"]);
    let read = std::fs::read_to_string(&file).expect("there");
    assert!(
        read.contains("// ours") && read.contains("\"b\"") && !read.contains("\"a\""),
        "{read}"
    );
    assert!(!world.home.project().join(".parallax/settings.json").exists());
}

#[test]
fn comma_after_the_last_element_is_a_warning() {
    let world = World::new(ANSWER);
    let text = "{\n  \"ui\": {\"hideTips\": true,},\n}\n";
    world.home.write_home(".gemini/settings.json", text).expect("written");
    let done = world.run_well(&["-p", "go"]);
    assert!(done.err().contains("settings.json:2:"), "{}", done.err());
    assert!(done.err().contains("comma after the last element"), "{}", done.err());
}

#[test]
fn missing_directory_of_the_settings_is_a_warning() {
    let world = World::new(ANSWER);
    let text = r#"{"context": {"includeDirectories": ["/no/such/directory"]}}"#;
    world.home.write_home(".gemini/settings.json", text).expect("written");
    let done = world.run_well(&["-o", "json", "-p", "go"]);
    let told = warnings(&done.out());
    assert!(
        told.iter().any(|it| it.contains("`/no/such/directory` is not a directory")),
        "{told:?}"
    );
    assert_eq!(world.run(&["--include-directories", "/no/such/directory", "-p", "go"]).code(), 42);
}

#[test]
fn broken_command_file_is_a_warning_and_is_not_replaced_by_a_weaker_one() {
    let world = World::new(ANSWER);
    world.home.write(".gemini/commands/fix.toml", "prompt = \"open").expect("written");
    world.home.write_home(".gemini/commands/fix.toml", "prompt = 'weaker'").expect("written");
    let done = world.run_well(&["-o", "json", "-p", "go"]);
    let told = warnings(&done.out());
    assert!(told.iter().any(|it| it.contains("Cannot use a command file")), "{told:?}");
    assert!(world.run_well(&["-p", "go"]).err().contains("fix.toml"));
    let refused = world.run(&["-p", "/fix"]);
    assert_eq!(refused.code(), 42);
    assert!(refused.err().contains("Cannot run `/fix`"), "{}", refused.err());
    let weaker = world.run_well(&["-p", "/user.fix"]);
    assert_eq!(weaker.out().trim(), "done");
}

#[test]
fn custom_command_takes_an_alias_and_not_a_name() {
    let world = World::new(ANSWER);
    for name in ["summarize", "usage", "stats"] {
        let prompt = format!("prompt = 'mine: {name}'");
        world.home.write_home(&format!(".gemini/commands/{name}.toml"), &prompt).expect("written");
    }
    for name in ["summarize", "usage"] {
        world.run_well(&["-p", &format!("/{name}")]);
        let request = world.server.requests().last().expect("a request").json().to_string();
        assert!(request.contains(&format!("mine: {name}")), "{request}");
    }
    let sent = world.server.requests().len();
    world.run_well(&["-p", "/stats"]);
    assert_eq!(world.server.requests().len(), sent, "the built-in command answers");
}

#[test]
fn session_of_another_directory_is_named_with_the_way_to_it() {
    let world = World::new(ANSWER);
    let done = world.run_well(&["-o", "json", "-p", "remember"]);
    let json: Value = serde_json::from_str(&done.out()).expect("JSON");
    let id = json["session_id"].as_str().expect("an id").to_owned();
    let other = world.home.root().join("other");
    std::fs::create_dir(&other).expect("a directory");
    let run = |id: &str| {
        let mut command = world.command(&["--resume", id, "-p", "go"]);
        command.current_dir(&other);
        crate::support::finish(command)
    };
    let here = world.home.project().canonicalize().expect("there").display().to_string();
    for id in [id.clone(), id[..8].to_owned(), id.to_uppercase()] {
        let refused = run(&id);
        assert_eq!(refused.code(), 42);
        assert!(refused.err().contains(&here), "{}", refused.err());
        assert!(refused.err().contains("parallax sessions move"), "{}", refused.err());
    }
    assert_eq!(world.run(&["--resume", &id.to_uppercase(), "-p", "go"]).code(), 0);
}

#[test]
fn words_of_other_agents_are_errors_with_a_hint() {
    let world = World::new(ANSWER);
    for (words, hint) in [
        (&["doctor"][..], "parallax sandbox explain"),
        (&["update"], "install the new version"),
        (&["login"], "GEMINI_API_KEY"),
        (&["Version"], "parallax --version"),
        (&["resume"], "parallax --resume"),
        (&["--dangerously-skip-permissions"], "--approval-mode"),
        (&["--image", "a.png"], "@picture.png"),
    ] {
        let done = world.run(words);
        assert_eq!(done.code(), 1, "{words:?}: {}", done.err());
        assert!(done.err().contains(hint), "{words:?}: {}", done.err());
    }
    for words in [&["--foo"][..], &["--yoloo"], &["--skip-trus"], &["--acpt"], &["--raw-outputs"]] {
        let done = world.run(words);
        assert!(!done.err().contains("did you mean"), "{words:?}: {}", done.err());
    }
    let near = world.run(&["--modle", "x"]);
    assert!(near.err().contains("did you mean `--model`?"), "{}", near.err());
    assert!(world.server.requests().is_empty(), "nothing was sent to the model");
    // What is said to be a prompt is one.
    assert_eq!(world.run_well(&["-p", "doctor"]).out().trim(), "done");
    assert!(world.run_well(&["help", "mcp"]).out().contains("Usage: parallax mcp"));
    assert!(world.run_well(&["completion", "bash"]).out().contains("_parallax"));
}

#[test]
fn directory_of_a_flag_is_the_one_that_is_worked_in() {
    let world = World::new(ANSWER);
    let inner = world.home.project().join("inner");
    std::fs::create_dir(&inner).expect("a directory");
    let done = world.run(&["-C", "inner", "--skip-trust", "-p", "go"]);
    assert_eq!(done.code(), 0, "{}", done.err());
    let request = world.server.requests()[0].json().to_string();
    assert!(request.contains("/inner"), "{request}");
    assert_eq!(world.run(&["-C", "gone", "-p", "go"]).code(), 42);
}
