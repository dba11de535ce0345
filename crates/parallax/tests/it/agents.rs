//! Subagents from the user's point of view.

use serde_json::{Value, json};

use crate::support::{Conversation, World};

const SCOUT: &str = "---\nname: scout\ndescription: Looks for things.\ntools: [read_file, \
                     list_directory]\nmodel: inherit\ntemperature: 0.3\nmax_turns: 3\n---\nYou \
                     are the scout. Your task: ${query}\n";

/// Returns a reply for the session itself, or for the agent whose prompt contains the text.
fn reply_to(system: &str, reply: Value) -> Value {
    let mut reply = reply;
    reply["match"] = json!({"systemContains": system});
    reply
}

fn invoke(agent: &str, prompt: &str) -> Value {
    json!({"name": "invoke_agent", "args": {"agent_name": agent, "prompt": prompt}})
}

fn create_world(script: &[Value]) -> World {
    let world = World::new(&Value::from(script).to_string());
    world.home.write(".gemini/agents/scout.md", SCOUT).unwrap();
    world.home.write("notes.txt", "quiet words\n").unwrap();
    world.run_ok(&["agents", "accept"]);
    world
}

fn body(world: &World, index: usize) -> Value {
    serde_json::from_slice(&world.server.requests()[index].body).expect("json")
}

fn system(request: &Value) -> &str {
    request["systemInstruction"]["parts"][0]["text"].as_str().expect("system")
}

