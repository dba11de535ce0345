//! Sessions: loading, deleting, and what clients learn about them.

use serde_json::{Value, json};

use super::Editor;
use crate::support::World;

#[test]
fn session_in_use_elsewhere_is_rejected_and_not_copied() {
    let world = World::new(r#"[{"text":"first"},{"text":"second"}]"#);
    let mut one = Editor::ready(&world, &[]);
    let session = one.open(&world);
    let id = one.prompt(&session, "go");
    one.answer(id);
    let mut other = Editor::ready(&world, &[]);
    for method in ["session/load", "session/resume"] {
        let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
        let answer = other.call(method, params);
        let output = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(output.contains("in use by another process"), "{answer}");
    }
    for selector in ["latest", "1", &session[..8]] {
        let params = json!({"sessionId": selector, "cwd": world.home.project(), "mcpServers": []});
        let answer = other.call("session/load", params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let listed = other.call("session/list", json!({"cwd": world.home.project()}));
    assert_eq!(listed["result"]["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn session_of_another_directory_is_deleted() {
    let world = World::new(r#"[{"text":"first"}]"#);
    let mut command = world.command(&["--acp"]);
    command.current_dir("/");
    let mut editor = Editor::spawn(command);
    editor.call("initialize", json!({"protocolVersion": 1}));
    let session = editor.open(&world);
    let id = editor.prompt(&session, "go");
    editor.answer(id);
    editor.call("session/close", json!({"sessionId": session}));
    let answer = editor.call("session/delete", json!({"sessionId": session}));
    assert_eq!(answer["result"], json!({}), "{answer}");
    let listed = editor.call("session/list", json!({}));
    assert_eq!(listed["result"]["sessions"], json!([]));
}

#[test]
fn changed_mode_is_in_the_answer() {
    let world = World::new("[]");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    for mode in ["autoEdit", "plan", "default"] {
        let params = json!({"sessionId": session, "configId": "mode", "value": mode});
        let answer = editor.call("session/set_config_option", params);
        let options = answer["result"]["configOptions"].as_array().expect("options");
        let current = options.iter().find(|it| it["id"] == "mode").expect("the mode");
        assert_eq!(current["currentValue"], mode);
    }
    let params = json!({"sessionId": session, "modelId": "  "});
    assert_eq!(editor.call("session/set_model", params)["error"]["code"], -32602);
}

#[test]
fn model_of_an_unknown_provider_is_rejected_and_an_unlisted_model_is_accepted() {
    let world = World::new("[]");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let params = |name: &str| json!({"sessionId": session, "modelId": name});
    let option = |name: &str| json!({"sessionId": session, "configId": "model", "value": name});
    for (method, params) in [
        ("session/set_model", params("nonsense:large")),
        ("session/set_config_option", option("nonsense:large")),
        ("session/set_model", params("openai:")),
    ] {
        let error = &editor.call(method, params)["error"];
        assert_eq!(error["code"], -32602, "{error}");
        let text = error["message"].as_str().unwrap_or_default();
        assert!(text.contains("parallax models list"), "{text}");
    }
    let accepted = editor.call("session/set_config_option", option("gemini-99-unlisted"));
    assert_eq!(accepted["result"]["configOptions"][1]["currentValue"], "gemini-99-unlisted");
}

/// Sends a prompt and returns the last text of the agent.
fn prompt_response(editor: &mut Editor, session: &str, line: &str) -> String {
    let id = editor.prompt(session, line);
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    let chunks = editor.updates("agent_message_chunk");
    chunks.last().expect("a chunk")["content"]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn question_of_the_model_is_denied_without_naming_a_setting() {
    let questions = json!([{"question": "Which color?", "header": "Color", "type": "text"}]);
    let call = json!({"name": "ask_user", "args": {"questions": questions}});
    let world = World::new(&json!([{"calls": [call]}, {"text": "done"}]).to_string());
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    assert_eq!(prompt_response(&mut editor, &session, "go"), "done");
    let answers = crate::support::answers(&world.server).join("\n");
    assert!(answers.contains("This session excludes this tool"), "{answers}");
}

#[test]
fn changes_to_restore_are_listed() {
    let world = World::new(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"b.txt","content":"new\n"}}]},
        {"text":"Done"}]"#,
    );
    let mut editor = Editor::ready(&world, &["--approval-mode", "auto_edit"]);
    let session = editor.open(&world);
    assert!(
        prompt_response(&mut editor, &session, "/restore list")
            .contains("general.checkpointing.enabled")
    );
    editor.end();
    let settings = json!({"general": {"checkpointing": {"enabled": true}}});
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let mut editor = Editor::ready(&world, &["--approval-mode", "auto_edit"]);
    let session = editor.open(&world);
    assert!(
        prompt_response(&mut editor, &session, "/restore list")
            .contains("No changes to restore yet.")
    );
    prompt_response(&mut editor, &session, "write it");
    let listed = prompt_response(&mut editor, &session, "/restore list");
    assert!(listed.contains("b.txt") && listed.contains("write_file"), "{listed}");
}

#[test]
fn truncated_answer_ends_with_max_tokens() {
    let world =
        World::new(r#"[{"chunks":[{"text":"cut of"},{"finish":"MAX_TOKENS"}]},{"text":"whole"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    for expected in ["max_tokens", "end_turn"] {
        let id = editor.prompt(&session, "go");
        assert_eq!(editor.answer(id)["result"]["stopReason"], expected);
    }
}

#[test]
fn statistics_and_history_of_a_session_are_complete() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"a.txt"}}]},
        {"calls":[{"name":"write_file","args":{"file_path":"b.txt","content":"new\n"}}]},
        {"text":"Done"}]"#,
    );
    std::fs::write(world.home.project().join("a.txt"), "x\n").expect("file");
    let mut editor = Editor::ready(&world, &["--approval-mode", "auto_edit"]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "go");
    editor.answer(id);
    let id = editor.prompt(&session, "/stats");
    editor.answer(id);
    let chunks = editor.updates("agent_message_chunk");
    let output = chunks.last().expect("a chunk")["content"]["text"].as_str().unwrap_or_default();
    assert!(output.contains("2 calls") && output.contains("requests"), "{output}");
    assert_eq!(editor.end().0, 0);

    let mut again = Editor::ready(&world, &[]);
    let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
    let loaded = again.call("session/load", params);
    assert_eq!(loaded["result"]["_meta"]["lastTurn"], "done");
    let calls: Vec<Value> = again.updates("tool_call").into_iter().cloned().collect();
    let kinds: Vec<&Value> = calls.iter().map(|call| &call["kind"]).collect();
    assert_eq!(kinds, ["read", "edit"]);
    let change = &calls[1]["content"][0];
    assert_eq!((&change["type"], &change["newText"]), (&json!("diff"), &json!("new\n")));
    assert!(change["oldText"].is_null(), "{change}");
    assert_eq!(calls[0]["locations"][0]["path"], json!(world.home.project().join("a.txt")));
}

