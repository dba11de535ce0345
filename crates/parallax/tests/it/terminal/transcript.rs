//! The transcript in the full window, over the inline screen.

use testkit::pty::Key;

use super::seat::{COMPOSER, Seat, Start};
use crate::support::World;

#[test]
fn transcript_pager_shows_searches_and_leaves_no_trace() {
    let lines: Vec<String> = (0..80).map(|number| format!("- line {number:03} of it")).collect();
    let answer = serde_json::to_string(&lines.join("\n")).expect("text");
    let script = format!(r#"[{{"text":{answer}}},{{"text":"Second."}}]"#);
    let seat = Seat::in_world(World::new(&script), &Start::sized(80, 24));
    seat.prompts("go");
    seat.sees("line 079");
    seat.is_idle();
    seat.prompts("/transcript");
    seat.sees("Transcript");
    assert!(seat.terminal.with_emulator(|shown| shown.has_mode(1049)));
    seat.press(Key::Home);
    seat.sees("> go");
    seat.types("/line 042");
    seat.sees("/line 042");
    seat.press(Key::Enter);
    seat.sees("line 042");
    seat.sees_no("line 079");
    seat.terminal.resize(60, 20).expect("resize");
    seat.sees("line 042");
    seat.types("q");
    seat.sees(COMPOSER);
    seat.settles();
    assert!(!seat.terminal.with_emulator(|shown| shown.has_mode(1049)));
    seat.prompts("on");
    seat.sees("Second.");
    seat.is_idle();
    let text = seat.lines().join("\n");
    for number in 0..80 {
        let line = format!("line {number:03}");
        assert_eq!(text.matches(&line).count(), 1, "{line} in {text}");
    }
    assert_eq!(text.matches("> go").count(), 1, "{text}");
    seat.terminal.with_emulator(|shown| {
        for clear in ["\x1b[2J", "\x1b[3J"] {
            assert_eq!(shown.count(clear), 0, "{clear:?}");
        }
    });
}
