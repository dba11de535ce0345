//! Shell commands of custom commands: the editor's user approves them.

use serde_json::json;

use super::Editor;
use crate::support::World;

/// Creates a world with a custom command that creates `made`.
fn world_with_command(script: &str) -> World {
    let world = World::new(script);
    let command = "prompt = 'Look: !{touch made; echo created}'";
    world.home.write_home(".parallax/commands/make.toml", command).expect("written");
    world
}

#[test]
fn shell_command_of_a_custom_command_is_approved_by_the_editor() {
    let world = world_with_command(r#"[{"text":"one"},{"text":"two"}]"#);
    let made = world.home.project().join("made");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "/make");
    let refused = editor.answer_permission("cancel");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert!(editor.updates("agent_message_chunk").iter().any(|it| {
        it["content"]["text"].as_str().is_some_and(|text| text.contains("was not approved"))
    }));
    assert!(!made.exists());

    let id = editor.prompt(&session, "/make");
    let allowed = editor.answer_permission("proceed_once");
    assert!(allowed["params"]["toolCall"].to_string().contains("touch made; echo created"));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert!(made.exists());
    let ids = [&refused, &allowed].map(|it| it["params"]["toolCall"]["toolCallId"].clone());
    assert_ne!(ids[0], ids[1], "each request has its own id");
    let statuses: Vec<_> = editor
        .updates("tool_call_update")
        .iter()
        .map(|it| (it["toolCallId"].clone(), it["status"].clone()))
        .collect();
    let [first, second] = ids;
    assert_eq!(statuses, [(first, json!("failed")), (second, json!("completed"))]);
    let sent = String::from_utf8_lossy(&world.server.requests()[0].body).into_owned();
    assert!(sent.contains("Look: created"), "{sent}");

    // In yolo mode, also right after the mode change, nothing is asked.
    let mode = json!({"sessionId": session, "modeId": "yolo"});
    editor.send("session/set_mode", mode);
    std::fs::remove_file(&made).expect("removed");
    let id = editor.prompt(&session, "/make");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert!(made.exists());
    let asked = editor.seen.iter().filter(|it| it["method"] == "session/request_permission");
    assert_eq!(asked.count(), 2);
}

#[test]
fn cancelled_approval_of_a_custom_command_is_resolved_and_runs_nothing() {
    let world = world_with_command(r#"[{"text":"one"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "/make");
    let request = editor.wait_for_message(|it| it["method"] == "session/request_permission");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    let update = editor.updates("tool_call_update").pop().cloned().expect("an update");
    assert_eq!(update["toolCallId"], request["params"]["toolCall"]["toolCallId"]);
    assert_eq!(update["status"], "failed");
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
    let late = json!({"jsonrpc": "2.0", "id": request["id"], "result": outcome});
    editor.write(&late.to_string());
    let id = editor.prompt(&session, "hello");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert!(!world.home.project().join("made").exists());
}
