//! The transcript in the full window, over the inline screen.

use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

#[test]
fn transcript_pager_shows_searches_and_leaves_no_trace() {
    let lines: Vec<String> = (0..80).map(|number| format!("- line {number:03} of it")).collect();
    let answer = serde_json::to_string(&lines.join("\n")).expect("text");
    let script = format!(r#"[{{"text":{answer}}},{{"text":"Second."}}]"#);
    let seat = TerminalDriver::start_in(World::new(&script), &StartOptions::sized(80, 24));
    seat.prompts("go");
    seat.wait_for_text("line 079");
    seat.is_idle();
    seat.prompts("/transcript");
    seat.wait_for_text("Transcript");
    assert!(seat.terminal.with_emulator(|emulator| emulator.has_mode(1049)));
    seat.press(Key::Home);
    seat.wait_for_text("> go");
    seat.type_text("/line 042");
    seat.wait_for_text("/line 042");
    seat.press(Key::Enter);
    seat.wait_for_text("line 042");
    seat.wait_until_gone("line 079");
    seat.terminal.resize(60, 20).expect("resize");
    seat.wait_for_text("line 042");
    seat.type_text("q");
    seat.wait_for_text(COMPOSER);
    seat.wait_until_stable();
    assert!(!seat.terminal.with_emulator(|emulator| emulator.has_mode(1049)));
    seat.prompts("on");
    seat.wait_for_text("Second.");
    seat.is_idle();
    let text = seat.lines().join("\n");
    for number in 0..80 {
        let line = format!("line {number:03}");
        assert_eq!(text.matches(&line).count(), 1, "{line} in {text}");
    }
    assert_eq!(text.matches("> go").count(), 1, "{text}");
    seat.terminal.with_emulator(|emulator| {
        for clear in ["\x1b[2J", "\x1b[3J"] {
            assert_eq!(emulator.count(clear), 0, "{clear:?}");
        }
    });
}
