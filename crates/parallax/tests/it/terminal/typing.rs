//! Typed and pasted input.

use testkit::pty::{Answers, Emulator, Key};

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

const ANSWER: &str = r#"[{"text":"Done.","repeat":0}]"#;

/// Returns the newest request as text.
fn request(seat: &TerminalDriver) -> String {
    let request = seat.world.server.requests().pop().expect("a request");
    String::from_utf8_lossy(&request.body).into_owned()
}

#[test]
fn several_lines_in_one_burst_are_one_draft() {
    for (answers, line_end) in
        [(Answers::modern(), "\r"), (Answers::silent(), "\r"), (Answers::modern(), "\r\n")]
    {
        let start = StartOptions::default().with_answers(answers);
        let seat = TerminalDriver::start_in(World::new(ANSWER), &start);
        seat.type_text(&["burst one", "burst two", "burst three"].join(line_end));
        seat.wait_for_text("burst three");
        seat.wait_until_stable();
        assert!(seat.world.server.requests().is_empty(), "a line was sent");
        seat.press(Key::Enter);
        seat.wait_for_text("Done.");
        let sent = request(&seat);
        assert!(sent.contains(r"burst one\nburst two\nburst three"), "{sent}");
    }
}

#[test]
fn pasted_draft_is_not_sent_by_its_last_line_ending() {
    let seat = TerminalDriver::ready(ANSWER);
    seat.type_text("first line\rsecond line\r");
    seat.wait_for_text("second line");
    seat.wait_until_stable();
    assert!(seat.world.server.requests().is_empty(), "a line was sent");
}

#[test]
fn line_and_return_in_one_burst_are_sent() {
    let seat = TerminalDriver::ready(ANSWER);
    seat.type_text("one line\r");
    seat.wait_for_text("Done.");
    seat.is_idle();
    // Commands too, even if a completion list is open.
    seat.type_text("/about\r");
    seat.wait_for_text("sign-in");
    seat.wait_for_text(COMPOSER);
}

#[test]
fn redraw_restores_overwritten_rows() {
    let seat = TerminalDriver::start_in(World::new(ANSWER), &StartOptions::sized(80, 20));
    seat.prompts("a question to see again");
    seat.wait_for_text("Done.");
    seat.is_idle();
    seat.wait_until_stable();
    let before = seat.window();
    seat.terminal.overwrite_screen("\u{1b}[3;1HGARBAGE\u{1b}[9;1HGARBAGE").expect("a terminal");
    assert!(seat.window().contains("GARBAGE"));
    seat.type_text("\u{c}");
    seat.wait_until_gone("GARBAGE");
    seat.wait_until_stable();
    assert_eq!(seat.window().trim(), before.trim());
    let lines = seat.lines().join("\n");
    assert_eq!(lines.matches("a question to see again").count(), 1, "{lines}");
}

#[test]
fn redraw_after_a_panel_restores_the_conversation() {
    let seat = TerminalDriver::start_in(World::new(ANSWER), &StartOptions::sized(80, 20));
    seat.prompts("a question to see again");
    seat.wait_for_text("Done.");
    for dialog in ["/help", "/docs", "/footer"] {
        seat.type_text(&format!("{dialog}\r"));
        seat.wait_for_text("esc close");
        seat.wait_until_stable();
        seat.terminal.overwrite_screen("\u{1b}[9;1HGARBAGE").expect("a terminal");
        seat.type_text("\u{c}");
        seat.wait_until_gone("GARBAGE");
        seat.press(Key::Esc);
        seat.wait_until_gone("esc close");
    }
    seat.wait_for_text("a question to see again");
    seat.is_idle();
    seat.wait_until_stable();
    let before = seat.window();
    seat.terminal.overwrite_screen("\u{1b}[3;1HGARBAGE").expect("a terminal");
    seat.type_text("\u{c}");
    seat.wait_until_gone("GARBAGE");
    seat.wait_until_stable();
    assert_eq!(seat.window().trim(), before.trim());
}

/// Returns the output of the program without escape sequences.
fn stream(seat: &TerminalDriver) -> String {
    seat.terminal.with_emulator(plain_output)
}

fn plain_output(emulator: &Emulator) -> String {
    let output = String::from_utf8_lossy(emulator.output());
    let mut plain = String::new();
    let mut rest = &*output;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let ends = |char: char| ('@'..='~').contains(&char);
        rest = match sequence.strip_prefix('[') {
            Some(body) => body.split_once(ends).map_or("", |(_, rest)| rest),
            None => sequence.get(1..).unwrap_or_default(),
        };
    }
    plain.push_str(rest);
    plain
}

#[test]
fn each_typed_character_is_in_the_output() {
    let seat = TerminalDriver::start_in(World::new(ANSWER), &StartOptions::sized(100, 30));
    let text = "see  a b, aa  and twice";
    for (offset, char) in text.char_indices() {
        let before = stream(&seat).len();
        seat.type_text(&char.to_string());
        seat.wait_for_text(text[..=offset].trim_end());
        // The same text may be elsewhere in the window, so its presence does not show that this one
        // is drawn.
        let drawn = seat.terminal.wait(&format!("output of {char:?}"), |shown| {
            plain_output(shown).get(before..).is_some_and(|new| new.contains(char))
        });
        assert_eq!(drawn, Ok(()));
        seat.terminal.settle(std::time::Duration::from_millis(40));
    }
    // A character typed before an equal one is also drawn.
    seat.press(Key::Home);
    seat.wait_until_stable();
    let before = stream(&seat).len();
    seat.type_text("s");
    seat.wait_until_stable();
    let after = stream(&seat);
    assert!(after[before..].contains('s'), "{:?}", &after[before..]);
}

#[test]
fn typed_command_is_output_in_one_piece_next_to_a_list() {
    let seat = TerminalDriver::start_in(World::new(ANSWER), &StartOptions::sized(100, 30));
    for char in "/mcp".chars() {
        seat.type_text(&char.to_string());
        seat.wait_until_stable();
    }
    for piece in ["> /", "/m", "/mc", "/mcp"] {
        assert!(stream(&seat).contains(piece), "{piece}: {:?}", stream(&seat));
    }
    let before = stream(&seat).len();
    seat.press(Key::Esc);
    seat.wait_until_stable();
    let after = stream(&seat);
    assert!(after[before..].contains("/mcp"), "{:?}", &after[before..]);
}