fn tools(request: &Value) -> Vec<&str> {
    let declared = request["tools"][0]["functionDeclarations"].as_array().expect("tools");
    declared.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

/// Returns the newest content of the n-th request.
fn last_content(world: &World, index: usize) -> String {
    let request = body(world, index);
    request["contents"].as_array().expect("contents").last().expect("one").to_string()
}

#[test]
fn command_runs_only_with_a_known_agent() {
    let world = create_world(&[json!({"text": "done"}), json!({"text": "done"})]);
    for (name, agent) in [("good", "scout"), ("bad", "scoot")] {
        let text = format!("---\nagent: {agent}\n---\nLook at the notes.");
        world.home.write_home(&format!(".parallax/commands/{name}.md"), &text).expect("command");
    }
    world.run_ok(&["-p", "/good"]);
    assert!(last_content(&world, 0).contains("subagent(s) `scout`"));
    let output = world.run_ok(&["-p", "/bad"]);
    assert!(
        output.err().contains("unknown agent `scoot` (did you mean `scout`?)"),
        "{}",
        output.err()
    );
    assert!(!last_content(&world, 1).contains("subagent(s)"), "{}", last_content(&world, 1));
}

#[test]
fn named_subagent_returns_only_its_result() {
    let world = create_world(&[
        json!({"calls": [invoke("scout", "read notes.txt")]}),
        json!({"calls": [{"name": "read_file", "args": {"file_path": "notes.txt"}}]}),
        json!({"calls": [{"name": "complete_task", "args": {"result": "they say little"}}]}),
        json!({"text": "all done"}),
    ]);
    let output = world.run_ok(&["-p", "@scout look at the notes", "-o", "json"]);
    let (first, second, third) = (body(&world, 0), body(&world, 1), body(&world, 2));
    assert!(system(&first).contains("<name>scout</name>"), "{}", system(&first));
    assert!(system(&first).contains("<name>codebase_investigator</name>"));
    assert!(last_content(&world, 0).contains("subagent(s) `scout`"));
    assert!(system(&second).starts_with("You are the scout. Your task: read notes.txt"));
    assert_eq!(tools(&second), ["list_directory", "read_file", "complete_task"]);
    assert_eq!(second["generationConfig"]["temperature"], 0.3);
    assert_eq!(second["contents"].as_array().expect("contents").len(), 1);
    assert!(third.to_string().contains("quiet words"));
    let report = last_content(&world, 3);
    assert!(
        report.contains(
            "Subagent 'scout' finished.\\nTermination Reason: GOAL\\nResult:\\nthey say little"
        ),
        "{report}"
    );
    assert!(!body(&world, 3).to_string().contains("quiet words"));
    let stats: Value = serde_json::from_slice(&output.stdout).expect("json");
    let roles: Vec<&str> = stats["stats"]["models"]
        .as_object()
        .expect("models")
        .values()
        .flat_map(|model| model["roles"].as_object().expect("roles").keys())
        .map(String::as_str)
        .collect();
    assert!(roles.contains(&"subagent"), "{roles:?}");
}

#[test]
fn changed_project_subagent_waits_for_approval_with_a_notice() {
    let world = create_world(&[json!({"text": "one"}), json!({"text": "two"})]);
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    conversation.next("result");
    let file = world.home.project().join(".gemini/agents/scout.md");
    std::fs::write(file, SCOUT.replace("You are the scout", "Obey")).unwrap();
    conversation.prompt("go on");
    let report = conversation.next("error")["message"].to_string();
    assert!(report.contains("the agent `scout` of this project is new or changed"), "{report}");
    assert!(report.contains("parallax agents accept"), "{report}");
    conversation.next("result");
    assert_eq!(conversation.end(), Some(0));
    let has = |index: usize| system(&body(&world, index)).contains("<name>scout</name>");
    assert!(has(0) && !has(1));
}

#[test]
fn project_subagent_is_used_only_after_the_user_accepts_it() {
    let world = World::new(r#"[{"text": "a"}, {"text": "b"}, {"text": "c"}]"#);
    world.home.write(".gemini/agents/scout.md", SCOUT).unwrap();
    let knows = |number: usize| system(&body(&world, number)).contains("<name>scout</name>");
    let notice = "the agent `scout` of this project must be accepted";
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains(notice) && output.err().contains("`parallax agents accept`"));
    assert!(!knows(0));
    let listed = world.run_ok(&["agents", "list"]);
    assert!(listed.stdout().contains("scout (project, not accepted)"), "{}", listed.stdout());
    let unknown = world.run(&["agents", "accept", "missing"]);
    assert!(unknown.code() != 0 && unknown.err().contains("Unknown agent `missing`"));
    let accepted = world.run_ok(&["agents", "accept", "scout"]);
    assert_eq!(accepted.stdout(), "accepted: scout\n");
    let output = world.run_ok(&["-p", "go"]);
    assert!(!output.err().contains(notice), "{}", output.err());
    assert!(knows(1));
    // A definition with another text is another agent.
    world.home.write(".gemini/agents/scout.md", &SCOUT.replace("scout.", "fox.")).unwrap();
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains(notice) && !knows(2));
}

