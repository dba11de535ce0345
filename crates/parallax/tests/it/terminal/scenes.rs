//! Snapshots of scenes in a small, a normal, and a wide window.

use testkit::pty::Key;

use super::seat::{COMPOSER, Seat, Start};
use super::snapshots::picture;
use crate::support::World;

const SIZES: [(u16, u16); 3] = [(50, 15), (80, 24), (120, 40)];

const RETRY: &str = "fn retry(attempt: u32) {\n    let delay = delay(attempt);\n    send()\n}\n";

const READS: &str = r#"[{"calls":[
    {"name":"read_file","args":{"file_path":"retry.rs"}},
    {"name":"read_file","args":{"file_path":"a.rs"}},
    {"name":"read_file","args":{"file_path":"b.rs"}}]},
    {"text":"The loop never waits."}]"#;

const EDIT: &str = r#"[{"calls":[{"name":"replace","args":{"file_path":"retry.rs","instruction":"Wait","old_string":"    send()","new_string":"    sleep(delay);\n    send()"}}]},{"text":"It waits now."}]"#;

const COMMAND: &str = r#"[{"calls":[{"name":"run_shell_command","args":{"command":"echo looked; exit 3","description":"Looks"}}]},{"text":"It failed."}]"#;

const THINKS: &str = r#"[{"chunks":[{"parts":[{"text":"**The loop**\n\nDoes it sleep?","thought":true}]},{"gate":"never"}]}]"#;

const DIAGRAM: &str = r#"[{"chunks":[{"text":"So it goes:\n\n```mermaid\ngraph TD\n  A[Send] --> B{Answer?}\n"},{"text":"  B -->|yes| C[Done]\n  B -->|no| D[Wait]\n  D --> A\n```\n\nThat is all.\n"},{"finish":"STOP"}]}]"#;

const QUESTION: &str = r#"[{"calls":[{"name":"ask_user","args":{"questions":[{"question":"How long may an attempt wait?","header":"Limit","type":"choice","options":[{"label":"One second","description":"Hard on the host"},{"label":"Ten seconds","description":"What most clients do"}]}]}}]}]"#;

fn assert_scene(name: &str, script: &str, arrive: impl Fn(&Seat)) {
    for (columns, rows) in SIZES {
        let world = World::new(script);
        for (file, text) in [("retry.rs", RETRY), ("a.rs", "mod a;\n"), ("b.rs", "mod b;\n")] {
            world.home.write(file, text).expect("a file");
        }
        let seat = Seat::in_world(world, &Start::sized(columns, rows));
        // The sandbox state arrives a moment later.
        seat.settles();
        arrive(&seat);
        insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("scene-{name}-{columns}x{rows}"), picture(&seat));
        });
    }
}

/// Waits until the answer is shown and the turn has ended.
fn ends_with(seat: &Seat, text: &str) {
    seat.sees(text);
    seat.is_idle();
}

#[test]
fn scene_with_reads_and_an_answer() {
    assert_scene("reads", READS, |seat| {
        seat.prompts("Why does it hammer the host?");
        ends_with(seat, "never waits");
    });
}

#[test]
fn scene_with_an_approved_edit() {
    assert_scene("edited", EDIT, |seat| {
        seat.prompts("Fix it");
        seat.sees("Apply this change?");
        seat.looks();
        seat.press(Key::Char('1'));
        ends_with(seat, "waits now");
    });
}

#[test]
fn scene_with_a_failed_command() {
    assert_scene("failed-command", COMMAND, |seat| {
        seat.prompts("Look");
        ends_with(seat, "It failed.");
    });
}

#[test]
fn scene_with_steering_and_queued_messages() {
    assert_scene("steering", THINKS, |seat| {
        seat.prompts("Why?");
        seat.sees("Thinking · The");
        seat.types("look at the tests");
        seat.press(Key::Enter);
        seat.sees("› look at the tests");
        seat.types("then write one");
        seat.press(Key::Tab);
        seat.sees("› then write one");
    });
}

#[test]
fn scene_with_a_user_question() {
    assert_scene("user-question", QUESTION, |seat| {
        seat.prompts("Fix it");
        seat.sees("1. One second");
    });
}

#[test]
fn scene_with_a_diagram() {
    assert_scene("diagram", DIAGRAM, |seat| {
        seat.prompts("Draw it");
        ends_with(seat, "That is all.");
    });
}

#[test]
fn scene_with_grouped_settings() {
    assert_scene("settings", "[]", |seat| {
        seat.prompts("/settings");
        seat.sees("❯ Preferred editor");
        seat.press(Key::Right);
        seat.sees("❯ Theme");
    });
}

#[test]
fn scene_with_commands_in_help() {
    assert_scene("help", "[]", |seat| {
        seat.prompts("/help");
        seat.sees("esc close");
        seat.press(Key::Char('/'));
        seat.types("undo");
        seat.sees("⌕ undo");
    });
}

#[test]
fn scene_with_command_completion() {
    assert_scene("commands", "[]", |seat| {
        seat.types("/se");
        seat.sees("❯ settings");
    });
}

#[test]
fn scene_with_a_mode_change() {
    assert_scene("auto-edit", "[]", |seat| {
        seat.press(Key::BackTab);
        seat.sees("auto-edit");
        seat.sees(COMPOSER);
    });
}
