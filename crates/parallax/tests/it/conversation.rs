//! A program as the front end: approval requests, steering messages, and interrupts over one
//! process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Conversation, World, wait_until};

#[test]
fn approval_request_is_sent_and_its_response_applied() {
    let world = World::new(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"one"}}]},
            {"text":"first is written"},
            {"calls":[{"name":"write_file","args":{"file_path":"b.txt","content":"two"}}]},
            {"text":"second is not"}]"#,
    );
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("write both");
    let ask = conversation.next("ask");
    assert_eq!(ask["tool_name"], "write_file");
    assert!(ask["preview"]["diff"].as_str().is_some_and(|diff| diff.contains("+one")), "{ask}");
    assert!(!world.home.project().join("a.txt").exists(), "written before it was allowed");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(conversation.next("tool_result")["status"], "success");
    assert_eq!(conversation.next("result")["status"], "success");
    conversation.prompt("and the other");
    let ask = conversation.next("ask");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "cancel", "feedback": "leave b alone"}));
    assert_eq!(conversation.next("tool_result")["status"], "error");
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(world.read("a.txt"), "one");
    assert!(!world.home.project().join("b.txt").exists());
    let last = String::from_utf8_lossy(&world.server.requests()[3].body).into_owned();
    assert!(last.contains("leave b alone"), "the feedback reaches the model");
    world.server.assert_clean();
}

#[test]
fn proceed_always_requests_approval_once() {
    let world = World::new(
        r#"[{"loop":{"calls":3,"name":"write_file","args":{"file_path":"{i}.txt","content":"x"},"final":"done"}}]"#,
    );
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("write three");
    let ask = conversation.next("ask");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_always"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(world.read("2.txt"), "x");
    world.server.assert_clean();
}

#[test]
fn interrupt_ends_the_turn_and_the_conversation_continues() {
    let world = World::new(
        r#"[{"chunks":[{"text":"half "},{"gate":"speaking"}]},{"text":"the rest"},{"text":"whole"}]"#,
    );
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("speak");
    world.at_gate("speaking");
    conversation.next("message");
    conversation.next("message");
    conversation.send(&json!({"type": "interrupt"}));
    let result = conversation.next("result");
    assert_eq!(result["error"]["type"], "FatalCancellationError");
    conversation.send(&json!({"type": "continue"}));
    assert_eq!(conversation.next("result")["status"], "success");
    let last = String::from_utf8_lossy(&world.server.requests()[1].body).into_owned();
    assert!(last.contains("half ") && last.contains("Continue where you left off."), "{last}");
    conversation.send(&json!({"type": "continue"}));
    let refused = conversation.next("error");
    assert_eq!((&refused["severity"], &refused["line"]), (&json!("error"), &json!(4)));
    conversation.prompt("again");
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    world.server.assert_clean();
}

#[test]
fn steering_message_is_sent_with_the_next_results() {
    let world = World::new(
        r#"[{"chunks":[{"gate":"before"},{"parts":[{"functionCall":{"name":"list_directory","args":{"dir_path":"."}}}]},{"finish":"STOP"}]},
            {"text":"done"}]"#,
    );
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("look around");
    world.at_gate("before");
    conversation.send(&json!({"type": "steer", "content": "only the tests folder"}));
    // Lines are read in order, so an error about a later line shows that the earlier one was read.
    conversation.send(&json!({"type": "decide", "id": "none", "outcome": "cancel"}));
    conversation.next("error");
    world.server.open_gate("before");
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    let second = String::from_utf8_lossy(&world.server.requests()[1].body).into_owned();
    assert!(second.contains("only the tests folder"), "{second}");
    world.server.assert_clean();
}

/// Returns the text of the last user message of each request.
fn last_texts(world: &World) -> Vec<String> {
    let last = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        let contents = body["contents"].as_array().expect("contents").clone();
        let parts = contents.last().expect("a content")["parts"].clone();
        parts.as_array().expect("parts").last().expect("a part")["text"].to_string()
    };
    world.server.requests().iter().map(|request| last(&request.body)).collect()
}