#[test]
fn session_without_a_prompt_is_loaded_by_another_process() {
    let world = World::new(r#"[{"text":"first"}]"#);
    let mut one = Editor::ready(&world, &[]);
    let session = one.open(&world);
    one.end();
    let mut other = Editor::ready(&world, &[]);
    let listed = other.call("session/list", json!({"cwd": world.home.project()}));
    assert_eq!(listed["result"]["sessions"], json!([]), "it is not listed before it has a prompt");
    let load = |id: &str| json!({"sessionId": id, "cwd": world.home.project(), "mcpServers": []});
    assert_eq!(other.call("session/load", load("unknown"))["error"]["code"], -32602);
    let loaded = other.call("session/load", load(&session));
    assert!(loaded["result"]["modes"].is_object(), "{loaded}");
    let id = other.prompt(&session, "go");
    assert_eq!(other.answer(id)["result"]["stopReason"], "end_turn");
    let listed = other.call("session/list", json!({"cwd": world.home.project()}));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session));
}

#[test]
fn every_spelling_of_a_directory_is_the_same_project() {
    let world = World::new(r#"[{"text":"first"}]"#);
    let link = world.home.root().join("link");
    std::os::unix::fs::symlink(world.home.project(), &link).expect("a link");
    let mut editor = Editor::ready(&world, &[]);
    let opened = editor.call("session/new", json!({"cwd": link, "mcpServers": []}));
    let session = opened["result"]["sessionId"].as_str().expect("a session").to_owned();
    let id = editor.prompt(&session, "go");
    editor.answer(id);
    editor.call("session/close", json!({"sessionId": session}));
    let project = world.home.project().display().to_string();
    for cwd in [format!("{project}/"), format!("{project}/."), link.display().to_string()] {
        let listed = editor.call("session/list", json!({"cwd": cwd}));
        assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session), "{cwd}");
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        assert!(editor.call("session/load", params)["result"].is_object(), "{cwd}");
        editor.call("session/close", json!({"sessionId": session}));
    }
    assert!(world.run_ok(&["--list-sessions"]).stdout().contains(&session[..8]));
}

