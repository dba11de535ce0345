//! The items of the status line and their selection.

use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::{World, wait_until};

#[test]
fn status_line_items_are_configurable_and_unknown_ones_reported() {
    let world = World::new("[]");
    let settings =
        r#"{"ui": {"footer": {"items": ["mode", "weather", "workspace"], "showLabels": false}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(110, 40));
    seat.has_seen("unknown item `weather`");
    seat.wait_for_text("/project");
    assert!(seat.window().contains("default (shift+tab) · "), "{}", seat.window());
    seat.prompts("/footer");
    seat.wait_for_text("[x] mode");
    seat.wait_for_text("the approval mode");
    seat.press(Key::Right);
    seat.wait_for_text("/project · default");
    seat.press(Key::Enter);
    seat.wait_for_text("[ ] mode");
    // A hidden item keeps its position.
    seat.press(Key::Enter);
    seat.wait_for_text("[x] mode");
    seat.wait_for_text("/project · default");
    seat.press(Key::Enter);
    seat.wait_for_text("[ ] mode");
    let file = seat.world.home.parallax().join("settings.json");
    crate::support::wait_until("the choice is written", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.contains("workspace") && !text.contains("\"mode\"")
    });
    seat.press(Key::Esc);
}

#[test]
fn custom_system_prompt_has_an_indicator() {
    let world = World::new("[]");
    world.home.write("mine.md", "You are mine.").expect("a prompt");
    let file = world.home.project().join("mine.md").display().to_string();
    let seat = TerminalDriver::start_in(
        world,
        &StartOptions::sized(110, 30).with_variable("GEMINI_SYSTEM_MD", &file),
    );
    seat.wait_for_text("|⌐■_■|");
}

#[test]
fn git_branch_is_shown_before_the_first_prompt() {
    let world = World::new("[]");
    world.home.write(".git/HEAD", "ref: refs/heads/side-road\n").expect("a repository");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(110, 30));
    seat.wait_for_text("⎇ side-road");
}

#[test]
fn custom_status_line_command_gets_session_data() {
    let world = World::new(r#"[{"text":"An answer."}]"#);
    let command = r#"cat > facts.json; printf 'from\033[31m outside\nanother row'"#;
    let settings = serde_json::json!({"ui": {"statusLine": {"command": command}}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 30));
    seat.wait_for_text("outside");
    let window = seat.window();
    assert!(!window.contains("another row"), "{window}");
    seat.prompts("hello");
    seat.wait_for_text("An answer.");
    crate::support::wait_until("the facts follow the session", || {
        let status: serde_json::Value =
            serde_json::from_str(&seat.world.read("facts.json")).unwrap_or_default();
        status["tokens"]["sent"].as_u64() > Some(0) && status["mode"] == "default"
    });
}

#[test]
fn slow_status_line_command_is_terminated_and_reported_once() {
    let world = World::new("[]");
    let settings = r#"{"ui": {"statusLine": {"command": "sleep 60"}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 30));
    seat.has_seen("took longer than 300 ms");
}

#[test]
fn project_status_line_command_runs_only_when_accepted() {
    let world = World::new("[]");
    let settings = r#"{"ui": {"statusLine": {"command": "touch ran; echo out-of-the-project"}}}"#;
    world.home.write(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::started(world, &StartOptions::sized(100, 30));
    seat.wait_for_text("ui.statusLine");
    let ran = seat.world.home.project().join("ran");
    assert!(!ran.exists());
    seat.wait_for_request_delay();
    seat.press(Key::Char('2'));
    wait_until("the accepted command", || ran.exists());
    seat.wait_for_text(COMPOSER);
    seat.wait_for_text("out-of-the-project");
}
