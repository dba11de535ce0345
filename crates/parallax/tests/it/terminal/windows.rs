//! Windows of all sizes and terminals of all kinds.

use testkit::pty::{Answers, Key};

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

/// Returns a reply of numbered lines that stops at ten gates.
fn long_answer() -> String {
    let mut chunks = Vec::new();
    for part in 0..10 {
        for line in 0..12 {
            let number = part * 12 + line;
            chunks.push(format!(
                r#"{{"text":"- line {number:03} of a long answer that is written so that it does not fit into a narrow window at all\n"}}"#
            ));
        }
        chunks.push(format!(r#"{{"gate":"part-{part}"}}"#));
    }
    chunks.push(r#"{"text":"\nThe end."},{"finish":"STOP"}"#.to_owned());
    format!(r#"[{{"chunks":[{}]}}]"#, chunks.join(","))
}

/// Checks that every line of the long answer is shown once, in order.
fn assert_whole(seat: &TerminalDriver) {
    let text = seat.lines().join(" ");
    let seen: Vec<usize> = text
        .match_indices("line ")
        .filter_map(|(at, _)| text.get(at + 5..at + 8)?.parse().ok())
        .collect();
    let expected: Vec<usize> = (0..120).collect();
    assert_eq!(seen, expected, "{}", seat.terminal.with_emulator(testkit::pty::Emulator::dump));
    seat.terminal.with_emulator(|emulator| {
        for clear in ["\x1b[2J", "\x1b[3J", "\x1bc"] {
            assert_eq!(emulator.count(clear), 0, "{clear:?}");
        }
    });
}

#[test]
fn ten_resizes_lose_and_duplicate_nothing() {
    let seat = TerminalDriver::start_in(World::new(&long_answer()), &StartOptions::sized(120, 40));
    seat.prompts("go");
    for part in 0..10 {
        seat.world.at_gate(&format!("part-{part}"));
        seat.has_seen(&format!("line {:03}", part * 12 + 11));
        let (columns, rows) = if part % 2 == 0 { (60, 20) } else { (120, 40) };
        seat.terminal.resize(columns, rows).expect("resize");
        // Cover both orders: the answer continues immediately, or after the frame is drawn.
        if part % 3 == 0 {
            seat.wait_until_stable();
        }
        seat.world.server.open_gate(&format!("part-{part}"));
    }
    seat.wait_for_text("The end.");
    seat.wait_for_text(COMPOSER);
    assert_whole(&seat);
    let rules = seat.lines().iter().filter(|line| line.contains(COMPOSER)).count();
    assert_eq!(
        rules,
        1,
        "ghosts of the composer: {}",
        seat.terminal.with_emulator(testkit::pty::Emulator::dump)
    );
}

#[test]
fn long_answer_is_in_the_scrollback_once() {
    for answers in [Answers::modern(), Answers::basic(), Answers::silent()] {
        let seat = TerminalDriver::start_in(
            World::new(&long_answer()),
            &StartOptions::sized(100, 12).with_answers(answers),
        );
        for part in 0..10 {
            seat.world.server.open_gate(&format!("part-{part}"));
        }
        // A single letter, because without bracketed paste, fast typing would be treated as a
        // paste.
        seat.prompts("g");
        seat.wait_for_text("The end.");
        seat.wait_for_text(COMPOSER);
        assert_whole(&seat);
    }
}

#[test]
fn tiny_window_is_usable() {
    let seat = TerminalDriver::started(
        World::new(r#"[{"text":"Alpha beta gamma delta epsilon zeta eta theta."}]"#),
        &StartOptions::sized(20, 5),
    );
    seat.wait_for_text("Type your");
    seat.prompts("hello");
    seat.wait_for_text("theta.");
    seat.wait_for_text("Type your");
    seat.wait_until_stable();
    let words: Vec<String> = seat
        .lines()
        .iter()
        .flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    for word in ["Alpha", "epsilon", "theta."] {
        assert_eq!(words.iter().filter(|seen| *seen == word).count(), 1, "{word} in {words:?}");
    }
}

#[test]
fn alternate_screen_is_restored() {
    let world = World::new(r#"[{"text":"An answer."}]"#);
    let settings = r#"{"ui":{"useAlternateBuffer":true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &StartOptions::default());
    assert!(seat.terminal.with_emulator(|emulator| emulator.has_mode(1049)));
    seat.prompts("hello");
    seat.wait_for_text("An answer.");
    seat.wait_for_text(COMPOSER);
    seat.prompts("/quit");
    seat.ends();
    seat.terminal.with_emulator(|emulator| {
        assert_eq!(emulator.modes().iter().copied().collect::<Vec<_>>(), [7, 25]);
    });
}

#[test]
fn screen_reader_output_is_plain_lines() {
    let world = World::new(r#"[{"text":"An answer.\n\n- item\n"}]"#);
    let seat =
        TerminalDriver::start_in(world, &StartOptions::default().arguments(&["--screen-reader"]));
    let mark = seat.terminal.mark();
    seat.prompts("hello");
    seat.wait_for_text("item");
    seat.wait_for_text(COMPOSER);
    let output = String::from_utf8_lossy(&seat.terminal.output_since(mark)).into_owned();
    assert!(!output.contains("\x1b["), "{output:?}");
    for sign in ["─", "│", "╭", "✦"] {
        assert!(!output.replace("✦  Working", "").contains(sign), "{output:?}");
    }
}

#[test]
fn dumb_terminal_gets_no_escape_sequences() {
    let seat = TerminalDriver::start_in(
        World::new(r#"[{"text":"An answer."}]"#),
        &StartOptions::default().with_variable("TERM", "dumb"),
    );
    seat.prompts("hello");
    seat.wait_for_text("An answer.");
    seat.wait_for_text(COMPOSER);
    seat.press(Key::Ctrl('c'));
    seat.press(Key::Ctrl('c'));
    seat.ends();
    let output = String::from_utf8_lossy(&seat.terminal.output_since(0)).into_owned();
    assert!(!output.contains('\x1b'), "{output:?}");
}

#[test]
fn no_color_writes_no_colors() {
    let script = r#"[{"text":"An **answer** with `code`.\n\n```rust\nfn main() {}\n```\n"}]"#;
    let seat = TerminalDriver::start_in(
        World::new(script),
        &StartOptions::default().with_variable("NO_COLOR", "1"),
    );
    seat.prompts("hello");
    seat.wait_for_text("fn main");
    seat.wait_for_text(COMPOSER);
    seat.terminal.with_emulator(|emulator| {
        for row in 0..24 {
            for cell in emulator.cells(row) {
                assert!(cell.pen().foreground().is_none() && cell.pen().background().is_none());
            }
        }
    });
}

#[test]
fn default_theme_uses_the_sixteen_colors() {
    let script = r#"[{"text":"An **answer** with `code`.\n\n```rust\nfn main() { let x = \"s\"; }\n```\n"}]"#;
    // If the background is known, prompts and diffs use a color mixed from it.
    let modern = Answers::modern();
    for (answers, mixes) in
        [(Answers { background: None, ..modern.clone() }, false), (modern, true)]
    {
        let seat = TerminalDriver::start_in(
            World::new(script),
            &StartOptions::default().with_answers(answers),
        );
        seat.prompts("hello");
        seat.wait_for_text("fn main");
        seat.wait_for_text(COMPOSER);
        let output = String::from_utf8_lossy(&seat.terminal.output_since(0)).into_owned();
        for other in ["38;2;", "38;5;", "48;5;"] {
            assert!(!output.contains(other), "{other}");
        }
        assert_eq!(output.contains("48;2;"), mixes);
    }
}

#[test]
fn setting_names_are_shown_in_a_narrow_window() {
    let seat = TerminalDriver::start_in(World::new("[]"), &StartOptions::sized(40, 12));
    seat.prompts("/settings");
    seat.wait_for_text("❯ Preferred editor");
}

#[test]
fn resize_within_an_answer_line_duplicates_nothing() {
    // Each part ends within a line, as in most real answers.
    let mut chunks = Vec::new();
    for part in 0..10 {
        for line in 0..12 {
            let number = part * 12 + line;
            let sign = if part % 2 == 0 { "- " } else { "" };
            chunks.push(format!(r#"{{"text":"{sign}line {number:03} of a long answer that is"}}"#));
            if line == 6 {
                chunks.push(format!(r#"{{"gate":"part-{part}"}}"#));
            }
            chunks.push(
                r#"{"text":" written so that it does not fit into a narrow window at all\n"}"#
                    .to_owned(),
            );
        }
        chunks.push(r#"{"text":"\n"}"#.to_owned());
    }
    chunks.push(r#"{"text":"\nThe end."},{"finish":"STOP"}"#.to_owned());
    let script = format!(r#"[{{"chunks":[{}]}}]"#, chunks.join(","));
    for sizes in [[(60, 20), (120, 20)], [(70, 30), (110, 24)], [(100, 14), (50, 40)]] {
        let seat = TerminalDriver::start_in(World::new(&script), &StartOptions::sized(120, 20));
        seat.prompts("go");
        for part in 0..10 {
            seat.world.at_gate(&format!("part-{part}"));
            seat.has_seen(&format!("line {:03}", part * 12 + 6));
            let (columns, rows) = sizes[part % 2];
            seat.terminal.resize(columns, rows).expect("resize");
            if part % 3 == 0 {
                seat.wait_until_stable();
            }
            seat.world.server.open_gate(&format!("part-{part}"));
        }
        seat.wait_for_text("The end.");
        seat.wait_for_text(COMPOSER);
        assert_whole(&seat);
    }
}
