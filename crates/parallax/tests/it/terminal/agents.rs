//! Sub-agents, questions of the model and headings, as a person sees them.

use serde_json::{Value, json};
use testkit::pty::Key;

use super::seat::{COMPOSER, Seat, Start};
use crate::support::World;

const SCOUT: &str = "---\nname: scout\ndescription: Looks for things.\n---\nLook.\n";

fn seat(script: &Value) -> Seat {
    let world = World::new(&script.to_string());
    world.home.write_home(".parallax/agents/scout.md", SCOUT).expect("agent");
    world.home.write("notes.txt", "the notes\n").expect("file");
    Seat::in_world(world, &Start::sized(100, 40))
}

fn invoke() -> Value {
    json!({"calls": [{"name": "invoke_agent", "args": {"agent_name": "scout", "prompt": "look around"}}]})
}

#[test]
fn an_agent_is_a_tree_under_its_call_and_its_questions_are_answered() {
    let seat = seat(&json!([
        invoke(),
        {"calls": [{"name": "read_file", "args": {"file_path": "notes.txt"}}]},
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch made.txt"}}]},
        {"calls": [{"name": "complete_task", "args": {"result": "found one\ntwo\nthree\nfour"}}]},
        {"text": "That is all."}
    ]));
    seat.prompts("@scout go");
    seat.sees("Run this command?");
    let window = seat.window();
    for shown in ["scout: look around", "✓ ReadFile", "for the sub-agent scout", "$ touch made.txt"]
    {
        assert!(window.contains(shown), "no {shown} in\n{window}");
    }
    seat.press(Key::Char('1'));
    seat.sees("That is all.");
    seat.is_idle();
    let lines = seat.lines().join("\n");
    for shown in ["3 calls · 3 turns", "found one", "… 1 more line (ctrl+o)"] {
        assert!(lines.contains(shown), "no {shown} in\n{lines}");
    }
    assert!(seat.world.home.project().join("made.txt").exists());
}

#[test]
fn escape_ends_the_turn_and_the_agents_in_it() {
    let seat = seat(&json!([invoke(), {"chunks": [{"text": "hm"}, {"hang": true}]}]));
    seat.prompts("go");
    seat.world.asked(2);
    seat.press(Key::Esc);
    seat.is_idle();
    seat.sees(COMPOSER);
    seat.sees("interrupted");
}

#[test]
fn agents_are_listed_completed_and_switched_off() {
    let seat = seat(&json!([{"text": "That is all."}]));
    seat.prompts("/agents");
    seat.sees("scout (user)");
    seat.sees("codebase_investigator (built-in)");
    seat.types("@sco");
    seat.sees("Looks for things.");
    for _ in 0..4 {
        seat.press(Key::Backspace);
    }
    seat.prompts("/agents disable scout");
    seat.sees("`scout` is off");
    seat.prompts("/agents config scout");
    seat.sees("30 turns, 10 minutes");
    seat.prompts("hello");
    seat.sees("That is all.");
    let request = String::from_utf8(seat.world.server.requests()[0].body.to_vec()).expect("text");
    assert!(!request.contains("<name>scout</name>") && request.contains("<name>generalist</name>"));
}

#[test]
fn questions_of_the_model_have_a_page_each() {
    let seat = seat(&json!([
        {"calls": [{"name": "ask_user", "args": {"questions": [
            {"question": "Which way shall we go?", "header": "Way", "type": "choice", "options": [
                {"label": "left", "description": "by the river"},
                {"label": "right", "description": "over the hill"}]},
            {"question": "What is its name?", "header": "Name", "type": "text"}
        ]}}]},
        {"text": "That is all."}
    ]));
    seat.prompts("go");
    seat.sees("Which way shall we go?");
    seat.sees("over the hill");
    seat.press(Key::Char('2'));
    seat.sees("What is its name?");
    seat.types("Jo k");
    seat.sees("Jo k");
    seat.press(Key::Enter);
    seat.sees("Send these answers?");
    seat.press(Key::Enter);
    seat.sees("That is all.");
    let request = &seat.world.server.requests()[1];
    let told = request.contents().last().expect("a content").to_string();
    assert!(told.contains(r#"{\"answers\":{\"0\":\"right\",\"1\":\"Jo k\"}}"#), "{told}");
}

#[test]
fn a_topic_is_a_heading_over_what_follows() {
    let seat = seat(&json!([
        {"calls": [{"name": "update_topic", "args": {
            "strategic_intent": "find the bug", "title": "Looking around", "summary": "None yet."
        }}]},
        {"text": "That is all."}
    ]));
    seat.prompts("go");
    seat.sees("That is all.");
    let lines = seat.lines().join("\n");
    assert!(lines.contains("── Looking around ─"), "{lines}");
    assert!(lines.contains("→ find the bug"), "{lines}");
}
