//! Subagents, user questions, and topic headings.

use serde_json::{Value, json};
use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

const SCOUT: &str = "---\nname: scout\ndescription: Looks for things.\n---\nLook.\n";

fn start_terminal(script: &Value) -> TerminalDriver {
    let world = World::new(&script.to_string());
    world.home.write_home(".parallax/agents/scout.md", SCOUT).expect("agent");
    world.home.write("notes.txt", "the notes\n").expect("file");
    TerminalDriver::start_in(world, &StartOptions::sized(100, 40))
}

fn invoke() -> Value {
    json!({"calls": [{"name": "invoke_agent", "args": {"agent_name": "scout", "prompt": "look \
                                                                                         around"}}]})
}

#[test]
fn subagent_is_shown_as_a_tree_and_its_approvals_work() {
    let seat = start_terminal(&json!([
        invoke(),
        {"calls": [{"name": "read_file", "args": {"file_path": "notes.txt"}}]},
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch made.txt"}}]},
        {"calls": [{"name": "complete_task", "args": {"result": "found one\ntwo\nthree\nfour"}}]},
        {"text": "That is all."}
    ]));
    seat.prompts("@scout go");
    seat.wait_for_text("Allow execution of this command?");
    let window = seat.window();
    for expected in ["scout: look around", "✓ ReadFile", "for subagent scout", "$ touch made.txt"]
    {
        assert!(window.contains(expected), "no {expected} in\n{window}");
    }
    seat.press(Key::Char('1'));
    seat.wait_for_text("That is all.");
    seat.is_idle();
    let lines = seat.lines().join("\n");
    for expected in ["3 calls · 3 turns", "found one", "… 1 more line (ctrl+o)"] {
        assert!(lines.contains(expected), "no {expected} in\n{lines}");
    }
    assert!(seat.world.home.project().join("made.txt").exists());
}

#[test]
fn escape_ends_the_turn_and_its_subagents() {
    let seat = start_terminal(&json!([invoke(), {"chunks": [{"text": "hm"}, {"hang": true}]}]));
    seat.prompts("go");
    seat.world.wait_for_requests(2);
    seat.press(Key::Esc);
    seat.is_idle();
    seat.wait_for_text(COMPOSER);
    seat.wait_for_text("interrupted");
}

#[test]
fn subagents_are_listed_completed_and_disabled() {
    let seat = start_terminal(&json!([{"text": "That is all."}]));
    seat.prompts("/agents");
    seat.wait_for_text("scout                  user · on");
    // Enter in the list disables and enables.
    seat.type_text("scout");
    seat.wait_for_text("❯ scout");
    seat.press(Key::Enter);
    seat.wait_for_text("user · off");
    seat.press(Key::Enter);
    seat.wait_for_text("user · on");
    seat.press(Key::Esc);
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/agents list");
    seat.wait_for_text("scout (user)");
    seat.wait_for_text("codebase_investigator (built-in)");
    seat.type_text("@sco");
    seat.wait_for_text("Looks for things.");
    for _ in 0..4 {
        seat.press(Key::Backspace);
    }
    seat.prompts("/agents disable scout");
    seat.wait_for_text("`scout` is disabled");
    seat.prompts("hello");
    seat.wait_for_text("That is all.");
    let request = String::from_utf8(seat.world.server.requests()[0].body.to_vec()).expect("text");
    assert!(!request.contains("<name>scout</name>") && request.contains("<name>generalist</name>"));
}

#[test]
fn project_subagent_is_reviewed_before_use() {
    let world = World::new(r#"[{"text": "That is all."}]"#);
    let mapper = "---\nname: mapper\ndescription: Draws maps.\ntools: [glob]\nmcp_servers:\n  \
                  paper:\n    command: fetch-paper\n---\nDraw \u{1b}[2Jeverything.\n";
    world.home.write(".gemini/agents/mapper.md", mapper).expect("agent");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 40));
    seat.has_seen("New or changed agent of this project, not enabled yet: `mapper`.");
    seat.prompts("/agents accept");
    seat.wait_for_text("Enable the agent `mapper` of this project?");
    let window = seat.window();
    for expected in [
        "Draws maps.",
        "tools: glob",
        "MCP server paper: {\"command\":\"fetch-paper\"}",
        "everything.",
    ] {
        assert!(window.contains(expected), "no {expected} in\n{window}");
    }
    // Esc declines.
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/agents accept mapper");
    seat.wait_for_text("Enable the agent `mapper` of this project?");
    seat.press(Key::Char('2'));
    seat.has_seen("`mapper` is enabled.");
    let file = seat.world.home.parallax().join("acknowledgments/agents.json");
    assert!(std::fs::read_to_string(file).expect("the file").contains("\"mapper\""));
    seat.prompts("hello");
    seat.wait_for_text("That is all.");
    let request = String::from_utf8(seat.world.server.requests()[0].body.to_vec()).expect("text");
    assert!(request.contains("<name>mapper</name>"));
}

