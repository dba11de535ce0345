//! `parallax attach` in a terminal: a background session in the terminal interface.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::pty::{Key, Terminal};

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::background::{CALL, start};
use crate::support::{World, wait_until};

const HELD: &str = r#"[
    {"match": {"promptContains": "go"}, "chunks": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "first part, "}]}}]},
        {"gate": "held"},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "second part"}]},
            "finishReason": "STOP"}]}]},
    {"match": {"promptContains": "more"}, "repeat": 0, "text": "more done"}]"#;

fn until_state(world: &World, id: &str, state: &str) {
    wait_until(state, || {
        let text = world.run_ok(&["ps", "--json"]).stdout();
        let all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        all.iter().any(|session| session["id"] == json!(id) && session["state"] == json!(state))
    });
}

/// Attaches another terminal.
fn attach(world: &World, id: &str) -> Terminal {
    TerminalDriver::terminal(world, &StartOptions::default().arguments(&["attach", id]))
}

fn wait(terminal: &Terminal, text: &str) {
    terminal.wait_for(text).unwrap_or_else(|problem| panic!("{problem}"));
}

fn text(terminal: &Terminal, text: &str) {
    terminal.text(text).expect("the program listens");
    wait(terminal, text);
    terminal.key(Key::Enter).expect("the program listens");
}

fn end(terminal: &Terminal) -> String {
    let exit = terminal.wait_end().unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(exit.code, 0);
    terminal.with_emulator(testkit::pty::Emulator::lines).join("\n")
}

#[test]
fn attached_session_streams_takes_prompts_and_continues_after_detaching() {
    let world = World::new(HELD);
    let id = start(&world, &["-p", "go"]);
    world.at_gate("held");
    let view = attach(&world, &id);
    // The text of the running turn so far, and what is streamed later.
    wait(&view, "> go");
    wait(&view, "first part,");
    let other = attach(&world, &id);
    wait(&other, "first part,");
    other.key(Key::Ctrl('d')).expect("the program listens");
    let left = end(&other);
    assert!(left.contains("keeps running") && left.contains("parallax attach"), "{left}");
    world.server.open_gate("held");
    wait(&view, "first part, second part");
    wait(&view, COMPOSER);
    text(&view, "more please");
    wait(&view, "more done");
    view.key(Key::Ctrl('d')).expect("the program listens");
    let left = end(&view);
    assert!(left.contains("Detached") && left.contains("parallax --resume"), "{left}");
    until_state(&world, &id, "done");
    // The session had nothing left to do.
    let refused = world.run(&["attach", &id]);
    assert!(refused.err().contains("parallax --resume"), "{}", refused.err());
}

#[test]
fn end_of_the_session_ends_the_view() {
    let world = World::new(HELD);
    let id = start(&world, &["-p", "go"]);
    world.at_gate("held");
    let view = attach(&world, &id);
    wait(&view, "first part,");
    world.run(&["stop", &id]);
    let left = end(&view);
    assert!(left.contains("was stopped") && left.contains("parallax --resume"), "{left}");
}

#[test]
fn request_is_shown_in_all_views_and_closed_by_an_answer_elsewhere() {
    let world = World::new(CALL);
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "awaiting approval");
    let (one, other) = (attach(&world, &id), attach(&world, &id));
    for view in [&one, &other] {
        wait(view, "Allow execution of this command?");
        wait(view, "touch made.txt");
    }
    world.run_ok(&["answer", &id, "allow"]);
    for view in [&one, &other] {
        view.wait_until_gone("Allow execution").unwrap_or_else(|problem| panic!("{problem}"));
        wait(view, "all done");
    }
    assert!(world.home.project().join("made.txt").exists());
    // A prompt of one view appears in the other.
    text(&one, "more please");
    wait(&other, "> more please");
    wait(&other, "more done");
}

