//! Content shown on demand: truncated output, the sources of an answer, and the settings list.

use serde_json::json;
use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

#[test]
fn truncated_content_is_expanded_step_by_step() {
    let shell = |command: &str| json!({"name": "run_shell_command", "args": {"command": command}});
    let script = json!([
        {"calls": [shell("seq -f one%g 40")]},
        {"calls": [shell("seq -f two%g 40")]},
        {"text": "Both are done."},
    ]);
    let start = StartOptions::sized(100, 60).arguments(&["--yolo"]);
    let seat = TerminalDriver::start_in(World::new(&script.to_string()), &start);
    seat.prompts("go");
    seat.wait_for_text("Both are done.");
    seat.is_idle();
    seat.wait_until_gone("two5");
    seat.press(Key::Ctrl('o'));
    seat.wait_for_text("two5");
    seat.wait_for_text("for earlier truncated content");
    seat.wait_until_gone("one5");
    seat.press(Key::Ctrl('o'));
    seat.wait_for_text("one5");
    seat.press(Key::Ctrl('o'));
    seat.wait_for_text("no earlier truncated content");
    seat.press(Key::Ctrl('o'));
    seat.wait_for_text("for earlier truncated content");
}

#[test]
fn citations_are_listed_if_enabled() {
    for (expected, settings) in [(true, r#"{"ui":{"showCitations":true}}"#), (false, "{}")] {
        let chunk = json!({"candidates": [{
            "content": {"role": "model", "parts": [{"text": "It is hot."}]},
            "finishReason": "STOP",
            "citationMetadata": {"citations": [
                {"title": "The sun", "uri": "https://sun.example/facts"},
                {"title": "The sun", "uri": "https://sun.example/facts"},
            ]},
        }], "modelVersion": "gemini-2.5-pro"});
        let world = World::new(&json!([{"chunks": [chunk]}]).to_string());
        world.home.write_home(".gemini/settings.json", settings).expect("settings");
        let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 30));
        seat.prompts("how hot is it?");
        seat.wait_for_text("It is hot.");
        seat.is_idle();
        match expected {
            true => {
                seat.wait_for_text("1. The sun https://sun.example/facts");
                seat.wait_until_gone("2. The sun");
            }
            false => seat.wait_until_gone("sun.example"),
        }
    }
}

#[test]
fn settings_dialog_keeps_its_position() {
    let seat = TerminalDriver::start_in(World::new("[]"), &StartOptions::sized(100, 40));
    seat.prompts("/settings");
    seat.wait_for_text("Type to search");
    seat.type_text("line items");
    seat.press(Key::Enter);
    seat.wait_for_text("names in order, separated by commas: mode, trust");
    seat.type_text("mode, moon");
    seat.press(Key::Enter);
    seat.wait_for_text("unknown status line item `moon`");
    for _ in 0..4 {
        seat.press(Key::Backspace);
    }
    seat.type_text("trust");
    seat.press(Key::Enter);
    // The list is restored with its search text.
    seat.wait_for_text("mode, trust  (user)");
    seat.wait_for_text("line items");
    seat.press(Key::Enter);
    seat.wait_for_text("currently shown: mode, trust");
    seat.press(Key::Esc);
    seat.wait_for_text("line items");
    // The first Esc clears the search, the second closes the list.
    seat.press(Key::Esc);
    seat.wait_until_gone("line items");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
}

#[test]
fn unknown_footer_item_is_reported() {
    let world = World::new("[]");
    let settings = r#"{"ui":{"footer":{"items":["mode","moon","cost"]}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(120, 40));
    seat.wait_for_text("unknown item `moon`");
}
