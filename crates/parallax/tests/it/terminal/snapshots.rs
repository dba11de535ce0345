//! Snapshots of screens in three sizes.

use std::path::Path;

use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

const SIZES: [(u16, u16); 3] = [(80, 24), (40, 20), (140, 50)];

const ANSWER: &str = r##"[{"chunks":[
    {"text":"# Two findings\n\nThe retry in `net/retry.rs` never **waits**: the delay is computed, then dropped.\n\n1. compute the delay\n2. sleep\n   - with jitter\n\n| attempt | delay |\n|--------:|-------|\n| 1 | 100 ms |\n| 2 | 200 ms |\n\n> It was so before.\n\n```rust\nlet delay = base * 2_u32.pow(attempt);\n```\n\n- [x] found\n- [ ] fixed\n"},{"finish":"STOP"}
]},
{"calls":[{"name":"run_shell_command","args":{"command":"cargo test --quiet retry && git diff --stat","description":"Tests the retry"}}]},
{"calls":[{"name":"replace","args":{"file_path":"retry.rs","instruction":"Wait","old_string":"    let delay = delay(attempt);\n    send()","new_string":"    let delay = delay(attempt);\n    sleep(delay);\n    send()"}}]},
{"text":"Both are fixed."}]"##;

/// The journal of a recorded session.
const RECORDED: &str = include_str!("recorded/session.jsonl");

/// Returns scrollback and window without varying parts. The split between the two also varies,
/// because the status row comes and goes.
fn picture(seat: &TerminalDriver) -> String {
    seat.wait_until_stable();
    constant_rows(&seat.lines(), seat.world.home.root())
}

/// Returns rows without the parts that differ from run to run. `root` is the directory of the test.
pub(super) fn constant_rows(rows: &[String], root: &Path) -> String {
    let mut window = rows.join("\n").trim_end().to_owned();
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
    let root = root.display().to_string();
    // A replacement of the same length, so that rows are truncated at the same position.
    let fixed = |text: &str| "x".repeat(text.len());
    window = window.replace(&root, &format!("/{}", fixed(&root[1..])));
    if let Some(name) = name {
        window = window.replace(&name, &fixed(&name));
    }
    let window =
        window.replace(concat!("Parallax ", env!("CARGO_PKG_VERSION")), "Parallax VERSION");
    // Whether there is a sandbox may be known only after a screen reader was greeted.
    let window = window.replace(" Commands run without a sandbox.", "");
    let rows = window.lines().map(without_spinner).map(|row| without_time(&row));
    let rows = rows.map(|row| without_duration(&row));
    rows.map(|row| without_statistics(&row)).collect::<Vec<_>>().join("\n")
}

/// Removes the session id and the durations from statistics.
fn without_statistics(row: &str) -> String {
    // The session id is long and has only words that are hexadecimal numbers.
    let is_id = |word: &str| {
        word.len() == 36 && word.split('-').all(|part| u64::from_str_radix(part, 16).is_ok())
    };
    if let Some(id) = row.split_whitespace().find(|word| is_id(word)) {
        return row.replace(id, "ID");
    }
    let is_digit = |char: Option<&char>| char.is_some_and(char::is_ascii_digit);
    let mut chars: Vec<char> = row.chars().collect();
    for index in 2..chars.len() {
        // Tenths of a second.
        if chars[index] == 's' && is_digit(chars.get(index - 1)) && chars[index - 2] == '.' {
            chars[index - 1] = '0';
            for digit in
                chars[..index - 2].iter_mut().rev().take_while(|char| char.is_ascii_digit())
            {
                *digit = '0';
            }
        }
    }
    chars.into_iter().collect()
}

/// Removes the spinner and the seconds from the row of the current activity.
fn without_spinner(row: &str) -> String {
    let is_spinner = row.starts_with(|char| ('⠀'..='⣿').contains(&char));
    let Some((before, facts)) = row.split_once(" (").filter(|_| is_spinner) else {
        return row.to_owned();
    };
    let what: String = before.chars().skip(1).collect();
    // Tokens are shown only after the first second.
    let is_key =
        |fact: &&str| !fact.trim_end_matches(')').trim_end_matches('s').ends_with(" token");
    let mut keys: Vec<&str> = facts.split(" · ").filter(is_key).collect();
    if let Some((stop, _)) = keys.first().and_then(|stop| stop.split_once(", ")) {
        keys[0] = stop;
    }
    let keys = keys.join(" · ").replacen("cancel", "cancel, TIME", 1);
    format!("⠋{what} ({})", keys.trim_end_matches(')'))
}

