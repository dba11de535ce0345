//! Commands in terminals of the client.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Editor;
use crate::support::World;

const COMMAND: &str = r#"[{"calls":[{"name":"run_shell_command","args":{"command":"touch made && echo from the editor"}}]},{"text":"Done"}]"#;

/// Starts a session of a client that offers terminals.
fn with_terminal(world: &World, args: &[&str]) -> (Editor, String) {
    let mut editor = Editor::start(world, args);
    let params = json!({"protocolVersion": 1, "clientCapabilities": {"terminal": true}});
    editor.call("initialize", params);
    let session = editor.open(world);
    (editor, session)
}

impl Editor {
    /// Answers terminal requests as an editor that runs nothing, until the prompt is finished.
    /// Returns the methods in order.
    fn serve_terminal(&mut self, prompt: u64, output: &str, code: u32) -> Vec<String> {
        let mut methods = Vec::new();
        loop {
            let message = self.next();
            let id = &message["id"];
            let result = match message["method"].as_str() {
                Some("session/request_permission") => {
                    json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}})
                }
                Some("terminal/create") => json!({"terminalId": "t-1"}),
                Some("terminal/wait_for_exit") => json!({"exitCode": code, "signal": null}),
                Some("terminal/output") => json!({"output": output, "truncated": false,
                    "exitStatus": {"exitCode": code, "signal": null}}),
                Some("terminal/release" | "terminal/kill") => json!({}),
                None if *id == json!(prompt) => return methods,
                _ => continue,
            };
            if let Some(name) =
                message["method"].as_str().and_then(|it| it.strip_prefix("terminal/"))
            {
                methods.push(name.to_owned());
            }
            self.write(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
        }
    }
}

fn last_body(world: &World) -> String {
    let requests = world.server.requests();
    String::from_utf8_lossy(&requests.last().expect("a request").body).into_owned()
}

#[test]
fn command_without_a_sandbox_runs_in_the_terminal_of_the_client() {
    let world = World::new(COMMAND);
    let settings = r#"{"security": {"toolSandboxing": false}}"#;
    world.home.write_home(".parallax/settings.json", settings).expect("settings");
    let (mut editor, session) = with_terminal(&world, &[]);
    let id = editor.prompt(&session, "run it");
    let methods = editor.serve_terminal(id, "seen by the editor\n", 3);
    assert_eq!(methods, ["create", "wait_for_exit", "output", "release"]);
    let created: Vec<&Value> =
        editor.seen.iter().filter(|it| it["method"] == "terminal/create").collect();
    let params = &created[0]["params"];
    assert_eq!(params["args"][0], "-c");
    assert!(params["args"][1].as_str().is_some_and(|it| it.contains("echo from the editor")));
    assert_eq!(params["cwd"], json!(world.home.project()));
    let permission_requests: Vec<&Value> =
        editor.seen.iter().filter(|it| it["method"] == "session/request_permission").collect();
    let title = permission_requests[0]["params"]["toolCall"]["title"].as_str().unwrap_or_default();
    assert!(title.contains("in a terminal of the editor"), "{title}");
    let done = editor.updates("tool_call_update").into_iter().next_back().expect("an update");
    assert_eq!(done["content"], json!([{"type": "terminal", "terminalId": "t-1"}]), "{done}");
    let body = last_body(&world);
    assert!(body.contains("seen by the editor") && body.contains("Exit Code: 3"), "{body}");
}

#[test]
fn confined_command_never_runs_in_the_terminal_of_the_client() {
    let world = World::new(COMMAND);
    let (mut editor, session) = with_terminal(&world, &[]);
    let id = editor.prompt(&session, "run it");
    let methods = editor.serve_terminal(id, "seen by the editor\n", 0);
    assert_eq!(methods, Vec::<String>::new());
    assert!(last_body(&world).contains("from the editor"));
}

#[test]
fn cancelled_command_is_killed_in_the_terminal() {
    let world = World::new(COMMAND);
    let settings = r#"{"security": {"toolSandboxing": false}}"#;
    world.home.write_home(".parallax/settings.json", settings).expect("settings");
    let (mut editor, session) = with_terminal(&world, &[]);
    let id = editor.prompt(&session, "run it");
    editor.answer_permission("proceed_once");
    let created = editor.wait_for_message(|it| it["method"] == "terminal/create");
    let answer = |id: &Value, result: Value| {
        json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
    };
    editor.write(&answer(&created["id"], json!({"terminalId": "t-2"})));
    editor.wait_for_message(|it| it["method"] == "terminal/wait_for_exit");
    editor.notify("session/cancel", json!({"sessionId": session}));
    let killed = editor.wait_for_message(|it| it["method"] == "terminal/kill");
    editor.write(&answer(&killed["id"], json!({})));
    let message = editor.wait_for_message(|it| it["method"] == "terminal/output");
    editor.write(&answer(&message["id"], json!({"output": "half", "truncated": false})));
    let released = editor.wait_for_message(|it| it["method"] == "terminal/release");
    editor.write(&answer(&released["id"], json!({})));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
}

/// Starts a command in a terminal and returns the prompt and the session.
fn started(world: &World) -> (Editor, String, u64) {
    let settings = r#"{"security": {"toolSandboxing": false}}"#;
    world.home.write_home(".parallax/settings.json", settings).expect("settings");
    let (mut editor, session) = with_terminal(world, &[]);
    let id = editor.prompt(&session, "run it");
    editor.answer_permission("proceed_once");
    (editor, session, id)
}

/// Answers requests of a terminal until the client falls silent.
fn serve_until(editor: &mut Editor, silent: &str) {
    loop {
        let message = editor.wait_for_message(|it| it["method"].to_string().contains("terminal/"));
        let result = match message["method"].as_str().unwrap_or_default() {
            method if method == silent => return,
            "terminal/create" => json!({"terminalId": "t-3"}),
            "terminal/output" => json!({"output": "all", "truncated": false}),
            _ => json!({"exitCode": 0}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        editor.write(&answer.to_string());
    }
}

#[test]
fn turn_continues_when_the_client_does_not_release_the_terminal() {
    let world = World::new(COMMAND);
    let (mut editor, _, id) = started(&world);
    let started_at = Instant::now();
    serve_until(&mut editor, "terminal/release");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert!(started_at.elapsed() < Duration::from_secs(8), "{:?}", started_at.elapsed());
}

#[test]
fn cancelled_prompt_ends_at_once_even_if_the_client_does_not_answer() {
    for silent in ["terminal/create", "terminal/output"] {
        let world = World::new(COMMAND);
        let (mut editor, session, id) = started(&world);
        serve_until(&mut editor, silent);
        let started_at = Instant::now();
        editor.notify("session/cancel", json!({"sessionId": session}));
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled", "{silent}");
        assert!(
            started_at.elapsed() < Duration::from_millis(1500),
            "{silent}: {:?}",
            started_at.elapsed()
        );
    }
    let world = World::new(COMMAND);
    let (mut editor, session, id) = started(&world);
    serve_until(&mut editor, "terminal/wait_for_exit");
    let started_at = Instant::now();
    editor.notify("session/cancel", json!({"sessionId": session}));
    editor.wait_for_message(|it| it["method"] == "terminal/kill");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    assert!(started_at.elapsed() < Duration::from_millis(1500), "{:?}", started_at.elapsed());
}
