//! A program as the face: questions, remarks and interrupts over one process.

use serde_json::json;

use crate::support::{Conversation, World};

#[test]
fn a_question_is_asked_and_its_answer_obeyed() {
    let world = World::new(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"one"}}]},
            {"text":"first is written"},
            {"calls":[{"name":"write_file","args":{"file_path":"b.txt","content":"two"}}]},
            {"text":"second is not"}]"#,
    );
    let mut face = Conversation::start(&world, &[]);
    face.prompt("write both");
    let ask = face.next("ask");
    assert_eq!(ask["tool_name"], "write_file");
    assert!(ask["preview"]["diff"].as_str().is_some_and(|diff| diff.contains("+one")), "{ask}");
    assert!(!world.home.project().join("a.txt").exists(), "written before it was allowed");
    face.say(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(face.next("tool_result")["status"], "success");
    assert_eq!(face.next("result")["status"], "success");
    face.prompt("and the other");
    let ask = face.next("ask");
    face.say(&json!({"type": "decide", "id": ask["id"], "outcome": "cancel", "feedback": "leave b alone"}));
    assert_eq!(face.next("tool_result")["status"], "error");
    assert_eq!(face.next("result")["status"], "success");
    assert_eq!(face.end(), Some(0));
    assert_eq!(world.read("a.txt"), "one");
    assert!(!world.home.project().join("b.txt").exists());
    let last = String::from_utf8_lossy(&world.server.requests()[3].body).into_owned();
    assert!(last.contains("leave b alone"), "the feedback reaches the model");
    world.server.assert_clean();
}

#[test]
fn proceed_always_asks_once() {
    let world = World::new(
        r#"[{"loop":{"calls":3,"name":"write_file","args":{"file_path":"{i}.txt","content":"x"},"final":"done"}}]"#,
    );
    let mut face = Conversation::start(&world, &[]);
    face.prompt("write three");
    let ask = face.next("ask");
    face.say(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_always"}));
    assert_eq!(face.next("result")["status"], "success");
    assert_eq!(face.end(), Some(0));
    assert_eq!(world.read("2.txt"), "x");
    world.server.assert_clean();
}

#[test]
fn an_interrupt_ends_the_turn_and_the_conversation_goes_on() {
    let world =
        World::new(r#"[{"chunks":[{"text":"half "},{"gate":"speaking"}]},{"text":"whole"}]"#);
    let mut face = Conversation::start(&world, &[]);
    face.prompt("speak");
    world.at_gate("speaking");
    face.next("message");
    face.next("message");
    face.say(&json!({"type": "interrupt"}));
    let result = face.next("result");
    assert_eq!(result["error"]["type"], "FatalCancellationError");
    face.prompt("again");
    assert_eq!(face.next("result")["status"], "success");
    assert_eq!(face.end(), Some(0));
    world.server.assert_clean();
}

#[test]
fn a_remark_reaches_the_model_with_the_next_results() {
    let world = World::new(
        r#"[{"chunks":[{"gate":"before"},{"parts":[{"functionCall":{"name":"list_directory","args":{"dir_path":"."}}}]},{"finish":"STOP"}]},
            {"text":"done"}]"#,
    );
    let mut face = Conversation::start(&world, &[]);
    face.prompt("look around");
    world.at_gate("before");
    face.say(&json!({"type": "steer", "content": "only the tests folder"}));
    // The order has been read when a later one has been answered.
    face.say(&json!({"type": "decide", "id": "none", "outcome": "cancel"}));
    face.next("error");
    world.server.open_gate("before");
    assert_eq!(face.next("result")["status"], "success");
    assert_eq!(face.end(), Some(0));
    let second = String::from_utf8_lossy(&world.server.requests()[1].body).into_owned();
    assert!(second.contains("only the tests folder"), "{second}");
    world.server.assert_clean();
}