/// Removes the seconds from the row of a tool call, which are there only if it took long.
fn without_duration(row: &str) -> String {
    let call = row.strip_prefix("│ ").unwrap_or(row);
    let is_seconds =
        |word: &str| word.strip_suffix('s').is_some_and(|digits| digits.parse::<u32>().is_ok());
    match row.rsplit_once(' ') {
        Some((rest, last)) if call.starts_with(['✓', '✕']) && is_seconds(last) => {
            rest.trim_end().to_owned()
        }
        _ => row.to_owned(),
    }
}

/// Removes the duration and the time from the row that ends a turn.
fn without_time(row: &str) -> String {
    if let Some((_, facts)) = row.strip_prefix("Done. (").and_then(|facts| facts.split_once("s")) {
        return format!("Done. (TIME{facts}");
    }
    let Some(facts) = row.strip_prefix("─ ") else { return row.to_owned() };
    let mut facts: Vec<&str> = facts.split(" · ").collect();
    facts[0] = "TIME";
    if let Some(clock) = facts.last_mut() {
        *clock = "CLOCK";
    }
    format!("─ {}", facts.join(" · "))
}

fn assert_pictures(name: &str, arrive: impl Fn(&TerminalDriver)) {
    assert_pictures_with(name, &[], arrive);
}

fn assert_pictures_with(name: &str, arguments: &[&str], arrive: impl Fn(&TerminalDriver)) {
    for (columns, rows) in SIZES {
        let world = World::new(ANSWER);
        world
            .home
            .write(
                "retry.rs",
                "fn retry(attempt: u32) {\n    let delay = delay(attempt);\n    send()\n}\n",
            )
            .expect("file");
        world.home.write("session.jsonl", RECORDED).expect("file");
        let seat = TerminalDriver::started(
            world,
            &StartOptions::sized(columns, rows).arguments(arguments),
        );
        seat.wait_for_text("Type your message");
        // The sandbox state arrives a moment later.
        seat.wait_until_stable();
        arrive(&seat);
        insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), picture(&seat));
        });
    }
}

#[test]
fn start_screen_matches_its_snapshot() {
    assert_pictures("start", |_| {});
}

#[test]
fn answer_matches_its_snapshot() {
    assert_pictures("answer", |seat| {
        seat.prompts("look");
        seat.wait_for_text("fixed");
        seat.wait_for_text(COMPOSER);
    });
}

#[test]
fn shell_approval_matches_its_snapshot() {
    assert_pictures("shell-question", |seat| {
        seat.prompts("look");
        seat.wait_for_text("fixed");
        seat.wait_for_text(COMPOSER);
        seat.prompts("test");
        seat.wait_for_text("Allow execution of this command?");
    });
}

#[test]
fn edit_approval_matches_its_snapshot() {
    assert_pictures("edit-question", |seat| {
        seat.prompts("look");
        seat.wait_for_text("fixed");
        seat.wait_for_text(COMPOSER);
        seat.prompts("test");
        seat.wait_for_text("Allow execution of this command?");
        let window = seat.window();
        let row = window.lines().find(|row| row.contains("tell the model")).expect("the choice");
        let number = row.trim_start_matches(['❯', ' ']).chars().next().expect("a number");
        seat.press(Key::Char(number));
        seat.type_text("later");
        seat.press(Key::Enter);
        seat.wait_for_text("Apply this change?");
    });
}

#[test]
fn resumed_session_matches_its_snapshot() {
    assert_pictures_with("recorded", &["--session-file", "session.jsonl"], |seat| {
        seat.has_seen("sleep(delay);");
    });
}

#[test]
fn whole_transcript_matches_its_snapshot() {
    assert_pictures_with("transcript", &["--session-file", "session.jsonl"], |seat| {
        seat.has_seen("sleep(delay);");
        seat.prompts("/transcript");
        seat.wait_for_text("Transcript");
        seat.press(Key::Home);
        seat.wait_for_text("> Let the retry wait.");
    });
}
