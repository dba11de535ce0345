//! ACP: editors as clients over stdin and stdout.

mod authentication;
mod command_approvals;
mod management;
mod sessions;
mod terminal;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::World;

const LIMIT: Duration = Duration::from_secs(20);
const WRITE: &str = r#"[{"calls":[{"name":"write_file","args":{"file_path":"b.txt","content":"hello\n"}}]},{"text":"Done"}]"#;
const SLEEP: &str = r#"[{"calls":[{"name":"run_shell_command","args":{"command":"echo begun; touch x; sleep 67"}}]},{"text":"over"}]"#;

/// An ACP client of the program.
pub(crate) struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    next_id: u64,
    /// All received messages, in order.
    seen: Vec<Value>,
}

impl Editor {
    fn start(world: &World, args: &[&str]) -> Self {
        Self::spawn(world.command(&[&["--acp"], args].concat()))
    }

    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("start");
        let stdout = child.stdout.take().expect("stdout");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).expect("only JSON on stdout");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, next_id: 0, seen: Vec::new() }
    }

    /// Starts a client and initializes it.
    pub(crate) fn ready(world: &World, args: &[&str]) -> Self {
        let mut editor = Self::start(world, args);
        let started_at = Instant::now();
        let answer = editor.call("initialize", json!({"protocolVersion": 1}));
        assert_eq!(answer["result"]["protocolVersion"], 1);
        assert!(
            started_at.elapsed() < Duration::from_secs(2),
            "no settings are read before the answer"
        );
        editor
    }

    fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open stdin");
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).expect("stdin");
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn next(&mut self) -> Value {
        let message = self.lines.recv_timeout(LIMIT).expect("a message in time");
        self.seen.push(message.clone());
        message
    }

    pub(crate) fn wait_for_message(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next();
            if holds(&message) {
                return message;
            }
        }
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.wait_for_message(|it| it["id"] == json!(id) && it.get("method").is_none())
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub(crate) fn open(&mut self, world: &World) -> String {
        let params = json!({"cwd": world.home.project(), "mcpServers": []});
        let answer = self.call("session/new", params);
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Waits for a permission request and answers it.
    fn answer_permission(&mut self, option: &str) -> Value {
        let request = self.wait_for_message(|it| it["method"] == "session/request_permission");
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        let id = &request["id"];
        // Some libraries send the field that does not apply as null.
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": outcome, "error": null});
        self.write(&answer.to_string());
        request
    }

    fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.seen.iter().map(|it| &it["params"]["update"]);
        updates.filter(|it| it["sessionUpdate"] == kind).collect()
    }

    /// Closes stdin and waits until the program ends.
    pub(crate) fn end(mut self) -> (i32, Duration) {
        drop(self.stdin.take());
        let started_at = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("status") {
                return (status.code().unwrap_or(-1), started_at.elapsed());
            }
            assert!(started_at.elapsed() < LIMIT, "it goes on after the end of its input");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn edit_is_approved_and_shown_as_a_diff() {
    let world = World::new(WRITE);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "write it");
    let request = editor.answer_permission("proceed_once");
    let call = &request["params"]["toolCall"];
    let file = world.home.project().join("b.txt");
    assert_eq!(call["content"][0]["type"], "diff");
    assert_eq!(call["content"][0]["path"], json!(file));
    assert_eq!(call["content"][0]["newText"], "hello\n");
    let kinds: Vec<&Value> = request["params"]["options"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|option| &option["kind"])
        .collect();
    assert_eq!(kinds, ["allow_always", "allow_once", "reject_once"]);
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "hello\n");
    let output = editor.updates("tool_call_update").into_iter().next_back().expect("an update");
    assert_eq!(
        (&output["status"], &output["content"][0]["type"]),
        (&json!("completed"), &json!("diff"))
    );
    assert_eq!(editor.updates("tool_call").len(), 1);
}

#[test]
fn rejected_edit_changes_nothing() {
    let world = World::new(WRITE);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "write it");
    // An option that was not offered also denies the request.
    editor.answer_permission("proceed_always_server");
    editor.answer(id);
    assert!(!world.home.project().join("b.txt").exists());
    let output = editor.updates("tool_call_update").into_iter().next_back().expect("an update");
    assert_eq!(output["status"], "failed");
}