#[test]
fn late_steering_message_comes_first_and_no_later_prompt_is_lost() {
    let world = World::new(
        r#"[{"chunks":[{"text":"one"},{"gate":"first"},{"finish":"STOP"}]},
            {"chunks":[{"text":"two"},{"gate":"second"},{"finish":"STOP"}]},{"text":"three"}]"#,
    );
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("begin");
    world.at_gate("first");
    conversation.send(&json!({"type": "steer", "content": "steering"}));
    conversation.prompt("the last prompt");
    conversation.send(&json!({"type": "decide", "id": "none", "outcome": "cancel"}));
    conversation.next("error");
    world.server.open_gate("first");
    world.at_gate("second");
    conversation.end_input();
    world.server.open_gate("second");
    for _ in 0..3 {
        assert_eq!(conversation.next("result")["status"], "success");
    }
    assert_eq!(conversation.end(), Some(0));
    let texts = last_texts(&world);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[1].contains("steering") && texts[2].contains("the last prompt"), "{texts:?}");
}

#[test]
fn waiting_prompt_is_prepared_after_the_turn_before_it() {
    let world = World::new(
        r#"[{"chunks":[{"gate":"first"},{"parts":[{"functionCall":{"name":"write_file","args":{"file_path":"g.txt","content":"new content"}}}]},{"finish":"STOP"}]},
            {"text":"written"},{"text":"seen"}]"#,
    );
    world.home.write("g.txt", "old content").expect("written");
    let mut conversation = Conversation::start(&world, &["--yolo"]);
    conversation.prompt("write");
    world.at_gate("first");
    conversation.prompt("look at @g.txt");
    conversation.send(&json!({"type": "decide", "id": "none", "outcome": "cancel"}));
    conversation.next("error");
    world.server.open_gate("first");
    for _ in 0..2 {
        assert_eq!(conversation.next("result")["status"], "success");
    }
    assert_eq!(conversation.end(), Some(0));
    let last = String::from_utf8_lossy(&world.server.requests()[2].body).into_owned();
    assert!(last.contains("new content"), "{last}");
}

#[test]
fn interrupt_does_not_end_the_turn_of_a_later_prompt() {
    // The first answer is so short that its turn may be over when the interrupt arrives.
    let world = World::new(r#"[{"text":"short"},{"text":"long","repeat":0}]"#);
    for _ in 0..5 {
        let mut conversation = Conversation::start(&world, &[]);
        conversation.prompt("first");
        conversation.send(&json!({"type": "interrupt"}));
        conversation.prompt("second");
        conversation.end_input();
        conversation.next("result");
        assert_eq!(conversation.next("result")["status"], "success");
        assert_eq!(conversation.end(), Some(0));
    }
}

#[test]
fn each_context_request_during_a_turn_is_answered() {
    let world = World::new(r#"[{"chunks":[{"text":"one"},{"gate":"first"},{"finish":"STOP"}]}]"#);
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("begin");
    world.at_gate("first");
    conversation.send(&json!({"type": "context"}));
    conversation.send(&json!({"type": "context"}));
    conversation.end_input();
    world.server.open_gate("first");
    for _ in 0..2 {
        conversation.next("context");
    }
    assert_eq!(conversation.end(), Some(0));
}

#[test]
fn commands_are_answered_between_the_turns_in_the_order_of_the_lines() {
    let world = World::new(
        r#"[{"chunks":[{"text":"half "},{"gate":"speaking"},{"finish":"STOP"}]},{"text":"second"}]"#,
    );
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("speak");
    world.at_gate("speaking");
    conversation.send(&json!({"type": "command", "text": "/tools"}));
    conversation.prompt("/context");
    conversation.prompt("and again");
    // Input is read while the turn runs: an invalid line gets an immediate error.
    conversation.send(&json!({"type": "command", "text": "/frobnicate"}));
    conversation.send(&json!({"type": "decide", "id": "none", "outcome": "cancel"}));
    let error = conversation.next("error");
    assert!(error["message"].as_str().unwrap().contains("`none`"), "{error}");
    world.server.open_gate("speaking");
    assert_eq!(conversation.next("result").get("structured"), None);
    let tools = conversation.next("result");
    assert!(tools["structured"].to_string().contains("read_file"), "{tools}");
    assert!(conversation.next("context")["tokens"].as_u64().is_some());
    let context = conversation.next("result");
    assert!(context["structured"]["window"].as_u64().is_some(), "{context}");
    let last = conversation.next("result");
    assert_eq!((&last["status"], last.get("structured")), (&json!("success"), None));
    let error = conversation.next("error");
    assert!(error["message"].as_str().unwrap().contains("/frobnicate"), "{error}");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(world.server.requests().len(), 2, "commands are not sent to the model");
    world.server.assert_clean();
}

#[test]
fn model_and_mode_change_for_the_next_prompt() {
    let world = World::new(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"one"}}]},
            {"text":"written"}]"#,
    );
    let settings = r#"{"security": {"disableYoloMode": true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let mut conversation = Conversation::start(&world, &[]);
    for (line, problem) in [
        (json!({"type": "set_mode", "mode": "yolo"}), "disableYoloMode"),
        (json!({"type": "set_mode", "mode": "wild"}), "unknown mode"),
        (json!({"type": "set_model", "model": " "}), "empty"),
    ] {
        conversation.send(&line);
        let error = conversation.next("error");
        assert!(error["message"].as_str().unwrap().contains(problem), "{error}");
    }
    conversation.send(&json!({"type": "set_mode", "mode": "auto_edit"}));
    conversation.send(&json!({"type": "set_model", "model": "gemini-2.5-flash"}));
    conversation.prompt("write");
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(world.read("a.txt"), "one");
    assert!(world.server.requests()[0].path.contains("gemini-2.5-flash"));
    world.server.assert_clean();
}

