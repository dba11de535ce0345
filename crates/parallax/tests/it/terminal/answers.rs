//! Streaming answers and how to stop them.

use std::time::{Duration, Instant};

use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::{World, wait_until};

const HALVES: &str = r#"[{"chunks":[{"text":"First half. "},{"gate":"half"},{"text":"Second half."},{"finish":"STOP"}]},{"text":"Second answer."},{"text":"Third answer."}]"#;

#[test]
fn markdown_is_rendered_while_streaming() {
    let seat = TerminalDriver::ready(
        r##"[{"chunks":[{"text":"# Plan\n\n1. read\n2. *write*\n\n```rust\nfn main() {"},{"gate":"code"},{"text":"}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"},{"finish":"STOP"}]}]"##,
    );
    seat.prompts("go");
    seat.wait_for_text("fn main() {");
    seat.world.server.open_gate("code");
    seat.wait_for_text("fn main() {}");
    seat.wait_for_text(COMPOSER);
    let window = seat.window();
    for expected in ["Plan", "1. read", "2. write", "a", "│"] {
        assert!(window.contains(expected), "no {expected} in\n{window}");
    }
    for source in ["# Plan", "*write*", "```", "|---"] {
        assert!(!window.contains(source), "{source} in\n{window}");
    }
}

#[test]
fn escape_stops_the_stream_and_keeps_received_text() {
    let seat = TerminalDriver::ready(HALVES);
    seat.prompts("hello");
    seat.wait_for_text("First half.");
    let pressed = Instant::now();
    seat.press(Key::Esc);
    seat.wait_for_text("Request cancelled");
    // A generous limit for busy machines; the benchmark measures the real time.
    assert!(pressed.elapsed() < Duration::from_secs(2), "{:?}", pressed.elapsed());
    seat.prompts("and now?");
    seat.wait_for_text("Second answer.");
    seat.wait_for_text(COMPOSER);
    wait_until("the end of the first stream", || seat.world.server.requests()[0].aborted);
    let contents = seat.world.server.requests()[1].contents();
    let report = serde_json::to_string(&contents).expect("JSON");
    assert!(report.contains("First half."), "{report}");
    assert!(seat.window().contains("First half."));
}

#[test]
fn text_typed_during_a_turn_steers_or_queues() {
    let seat = TerminalDriver::ready(HALVES);
    seat.prompts("hello");
    seat.wait_for_text("First half.");
    seat.prompts("more please");
    seat.wait_for_text("› more please");
    seat.type_text("and later this");
    seat.wait_for_text("> and later this");
    seat.press(Key::Tab);
    seat.wait_for_text("› and later this");
    seat.world.server.open_gate("half");
    seat.wait_for_text("Second answer.");
    seat.wait_for_text("Third answer.");
    let window = seat.window();
    let order = [
        "> hello",
        "Second half",
        "> more please",
        "Second answer",
        "> and later this",
        "Third answer",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|text| window.find(text).unwrap_or_else(|| panic!("no {text} in\n{window}")))
        .collect();
    assert!(places.is_sorted(), "{window}");
}

#[test]
fn queued_message_is_recalled_for_editing() {
    let seat = TerminalDriver::ready(HALVES);
    seat.prompts("hello");
    seat.wait_for_text("First half.");
    seat.type_text("later");
    seat.wait_for_text("> later");
    seat.press(Key::Tab);
    seat.wait_for_text("› later");
    seat.press(Key::Up);
    seat.wait_for_text("> later");
    seat.wait_until_gone("› later");
}

#[test]
fn shell_line_runs_and_its_output_reaches_the_model() {
    let seat = TerminalDriver::ready(r#"[{"text":"Hello."},{"text":"I see it."}]"#);
    // A shell line needs an open session.
    seat.prompts("hello");
    seat.wait_for_text("Hello.");
    seat.is_idle();
    seat.type_text("!echo $((40+2)) in");
    seat.wait_for_text("! echo $((40+2)) in");
    seat.press(Key::Enter);
    seat.wait_for_text("42 in");
    // The marker of a finished command; before it, Esc would stop the command.
    seat.wait_for_text("│ ! echo");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("did you see that?");
    seat.wait_for_text("I see it.");
    let request = seat.world.server.requests().remove(1);
    assert!(String::from_utf8_lossy(&request.body).contains("42 in"));
}

#[test]
fn long_paste_is_collapsed_and_sent_in_full() {
    let seat = TerminalDriver::ready(r#"[{"text":"Read."}]"#);
    let pasted: Vec<String> = (0..200).map(|line| format!("pasted line {line}")).collect();
    seat.terminal.paste(&pasted.join("\n")).expect("paste");
    seat.wait_for_text("[Pasted Text: 200 lines]");
    seat.press(Key::Enter);
    seat.wait_for_text("Read.");
    let sent = serde_json::to_string(&seat.world.server.requests()[0].contents()).expect("JSON");
    assert!(sent.contains("pasted line 199"), "{sent}");
}

#[test]
fn escape_ends_a_running_command() {
    let seat = TerminalDriver::start_in(
        World::new(
            r#"[{"calls":[{"name":"run_shell_command","args":{"command":"echo started; sleep 61 & sleep 62; touch too-late"}}]},{"text":"over"}]"#,
        ),
        &StartOptions::default().arguments(&["--yolo"]),
    );
    seat.prompts("go");
    seat.wait_for_text("started");
    wait_until("its processes", || sleep_processes(&seat).len() == 2);
    let pressed = Instant::now();
    seat.press(Key::Esc);
    wait_until("the end of all its processes", || sleep_processes(&seat).is_empty());
    assert!(pressed.elapsed() < Duration::from_secs(2), "{:?}", pressed.elapsed());
    seat.wait_for_text(COMPOSER);
}

/// Returns the `sleep` processes in the project of the seat.
pub fn sleep_processes(seat: &TerminalDriver) -> Vec<i32> {
    let project = seat.world.home.project();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter(|entry| {
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == project)
                && std::fs::read(entry.path().join("cmdline"))
                    .is_ok_and(|line| line.starts_with(b"sleep\0"))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