/// Returns the number of processes with a text in their command line.
fn running(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

/// Creates a user agent with its own MCP server.
fn with_server(world: &World, agent: &str, r#do: &str, trust: bool) {
    let server = crate::mcp::stdio(world, r#do);
    let text = format!(
        "---\nname: {agent}\ndescription: Fetches paper.\ntools: [read_file]\nmcp_servers:\n  \
         paper:\n    command: python3\n    trust: {trust}\n    args: {}\n---\nYou are the \
         {agent}.\n",
        server["args"]
    );
    world.home.write_home(&format!(".parallax/agents/{agent}.md"), &text).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn subagent_servers_are_private_and_end_with_it() {
    let calls = |name: &str, args: Value| json!({"calls": [{"name": name, "args": args}]});
    let world = World::new(
        &json!([
            {"calls": [invoke("clerk", "fetch it")]},
            calls("mcp_paper_echo", json!({"text": "fine"})),
            calls("complete_task", json!({"result": "fetched"})),
            {"chunks": [{"gate": "after"}, {"text": "all done"}, {"finish": "STOP"}]}
        ])
        .to_string(),
    );
    with_server(&world, "clerk", "", true);
    let log = world.home.root().join("log").display().to_string();
    // No approval is required: the server is trusted, and the agent belongs to the user.
    let run = world.start(&["-p", "go"]);
    world.at_gate("after");
    assert!(!tools(&body(&world, 0)).iter().any(|name| name.starts_with("mcp_")));
    let request = body(&world, 1);
    let own = tools(&request).iter().filter(|name| name.starts_with("mcp_paper_")).count();
    assert!(own > 5, "{:?}", tools(&request));
    assert!(last_content(&world, 2).contains("echo: fine"), "{}", last_content(&world, 2));
    assert!(last_content(&world, 3).contains("fetched"), "{}", last_content(&world, 3));
    assert_eq!(running(&log), 0, "the server ended with its agent");
    world.server.open_gate("after");
    drop(run);
}

#[test]
fn subagent_servers_need_approval_unless_trusted_and_failures_are_reported() {
    let script = json!([
        {"calls": [invoke("clerk", "fetch it")]},
        {"calls": [{"name": "mcp_paper_echo", "args": {"text": "fine"}}]},
        {"calls": [{"name": "complete_task", "args": {"result": "no paper"}}]},
        {"text": "all done"}
    ]);
    let world = World::new(&script.to_string());
    with_server(&world, "clerk", "", false);
    world.run_ok(&["-p", "go"]);
    assert!(last_content(&world, 2).contains("denied by policy"), "{}", last_content(&world, 2));
    // A server that one agent trusts is not trusted elsewhere.
    let world = World::in_home(world.home, &script.to_string());
    with_server(&world, "other", "", true);
    world.run_ok(&["-p", "go"]);
    assert!(last_content(&world, 2).contains("denied by policy"), "{}", last_content(&world, 2));
    let world = World::in_home(world.home, &script.to_string());
    with_server(&world, "clerk", "die", true);
    let output = world.run_ok(&["-p", "go"]);
    let report = "the agent `clerk`: the MCP server `paper` is unavailable: ";
    assert!(output.err().contains(report), "{}", output.err());
    assert!(last_content(&world, 2).contains("not found"), "{}", last_content(&world, 2));
}

#[test]
fn subagent_waiting_for_its_server_can_be_interrupted() {
    let script = json!([{"calls": [invoke("clerk", "fetch it")]}, {"text": "all done"}]);
    let world = World::new(&script.to_string());
    with_server(&world, "clerk", "mute", true);
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let log = world.home.root().join("log");
    crate::support::wait_until("the start of its server", || log.exists());
    let started_at = std::time::Instant::now();
    conversation.send(&json!({"type": "interrupt"}));
    conversation.next("result");
    assert!(started_at.elapsed() < std::time::Duration::from_secs(3), "{:?}", started_at.elapsed());
    conversation.end();
    assert!(started_at.elapsed() < std::time::Duration::from_secs(6), "{:?}", started_at.elapsed());
}

#[test]
fn subagent_failures_are_reported_with_the_cause() {
    let look = |n: u64| json!({"calls": [{"name": "read_file", "args": {"file_path": format!("{n}.txt")}}]});
    let world = create_world(&[
        json!({"calls": [invoke("scout", "one")]}),
        json!({"calls": [{"name": "write_file", "args": {"file_path": "a", "content": "b"}}]}),
        look(1),
        look(2),
        // The agent does not use its last chance to finish.
        look(3),
        json!({"calls": [invoke("nobody", "two")]}),
        json!({"text": "all done"}),
    ]);
    world.run_ok(&["-p", "go", "-y"]);
    assert!(
        last_content(&world, 2).contains("Tool \\\"write_file\\\" not found"),
        "{}",
        last_content(&world, 2)
    );
    assert!(
        last_content(&world, 4).contains("This is your last turn"),
        "{}",
        last_content(&world, 4)
    );
    let report = last_content(&world, 5);
    assert!(report.contains("Termination Reason: MAX_TURNS"), "{report}");
    assert!(
        last_content(&world, 6).contains("Unknown agent `nobody`. Available agents: cli_help,")
    );
    assert_eq!(world.read("a"), "");
}

#[test]
fn rules_apply_to_one_subagent_and_to_starting_it() {
    let world = create_world(&[
        json!({"calls": [invoke("scout", "one")]}),
        json!({"calls": [{"name": "read_file", "args": {"file_path": "notes.txt"}}]}),
        json!({"calls": [{"name": "complete_task", "args": {"result": "no"}}]}),
        json!({"calls": [
            {"name": "read_file", "args": {"file_path": "notes.txt"}}, invoke("generalist", "x")
        ]}),
        json!({"text": "all done"}),
    ]);
    let rules = "[[rule]]\ntoolName = \"read_file\"\nsubagent = \"scout\"\ndecision = \
                 \"deny\"\npriority = 900\n\n[[rule]]\ntoolName = \"generalist\"\ndecision = \
                 \"deny\"\npriority = 900\n";
    world.home.write_home(".gemini/policies/agents.toml", rules).unwrap();
    world.run_ok(&["-p", "go"]);
    assert!(last_content(&world, 2).contains("denied by policy"), "{}", last_content(&world, 2));
    let report = last_content(&world, 4);
    assert!(report.contains("quiet words") && report.contains("denied by policy"), "{report}");
}

#[test]
fn subagent_requests_approval_and_reports_progress() {
    let world = create_world(&[
        json!({"calls": [invoke("generalist", "make a file")]}),
        json!({"calls": [{"name": "write_file", "args": {"file_path": "made.txt", "content": "x"}}]}),
        json!({"calls": [{"name": "complete_task", "args": {"result": "plain words"}}]}),
        json!({"calls": [{"name": "complete_task", "args": {"result": {"response": "made"}}}]}),
        json!({"text": "all done"}),
    ]);
    let mut conversation = Conversation::start(&world, &["--stream-version", "2"]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    assert_eq!((&ask["agent"], &ask["tool_name"]), (&json!("generalist"), &json!("write_file")));
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    let progress = conversation.next("agent");
    assert_eq!(progress["agent"], "generalist");
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(world.read("made.txt"), "x");
    assert!(
        last_content(&world, 3).contains("params/result must be object"),
        "{}",
        last_content(&world, 3)
    );
    assert!(
        last_content(&world, 4).contains("\\\"response\\\": \\\"made\\\""),
        "{}",
        last_content(&world, 4)
    );
}

#[test]
fn parallel_subagents_have_their_own_output() {
    let finish = |agent: &str, word: &str| {
        reply_to(agent, json!({"calls": [{"name": "complete_task", "args": {"result": word}}]}))
    };
    let world = create_world(&[
        json!({"calls": [invoke("scout", "one"), invoke("second", "two")]}),
        finish("You are the scout", "first word"),
        finish("You are the second", "second word"),
        json!({"text": "all done"}),
    ]);
    let second = SCOUT.replace("scout", "second");
    world.home.write_home(".parallax/agents/second.md", &second).unwrap();
    world.run_ok(&["-p", "go"]);
    let report = last_content(&world, 3);
    let (first, second) = (report.find("first word"), report.find("second word"));
    assert!(first.is_some() && first < second, "{report}");
}

#[test]
fn internal_docs_answer_questions_about_the_program() {
    let world = create_world(&[
        json!({"calls": [invoke("cli_help", "how do hooks work?")]}),
        json!({"calls": [{"name": "get_internal_docs", "args": {"path": "hooks.md"}}]}),
        json!({"calls": [{"name": "complete_task", "args": {"report": {
            "answer": "like this", "sources": ["hooks.md"]
        }}}]}),
        json!({"text": "all done"}),
    ]);
    world.run_ok(&["-p", "go"]);
    assert_eq!(tools(&body(&world, 1)), ["get_internal_docs", "complete_task"]);
    assert!(last_content(&world, 2).contains("BeforeTool"));
    assert!(last_content(&world, 3).contains("\\\"answer\\\": \\\"like this\\\""));
}

#[test]
fn subagents_can_be_disabled() {
    let world = create_world(&[json!({"text": "all done"})]);
    world
        .home
        .write_home(".gemini/settings.json", r#"{"experimental": {"enableAgents": false}}"#)
        .unwrap();
    world.run_ok(&["-p", "go"]);
    let request = body(&world, 0);
    assert!(!tools(&request).contains(&"invoke_agent"));
    assert!(!system(&request).contains("subagent"));
}

#[test]
fn user_questions_are_answered_by_a_client() {
    let questions = json!({"questions": [
        {"question": "Which?", "header": "Way", "type": "choice", "options": [
            {"label": "left", "description": "l"}, {"label": "right", "description": "r"}]},
        {"question": "Sure?", "header": "Sure", "type": "yesno"}
    ]});
    let ask_user = json!({"calls": [{"name": "ask_user", "args": questions}]});
    let script = [ask_user.clone(), ask_user, json!({"text": "all done"})];
    let world = create_world(&script);
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    assert_eq!(ask["kind"], "question");
    assert_eq!(ask["preview"]["questions"][0]["options"][1]["label"], "right");
    conversation
        .send(&json!({"type": "answer", "id": ask["id"], "value": {"0": "right", "1": true}}));
    let ask = conversation.next("ask");
    conversation.send(&json!({"type": "answer", "id": ask["id"], "value": null}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert!(last_content(&world, 1).contains(r#"{\"answers\":{\"0\":\"right\",\"1\":\"Yes\"}}"#));
    assert!(last_content(&world, 2).contains("dismissed"));
    // Without a user, no approval is requested.
    let world = World::new(&Value::from(&script[1..]).to_string());
    world.run_ok(&["-p", "go"]);
    assert!(!tools(&body(&world, 0)).contains(&"ask_user"));
    assert!(last_content(&world, 1).contains("not found"));
}

#[test]
fn subagent_has_the_tools_of_its_definition_and_unknown_names_are_reported() {
    let world = create_world(&[
        json!({"calls": [invoke("own", "look")]}),
        json!({"calls": [{"name": "complete_task", "args": {"result": "seen"}}]}),
        json!({"text": "done"}),
    ]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mcp/server.py");
    let agent = format!(
        "---\nname: own\ndescription: x\ntools: [read_file, nosuchtool, \
         \"mcp_mem_*\"]\nmcp_servers:\n  mem:\n    command: python3\n    args: \
         [\"{script}\"]\n---\nx\n"
    );
    world.home.write_home(".gemini/agents/own.md", &agent).unwrap();
    let output = world.run_ok(&["-y", "-p", "go"]);
    let request = body(&world, 1);
    let names = tools(&request);
    assert!(names.contains(&"mcp_mem_echo") && names.contains(&"read_file"), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with("_mcp_resource")), "{names:?}");
    assert!(output.err().contains("unavailable tool `nosuchtool`"), "{}", output.err());
}

#[test]
fn coordinator_cannot_change_files_itself() {
    let write = json!({"name": "write_file", "args": {"file_path": "x.txt", "content": "x"}});
    let world = create_world(&[
        json!({"calls": [write, invoke("scout", "look")]}),
        reply_to(
            "You are the scout",
            json!({"calls": [
            {"name": "complete_task", "args": {"result": "quiet"}}]}),
        ),
        json!({"text": "handed out"}),
    ]);
    world.run_ok(&["-y", "-p", "/parallax write x"]);
    let first = body(&world, 0);
    let declared = tools(&first);
    for there in ["invoke_agent", "read_file", "grep_search", "write_todos"] {
        assert!(declared.contains(&there), "{there}: {declared:?}");
    }
    for gone in ["write_file", "replace", "run_shell_command", "save_memory", "activate_skill"] {
        assert!(!declared.contains(&gone), "{gone}: {declared:?}");
    }
    assert!(!world.home.project().join("x.txt").exists());
    let answers = body(&world, 2).to_string();
    assert!(answers.contains("is not available in coordinator mode"), "{answers}");
    assert!(answers.contains("quiet"), "{answers}");
}

#[test]
fn subagent_defined_during_the_session_can_be_started() {
    let world = World::new(
        &json!([
            {"text": "first"},
            {"calls": [invoke("fresh", "go")]},
            {"calls": [{"name": "complete_task", "args": {"result": "fresh result"}}]},
            {"text": "done", "repeat": 0}
        ])
        .to_string(),
    );
    let mut talk = Conversation::start(&world, &["-y"]);
    talk.prompt("one");
    talk.next("result");
    let text = "---\nname: fresh\ndescription: New.\ntools: [read-only]\n---\nYou are fresh.";
    world.home.write_home(".parallax/agents/fresh.md", text).unwrap();
    talk.prompt("two");
    talk.next("result");
    assert!(system(&body(&world, 1)).contains("<name>fresh</name>"));
    assert!(system(&body(&world, 2)).starts_with("You are fresh."));
    assert!(tools(&body(&world, 2)).contains(&"grep_search"));
    assert!(!tools(&body(&world, 2)).contains(&"write_file"));
}

#[test]
fn nested_subagent_depth_is_limited() {
    let of = |name: &str, more: &str| {
        format!("---\nname: {name}\ndescription: It does.\n{more}---\nYou are the {name}.\n")
    };
    let world = World::new(
        &json!([
            reply_to("You are Parallax", json!({"calls": [invoke("lead", "all of it")]})),
            reply_to("You are the lead", json!({"calls": [invoke("worker", "a part")]})),
            reply_to("You are the worker", json!({"calls": [
                {"name": "complete_task", "args": {"result": "the part"}}]})),
            reply_to("You are the lead", json!({"calls": [
                {"name": "complete_task", "args": {"result": "all of it, with the part"}}]})),
            {"text": "done", "repeat": 0}
        ])
        .to_string(),
    );
    let lead = "max_depth: 2\ntools: [invoke_agent, read_file]\n";
    for (name, more) in [("lead", lead), ("worker", "max_depth: 2\n")] {
        world.home.write_home(&format!(".parallax/agents/{name}.md"), &of(name, more)).unwrap();
    }
    let report = world.run_ok(&["-y", "-p", "go"]).err();
    assert!(!report.contains("which is not there"), "{report}");
    assert!(tools(&body(&world, 1)).contains(&"invoke_agent"));
    assert!(system(&body(&world, 1)).contains("<name>worker</name>"));
    assert!(!tools(&body(&world, 2)).contains(&"invoke_agent"));
    assert!(!system(&body(&world, 2)).contains("<name>worker</name>"));
    assert!(
        last_content(&world, 3).contains("Subagent 'worker' finished"),
        "{}",
        last_content(&world, 3)
    );
    assert!(
        last_content(&world, 4).contains("all of it, with the part"),
        "{}",
        last_content(&world, 4)
    );
}

#[test]
fn subagent_rules_apply_to_its_own_calls() {
    let text = "---\nname: careful\ndescription: It does.\npolicy:\n  - toolName: write_file\n    \
                decision: deny\n---\nYou are careful.\n";
    let write = |path: &str| json!({"calls": [{"name": "write_file", "args": {"file_path": path, "content": "x"}}]});
    let world = World::new(
        &json!([
            write("mine.txt"),
            {"calls": [invoke("careful", "go")]},
            write("its.txt"),
            {"calls": [{"name": "complete_task", "args": {"result": "refused"}}]},
            {"text": "done", "repeat": 0}
        ])
        .to_string(),
    );
    world.home.write_home(".parallax/agents/careful.md", text).unwrap();
    world.run_ok(&["-y", "-p", "go"]);
    assert!(world.home.project().join("mine.txt").exists());
    assert!(!world.home.project().join("its.txt").exists());
}
