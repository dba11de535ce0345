//! Running commands: their seconds, their keys, and the notices about background commands.

use std::time::Duration;

use parallax_protocol::shell::{BackgroundProcess, BackgroundState};

use super::*;

fn process(pid: i32, state: BackgroundState) -> BackgroundProcess {
    BackgroundProcess {
        pid,
        command: format!("sleep {pid}"),
        state,
        log: "/log".into(),
        last_lines: Vec::new(),
    }
}

#[test]
fn background_processes_are_counted_and_their_end_is_shown_once() {
    let mut bench = Bench::new(Layout::Inline);
    let running = [1, 2].map(|pid| process(pid, BackgroundState::Running));
    bench.event(EventBody::Background { processes: running.to_vec() });
    bench.assert_visible("2 in background (/shells)");
    let [one, _] = running;
    let ended = vec![one, process(2, BackgroundState::Exited { code: Some(3) })];
    bench.event(EventBody::Background { processes: ended.clone() });
    bench.assert_visible("1 in background (/shells)");
    let notice = "background command exited with code 3: sleep 2 (/shells)";
    let reports_end = |rows: &[String]| rows.iter().any(|row| row.contains(notice));
    let mut bench = Bench::new(Layout::Inline);
    bench.event(EventBody::Background { processes: ended.clone() });
    assert!(reports_end(&bench.rows()));
    bench.event(EventBody::Background { processes: ended.clone() });
    assert!(!reports_end(&bench.rows()));
    // The session reports it.
    let mut bench = Bench::new(Layout::Inline);
    bench.app.settings.reports_background = false;
    bench.event(EventBody::Background { processes: ended });
    assert!(!reports_end(&bench.rows()));
}

#[test]
fn user_command_shows_elapsed_time_and_stop_key() {
    let mut bench = Bench::new(Layout::Inline);
    bench.app.window.resize((80, 24));
    bench.shell("sleep 60");
    bench.assert_visible("Running a command (esc to cancel, 0s)");
    bench.app.clock.advance(Duration::from_secs(3));
    bench.assert_visible("Running a command (esc to cancel, 3s · tab to type into the command");
    bench.assert_visible("sleep 60 · 3s");
    // In text, Tab has another meaning.
    bench.keys("x");
    bench.assert_visible("(esc to cancel, 3s · ctrl+b to run it in the background)");
    bench.keys("\u{1b}");
    assert!(bench.ops().iter().any(|op| matches!(op, Op::Interrupt)));
}

#[test]
fn escape_restores_queued_prompts_in_order() {
    let mut bench = Bench::new(Layout::Inline);
    bench.turn();
    bench.keys("later\t");
    bench.keys("first\n");
    bench.keys("second\n");
    bench.keys("\u{1b}");
    let ended = TurnEnded { reason: EndReason::Cancelled, duration_ms: 1, is_removed: false };
    bench.event(EventBody::TurnEnded(ended));
    assert_eq!(bench.app.composer.buffer().text().to_string(), "go\n\nfirst\n\nsecond\n\nlater");
}

#[test]
fn help_is_not_truncated() {
    for width in [40, 60, 80] {
        let mut bench = Bench::new(Layout::Inline);
        bench.app.window.resize((width, 24));
        bench.keys("/help\n");
        for _ in 0..3 {
            bench.press(Key::plain(KeyCode::Right));
        }
        let summary = "Right after inserting: replace it with the text deleted before";
        let expected: Vec<&str> = summary.split(' ').collect();
        let mut found = false;
        for _ in 0..400 {
            let rows = bench.rows();
            let text = rows.join(" ");
            let words: Vec<&str> = text.split_whitespace().collect();
            found |= words.windows(expected.len()).any(|found| found == expected);
            assert!(rows.iter().all(|row| parallax_screen::text_width(row) < usize::from(width)));
            bench.press(Key::plain(KeyCode::Down));
        }
        assert!(found, "{width}");
        bench.press(Key::plain(KeyCode::Escape));
        assert!(!bench.app.dialogs.is_open());
    }
}
