//! Sessions in the terminal: resuming, searching, rewinding.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::json;
use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

/// Two changes to one file, and a reply for any later prompt.
const CHANGES: &str = r#"[
    {"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"first\n"}}]},
    {"text":"Made it."},
    {"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"second\n"}}]},
    {"text":"Changed it."},
    {"text":"I see."}, {"text":"I see."}]"#;

fn sized<'a>() -> StartOptions<'a> {
    StartOptions::sized(100, 40)
}

/// Returns the rows from a prompt to the last answer.
fn conversation_rows(seat: &TerminalDriver, from: &str, to: &str) -> Vec<String> {
    seat.wait_until_stable();
    let lines = seat.lines();
    let first = lines.iter().rposition(|line| line.contains(from)).expect("the prompt");
    let length = lines[first..].iter().position(|line| line.contains(to)).expect("the answer");
    // Skips the row that ends a turn and the empty composer, whose placeholder changes.
    let lasts = |line: &&String| !line.starts_with("─ ") && !line.contains(to);
    let talk = lines[first..=first + length].iter().filter(lasts);
    talk.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Exits and restarts with other arguments and another script.
fn restart<'a>(seat: TerminalDriver, script: &str, arguments: &'a [&'a str]) -> TerminalDriver {
    seat.prompts("/quit");
    seat.ends();
    TerminalDriver::start_in(World::in_home(seat.world.home, script), &sized().arguments(arguments))
}

#[test]
fn user_shell_commands_are_restored_on_resume() {
    let seat = TerminalDriver::start_in(World::new(r#"[{"text":"Hello."}]"#), &sized());
    seat.prompts("hi");
    seat.wait_for_text("Hello.");
    seat.type_text("!echo own $((40+2)); exit 3");
    seat.press(Key::Enter);
    // While the command runs, Esc stops it. Esc followed immediately by a letter would be another
    // key.
    seat.wait_for_text("exit code 3");
    seat.is_idle();
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    let seat = restart(seat, r#"[{"text":"x"}]"#, &["--resume", "latest"]);
    seat.wait_for_text("! echo own");
    seat.wait_for_text("own 42");
    seat.wait_for_text("code 3");
}

#[test]
fn chosen_mode_applies_to_later_sessions() {
    let start = StartOptions::sized(100, 40).arguments(&["--approval-mode", "yolo"]);
    let seat =
        TerminalDriver::start_in(World::new(r#"[{"text":"Hello."},{"text":"Again."}]"#), &start);
    seat.prompts("hi");
    seat.wait_for_text("Hello.");
    seat.is_idle();
    seat.prompts("/plan");
    seat.wait_for_text("Plan mode is on");
    seat.is_idle();
    for command in ["/fork", "/clear"] {
        seat.type_text(command);
        seat.press(Key::Enter);
        seat.wait_for_text("The approval mode is also `plan` here");
        seat.is_idle();
        assert!(!seat.lines().iter().rev().take(4).any(|line| line.contains("YOLO")));
    }
}

#[test]
fn unused_new_session_is_reopened() {
    let seat =
        TerminalDriver::start_in(World::new(r#"[{"text":"Hello."},{"text":"Again."}]"#), &sized());
    seat.prompts("hi");
    seat.wait_for_text("Hello.");
    seat.is_idle();
    seat.type_text("/clear");
    seat.press(Key::Enter);
    seat.wait_until_stable();
    seat.type_text("/skills disable skill-creator");
    seat.press(Key::Enter);
    seat.wait_for_text("disabled");
    seat.is_idle();
    seat.prompts("still there?");
    seat.wait_for_text("Again.");
    seat.is_idle();
    // The last session has no prompt, so the one before it is resumed.
    seat.type_text("/new");
    seat.press(Key::Enter);
    seat.wait_until_stable();
    seat.prompts("/quit");
    seat.ends();
    let window = seat.window();
    let hint =
        window.lines().find_map(|line| line.strip_prefix("To resume it, run: parallax --resume "));
    let id = hint.unwrap_or_else(|| panic!("no hint: {window}")).trim().to_owned();
    let again = restart(seat, r#"[{"text":"x"}]"#, &["--resume", &id]);
    again.wait_for_text("still there?");
}

#[test]
fn resumed_session_looks_the_same() {
    let script = r#"[
        {"calls":[{"name":"list_directory","args":{"dir_path":"."}},{"name":"write_file","args":{"file_path":"a.txt","content":"one\ntwo\n"}},{"name":"read_file","args":{"file_path":"none.txt"}}]},
        {"calls":[{"name":"glob","args":{"pattern":"**/*.txt"}},{"name":"grep_search","args":{"pattern":"one"}},{"name":"replace","args":{"file_path":"a.txt","old_string":"none","new_string":"x","instruction":"x"}}]},
        {"calls":[{"name":"run_shell_command","args":{"command":"echo out; exit 3","description":"Run the tests"}},{"name":"write_todos","args":{"todos":[{"description":"Look","status":"completed"},{"description":"Fix","status":"in_progress"}]}}]},
        {"text":"There is **one** file:\n\n```rust\nfn x() {}\n```\nThe end."}]"#;
    let arguments = ["--yolo"];
    let seat = TerminalDriver::start_in(World::new(script), &sized().arguments(&arguments));
    seat.prompts("look around");
    seat.wait_for_text("The end.");
    seat.is_idle();
    let before = conversation_rows(&seat, "look around", "The end.");
    let arguments = ["--yolo", "--resume", "latest"];
    let seat = restart(seat, "[]", &arguments);
    seat.wait_for_text("The end.");
    assert_eq!(conversation_rows(&seat, "look around", "The end."), before);
    // The todo list is also restored.
    seat.wait_for_text("1/2 done");
}

#[test]
fn long_paste_stays_collapsed_after_a_resume() {
    let seat = TerminalDriver::start_in(World::new(r#"[{"text":"Read."}]"#), &sized());
    seat.type_text("fix ");
    let pasted: Vec<String> = (0..200).map(|line| format!("pasted line {line}")).collect();
    seat.terminal.paste(&pasted.join("\n")).expect("paste");
    seat.wait_for_text("[Pasted Text: 200 lines]");
    seat.prompts(" now");
    seat.wait_for_text("Read.");
    seat.is_idle();
    let again = restart(seat, "[]", &["--resume", "latest"]);
    again.wait_for_text("Read.");
    again.wait_for_text("fix [Pasted Text: 200 lines] now");
}

#[test]
fn denied_and_interrupted_calls_look_the_same_after_resume() {
    let script = r#"[
        {"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"one\n"}},{"name":"read_file","args":{"file_path":"b.txt"}}]},
        {"calls":[{"name":"run_shell_command","args":{"command":"echo begun; sleep 600","description":"Wait"}}]}]"#;
    let seat = TerminalDriver::start_in(World::new(script), &sized());
    seat.prompts("make it");
    seat.wait_for_text("Apply this change?");
    seat.press(Key::Esc);
    seat.is_idle();
    seat.prompts("and then this");
    seat.wait_for_text("Allow");
    seat.press(Key::Esc);
    seat.is_idle();
    let before = conversation_rows(&seat, "make it", COMPOSER);
    let seat = restart(seat, "[]", &["--resume", "latest"]);
    seat.wait_for_text("make it");
    assert_eq!(conversation_rows(&seat, "make it", COMPOSER), before);
}

#[test]
fn slash_command_is_shown_as_typed() {
    let world = World::new(r#"[{"text":"Done so."}]"#);
    let command = "prompt = \"The long form\\nfor {{args}}\"";
    world.home.write_home(".gemini/commands/mycmd.toml", command).expect("command");
    let seat = TerminalDriver::start_in(world, &sized());
    seat.prompts("/mycmd abc");
    seat.wait_for_text("Done so.");
    seat.is_idle();
    let body = String::from_utf8_lossy(&seat.world.server.requests()[0].body).into_owned();
    assert!(body.contains("The long form\\nfor abc"), "{body}");
    let before = conversation_rows(&seat, "/mycmd abc", "Done so.");
    assert!(!before.join("\n").contains("long form"), "{before:?}");
    let seat = restart(seat, "[]", &["--resume", "latest"]);
    seat.wait_for_text("Done so.");
    assert_eq!(conversation_rows(&seat, "/mycmd abc", "Done so."), before);
    // Counts the whole session and lists this run separately.
    seat.prompts("/stats");
    seat.wait_for_text("this run");
    let listed = seat.world.run_ok(&["sessions", "list"]);
    assert!(listed.stdout().contains("/mycmd abc"), "{}", listed.stdout());
}

#[test]
fn session_browser_searches_and_previews_transcripts() {
    let seat = TerminalDriver::start_in(
        World::new(r#"[{"text":"A walrus is not a seal."},{"text":"Nor is a lamp."}]"#),
        &sized(),
    );
    seat.prompts("about animals");
    seat.wait_for_text("not a seal");
    seat.is_idle();
    seat.prompts("/clear");
    seat.wait_until_stable();
    seat.prompts("about furniture");
    seat.wait_for_text("a lamp");
    seat.is_idle();
    seat.prompts("/resume");
    // The current session is not offered.
    seat.wait_for_text("❯ about animals");
    seat.type_text("walrus");
    seat.wait_for_text("❯ about animals");
    seat.wait_for_text("prompt 1:");
    seat.press(Key::Enter);
    seat.wait_for_text("not a seal");
    // The session browser is shown at startup.
    let arguments = ["--resume", "pick"];
    let seat = restart(seat, "[]", &arguments);
    seat.wait_for_text("about furniture");
    seat.wait_for_text("about animals");
    seat.press(Key::Enter);
    seat.wait_for_text("a lamp");
    seat.wait_until_stable();
    let rows = seat.lines().into_iter().filter(|line| line.contains("signed in")).count();
    assert_eq!(rows, 1, "{}", seat.window());
}

#[test]
fn interrupted_turn_is_offered_for_continuation() {
    let work = r#"[{"loop":{"calls":40,"signed":true,"name":"list_directory","args":{"dir_path":"."},"final":"done"}}]"#;
    let world = World::new(work);
    let running = world.start(&["-p", "work through it", "-y"]);
    world.wait_for_requests(3);
    kill_process(running.pid(), Signal::KILL).expect("kill");
    running.finish(Duration::from_secs(10)).expect("finish");
    let arguments = ["--resume"];
    let world = World::in_home(world.home, r#"[{"text":"Finished after all."}]"#);
    let seat = TerminalDriver::started(world, &sized().arguments(&arguments));
    seat.wait_for_text("was interrupted");
    seat.press(Key::Char('1'));
    seat.wait_for_text("Finished after all.");
    seat.is_idle();
    seat.world.server.assert_clean();
    // The turn is now complete.
    seat.prompts("/continue");
    seat.wait_for_text("was not interrupted");
}

#[test]
fn rewind_previews_changes_and_notifies_the_model() {
    let arguments = ["--yolo"];
    let seat = TerminalDriver::start_in(World::new(CHANGES), &sized().arguments(&arguments));
    seat.prompts("make it");
    seat.wait_for_text("Made it.");
    seat.is_idle();
    seat.prompts("change it");
    seat.wait_for_text("Changed it.");
    seat.is_idle();
    seat.prompts("/rewind");
    seat.wait_for_text("❯ change it");
    seat.press(Key::Enter);
    seat.wait_for_text("1 prompt, 1 file");
    seat.wait_for_text("> change it");
    seat.press(Key::Down);
    seat.press(Key::Down);
    seat.wait_for_text("the model is notified");
    for expected in ["a.txt changes", "+1 −1", "first", "second"] {
        seat.wait_for_text(expected);
    }
    seat.press(Key::Enter);
    seat.wait_for_text("reverting files to before prompt 2");
    assert_eq!(seat.world.read("a.txt"), "first\n");
    seat.prompts("what now");
    seat.world.wait_for_requests(5);
    let report = seat.world.server.requests()[4].contents();
    let report = report.last().expect("the prompt").to_string();
    assert!(report.contains("reverted changes") && report.contains("a.txt"), "{report}");
}

#[test]
fn text_of_a_hook_is_shown_as_such_after_a_resume_and_not_offered_for_a_rewind() {
    let world = World::new(r#"[{"text":"First."},{"text":"Second."}]"#);
    let again = r#"grep -q '"stop_hook_active":true' || { echo 'run the tests' >&2; exit 2; }"#;
    let hook = json!({"type": "command", "name": "check", "command": again});
    let settings = json!({"hooks": {"AfterAgent": [{"hooks": [hook]}]}}).to_string();
    world.home.write_home(".gemini/settings.json", &settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &sized());
    seat.prompts("make it");
    seat.wait_for_text("Second.");
    seat.is_idle();
    let before = conversation_rows(&seat, "make it", "Second.");
    assert!(before.iter().any(|row| row.starts_with("↻ Continued by the hook")), "{before:?}");
    let seat = restart(seat, r#"[{"text":"x"}]"#, &["--resume", "latest"]);
    seat.wait_for_text("Second.");
    assert_eq!(conversation_rows(&seat, "make it", "Second."), before);
    seat.prompts("/rewind");
    seat.wait_for_text("❯ make it");
    let window = seat.window();
    let list = window.rsplit_once("Rewind to before which prompt?").expect("the list").1;
    assert!(!list.contains("run the tests"), "{list}");
}

#[test]
fn rewound_changes_can_be_redone() {
    let script = r#"[
        {"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"first\n"}}]},
        {"text":"Made it."},
        {"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"again\n"}}]},
        {"text":"Made it again."}]"#;
    let world = World::new(script);
    world.home.write("a.txt", "before\n").expect("written");
    let arguments = ["--yolo"];
    let seat = TerminalDriver::start_in(world, &sized().arguments(&arguments));
    seat.prompts("make it");
    seat.wait_for_text("Made it.");
    seat.is_idle();
    seat.prompts("/rewind");
    seat.wait_for_text("❯ make it");
    seat.press(Key::Enter);
    seat.wait_for_text("1 prompt, 1 file");
    seat.press(Key::Enter);
    // The prompt is back in the composer.
    seat.wait_for_text("Rewound the conversation to before prompt 1");
    seat.is_idle();
    assert_eq!(seat.world.read("a.txt"), "before\n");
    seat.press(Key::Enter);
    seat.wait_for_text("Made it again.");
    assert_eq!(seat.world.read("a.txt"), "again\n");
}

#[test]
fn restored_change_requires_approval_again() {
    let world = World::new(CHANGES);
    let settings = r#"{"general": {"checkpointing": {"enabled": true}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &sized());
    for (prompt, answer) in [("make it", "Made it."), ("change it", "Changed it.")] {
        seat.prompts(prompt);
        seat.wait_for_text("1. Yes, allow once");
        seat.press(Key::Char('1'));
        seat.wait_for_text(answer);
        seat.is_idle();
    }
    // Also in auto-edit mode, because a user who undoes a change wants to decide again.
    seat.press(Key::BackTab);
    seat.wait_for_text("auto-edit");
    seat.prompts("/restore");
    seat.wait_for_text("a.txt-write_file");
    seat.press(Key::Enter);
    // The call requires approval again, and the file is unchanged.
    seat.wait_for_text("you restored a checkpoint before this change");
    seat.wait_for_text("1. Yes, allow once");
    assert_eq!(seat.world.read("a.txt"), "first\n");
    seat.press(Key::Char('1'));
    seat.wait_for_text("I see.");
    seat.is_idle();
    assert_eq!(seat.world.read("a.txt"), "second\n");
}

#[test]
fn forked_session_continues_independently() {
    let seat = TerminalDriver::start_in(
        World::new(r#"[{"text":"First answer."},{"text":"Second answer."},{"text":"Other."}]"#),
        &sized(),
    );
    seat.prompts("one");
    seat.wait_for_text("First answer.");
    seat.is_idle();
    seat.prompts("two");
    seat.wait_for_text("Second answer.");
    seat.is_idle();
    seat.prompts("/fork 2");
    seat.wait_for_text("You are now in a copy");
    seat.wait_until_stable();
    seat.prompts("else");
    seat.wait_for_text("Other.");
    seat.world.wait_for_requests(3);
    let contents = seat.world.server.requests()[2].contents();
    let all = format!("{contents:?}");
    assert!(all.contains("First answer.") && !all.contains("Second answer."), "{all}");
}

#[test]
fn resumed_session_shows_its_requests_and_models() {
    let choice = json!({"complexity_reasoning": "a feature", "complexity_score": 95}).to_string();
    let call = json!({"name": "read_file", "args": {"file_path": "none.txt"}});
    let script = json!([{"method": "generateContent", "text": choice}, {"calls": [call]},
        {"text": "One."}, {"method": "generateContent", "text": choice}, {"text": "Two."}]);
    let world = crate::routing::create_world(&script.to_string(), "{}");
    let seat = TerminalDriver::start_in(world, &sized());
    for (flag, answer) in [("one", "One."), ("two", "Two.")] {
        // A prompt with two lines is ambiguous, so a small model classifies it.
        seat.type_text(&format!("Add a flag --{flag}"));
        seat.press(Key::Ctrl('j'));
        seat.type_text("to the parser");
        // An immediate Enter would be treated as part of a paste.
        seat.wait_until_stable();
        seat.press(Key::Enter);
        seat.wait_for_text(answer);
        seat.is_idle();
    }
    // A rewound turn still counts toward the cost.
    seat.prompts("/rewind");
    seat.wait_for_text("❯ Add a flag --two");
    seat.press(Key::Enter);
    seat.wait_for_text("Conversation only");
    seat.press(Key::Enter);
    seat.has_seen("Rewound the conversation to before prompt 2");
    seat.wait_until_stable();
    seat.press(Key::Ctrl('c'));
    seat.wait_for_text(COMPOSER);
    let report = |seat: &TerminalDriver| {
        seat.prompts("/stats model");
        seat.wait_for_text("thought");
        seat.prompts("/stats tools");
        seat.wait_for_text("allowed denied");
        let window = seat.window();
        let rows = window.lines().map(str::trim_end);
        let report = rows.filter(|row| row.starts_with("gemini-") || row.starts_with("read_file"));
        report.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = report(&seat);
    assert_eq!(before.len(), 3, "{before:#?}");
    let seat = restart(seat, "[]", &["--resume", "latest"]);
    assert_eq!(report(&seat), before);
    seat.prompts("/model why");
    seat.wait_for_text("a small classifier model");
}