#[test]
fn prompt_cancelled_at_any_moment_ends_without_further_output() {
    let world = World::new(r#"[{"chunks":[{"gate":"held"}],"repeat":0}]"#);
    let mut editor = Editor::ready(&world, &[]);
    for round in 0..24 {
        let session = editor.open(&world);
        let id = editor.prompt(&session, "go");
        std::thread::sleep(std::time::Duration::from_micros(round * 150));
        editor.notify("session/cancel", json!({"sessionId": session}));
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
        let from = editor.seen.len();
        editor.call("session/close", json!({"sessionId": session}));
        let late: Vec<_> =
            editor.seen[from..].iter().filter(|it| it["method"] == "session/update").collect();
        assert_eq!(late, Vec::<&serde_json::Value>::new());
    }
}

#[test]
fn commands_change_mode_and_model() {
    let world = World::new(r#"[{"text":"first"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    for (line, output) in [
        ("/mode", "The approval mode is `default`."),
        ("/model gemini-2.5-flash", "The model is `gemini-2.5-flash`."),
        ("/mode plan", "The approval mode is `plan`."),
        ("/mode nonsense", "unknown or disabled"),
    ] {
        let id = editor.prompt(&session, line);
        assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
        let chunks = editor.updates("agent_message_chunk");
        let text = chunks.last().expect("a chunk")["content"]["text"].as_str().expect("text");
        assert!(text.contains(output), "{line}: {text}");
    }
    let id = editor.prompt(&session, "go");
    editor.answer(id);
    let requests = world.server.requests();
    assert!(requests[0].path.contains("gemini-2.5-flash"), "{}", requests[0].path);
}

#[test]
fn work_of_a_subagent_is_shown_while_it_runs() {
    let world = World::new(
        r#"[{"calls":[{"name":"invoke_agent","args":{"agent_name":"generalist","prompt":"look"}}]},
        {"calls":[{"name":"read_file","args":{"file_path":"a.txt"}}]},
        {"chunks":[{"gate":"held"},{"candidates":[{"content":{"role":"model","parts":[{"functionCall":
            {"name":"complete_task","args":{"result":{"response":"seen"}}}}]},"finishReason":"STOP"}]}]},
        {"text":"Done"}]"#,
    );
    std::fs::write(world.home.project().join("a.txt"), "x\n").expect("file");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "go");
    let updates = editor
        .wait_for_message(|it| it.to_string().contains("- ") && it.to_string().contains("a.txt"));
    let update = &updates["params"]["update"];
    assert_eq!(
        (&update["sessionUpdate"], &update["status"]),
        (&json!("tool_call_update"), &json!("in_progress"))
    );
    world.at_gate("held");
    world.server.open_gate("held");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
}

#[test]
fn mode_and_model_of_a_session_are_kept_by_another_process_and_by_a_fork() {
    let world = World::new(r#"[{"text":"first","repeat":0}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let params = |id: &str| json!({"sessionId": id, "cwd": world.home.project(), "mcpServers": []});
    let set_mode = |editor: &mut Editor, id: &str, mode: &str| {
        editor.call("session/set_mode", json!({"sessionId": id, "modeId": mode}));
    };
    set_mode(&mut editor, &session, "autoEdit");
    let model = json!({"sessionId": session, "modelId": "gemini-2.5-pro"});
    editor.call("session/set_model", model);
    let id = editor.prompt(&session, "go");
    editor.answer(id);
    // Also after the last prompt.
    set_mode(&mut editor, &session, "plan");
    let current = |answer: &Value| {
        let result = &answer["result"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&result["modes"]["currentModeId"]), text(&result["models"]["currentModelId"]))
    };
    let kept = ("plan".to_owned(), "gemini-2.5-pro".to_owned());
    assert_eq!(current(&editor.call("session/fork", params(&session))), kept);
    editor.end();
    let mut other = Editor::ready(&world, &[]);
    assert_eq!(current(&other.call("session/load", params(&session))), kept);
    let id = other.prompt(&session, "go on");
    other.answer(id);
    let requests = world.server.requests();
    let path = &requests.last().expect("a request").path;
    assert!(path.contains("gemini-2.5-pro"), "{path}");
    set_mode(&mut other, &session, "yolo");
    other.end();
    // Rules for modes are those of the later process.
    let settings = json!({"security": {"disableYoloMode": true}});
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let mut last = Editor::ready(&world, &[]);
    assert_eq!(current(&last.call("session/load", params(&session))).0, "default");
}
