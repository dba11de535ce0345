//! Plan mode: the model plans, the user approves, and the work begins.

use serde_json::{Value, json};

use crate::support::{Conversation, World};

fn call(name: &str, args: Value) -> Value {
    json!({"calls": [{"name": name, "args": args}]})
}

fn write(path: &str, content: &str) -> Value {
    call("write_file", json!({"file_path": path, "content": content}))
}

fn exit(name: &str) -> Value {
    call("exit_plan_mode", json!({"plan_filename": name}))
}

fn script(steps: &[Value]) -> String {
    let mut steps = steps.to_vec();
    steps.push(json!({"text": "done"}));
    Value::Array(steps).to_string()
}

/// Creates a world whose plans are in the project.
fn create_world(steps: &[Value]) -> World {
    let world = World::new(&script(steps));
    let settings = r#"{"general": {"plan": {"directory": "notes/plans"}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    world
}

/// Returns the tools that a request declares.
fn declared(world: &World, request: usize) -> Vec<String> {
    let body: Value = serde_json::from_slice(&world.server.requests()[request].body).expect("json");
    let tools = body["tools"][0]["functionDeclarations"].as_array().expect("tools").clone();
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

fn journal(world: &World) -> String {
    let folder = world.home.home().join(".parallax/sessions");
    let mut text = String::new();
    for project in std::fs::read_dir(folder).expect("sessions").flatten() {
        for file in std::fs::read_dir(project.path()).expect("project").flatten() {
            text.push_str(&std::fs::read_to_string(file.path()).unwrap_or_default());
        }
    }
    text
}

#[test]
fn extension_sets_the_plan_directory_unless_settings_do() {
    let extension =
        r#"{"name": "planner", "version": "1.0.0", "plan": {"directory": "docs/plans"}}"#;
    let steps = [write("docs/plans/p.md", "# The plan\n"), write("notes/plans/p.md", "# No\n")];
    for (settings, expected) in [
        ("{}", ["# The plan\n", ""]),
        (r#"{"general": {"plan": {"directory": "notes/plans"}}}"#, ["", "# No\n"]),
    ] {
        let world = World::new(&script(&steps));
        world.home.write_home(".gemini/settings.json", settings).expect("settings");
        let manifest = ".gemini/extensions/planner/gemini-extension.json";
        world.home.write_home(manifest, extension).expect("extension");
        world.run_ok(&["-p", "go", "--approval-mode", "plan"]);
        assert_eq!([world.read("docs/plans/p.md"), world.read("notes/plans/p.md")], expected);
    }
}

#[test]
fn plan_is_requested_revised_and_followed() {
    let world = create_world(&[
        call("enter_plan_mode", json!({"reason": "many files"})),
        write("src.txt", "too early"),
        write("notes/plans/../../src.md", "too clever"),
        write("notes/plans/p.md", "# The plan\n"),
        exit("p.md"),
        exit("notes/plans/p.md"),
        write("src.txt", "planned"),
    ]);
    let mut conversation = Conversation::start(&world, &["--stream-version", "2"]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    assert_eq!((&ask["tool_name"], &ask["question"]), (&json!("enter_plan_mode"), &json!("info")));
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    let ask = conversation.next("ask");
    assert_eq!(ask["question"], "exit_plan_mode");
    assert_eq!(ask["preview"]["type"], "plan");
    assert_eq!(ask["preview"]["text"], "# The plan\n");
    conversation.send(
        &json!({"type": "decide", "id": ask["id"], "outcome": "cancel", "feedback": "shorter"}),
    );
    let ask = conversation.next("ask");
    let outcomes = ["proceed_once", "proceed_always", "modify_with_editor", "cancel"];
    assert_eq!(ask["outcomes"], json!(outcomes));
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_always"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    world.server.assert_clean();
    assert_eq!(world.read("src.txt"), "planned");
    assert!(!world.home.project().join("src.md").exists());
    let has = |request: usize, tool: &str| declared(&world, request).iter().any(|it| it == tool);
    assert!(has(0, "enter_plan_mode") && !has(0, "exit_plan_mode") && has(0, "run_shell_command"));
    assert!(!has(1, "enter_plan_mode") && has(1, "exit_plan_mode") && has(1, "write_file"));
    assert!(has(6, "enter_plan_mode") && !has(6, "exit_plan_mode"));
    let body = String::from_utf8(world.server.requests()[6].body.to_vec()).expect("text");
    assert!(body.contains("Plan rejected. User feedback: shorter"));
    assert!(body.contains("Plan approved. Switching to Auto-Edit mode"));
    assert!(body.contains("Plan mode changes nothing"));
    let plans: Vec<Value> = journal(&world)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("plan").cloned())
        .collect();
    assert_eq!(plans[0]["approved"], false);
    assert_eq!(plans[0]["feedback"], "shorter");
    assert_eq!((&plans[1]["approved"], &plans[1]["mode"]), (&json!(true), &json!("auto_edit")));
}

#[test]
fn approved_plan_triggers_a_hook() {
    let world = create_world(&[
        call("enter_plan_mode", json!({})),
        write("notes/plans/p.md", "# P\n"),
        exit("p.md"),
    ]);
    let hear = json!([{"hooks": [{"type": "command", "command": "cat >> heard.jsonl"}]}]);
    let settings = json!({"general": {"plan": {"directory": "notes/plans"}},
        "hooks": {"PlanApproved": hear}, "hooksConfig": {"moreEvents": true}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    let mut conversation = Conversation::start(&world, &["--stream-version", "2"]);
    conversation.prompt("go");
    for outcome in ["proceed_once", "cancel"] {
        let ask = conversation.next("ask");
        let no = json!({"type": "decide", "id": ask["id"], "outcome": outcome, "feedback": "no"});
        conversation.send(&no);
    }
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(world.read("heard.jsonl"), "", "it was not agreed to");
    world.home.write("notes/plans/p.md", "# P\n").expect("the plan");
    assert_eq!(conversation.end(), Some(0));
    let world = World::in_home(world.home, &script(&[exit("p.md")]));
    let mut conversation =
        Conversation::start(&world, &["--stream-version", "2", "--approval-mode", "plan"]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_always"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    let heard: Value = serde_json::from_str(&world.read("heard.jsonl")).expect("one line");
    assert_eq!(
        (&heard["hook_event_name"], &heard["mode"]),
        (&json!("PlanApproved"), &json!("auto_edit"))
    );
    let plan = heard["plan_path"].as_str().expect("a path");
    assert!(plan.ends_with("notes/plans/p.md"), "{plan}");
}

#[test]
fn headless_plan_approval_does_not_extend_permissions() {
    let steps = [
        call("enter_plan_mode", json!({})),
        write("notes/plans/p.md", "# The plan\n"),
        exit("p.md"),
        write("src.txt", "x"),
    ];
    // The model entered plan mode, so the previous mode is restored.
    let world_with_question = create_world(&steps);
    let output = world_with_question.run_ok(&["-p", "go"]);
    assert_eq!(output.stdout(), "done\n");
    assert!(!world_with_question.home.project().join("src.txt").exists());
    let world_with_flag = create_world(&steps);
    world_with_flag.run_ok(&["-p", "go", "--approval-mode", "auto_edit"]);
    assert_eq!(world_with_flag.read("src.txt"), "x");
}

#[test]
fn run_started_in_plan_mode_completes_the_work() {
    let steps = [
        write("notes/plans/p.md", "# P\n"),
        exit("p.md"),
        call("run_shell_command", json!({"command": "echo x > src.txt"})),
    ];
    let yolo = create_world(&steps);
    let done = yolo.run_ok(&["-p", "go", "--approval-mode", "plan", "--output-format", "json"]);
    assert_eq!(yolo.read("src.txt"), "x\n");
    let output: Value = serde_json::from_str(&done.stdout()).expect("json");
    assert!(output["warnings"].to_string().contains("auto-approved"), "{output}");
    let forbidden = create_world(&steps);
    let settings = r#"{"general": {"plan": {"directory": "notes/plans"}}, "security": {"disableYoloMode": true}}"#;
    forbidden.home.write_home(".gemini/settings.json", settings).expect("settings");
    forbidden.run_ok(&["-p", "go", "--approval-mode", "plan"]);
    assert!(!forbidden.home.project().join("src.txt").exists());
}

#[test]
fn plans_are_per_session_unless_the_project_has_a_directory() {
    let world = World::new(&script(&[exit("missing.md"), exit("../x.md")]));
    let settings = r#"{"general": {"plan": {"directory": "../outside"}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let args = ["-p", "go", "--approval-mode", "plan", "--output-format", "json"];
    let done = world.run_ok(&args);
    let output: Value = serde_json::from_str(&done.stdout()).expect("json");
    assert!(output["warnings"].to_string().contains("outside the project"), "{output}");
    let body: Value = serde_json::from_slice(&world.server.requests()[0].body).expect("json");
    let system = body["systemInstruction"]["parts"][0]["text"].as_str().expect("text").to_owned();
    assert!(system.contains("/plans`") && system.contains("/.parallax/"), "{system}");
    let off = World::new(&script(&[]));
    let settings = r#"{"general": {"plan": {"enabled": false}}}"#;
    off.home.write_home(".gemini/settings.json", settings).expect("settings");
    let done = off.run_ok(&args);
    assert!(done.stdout().contains("plan mode is disabled"), "{}", done.stdout());
    assert!(!declared(&off, 0).iter().any(|tool| tool.ends_with("plan_mode")));
}

/// Returns the plan directory that the system prompt of a request names.
fn named_folder(world: &World, request: usize) -> String {
    let body: Value = serde_json::from_slice(&world.server.requests()[request].body).expect("json");
    let system = body["systemInstruction"].to_string();
    let end = system.find("/plans").expect("a folder") + "/plans".len();
    let start = system[..end].rfind(['`', ' ', '"', '\'']).expect("a start") + 1;
    system[start..end].to_owned()
}

#[test]
fn plan_can_be_written_without_a_saved_session() {
    let first = World::new(&script(&[]));
    first.run_ok(&["-p", "begin", "--approval-mode", "plan", "--session-id", "planned"]);
    let plan = format!("{}/p.md", named_folder(&first, 0));
    assert!(plan.starts_with('/') && !std::path::Path::new(&plan).exists(), "{plan}");
    let steps = script(&[write(&plan, "# The plan\n"), exit(&plan)]);
    let world = World::in_home(first.home, &steps);
    world.run_ok(&["-r", "planned", "-p", "plan it", "--approval-mode", "plan"]);
    assert_eq!(std::fs::read_to_string(&plan).expect("the plan"), "# The plan\n");
    world.server.assert_clean();
}

#[test]
fn approved_plan_runs_in_the_chosen_mode() {
    for (words, is_written) in [
        (&["--approval-mode", "plan"][..], true),
        (&["--approval-mode", "plan", "--plan-exit-mode", "default"], false),
        (&["--approval-mode", "plan", "--plan-exit-mode", "auto_edit"], true),
    ] {
        let world = create_world(&[
            write("notes/plans/p.md", "# The plan\n"),
            exit("p.md"),
            write("src.txt", "x"),
        ]);
        let mut all = vec!["-p", "go"];
        all.extend(words);
        world.run_ok(&all);
        assert_eq!(world.home.project().join("src.txt").exists(), is_written, "{words:?}");
    }
}

#[test]
fn plan_command_with_text_switches_a_headless_run_to_plan_mode() {
    let steps = [call("run_shell_command", json!({"command": "touch made"}))];
    let world = create_world(&steps);
    let output = world.run_ok(&["-p", "/plan tidy up the docs", "-y"]);
    assert_eq!(output.stdout(), "done\n");
    let requests = world.server.requests();
    let sent = String::from_utf8_lossy(&requests[0].body).into_owned();
    assert!(sent.contains("tidy up the docs") && !sent.contains("/plan tidy"), "{sent}");
    let answered = String::from_utf8_lossy(&requests[1].body).into_owned();
    assert!(answered.contains("Plan mode changes nothing"), "{answered}");
    assert!(!world.home.project().join("made").exists());
    // Without text, the command shows the plan, which needs the terminal.
    assert_eq!(world.run(&["-p", "/plan"]).code(), 42);
}