#[test]
fn request_is_answered_in_the_view() {
    let world = World::new(CALL);
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "awaiting approval");
    let view = attach(&world, &id);
    wait(&view, "1. Yes, allow once");
    std::thread::sleep(std::time::Duration::from_millis(700));
    view.key(Key::Char('1')).expect("the program listens");
    wait(&view, "all done");
    assert!(world.home.project().join("made.txt").exists());
    text(&view, "/rewind");
    wait(&view, "Rewind");
    view.key(Key::Enter).expect("the program listens");
    wait(&view, "Conversation and files");
    wait(&view, "made.txt");
    view.key(Key::Enter).expect("the program listens");
    wait_until("the file is removed", || !world.home.project().join("made.txt").exists());
    wait(&view, "Rewound the conversation");
    // The prompt is in the composer again.
    view.key(Key::Ctrl('c')).expect("the program listens");
    wait(&view, COMPOSER);
    text(&view, "/quit");
    end(&view);
    until_state(&world, &id, "done");
}

#[test]
fn escape_interrupts_the_turn_of_the_session() {
    let world = World::new(HELD);
    let id = start(&world, &["-p", "go"]);
    world.at_gate("held");
    let view = attach(&world, &id);
    wait(&view, "first part,");
    view.key(Key::Esc).expect("the program listens");
    wait(&view, "Request cancelled");
    until_state(&world, &id, "idle");
    text(&view, "more please");
    wait(&view, "more done");
}

#[test]
fn commands_run_in_the_session_or_are_rejected() {
    let world = World::new(HELD);
    world.home.write("note.txt", "a note for the model\n").expect("a file");
    let id = start(&world, &["-p", "go"]);
    world.at_gate("held");
    let view = attach(&world, &id);
    wait(&view, "first part,");
    world.server.open_gate("held");
    wait(&view, "second part");
    text(&view, "/tools");
    wait(&view, "run_shell_command");
    text(&view, "/clear");
    wait(&view, "/clear is not available in an attached session");
    text(&view, "/nothing");
    wait(&view, "Unknown command `/nothing`");
    // Names of files are completed, and the session reads the file.
    view.text("more about @no").expect("the program listens");
    wait(&view, "note.txt");
    view.key(Key::Tab).expect("the program listens");
    wait(&view, "more about @note.txt");
    view.key(Key::Enter).expect("the program listens");
    wait(&view, "more done");
    let body = String::from_utf8_lossy(&world.server.requests().last().expect("a request").body)
        .into_owned();
    assert!(body.contains("a note for the model"), "{body}");
    text(&view, "/detach");
    let left = end(&view);
    assert!(left.contains("Detached"), "{left}");
}

#[test]
fn stopped_view_does_not_block_the_session_and_is_drawn_again_later() {
    let long = "A long line of the answer that is repeated very often.\\n".repeat(25_000);
    let script = HELD.replace("second part", &long);
    let world = World::new(&script).without_loop_guard();
    let id = start(&world, &["-p", "go"]);
    world.at_gate("held");
    let view = attach(&world, &id);
    wait(&view, "first part,");
    let pid = view.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let pid = pid.expect("a process");
    kill_process(pid, Signal::STOP).expect("a signal");
    world.server.open_gate("held");
    until_state(&world, &id, "idle");
    let line = world.run_ok(&["ps"]).stdout();
    assert!(line.contains("idle"), "{line}");
    kill_process(pid, Signal::CONT).expect("a signal");
    let behind = view.wait("the state", |emulator| {
        emulator.lines().iter().any(|line| line.contains("This view fell behind"))
    });
    behind.unwrap_or_else(|problem| panic!("{problem}"));
    wait(&view, COMPOSER);
    text(&view, "more please");
    wait(&view, "more done");
}

#[test]
fn dumb_terminal_follows_the_session_line_by_line() {
    let world = World::new(HELD);
    let id = start(&world, &["-p", "go"]);
    world.at_gate("held");
    let arguments = ["attach", id.as_str()];
    let start = StartOptions::default().arguments(&arguments).with_variable("TERM", "dumb");
    let view = TerminalDriver::terminal(&world, &start);
    wait(&view, "Attached. Type a message");
    world.server.open_gate("held");
    wait(&view, "second part");
}
