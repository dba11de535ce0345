//! Commands of editors that change what an open session uses.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Editor;
use crate::mcp::{set, stdio};
use crate::support::{World, wait_until};

/// Waits for the answer to a prompt, and returns the agent's last text.
fn reply(editor: &mut Editor, id: u64) -> String {
    let answer = editor.answer(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let chunks = editor.updates("agent_message_chunk");
    chunks.last().expect("a chunk")["content"]["text"].as_str().unwrap_or_default().to_owned()
}

fn run(editor: &mut Editor, session: &str, line: &str) -> String {
    let id = editor.prompt(session, line);
    reply(editor, id)
}

/// Returns the last request to the model, as text.
fn last_request(world: &World) -> String {
    let requests = world.server.requests();
    String::from_utf8_lossy(&requests.last().expect("a request").body).into_owned()
}

#[test]
fn context_files_are_reloaded_in_an_open_session() {
    let world = World::new(r#"[{"text":"one"},{"text":"two"}]"#);
    world.home.write("GEMINI.md", "OLD INSTRUCTION").expect("written");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    // Once without and once with a prompt, because only then there is a stored session.
    world.home.write("GEMINI.md", "FIRST INSTRUCTION").expect("written");
    let text = run(&mut editor, &session, "/memory refresh");
    assert!(text.contains("Reloaded") && text.contains("GEMINI.md"), "{text}");
    assert_eq!(run(&mut editor, &session, "question one"), "one");
    let body = last_request(&world);
    assert!(body.contains("FIRST INSTRUCTION") && !body.contains("OLD INSTRUCTION"), "{body}");
    world.home.write("GEMINI.md", "SECOND INSTRUCTION").expect("written");
    let params = json!({"sessionId": session, "modeId": "autoEdit"});
    editor.call("session/set_mode", params);
    run(&mut editor, &session, "$memory reload");
    assert_eq!(run(&mut editor, &session, "question two"), "two");
    let body = last_request(&world);
    assert!(body.contains("SECOND INSTRUCTION") && body.contains("question one"), "{body}");
    let text = run(&mut editor, &session, "$mode");
    assert!(text.contains("autoEdit"), "{text}");
    world.server.assert_clean();
}

#[test]
fn session_approvals_survive_reopening() {
    let touch = |file: &str| {
        let args = json!({"command": format!("touch {file}")});
        json!({"calls": [{"name": "run_shell_command", "args": args}]})
    };
    let done = json!({"text": "done"});
    let script = json!([touch("one"), done, touch("two"), done, touch("three"), done]);
    let world = World::new(&script.to_string());
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "go");
    editor.answer_permission("proceed_always");
    reply(&mut editor, id);
    // Twice, because the second time it is the reopened session that passes them on.
    for file in ["two", "three"] {
        run(&mut editor, &session, "/memory refresh");
        run(&mut editor, &session, "go");
        assert!(world.home.project().join(file).exists(), "{file}");
    }
}

#[test]
fn other_process_cannot_load_a_session_during_reopening() {
    let world = World::new(r#"[{"text":"one"},{"text":"two"}]"#);
    // It does not end by itself, so the session stays closed for a moment.
    set(&world, &json!({"mcpServers": {"slow": stdio(&world, "stubborn")}}));
    let mut owner = Editor::ready(&world, &["-y"]);
    let session = owner.open(&world);
    assert_eq!(run(&mut owner, &session, "question one"), "one");
    let mut other = Editor::ready(&world, &[]);
    let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
    let is_reloaded = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attempts = scope.spawn(|| {
            while !is_reloaded.load(Ordering::Relaxed) {
                let answer = other.call("session/load", params.clone());
                let message = answer["error"]["message"].as_str().unwrap_or_default();
                assert!(message.contains("in use by another process"), "{answer}");
            }
        });
        let id = owner.prompt(&session, "/memory refresh");
        let answer = owner.answer(id);
        is_reloaded.store(true, Ordering::Relaxed);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        attempts.join().expect("refused each time");
    });
    assert_eq!(run(&mut owner, &session, "question two"), "two");
    owner.call("session/close", json!({"sessionId": session}));
    let answer = other.call("session/load", params);
    assert!(answer["result"].is_object(), "{answer}");
}