#[test]
fn subagent_settings_are_changed_and_reset() {
    let seat = start_terminal(&json!([]));
    let settings = seat.world.home.parallax().join("settings.json");
    let kept = |key: &str| -> Value {
        let text = std::fs::read_to_string(&settings).unwrap_or_default();
        let file: Value = serde_json::from_str(&text).unwrap_or_default();
        file["agents"]["overrides"]["scout"][key].clone()
    };
    seat.prompts("/agents config scout");
    seat.wait_for_text("Agent `scout`");
    seat.wait_for_text("maxTimeMinutes");
    seat.press(Key::Char('3'));
    seat.wait_for_text("scout: maxTurns");
    seat.type_text("x");
    seat.press(Key::Enter);
    seat.wait_for_text("it must be a positive integer");
    for _ in 0..3 {
        seat.press(Key::Backspace);
    }
    seat.type_text("7");
    seat.press(Key::Enter);
    seat.has_seen("`maxTurns` of `scout` is now 7");
    assert_eq!(kept("runConfig"), json!({"maxTurns": 7}));
    seat.prompts("/agents config scout model flash");
    seat.has_seen("`model` of `scout` is now flash");
    assert_eq!(kept("modelConfig"), json!({"model": "flash"}));
    seat.prompts("/agents config scout maxTurns default");
    seat.has_seen("`maxTurns` of `scout` was reset to the value in its file");
    assert_eq!(kept("runConfig"), Value::Null);
    seat.prompts("/agents config scout");
    seat.wait_for_text("Agent `scout`");
    seat.press(Key::Char('1'));
    seat.has_seen("`scout` is disabled");
    assert_eq!(kept("enabled"), json!(false));
    seat.press(Key::Esc);
    seat.prompts("/agents config scout colour red");
    seat.has_seen("Unknown agent setting `colour`");
}

#[test]
fn each_user_question_has_a_page() {
    let seat = start_terminal(&json!([
        {"calls": [{"name": "ask_user", "args": {"questions": [
            {"question": "Which way shall we go?", "header": "Way", "type": "choice", "options": [
                {"label": "left", "description": "by the river"},
                {"label": "right", "description": "over the hill"}]},
            {"question": "What is its name?", "header": "Name", "type": "text"}
        ]}}]},
        {"text": "That is all."}
    ]));
    seat.prompts("go");
    seat.wait_for_text("Which way shall we go?");
    seat.wait_for_text("over the hill");
    seat.press(Key::Char('2'));
    seat.wait_for_text("What is its name?");
    seat.type_text("Jo k");
    seat.wait_for_text("Jo k");
    seat.press(Key::Enter);
    seat.wait_for_text("Send these answers?");
    seat.press(Key::Enter);
    seat.wait_for_text("That is all.");
    let request = &seat.world.server.requests()[1];
    let report = request.contents().last().expect("a content").to_string();
    assert!(report.contains(r#"{\"answers\":{\"0\":\"right\",\"1\":\"Jo k\"}}"#), "{report}");
}

#[test]
fn topic_is_shown_as_a_heading() {
    let seat = start_terminal(&json!([
        {"calls": [{"name": "update_topic", "args": {
            "strategic_intent": "find the bug", "title": "Looking around", "summary": "None yet."
        }}]},
        {"text": "That is all."}
    ]));
    seat.prompts("go");
    seat.wait_for_text("That is all.");
    let lines = seat.lines().join("\n");
    assert!(lines.contains("── Looking around ─"), "{lines}");
    assert!(lines.contains("→ find the bug"), "{lines}");
}