#[test]
fn cancelled_prompt_ends_its_command() {
    let world = World::new(SLEEP);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "run");
    editor.answer_permission("proceed_once");
    editor.wait_for_message(|it| it.to_string().contains("begun\\n"));
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    // The session continues.
    let id = editor.prompt(&session, "more");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    world.server.assert_clean();
}

#[test]
fn end_of_input_ends_the_program_while_a_prompt_runs() {
    let world = World::new(SLEEP);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    editor.prompt(&session, "run");
    editor.answer_permission("proceed_once");
    editor.wait_for_message(|it| it.to_string().contains("in_progress"));
    let (code, time) = editor.end();
    assert_eq!(code, 0);
    assert!(time < Duration::from_secs(4), "{time:?}");
}

#[test]
fn session_is_loaded_by_another_process() {
    let world = World::new(r#"[{"text":"first answer"},{"text":"second answer"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "first prompt");
    editor.answer(id);
    editor.child.kill().expect("kill");
    drop(editor);
    let mut editor = Editor::ready(&world, &[]);
    let listed = editor.call("session/list", json!({"cwd": world.home.project()}));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session));
    let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
    let loaded = editor.call("session/load", params.clone());
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "default");
    let text = |update: &&Value| update["content"]["text"].clone();
    let users: Vec<Value> = editor.updates("user_message_chunk").iter().map(text).collect();
    let answers: Vec<Value> = editor.updates("agent_message_chunk").iter().map(text).collect();
    assert_eq!((users, answers), (vec![json!("first prompt")], vec![json!("first answer")]));
    let again = editor.call("session/load", params);
    assert_eq!(again["error"]["code"], -32602);
    let id = editor.prompt(&session, "second prompt");
    editor.answer(id);
    let requests = world.server.requests();
    let body = String::from_utf8_lossy(&requests.last().expect("a request").body).into_owned();
    assert!(body.contains("first answer") && body.contains("second prompt"));
}

#[test]
fn malformed_messages_are_answered_and_change_nothing() {
    let world = World::new(r#"[{"text":"fine"}]"#);
    let mut editor = Editor::start(&world, &[]);
    let early = editor.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!(early["error"]["code"], -32600);
    editor.call("initialize", json!({"protocolVersion": 1}));
    for (line, code) in [("{broken", -32700), ("[]", -32600), ("\u{0}", -32700)] {
        editor.write(line);
        let answer = editor.next();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)));
    }
    assert_eq!(editor.call("nope", json!({}))["error"]["code"], -32601);
    let relative = editor.call("session/new", json!({"cwd": "x", "mcpServers": []}));
    assert_eq!(relative["error"]["code"], -32602);
    let session = editor.open(&world);
    for params in [
        json!({"sessionId": "x", "prompt": []}),
        json!({"sessionId": 1, "prompt": []}),
        json!({"sessionId": session, "prompt": "x"}),
        json!({"sessionId": session, "prompt": []}),
    ] {
        assert_eq!(editor.call("session/prompt", params)["error"]["code"], -32602);
    }
    // More than any model accepts.
    let id = editor.prompt(&session, &"x".repeat(10 * 1024 * 1024));
    assert_eq!(editor.answer(id)["id"], json!(id));
    let id = editor.prompt(&session, "short");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert_eq!(editor.end().0, 0);
}

#[test]
fn modes_and_models_are_set_and_disabled_modes_are_not_offered() {
    let world = World::new(WRITE);
    let settings = json!({"security": {"disableYoloMode": true}});
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let set = |mode: &str| json!({"sessionId": session, "modeId": mode});
    assert_eq!(editor.call("session/set_mode", set("yolo"))["error"]["code"], -32602);
    assert_eq!(editor.call("session/set_mode", set("autoEdit"))["result"], json!({}));
    let option = json!({"sessionId": session, "configId": "model", "value": "gemini-2.5-pro"});
    let options = editor.call("session/set_config_option", option);
    assert_eq!(options["result"]["configOptions"][1]["currentValue"], "gemini-2.5-pro");
    // This mode sends no permission requests.
    let id = editor.prompt(&session, "write it");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert!(world.home.project().join("b.txt").exists());
    assert_eq!(editor.updates("current_mode_update").len(), 1);
}