#[test]
fn fact_is_saved_and_used_at_once() {
    let world = World::new(r#"[{"text":"one"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let text = run(&mut editor, &session, "/memory add The port is 8099");
    assert!(text.contains("GEMINI.md"), "{text}");
    run(&mut editor, &session, "question");
    assert!(last_request(&world).contains("The port is 8099"));
    let text = run(&mut editor, &session, "/memory add");
    assert!(text.contains("/memory add TEXT"), "{text}");
}

#[test]
fn unsaved_session_is_not_reopened() {
    let world = World::new(r#"[{"text":"one"},{"text":"two"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    run(&mut editor, &session, "question one");
    let sessions = world.home.parallax().join("sessions");
    std::fs::rename(&sessions, world.home.parallax().join("moved")).expect("moved");
    let text = run(&mut editor, &session, "/memory refresh");
    assert!(text.contains("not saved completely"), "{text}");
    assert_eq!(run(&mut editor, &session, "question two"), "two");
    assert!(last_request(&world).contains("question one"));
}

#[test]
fn invalid_settings_keep_the_session_open() {
    let world = World::new(r#"[{"text":"one"},{"text":"two"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    run(&mut editor, &session, "question one");
    world.home.write_home(".parallax/settings.json", "{\"model\": ").expect("written");
    let id = editor.prompt(&session, "/memory refresh");
    let answer = editor.answer(id);
    assert!(answer.to_string().contains("settings.json"), "{answer}");
    assert_eq!(run(&mut editor, &session, "question two"), "two");
}

#[test]
fn extension_is_installed_with_consent_and_its_commands_are_announced() {
    let world = World::new(r#"[{"text":"one"}]"#);
    let manifest = json!({"name": "ext", "version": "1.0.0"}).to_string();
    world.home.write("ext/gemini-extension.json", &manifest).expect("written");
    world.home.write("ext/commands/hello.toml", "prompt = 'Say hello'").expect("written");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let installed = || world.home.parallax().join("extensions/ext").exists();

    let id = editor.prompt(&session, "/extensions install ./ext --consent");
    let request = editor.answer_permission("cancel");
    let asked = request["params"]["toolCall"].to_string();
    assert!(asked.contains("third-party code") && asked.contains("hello"), "{asked}");
    assert!(reply(&mut editor, id).contains("Nothing was changed") && !installed());

    let id = editor.prompt(&session, "/extensions install ./ext");
    let request = editor.wait_for_message(|it| it["method"] == "session/request_permission");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
    let late = json!({"jsonrpc": "2.0", "id": request["id"], "result": outcome});
    editor.write(&late.to_string());
    assert!(!installed(), "the user cancelled");

    let id = editor.prompt(&session, "/extensions install ./ext");
    editor.answer_permission("proceed_once");
    let text = reply(&mut editor, id);
    assert!(text.contains("installed successfully") && text.contains("ext 1.0.0"), "{text}");
    let announced = |editor: &Editor| {
        let updates = editor.updates("available_commands_update");
        let last: Value = updates.last().map(|it| (*it).clone()).unwrap_or_default();
        last.to_string().contains("\"hello\"")
    };
    editor.wait_for_message(|it| it.to_string().contains("\"hello\""));
    assert!(announced(&editor));

    let text = run(&mut editor, &session, "/extensions disable ext workspace");
    assert!(text.contains("disabled for this project"), "{text}");
    let text = run(&mut editor, &session, "/extensions enable ext");
    assert!(text.contains("enabled everywhere"), "{text}");
    let text = run(&mut editor, &session, "/extensions enable nosuch");
    assert!(text.contains("nosuch"), "{text}");
    let text = run(&mut editor, &session, "/extensions uninstall ext");
    assert!(text.contains("uninstalled"), "{text}");
    wait_until("the extension is removed", || !installed());
    assert!(run(&mut editor, &session, "/extensions explore").contains("https://"));
}

#[test]
fn change_is_restored_and_reviewed_again() {
    let world = World::new(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"b.txt","content":"new\n"}}]},
        {"text":"Done"},{"text":"Done again"}]"#,
    );
    let settings = json!({"general": {"checkpointing": {"enabled": true}}});
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "write it");
    editor.answer_permission("proceed_once");
    assert_eq!(reply(&mut editor, id), "Done");
    let listed = run(&mut editor, &session, "/restore list");
    let name = listed.split(' ').next().expect("a name").to_owned();
    let text = run(&mut editor, &session, "/restore nosuch");
    assert!(text.contains("Unknown change"), "{text}");
    let id = editor.prompt(&session, &format!("/restore {name}"));
    let file = world.home.project().join("b.txt");
    editor.wait_for_message(|it| it["method"] == "session/request_permission");
    assert!(!file.exists(), "the change is reverted");
    let request = editor.seen.last().expect("the request").clone();
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
    editor.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": outcome}).to_string());
    assert_eq!(reply(&mut editor, id), "Done again");
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "new\n");
    // The journal has fewer turns than there were, but nothing is lost.
    let text = run(&mut editor, &session, "/memory refresh");
    assert!(text.contains("Reloaded"), "{text}");
}

