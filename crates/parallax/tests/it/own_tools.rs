//! Discovered tools, hooks that replace tool calls, and the task tracker.

use serde_json::{Value, json};

use crate::support::World;

fn last_content(world: &World, index: usize) -> String {
    let body: Value = serde_json::from_slice(&world.server.requests()[index].body).expect("json");
    body["contents"].as_array().expect("contents").last().expect("one").to_string()
}

fn names(world: &World, index: usize) -> Vec<String> {
    let body: Value = serde_json::from_slice(&world.server.requests()[index].body).expect("json");
    let declared = body["tools"][0]["functionDeclarations"].as_array().expect("tools");
    declared.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn settings(world: &World, settings: &Value) {
    world.home.write_home(".gemini/settings.json", &settings.to_string()).unwrap();
}

/// Runs a session until the discovery is complete, so that its tools are cached.
fn run_discovery(world: World, script: &Value) -> World {
    let first = World::in_home(world.home, r#"[{"text": "done"}]"#);
    let cache = first.home.root().join("home/.parallax/discovery-cache");
    let running = first.start(&["-p", "go"]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while cache.read_dir().map_or(0, Iterator::count) == 0 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(running);
    World::in_home(first.home, &script.to_string())
}

#[test]
fn discovery_command_declares_tools_and_call_command_runs_them() {
    let script = json!([
        {"calls": [{"name": "discovered_tool_echo", "args": {"text": "it's me"}}]},
        {"calls": [{"name": "discovered_tool_fail", "args": {}}]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    settings(
        &world,
        &json!({"tools": {
            "discoveryCommand": "cat tools.json", "callCommand": "sh 'call me.sh'"
        }}),
    );
    let report = json!([
        {"functionDeclarations": [{"name": "echo", "description": "Says it.",
            "parametersJsonSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]},
        {"name": "fail"}
    ]);
    world.home.write("tools.json", &report.to_string()).unwrap();
    world
        .home
        .write("call me.sh", "[ $1 = echo ] && { cat; echo hm >&2; exit 0; }; echo bad >&2; exit 3")
        .unwrap();
    let world = run_discovery(world, &script);
    world.run_ok(&["-p", "go", "-y"]);
    let declared = names(&world, 0);
    let index = declared.iter().position(|name| name == "discovered_tool_echo").expect("declared");
    assert_eq!(declared[index + 1], "discovered_tool_fail");
    assert!(
        last_content(&world, 1).contains(r#"{\"text\":\"it's me\"}"#),
        "{}",
        last_content(&world, 1)
    );
    let failed = last_content(&world, 2);
    assert!(failed.contains("Stderr: bad") && failed.contains("Exit Code: 3"), "{failed}");
    // Without approval, such a tool does not run in a headless run.
    let world = World::in_home(world.home, &script.to_string());
    world.run_ok(&["-p", "go"]);
    assert!(last_content(&world, 1).contains("denied by policy"), "{}", last_content(&world, 1));
}

#[test]
fn arguments_violating_the_discovered_schema_run_nothing() {
    let script = json!([
        {"calls": [{"name": "discovered_tool_t", "args": {}}]},
        {"calls": [{"name": "discovered_tool_t", "args": {"x": 1}}]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    settings(
        &world,
        &json!({"tools": {"discoveryCommand": "cat tools.json", "callCommand": "touch ran"}}),
    );
    let report = json!([{"name": "t", "parametersJsonSchema": {"type": "object",
        "properties": {"x": {"type": "string"}}, "required": ["x"]}}]);
    world.home.write("tools.json", &report.to_string()).unwrap();
    let world = run_discovery(world, &script);
    world.run_ok(&["-p", "go", "-y"]);
    let missing = last_content(&world, 1);
    assert!(missing.contains("params must have required property 'x'"), "{missing}");
    let result = last_content(&world, 2);
    assert!(result.contains("params/x must be string"), "{result}");
    assert!(!world.home.project().join("ran").exists());
}

#[test]
fn discovery_output_is_limited_to_ten_megabytes() {
    let ask = json!([{"calls": [{"name": "discovered_tool_late", "args": {}}]}, {"text": "done"}]);
    let world = World::new(&ask.to_string());
    settings(
        &world,
        &json!({"tools": {"discoveryCommand": "cat tools.json", "callCommand": "true"}}),
    );
    let tools = |spaces: usize| format!("[{{\"name\": \"late\"}}{}]", " ".repeat(spaces));
    world.home.write("tools.json", &tools(3_000_000)).unwrap();
    let world = run_discovery(world, &ask);
    world.run_ok(&["-p", "go"]);
    assert!(names(&world, 0).contains(&"discovered_tool_late".to_owned()));
    world.home.write("tools.json", &tools(10_000_000)).unwrap();
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    std::fs::remove_dir_all(world.home.root().join("home/.parallax/discovery-cache")).unwrap();
    // A call of an unknown tool waits for the discovery.
    let world = World::in_home(world.home, &ask.to_string());
    let done = world.run_ok(&["-p", "go"]);
    assert!(done.err().contains("its output is larger than 10 MB"), "{}", done.err());
    assert!(!names(&world, 1).contains(&"discovered_tool_late".to_owned()));
}

#[test]
fn hanging_discovery_does_not_delay_startup() {
    let call = json!([{"calls": [{"name": "discovered_tool_a", "args": {}}]}, {"text": "done"}]);
    let world = World::new(r#"[{"text":"done"}]"#);
    let command = "sh discover.sh";
    settings(
        &world,
        &json!({"tools": {"discoveryCommand": command, "callCommand": "echo called"}}),
    );
    world.home.write("discover.sh", "sleep 100").unwrap();
    let started_at = std::time::Instant::now();
    let output = world.run_ok(&["-p", "go", "-o", "json"]);
    assert!(started_at.elapsed().as_secs() < 5, "{:?}", started_at.elapsed());
    let report: Value = serde_json::from_str(&output.stdout()).expect("json");
    assert!(report["warnings"].to_string().contains("is still running after 2000 ms"), "{report}");
    // Cached tools are available immediately.
    world.home.write("discover.sh", r#"echo '[{"name": "a"}]'"#).unwrap();
    let world = run_discovery(world, &call);
    world.home.write("discover.sh", "sleep 100").unwrap();
    let output = world.run_ok(&["-p", "go", "-y"]);
    assert!(names(&world, 0).contains(&"discovered_tool_a".to_owned()));
    assert!(last_content(&world, 1).contains("called a"), "{}", last_content(&world, 1));
    assert!(!output.err().contains("has not ended"), "{}", output.err());
}

#[test]
fn discovery_command_changes_no_protected_file() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let discover = "sh discover.sh";
    settings(&world, &json!({"tools": {"discoveryCommand": discover, "callCommand": "true"}}));
    let script = "mkdir .vscode; echo x > .vscode/tasks.json; echo '[]'";
    world.home.write("discover.sh", script).unwrap();
    let output = world.run_ok(&["-p", "go"]);
    assert!(!world.home.project().join(".vscode/tasks.json").exists());
    assert!(output.err().contains(".vscode/tasks.json"), "{}", output.err());
}

#[test]
fn discovered_tool_call_changes_no_protected_file_and_is_undoable() {
    let call = json!([{"calls": [{"name": "discovered_tool_dt", "args": {}}]}, {"text": "done"}]);
    for tier in ["namespaces", "landlock"] {
        let world = World::new("[]");
        let report = r#"echo '[{"name": "dt", "description": "d"}]'"#;
        world.home.write("tools.sh", report).unwrap();
        let (discover, run) = ("sh tools.sh", "sh call.sh");
        settings(&world, &json!({"tools": {"discoveryCommand": discover, "callCommand": run}}));
        let script = "mkdir .vscode; echo x > .vscode/tasks.json; echo theirs > kept.txt";
        world.home.write("call.sh", script).unwrap();
        let kept = world.home.write("kept.txt", "mine\n").unwrap();
        let world = run_discovery(world, &call);
        let mut command = world.command(&["--allowed-tools", "discovered_tool_dt", "-p", "go"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let done = command.output().expect("ended");
        let output = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{tier}: {output}");
        assert!(!world.home.project().join(".vscode/tasks.json").exists(), "{tier}: {output}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "theirs\n", "{tier}: {output}");
        assert_eq!(world.run(&["undo"]).code(), 0, "{tier}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine\n", "{tier}");
    }
}

#[test]
fn project_cannot_set_tool_commands_without_acceptance() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let settings = json!({"tools": {"discoveryCommand": "touch ran", "callCommand": "true"}});
    world.home.write(".gemini/settings.json", &settings.to_string()).unwrap();
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains("tools.discoveryCommand"), "{}", output.err());
    assert!(!world.home.project().join("ran").exists());
}

#[test]
fn hook_replaces_a_call_with_another() {
    let script = json!([
        {"calls": [{"name": "read_file", "args": {"file_path": "a.txt"}}]},
        {"calls": [{"name": "list_directory", "args": {"dir_path": "."}}]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    world.home.write("a.txt", "first\n").unwrap();
    world.home.write("b.txt", "second\n").unwrap();
    let tail = r#"{"hookSpecificOutput":{"tailToolCallRequest":{"name":"read_file","args":{"file_path":"b.txt"}}}}"#;
    // The hook replaces the read once, and the listing every time.
    let once = format!("cat >> heard.jsonl; [ -e once ] || {{ touch once; echo '{tail}'; }}");
    let hook = |command: &str| json!([{"type": "command", "name": "h", "command": command}]);
    settings(
        &world,
        &json!({"hooks": {"AfterTool": [
            {"matcher": "read_file", "hooks": hook(&once)},
        ]}}),
    );
    world.run_ok(&["-p", "go"]);
    let report = last_content(&world, 1);
    assert!(report.contains("second") && !report.contains("first"), "{report}");
    assert_eq!(report.matches("functionResponse").count(), 1);
    let heard = world.read("heard.jsonl");
    let heard: Vec<Value> =
        heard.lines().map(|line| serde_json::from_str(line).expect("json")).collect();
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[1]["tool_input"]["file_path"], "b.txt");

    let world = World::in_home(world.home, &script.to_string());
    let endless = r#"{"hookSpecificOutput":{"tailToolCallRequest":{"name":"write_file","args":{"file_path":"x","content":"y"}}}}"#;
    settings(
        &world,
        &json!({"hooks": {"AfterTool": [
            {"matcher": "read_file", "hooks": hook(&format!("echo '{endless}'"))},
            {"matcher": "list_directory|glob", "hooks": hook(&format!("echo '{}'", tail.replace("read_file", "glob").replace("file_path", "pattern")))},
        ]}}),
    );
    let output = world.run_ok(&["-p", "go"]);
    // The policy still applies: in a headless run, no user can approve an edit.
    assert!(last_content(&world, 1).contains("denied by policy"), "{}", last_content(&world, 1));
    assert!(
        last_content(&world, 1).contains(r#""name":"read_file""#),
        "{}",
        last_content(&world, 1)
    );
    assert!(last_content(&world, 2).contains("b.txt"), "{}", last_content(&world, 2));
    assert!(output.err().contains("too many tool calls"), "{}", output.err());
}

#[test]
fn tracker_tasks_are_restored_on_resume() {
    let create = json!({"calls": [{"name": "tracker_create_task", "args": {
        "title": "Ship it", "description": "all of it", "type": "epic"
    }}]});
    let list = json!({"calls": [{"name": "tracker_list_tasks", "args": {}}]});
    let output = json!({"text": "done"});
    let world = World::new(&json!([create, output, list, output]).to_string());
    settings(&world, &json!({"experimental": {"taskTracker": true}}));
    world.run_ok(&["-p", "go"]);
    assert!(!names(&world, 0).contains(&"write_todos".to_owned()));
    assert!(last_content(&world, 1).contains("Created task "), "{}", last_content(&world, 1));
    world.run_ok(&["-p", "go on", "--resume", "latest"]);
    assert!(last_content(&world, 3).contains("] Ship it (open)"), "{}", last_content(&world, 3));
}

#[test]
fn topic_heading_precedes_other_calls() {
    let script = json!([
        {"calls": [
            {"name": "list_directory", "args": {"dir_path": "."}},
            {"name": "update_topic", "args": {"strategic_intent": "look", "title": "Looking"}}
        ]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    let hook = json!([{"type": "command", "name": "h", "command": "cat >> heard.jsonl"}]);
    settings(&world, &json!({"hooks": {"BeforeTool": [{"hooks": hook}]}}));
    world.run_ok(&["-p", "go"]);
    assert_eq!(names(&world, 0)[0], "update_topic");
    let heard = world.read("heard.jsonl");
    assert!(heard.lines().next().is_some_and(|line| line.contains("update_topic")), "{heard}");
    let report = last_content(&world, 1);
    let (listed, topic) = (report.find("list_directory"), report.find("Current topic: Looking"));
    assert!(listed.is_some() && listed < topic, "{report}");
}