#[test]
fn commands_are_answered_without_the_model() {
    let world = World::new("[]");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    for (command, expected) in [("/about", "version"), ("/nonsense", "`/nonsense`")] {
        let id = editor.prompt(&session, command);
        assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
        let chunks = editor.updates("agent_message_chunk");
        let last = chunks.last().expect("a chunk");
        assert!(last["content"]["text"].as_str().expect("text").contains(expected), "{last}");
    }
    assert!(world.server.requests().is_empty());
}

/// Starts a session of a client that offers its file system.
fn with_files(world: &World) -> (Editor, String) {
    let mut editor = Editor::start(world, &[]);
    let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    editor.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
    let session = editor.open(world);
    (editor, session)
}

impl Editor {
    /// Answers file requests until the prompt is finished; `buffer` is the content of its only open
    /// file. Returns the written files.
    fn serve_files(&mut self, prompt: u64, buffer: Option<&str>) -> Vec<(String, String)> {
        let mut written = Vec::new();
        loop {
            let message = self.next();
            let (id, path) = (&message["id"], &message["params"]["path"]);
            let result = match message["method"].as_str() {
                Some("fs/read_text_file") => buffer.map(|text| json!({"content": text})),
                Some("fs/write_text_file") => {
                    let content = message["params"]["content"].as_str().expect("content");
                    let path = path.as_str().expect("a path");
                    std::fs::write(path, content).expect("the client writes");
                    written.push((path.to_owned(), content.to_owned()));
                    Some(json!({}))
                }
                Some("session/request_permission") => {
                    Some(json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}}))
                }
                None if *id == json!(prompt) => return written,
                _ => continue,
            };
            let answer = match result {
                Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                None => json!({"jsonrpc": "2.0", "id": id, "error":
                    {"code": -32002, "message": "Resource not found"}}),
            };
            self.write(&answer.to_string());
        }
    }
}

#[test]
fn new_file_is_written_through_the_client() {
    let world = World::new(WRITE);
    let (mut editor, session) = with_files(&world);
    let id = editor.prompt(&session, "write it");
    let written = editor.serve_files(id, None);
    let file = world.home.project().join("b.txt").display().to_string();
    assert_eq!(written, [(file, "hello\n".to_owned())]);
    let output = editor.updates("tool_call_update").into_iter().next_back().expect("an update");
    assert_eq!(output["status"], "completed", "{output}");
}

#[test]
fn unsaved_text_is_read_and_edited() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"a.txt"}}]},
        {"calls":[{"name":"replace","args":{"file_path":"a.txt","old_string":"unsaved","new_string":"changed"}}]},
        {"text":"Done"}]"#,
    );
    std::fs::write(world.home.project().join("a.txt"), "saved\n").expect("file");
    let (mut editor, session) = with_files(&world);
    let id = editor.prompt(&session, "edit it");
    let written = editor.serve_files(id, Some("unsaved line\n"));
    let requests = world.server.requests();
    let body = String::from_utf8_lossy(&requests[1].body).into_owned();
    assert!(body.contains("unsaved line"), "the model reads the text of the editor");
    assert_eq!(written.first().map(|(_, text)| text.as_str()), Some("changed line\n"));
}

#[test]
fn file_that_only_the_client_has_is_read() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"new.txt"}}]},{"text":"Done"}]"#,
    );
    let (mut editor, session) = with_files(&world);
    let id = editor.prompt(&session, "read it");
    editor.serve_files(id, Some("never saved\n"));
    let body = String::from_utf8_lossy(&world.server.requests()[1].body).into_owned();
    assert!(body.contains("never saved"), "{body}");
}