#[test]
fn interrupt_right_after_a_prompt_ends_its_turn() {
    let world = World::new(r#"[{"chunks": [{"text": "half"}, {"hang": true}], "repeat": 0}]"#);
    let mut conversation = Conversation::start(&world, &[]);
    for _ in 0..5 {
        conversation.prompt("go");
        conversation.send(&json!({"type": "interrupt"}));
        assert_eq!(conversation.next("result")["error"]["type"], "FatalCancellationError");
    }
    conversation.end();
}

#[test]
fn program_ends_during_a_turn_when_input_and_output_are_closed() {
    let world = World::new(r#"[{"chunks": [{"text": "half"}, {"hang": true}]}]"#);
    let mut command = world.command(&["--input-format", "stream-json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut stdin = child.stdin.take().expect("stdin");
    writeln!(stdin, "{}", json!({"type": "message", "content": "go"})).expect("written");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    while !lines.next().expect("a line").expect("text").contains("half") {}
    drop((stdin, lines));
    wait_until("the end of the program", || child.try_wait().expect("a state").is_some());
}

#[test]
fn shell_command_of_a_custom_command_is_announced_and_decided() {
    let world = World::new(r#"[{"text":"one"},{"text":"two"},{"text":"three"}]"#);
    let command = "prompt = 'Look: !{touch made; echo created}'";
    world.home.write_home(".parallax/commands/make.toml", command).expect("written");
    let made = world.home.project().join("made");
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("/make");
    let ask = conversation.next("ask");
    assert_eq!(ask["tool_name"], "run_shell_command");
    assert_eq!(ask["preview"]["command"], "touch made; echo created", "{ask}");
    conversation
        .send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_always_and_save"}));
    assert!(conversation.next("error")["message"].to_string().contains("not offered"));
    // The request stays open, and an invalid answer is rejected at once.
    for outcome in [json!("nonsense"), json!(""), json!(5), json!(null)] {
        conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": outcome}));
        assert_eq!(conversation.next("error")["severity"], "error");
    }
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "cancel"}));
    assert_eq!(conversation.next("ask_closed")["outcome"], "cancel");
    assert!(conversation.next("error")["message"].to_string().contains("was not approved"));
    assert!(!made.exists());

    // A message after it waits, so that the order of the lines stays.
    conversation.prompt("/make");
    let ask = conversation.next("ask");
    conversation.prompt("AFTER-THE-COMMAND");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.next("result")["status"], "success");
    assert!(made.exists());
    let sent =
        |index: usize| String::from_utf8_lossy(&world.server.requests()[index].body).into_owned();
    assert!(sent(0).contains("Look: created") && !sent(0).contains("AFTER-THE-COMMAND"));
    assert!(sent(1).contains("AFTER-THE-COMMAND"));

    conversation.prompt("/make");
    conversation.next("ask");
    conversation.send(&json!({"type": "interrupt"}));
    assert!(conversation.next("error")["message"].to_string().contains("interrupted"));
    std::fs::remove_file(&made).expect("removed");
    conversation.send(&json!({"type": "set_mode", "mode": "yolo"}));
    conversation.prompt("/make");
    assert_eq!(conversation.next("result")["status"], "success");
    assert!(made.exists());
    assert_eq!(conversation.end(), Some(0));
}

#[test]
fn shell_command_of_a_custom_command_is_denied_at_the_end_of_the_input() {
    let world = World::new(r#"[{"text":"one"}]"#);
    let command = "prompt = 'Look: !{touch made; echo created}'";
    world.home.write_home(".parallax/commands/make.toml", command).expect("written");
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("/make");
    assert_eq!(conversation.end(), Some(0));
    assert!(!world.home.project().join("made").exists());
}
