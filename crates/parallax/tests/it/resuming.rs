//! Resuming a session, also from a place other than its end.

use serde_json::json;

use crate::support::{Conversation, World, raw_contents};

/// A turn that fails after its call has run, and the replies after it.
const FAILS: &str = r#"[{"calls":[{"name":"list_directory","args":{"dir_path":"."}}]},
    {"status":400,"error":{"code":400,"message":"not now","status":"INVALID_ARGUMENT"}},
    {"status":400,"error":{"code":400,"message":"not now","status":"INVALID_ARGUMENT"}},
    {"text":"gone on"}]"#;

#[test]
fn client_resumes_an_interrupted_turn() {
    let world = World::new(FAILS);
    assert_eq!(world.run(&["-p", "look", "--session-id", "cut"]).code(), 1);
    let mut conversation = Conversation::start(&world, &["-r", "cut"]);
    conversation.send(&json!({"type": "continue"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(raw_contents(&world.server.requests()[3]).len(), 3, "no prompt was added");
    // There is nothing left to continue; the conversation can still end.
    conversation.send(&json!({"type": "continue"}));
    let output = conversation.next("error");
    assert!(output["message"].as_str().is_some_and(|it| it.contains("was not interrupted")));
    assert_eq!(conversation.end(), Some(0));
}

#[test]
fn fork_before_a_prompt_keeps_the_original() {
    let world = World::new(r#"[{"text":"a"},{"text":"b"},{"text":"c"}]"#);
    world.run_ok(&["-p", "first one", "--session-id", "whole"]);
    world.run_ok(&["-p", "second one", "-r", "whole"]);
    // The server would miss the contents that the copy omits.
    let copy = world.run(&["-p", "another second", "-r", "whole", "--at", "2"]);
    assert_eq!(copy.code(), 0, "{}", copy.err());
    let sent = raw_contents(&world.server.requests()[2]).concat();
    assert!(sent.contains("first one") && sent.contains("another second"), "{sent}");
    assert!(!sent.contains("second one"), "{sent}");
    let stdout = world.run(&["sessions", "show", "whole"]).stdout();
    assert!(stdout.contains("second one") && !stdout.contains("another"), "{stdout}");
    let output = world.run(&["-p", "x", "-r", "whole", "--at", "7"]);
    assert_eq!(output.code(), 42);
    assert!(output.err().contains("unknown prompt 7: the last one is 2"), "{}", output.err());
    let output = world.run(&["-p", "x", "--at", "1"]);
    assert_ne!(output.code(), 0);
    assert!(output.err().contains("--resume"), "{}", output.err());
}

#[test]
fn session_directories_are_restored_on_resume() {
    let world = World::new(r#"[{"text":"a"},{"text":"b"},{"text":"c"}]"#);
    let more = world.home.project().with_file_name("more");
    std::fs::create_dir_all(&more).expect("folder");
    std::fs::write(more.join("notes.txt"), "in there").expect("file");
    let folder = more.display().to_string();
    world.run_ok(&["-p", "one", "--session-id", "wide", "--include-directories", &folder]);
    world.run_ok(&["-p", &format!("look at @{folder}/notes.txt"), "-r", "wide"]);
    let sent = raw_contents(&world.server.requests()[1]).concat();
    assert!(sent.contains("in there"), "{sent}");
    std::fs::remove_dir_all(&more).expect("removed");
    let output = world.run(&["-p", "three", "-r", "wide"]);
    assert!(output.err().contains("`/directory add") && output.code() == 0, "{}", output.err());
}

#[test]
fn model_learns_after_a_resume_that_background_commands_ended() {
    let start = json!({"name": "run_shell_command",
        "args": {"command": "sleep 60", "is_background": true}});
    let script = json!([{"calls": [start]}, {"text": "a"}, {"text": "b"}, {"text": "c"}]);
    let world = World::new(&script.to_string());
    world.run_ok(&["-p", "one", "-y", "--session-id", "long"]);
    world.run_ok(&["-p", "two", "-r", "long"]);
    world.run_ok(&["-p", "three", "-r", "long"]);
    let requests = world.server.requests();
    let sent = raw_contents(&requests[3]).concat();
    assert_eq!(sent.matches(" have ended: PID ").count(), 1, "{sent}");
    assert!(!raw_contents(&requests[1]).concat().contains("have ended"));
    let shown = world.run_ok(&["sessions", "show", "long"]).stdout();
    assert!(shown.contains("> two") && !shown.contains("have ended"), "{shown}");
}
