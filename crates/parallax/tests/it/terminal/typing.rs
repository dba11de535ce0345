//! Typed and pasted input.

use testkit::pty::{Answers, Emulator, Key};

use super::seat::{COMPOSER, Seat, Start};
use crate::support::World;

const ANSWER: &str = r#"[{"text":"Done.","repeat":0}]"#;

/// Returns the newest request as text.
fn request(seat: &Seat) -> String {
    let request = seat.world.server.requests().pop().expect("a request");
    String::from_utf8_lossy(&request.body).into_owned()
}

#[test]
fn several_lines_in_one_burst_are_one_draft() {
    for (answers, line_end) in
        [(Answers::modern(), "\r"), (Answers::silent(), "\r"), (Answers::modern(), "\r\n")]
    {
        let start = Start::default().answering(answers);
        let seat = Seat::in_world(World::new(ANSWER), &start);
        seat.types(&["burst one", "burst two", "burst three"].join(line_end));
        seat.sees("burst three");
        seat.settles();
        assert!(seat.world.server.requests().is_empty(), "a line was sent");
        seat.press(Key::Enter);
        seat.sees("Done.");
        let sent = request(&seat);
        assert!(sent.contains(r"burst one\nburst two\nburst three"), "{sent}");
    }
}

#[test]
fn pasted_draft_is_not_sent_by_its_last_line_ending() {
    let seat = Seat::ready(ANSWER);
    seat.types("first line\rsecond line\r");
    seat.sees("second line");
    seat.settles();
    assert!(seat.world.server.requests().is_empty(), "a line was sent");
}

#[test]
fn line_with_return_in_one_burst_is_sent() {
    let seat = Seat::ready(ANSWER);
    seat.types("one line\r");
    seat.sees("Done.");
    seat.is_idle();
    // Commands too, even if a completion list is open.
    seat.types("/about\r");
    seat.sees("sign-in");
    seat.sees(COMPOSER);
}

#[test]
fn redraw_restores_overwritten_rows() {
    let seat = Seat::in_world(World::new(ANSWER), &Start::sized(80, 20));
    seat.prompts("a question to see again");
    seat.sees("Done.");
    seat.is_idle();
    seat.settles();
    let before = seat.window();
    seat.terminal.scribble("\u{1b}[3;1HGARBAGE\u{1b}[9;1HGARBAGE").expect("a terminal");
    assert!(seat.window().contains("GARBAGE"));
    seat.types("\u{c}");
    seat.sees_no("GARBAGE");
    seat.settles();
    assert_eq!(seat.window().trim(), before.trim());
    let lines = seat.lines().join("\n");
    assert_eq!(lines.matches("a question to see again").count(), 1, "{lines}");
}

/// Returns the output of the program without escape sequences.
fn stream(seat: &Seat) -> String {
    seat.terminal.with_emulator(plain_output)
}

fn plain_output(shown: &Emulator) -> String {
    let output = String::from_utf8_lossy(shown.output());
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
    let seat = Seat::in_world(World::new(ANSWER), &Start::sized(100, 30));
    let text = "see  a b, aa  and twice";
    for (at, char) in text.char_indices() {
        let before = stream(&seat).len();
        seat.types(&char.to_string());
        seat.sees(text[..=at].trim_end());
        // The text may be elsewhere in the window, so that it does not show that this one is drawn.
        let drawn = seat.terminal.wait(&format!("output of {char:?}"), |shown| {
            plain_output(shown).get(before..).is_some_and(|new| new.contains(char))
        });
        assert_eq!(drawn, Ok(()));
        seat.terminal.settle(std::time::Duration::from_millis(40));
    }
    // A character typed before an equal one is also drawn.
    seat.press(Key::Home);
    seat.settles();
    let before = stream(&seat).len();
    seat.types("s");
    seat.settles();
    let after = stream(&seat);
    assert!(after[before..].contains('s'), "{:?}", &after[before..]);
}

#[test]
fn typed_command_is_output_in_one_piece_next_to_a_list() {
    let seat = Seat::in_world(World::new(ANSWER), &Start::sized(100, 30));
    for char in "/mcp".chars() {
        seat.types(&char.to_string());
        seat.settles();
    }
    for piece in ["> /", "/m", "/mc", "/mcp"] {
        assert!(stream(&seat).contains(piece), "{piece}: {:?}", stream(&seat));
    }
    let before = stream(&seat).len();
    seat.press(Key::Esc);
    seat.settles();
    let after = stream(&seat);
    assert!(after[before..].contains("/mcp"), "{:?}", &after[before..]);
}