#[test]
fn restore_that_reverts_no_file_does_not_claim_to() {
    let world = World::new(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"b.txt","content":"new\n"}}]},
        {"text":"Done"},{"text":"Done again"}]"#,
    );
    let settings = json!({"general": {"checkpointing": {"enabled": true}}});
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "write it");
    editor.answer_permission("proceed_once");
    reply(&mut editor, id);
    let listed = run(&mut editor, &session, "/restore list");
    world.home.write("b.txt", "work of the user").expect("written");
    let name = listed.split(' ').next().expect("a name");
    assert_eq!(run(&mut editor, &session, &format!("/restore {name}")), "Done again");
    let texts = editor.updates("agent_message_chunk");
    let text = texts[texts.len() - 2]["content"]["text"].to_string();
    assert!(text.contains("No file was reverted") && text.contains("skipped"), "{text}");
    assert!(!text.contains("Reverted to"), "{text}");
}

/// Waits until the peer of a connection closes it.
fn wait_until_closed(mut connection: std::net::TcpStream) {
    use std::io::Read as _;
    let limit = Some(std::time::Duration::from_secs(10));
    connection.set_read_timeout(limit).expect("a limit");
    let mut buffer = [0; 4096];
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the connection stays open: {error}"),
        }
    }
}

#[test]
fn cancelled_download_ends_git_and_so_does_the_end_of_the_program() {
    let world = World::new("[]");
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let install = format!("/extensions install http://{address}/ext.git");
    let id = editor.prompt(&session, &install);
    let (connection, _) = server.accept().expect("git connects");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    wait_until_closed(connection);
    editor.prompt(&session, &install);
    let (connection, _) = server.accept().expect("git connects");
    assert_eq!(editor.end().0, 0);
    wait_until_closed(connection);
}

#[test]
fn leftovers_of_an_interrupted_installation_are_removed_by_the_next_one() {
    let world = World::new("[]");
    let manifest = json!({"name": "ext", "version": "1.0.0"}).to_string();
    world.home.write("ext/gemini-extension.json", &manifest).expect("written");
    let remains = world.home.parallax().join("extensions/.staging-dead");
    std::fs::create_dir_all(&remains).expect("created");
    std::fs::write(remains.join(".held"), "").expect("written");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "/extensions install ./ext");
    editor.answer_permission("proceed_once");
    assert!(reply(&mut editor, id).contains("ext 1.0.0"));
    assert!(!remains.exists());
    let text = run(&mut editor, &session, "/extensions disable ext --scope=workspace");
    assert!(text.contains("disabled for this project"), "{text}");
}

#[test]
fn unsupported_argument_is_rejected_with_the_reason() {
    let world = World::new("[]");
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    for line in ["/memory refresh now", "/mcp reload github", "/extensions restart good"] {
        let text = run(&mut editor, &session, line);
        assert!(text.contains("takes no arguments"), "{line}: {text}");
    }
    let text = run(&mut editor, &session, "/extensions frobnicate");
    assert!(text.contains("has no `frobnicate`") && text.contains("install"), "{text}");
}

#[test]
fn session_continues_if_a_directory_is_gone_when_it_is_reloaded() {
    let world = World::new(r#"[{"text":"one"},{"text":"two"}]"#);
    let other = world.home.root().join("other");
    std::fs::create_dir(&other).expect("created");
    let mut editor = Editor::ready(&world, &[]);
    let params = json!({"cwd": world.home.project(), "mcpServers": [],
        "additionalDirectories": [other]});
    let answer = editor.call("session/new", params);
    let session = answer["result"]["sessionId"].as_str().expect("an id").to_owned();
    assert_eq!(run(&mut editor, &session, "question one"), "one");
    std::fs::remove_dir(&other).expect("removed");
    let text = run(&mut editor, &session, "/memory refresh");
    assert!(text.contains("no longer exists"), "{text}");
    assert_eq!(run(&mut editor, &session, "question two"), "two");
}
