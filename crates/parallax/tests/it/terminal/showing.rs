//! Content shown on demand: truncated output, the sources of an answer, and the settings list.

use serde_json::json;
use testkit::pty::Key;

use super::seat::{COMPOSER, Seat, Start};
use crate::support::World;

#[test]
fn truncated_content_is_expanded_step_by_step() {
    let shell = |command: &str| json!({"name": "run_shell_command", "args": {"command": command}});
    let script = json!([
        {"calls": [shell("seq -f one%g 40")]},
        {"calls": [shell("seq -f two%g 40")]},
        {"text": "Both are done."},
    ]);
    let start = Start::sized(100, 60).arguments(&["--yolo"]);
    let seat = Seat::in_world(World::new(&script.to_string()), &start);
    seat.prompts("go");
    seat.sees("Both are done.");
    seat.is_idle();
    seat.sees_no("two5");
    seat.press(Key::Ctrl('o'));
    seat.sees("two5");
    seat.sees("for earlier truncated content");
    seat.sees_no("one5");
    seat.press(Key::Ctrl('o'));
    seat.sees("one5");
    seat.press(Key::Ctrl('o'));
    seat.sees("no earlier truncated content");
    seat.press(Key::Ctrl('o'));
    seat.sees("for earlier truncated content");
}

#[test]
fn citations_are_listed_if_enabled() {
    for (wanted, settings) in [(true, r#"{"ui":{"showCitations":true}}"#), (false, "{}")] {
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
        let seat = Seat::in_world(world, &Start::sized(100, 30));
        seat.prompts("how hot is it?");
        seat.sees("It is hot.");
        seat.is_idle();
        match wanted {
            true => {
                seat.sees("1. The sun https://sun.example/facts");
                seat.sees_no("2. The sun");
            }
            false => seat.sees_no("sun.example"),
        }
    }
}

#[test]
fn settings_dialog_keeps_its_position() {
    let seat = Seat::in_world(World::new("[]"), &Start::sized(100, 40));
    seat.prompts("/settings");
    seat.sees("Type to search");
    seat.types("line items");
    seat.press(Key::Enter);
    seat.sees("names in order, separated by commas: mode, trust");
    seat.types("mode, moon");
    seat.press(Key::Enter);
    seat.sees("unknown status line item `moon`");
    for _ in 0..4 {
        seat.press(Key::Backspace);
    }
    seat.types("trust");
    seat.press(Key::Enter);
    // The list is restored with its search text.
    seat.sees("mode, trust  (user)");
    seat.sees("line items");
    seat.press(Key::Enter);
    seat.sees("currently shown: mode, trust");
    seat.press(Key::Esc);
    seat.sees("line items");
    // The first Esc clears the search, the second closes the list.
    seat.press(Key::Esc);
    seat.sees_no("line items");
    seat.press(Key::Esc);
    seat.sees(COMPOSER);
}

#[test]
fn unknown_footer_item_is_reported() {
    let world = World::new("[]");
    let settings = r#"{"ui":{"footer":{"items":["mode","moon","cost"]}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = Seat::in_world(world, &Start::sized(120, 40));
    seat.sees("unknown item `moon`");
}
