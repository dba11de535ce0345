//! The state of the terminal after the program has ended.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use testkit::pty::{Key, ProgramExit};

use super::answers::sleep_processes;
use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::{PROGRAM, World, wait_until};

const BUSY: &str = r#"[{"calls":[{"name":"run_shell_command","args":{"command":"echo started; sleep 63"}}]},{"text":"over"}]"#;

/// Starts the program from a shell, so that another process owns the terminal afterwards.
fn start_in_shell(script: &str, line: &str) -> TerminalDriver {
    let world = World::new(script);
    let start = StartOptions::default();
    TerminalDriver::running(
        world,
        Path::new("/bin/bash"),
        &["--norc", "-c", line, "bash", PROGRAM, "--yolo"],
        &start,
    )
}

/// Checks that all terminal modes are restored.
fn assert_sane(seat: &TerminalDriver) {
    seat.terminal.with_emulator(|emulator| {
        let modes: Vec<u16> = emulator.modes().iter().copied().collect();
        assert_eq!(modes, [7, 25], "modes left on");
        assert!(!emulator.disambiguates(), "the keyboard was not given back");
        for clear in ["\x1b[2J", "\x1b[3J"] {
            assert_eq!(emulator.count(clear), 0, "{clear:?}");
        }
    });
    let output = String::from_utf8_lossy(&seat.terminal.output_since(0)).into_owned();
    if let Some((_, progress)) = output.rsplit_once("\x1b]9;4;") {
        assert!(progress.starts_with('0'), "the tab still tells of something that runs");
    }
}

fn pid(seat: &TerminalDriver) -> Pid {
    Pid::from_raw(i32::try_from(seat.terminal.pid().expect("a process")).expect("small"))
        .expect("a process")
}

#[test]
fn control_c_twice_exits() {
    let seat = start_in_shell("[]", "stty -a > before; \"$@\"; echo status $?; stty -a > after");
    seat.wait_for_text(COMPOSER);
    seat.press(Key::Ctrl('c'));
    seat.wait_for_text("again");
    seat.press(Key::Ctrl('c'));
    seat.ends();
    seat.has_seen("status 0");
    assert_sane(&seat);
    assert_eq!(seat.world.read("before"), seat.world.read("after"));
    // The composer is removed from the screen.
    assert!(!seat.lines().concat().contains(COMPOSER), "{:?}", seat.lines());
}

#[test]
fn typed_quit_exits() {
    let seat = start_in_shell("[]", "\"$@\"; echo status $?");
    seat.wait_for_text(COMPOSER);
    seat.prompts("/quit");
    seat.ends();
    seat.has_seen("status 0");
    assert_sane(&seat);
}

#[test]
fn signal_ends_commands_and_restores_the_terminal() {
    let signals =
        [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::USR1, 138)];
    for (signal, code) in signals {
        let seat = TerminalDriver::start_in(
            World::new(BUSY),
            &StartOptions::default().arguments(&["--yolo"]),
        );
        let before = {
            let fresh = TerminalDriver::running(
                World::new("[]"),
                Path::new("/bin/cat"),
                &[],
                &StartOptions::default(),
            );
            fresh.terminal.line_discipline()
        };
        seat.prompts("go");
        seat.wait_for_text("started");
        assert_ne!(seat.terminal.line_discipline(), before, "raw while it runs");
        kill_process(pid(&seat), signal).expect("signal");
        let ended = seat.ends();
        assert_eq!(ended, ProgramExit { code, signal: None });
        wait_until("the end of its command", || sleep_processes(&seat).is_empty());
        assert_sane(&seat);
        assert_eq!(seat.terminal.line_discipline(), before);
    }
}