#[test]
fn media_of_a_prompt_is_checked() {
    let world = World::new(r#"[{"text":"Done"}]"#);
    let (mut editor, session) = with_files(&world);
    for data in ["!!!", "aGVsbG8=", ""] {
        let block = json!({"type": "image", "mimeType": "image/png", "data": data});
        let id = editor.send("session/prompt", json!({"sessionId": session, "prompt": [block]}));
        assert_eq!(editor.answer(id)["error"]["code"], -32602, "{data}");
    }
    // The content determines the type.
    let block =
        json!({"type": "image", "mimeType": "evil\n/x", "data": "iVBORw0KGgoAAAANSUhEUg=="});
    let id = editor.send("session/prompt", json!({"sessionId": session, "prompt": [block]}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    let body = String::from_utf8_lossy(&world.server.requests()[0].body).into_owned();
    assert!(body.contains("image/png") && !body.contains("evil"), "{body}");
    let id = editor.prompt(&session, "$about");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    assert_eq!(world.server.requests().len(), 1, "a command is not sent to the model");
}

#[test]
fn large_unsaved_text_is_read() {
    for (saved, unsaved) in [(10, 20_000), (20_000, 10), (20_000, 20_000)] {
        let world = World::new(
            r#"[{"calls":[{"name":"read_file","args":{"file_path":"a.txt"}}]},{"text":"Done"}]"#,
        );
        std::fs::write(world.home.project().join("a.txt"), "saved line\n".repeat(saved))
            .expect("file");
        let (mut editor, session) = with_files(&world);
        let id = editor.prompt(&session, "read it");
        editor.serve_files(id, Some(&"unsaved line\n".repeat(unsaved)));
        let requests = world.server.requests();
        let body = String::from_utf8_lossy(&requests[1].body).into_owned();
        assert!(body.contains("unsaved line") && !body.contains("nsaved line\\nsaved"), "{saved}");
    }
}

#[test]
fn unsaved_changes_are_reported_if_the_client_cannot_write() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"a.txt"}}]},
        {"calls":[{"name":"replace","args":{"file_path":"a.txt","old_string":"unsaved","new_string":"changed"}}]},
        {"text":"Done"}]"#,
    );
    std::fs::write(world.home.project().join("a.txt"), "saved\n").expect("file");
    let mut editor = Editor::start(&world, &[]);
    let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": false}});
    editor.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
    let session = editor.open(&world);
    let id = editor.prompt(&session, "edit it");
    editor.serve_files(id, Some("unsaved line\n"));
    let body = String::from_utf8_lossy(&world.server.requests()[2].body).into_owned();
    assert!(body.contains("unsaved changes in the editor"), "{body}");
    assert_eq!(world.read("a.txt"), "saved\n");
}

#[test]
fn prompt_that_waits_for_an_unresponsive_client_can_be_cancelled() {
    let world = World::new(WRITE);
    let (mut editor, session) = with_files(&world);
    let id = editor.prompt(&session, "write it");
    editor.wait_for_message(|it| it["method"] == "fs/read_text_file");
    let started_at = Instant::now();
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    assert!(started_at.elapsed() < Duration::from_secs(5), "{:?}", started_at.elapsed());
    assert!(!world.home.project().join("b.txt").exists());
}

#[test]
fn file_rejected_by_the_client_is_neither_read_nor_overwritten() {
    let world = World::new(
        r#"[{"calls":[{"name":"replace","args":{"file_path":"a.txt","old_string":"saved","new_string":"changed"}}]},
        {"text":"Done"}]"#,
    );
    let file = world.home.project().join("a.txt");
    std::fs::write(&file, "saved\n").expect("file");
    let (mut editor, session) = with_files(&world);
    let id = editor.prompt(&session, "edit it");
    let request = editor.wait_for_message(|it| it["method"] == "fs/read_text_file");
    let error = json!({"code": -32000, "message": "Permission denied"});
    let answer = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
    editor.write(&answer.to_string());
    editor.serve_files(id, Some("saved\n"));
    let requests = world.server.requests();
    let body = String::from_utf8_lossy(&requests[1].body).into_owned();
    assert!(body.contains("Permission denied"), "{body}");
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "saved\n");
}

#[test]
fn byte_order_mark_of_the_client_does_not_prevent_an_edit() {
    let world = World::new(
        r#"[{"calls":[{"name":"replace","args":{"file_path":"a.txt","old_string":"unsaved","new_string":"changed"}}]},
        {"text":"Done"}]"#,
    );
    std::fs::write(world.home.project().join("a.txt"), "saved\n").expect("file");
    let (mut editor, session) = with_files(&world);
    let id = editor.prompt(&session, "edit it");
    let written = editor.serve_files(id, Some("\u{feff}unsaved line\n"));
    assert_eq!(written.first().map(|(_, text)| text.as_str()), Some("changed line\n"));
}