#[test]
fn tool_result_is_saved_when_the_program_exits() {
    let script = r#"[{"chunks":[{"text":"half of it\n\nand "},{"gate":"never"},{"text":"more"},{"finish":"STOP"}]}]"#;
    for quits in [true, false] {
        let seat = TerminalDriver::start_in(World::new(script), &StartOptions::default());
        seat.prompts("go");
        seat.wait_for_text("half of it");
        match quits {
            true => seat.prompts("/quit"),
            false => kill_process(pid(&seat), Signal::TERM).expect("signal"),
        }
        seat.ends();
        seat.has_seen("half of it");
        seat.has_seen("Goodbye!");
        let lines = seat.lines().join("\n");
        let offset = |words: &str| lines.find(words).unwrap_or_else(|| panic!("{words}: {lines}"));
        assert!(offset("half of it") < offset("Goodbye!"), "{lines}");
        assert!(offset("Goodbye!") < offset("gemini-3"), "the request is counted: {lines}");
        let output = seat.world.run_ok(&["sessions", "export", "latest", "--format", "jsonl"]);
        assert!(output.stdout().contains("\"partial\":true"), "{}", output.stdout());
    }
}

#[test]
fn closed_terminal_ends_the_program_and_its_commands() {
    // `script` holds the other end of the terminal, which closes when it is killed.
    let line = format!("{PROGRAM} --yolo");
    let words = ["-q", "-e", "-c", &line, "/dev/null"];
    let seat = TerminalDriver::running(
        World::new(BUSY),
        Path::new("/usr/bin/script"),
        &words,
        &StartOptions::default(),
    );
    seat.wait_for_text(COMPOSER);
    seat.prompts("go");
    seat.wait_for_text("started");
    wait_until("script, the program and its command are there", || in_project(&seat) >= 3);
    kill_process(pid(&seat), Signal::KILL).expect("signal");
    wait_until("the end of all", || in_project(&seat) == 0);
}

/// Returns the number of processes in the project of the seat.
fn in_project(seat: &TerminalDriver) -> usize {
    let project = seat.world.home.project();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let places = processes.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok());
    places.filter(|place| *place == project).count()
}

#[test]
fn suspended_program_continues_after_resume() {
    let seat = start_in_shell(
        r#"[{"text":"before"},{"text":"after"}]"#,
        "set -m; \"$@\"; echo stopped; stty -a | grep -o -- ' -\\?icanon'; read line; fg \
         >/dev/null; echo gone",
    );
    seat.wait_for_text(COMPOSER);
    seat.prompts("one");
    seat.wait_for_text("✦ before");
    seat.wait_for_text(COMPOSER);
    seat.press(Key::Ctrl('z'));
    seat.wait_for_text("again to suspend");
    seat.press(Key::Ctrl('z'));
    seat.wait_for_text("stopped");
    seat.has_seen(" icanon");
    assert_sane(&seat);
    seat.type_text("\r");
    seat.wait_for_text(COMPOSER);
    seat.prompts("two");
    seat.wait_for_text("✦ after");
    seat.wait_for_text(COMPOSER);
    seat.prompts("/quit");
    seat.has_seen("gone");
}

#[test]
fn exit_message_fits_a_narrow_window_and_the_title_is_restored() {
    let world = World::new(r#"[{"text":"An answer."}]"#);
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(44, 30));
    seat.prompts("hello");
    seat.wait_for_text("An answer.");
    seat.is_idle();
    seat.prompts("/quit");
    seat.ends();
    let lines = seat.lines();
    let id = lines.iter().rev().find_map(|line| {
        let word = line.split_whitespace().last()?;
        (word.len() == 36 && word.matches('-').count() == 4).then_some(word)
    });
    assert!(id.is_some(), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.contains("To resume it, run: parallax --resume")),
        "{lines:#?}"
    );
    assert_eq!(seat.terminal.with_emulator(|emulator| emulator.title().trim().to_owned()), "");
}

#[test]
fn ctrl_c_at_a_hidden_prompt_restores_the_terminal() {
    let before = {
        let fresh = TerminalDriver::running(
            World::new("[]"),
            Path::new("/bin/cat"),
            &[],
            &StartOptions::default(),
        );
        fresh.terminal.line_discipline()
    };
    let start = StartOptions::default();
    let seat = TerminalDriver::running(
        World::new("[]"),
        Path::new(PROGRAM),
        &["auth", "add", "openai"],
        &start,
    );
    seat.wait_for_text("API key for openai");
    wait_until("hidden input", || seat.terminal.line_discipline() != before);
    seat.terminal.send(b"\x03").expect("Ctrl-C");
    assert_eq!(seat.ends(), ProgramExit { code: 130, signal: None });
    assert_eq!(seat.terminal.line_discipline(), before);
}
