//! Approval requests and the responses to them.

use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

const TWICE: &str = r#"[
    {"calls":[{"name":"run_shell_command","args":{"command":"touch first.txt","description":"Makes a file"}}]},
    {"calls":[{"name":"run_shell_command","args":{"command":"touch first.txt second.txt"}}]},
    {"text":"That is all."}]"#;

const EDIT: &str = r#"[
    {"calls":[{"name":"replace","args":{"file_path":"a.txt","instruction":"Louder","old_string":"one\n2\n3\n4\n5\n6\n7\n8\n9\nten\n","new_string":"ONE\n2\n3\n4\n5\n6\n7\n8\n9\nTEN\n"}}]},
    {"text":"That is all."}]"#;

fn start_with_question(script: &str, question: &str) -> TerminalDriver {
    let world = World::new(script);
    world.home.write("a.txt", "one\n2\n3\n4\n5\n6\n7\n8\n9\nten\n").expect("file");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 40));
    seat.prompts("go");
    seat.wait_for_text(question);
    seat
}

fn exists(seat: &TerminalDriver, path: &str) -> bool {
    seat.world.home.project().join(path).exists()
}

#[test]
fn approval_request_waits_while_the_user_types() {
    let seat = TerminalDriver::ready(
        r#"[{"chunks":[{"text":"A moment. "},{"gate":"ask"},{"parts":[{"functionCall":{"name":"run_shell_command","args":{"command":"touch first.txt"}}}]},{"finish":"STOP"}]},{"text":"That is all."}]"#,
    );
    seat.prompts("go");
    seat.wait_for_text("A moment.");
    seat.type_text("buy ");
    seat.wait_for_text("> buy");
    seat.world.server.open_gate("ask");
    // The user presses a key now and then.
    for _ in 0..200 {
        if seat.window().contains("A request waits") {
            break;
        }
        seat.type_text("x");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    seat.type_text("1");
    seat.wait_for_text("x1");
    assert!(!exists(&seat, "first.txt"));
    // The request is shown after a pause, and the draft is kept.
    seat.wait_for_text("Allow execution of this command?");
    assert!(!exists(&seat, "first.txt"));
    seat.press(Key::Esc);
    seat.wait_for_text("x1");
    assert!(!exists(&seat, "first.txt"));
}

#[test]
fn enter_meant_for_a_draft_does_not_approve_a_request() {
    let seat = TerminalDriver::ready(
        r#"[{"chunks":[{"text":"A moment. "},{"gate":"ask"},{"parts":[{"functionCall":{"name":"run_shell_command","args":{"command":"touch first.txt"}}}]},{"finish":"STOP"}]},{"text":"That is all."}]"#,
    );
    seat.prompts("go");
    seat.wait_for_text("A moment.");
    seat.type_text("my draft");
    seat.wait_for_text("> my draft");
    seat.world.server.open_gate("ask");
    // A request that has just appeared ignores keys meant for the draft.
    for key in [Key::Enter, Key::Char('1'), Key::Char('s')] {
        seat.wait_for_text("Allow execution of this command?");
        seat.press(key);
        seat.wait_for_text("A request waits");
    }
    seat.wait_for_text("> my draft1s");
    seat.wait_for_text("Allow execution of this command?");
    assert!(!exists(&seat, "first.txt"));
    seat.press(Key::Esc);
    seat.wait_for_text("> my draft1s");
    assert!(!exists(&seat, "first.txt"));
}

/// Returns the last content of the n-th request as JSON.
fn request_json(seat: &TerminalDriver, request: usize) -> String {
    seat.world.wait_for_requests(request + 1);
    let contents = seat.world.server.requests()[request].contents();
    contents.last().expect("a content").to_string()
}

#[test]
fn approval_request_shows_the_complete_command_and_its_rule() {
    let seat = start_with_question(TWICE, "Allow execution of this command?");
    let window = seat.window();
    for expected in [
        "$ touch first.txt",
        "Shell requires approval in default mode.",
        "1. Yes, allow once",
        "(esc)",
    ] {
        assert!(window.contains(expected), "no {expected} in\n{window}");
    }
    assert!(!exists(&seat, "first.txt"));
}

#[test]
fn approving_once_asks_again_next_time() {
    let seat = start_with_question(TWICE, "$ touch first.txt");
    seat.press(Key::Char('1'));
    seat.wait_for_text("$ touch first.txt second.txt");
    assert!(exists(&seat, "first.txt") && !exists(&seat, "second.txt"));
}

#[test]
fn approving_for_the_session_does_not_ask_again() {
    let seat = start_with_question(TWICE, "$ touch first.txt");
    seat.press(Key::Char('2'));
    seat.wait_for_text("That is all.");
    assert!(exists(&seat, "first.txt") && exists(&seat, "second.txt"));
}

#[test]
fn denial_with_feedback_reaches_the_model() {
    let seat = start_with_question(TWICE, "$ touch first.txt");
    seat.press(Key::Char('4'));
    seat.type_text("use another name");
    seat.wait_for_text("use another name");
    seat.press(Key::Enter);
    seat.wait_for_text("$ touch first.txt second.txt");
    assert!(request_json(&seat, 1).contains("use another name"));
    assert!(!exists(&seat, "first.txt"));
}

#[test]
fn escape_denies_the_request() {
    let seat = start_with_question(TWICE, "$ touch first.txt");
    seat.press(Key::Esc);
    seat.wait_until_gone("Allow execution of this command?");
    seat.wait_for_text(COMPOSER);
    assert!(!exists(&seat, "first.txt"));
}

#[test]
fn approved_change_is_shown_and_applied() {
    let seat = start_with_question(EDIT, "Apply this change?");
    let window = seat.window();
    for expected in ["- one", "+ ONE", "1. Yes, allow once"] {
        assert!(window.contains(expected), "no {expected} in\n{window}");
    }
    seat.press(Key::Char('1'));
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "ONE\n2\n3\n4\n5\n6\n7\n8\n9\nTEN\n");
}

#[test]
fn change_can_be_applied_partially() {
    let seat = start_with_question(EDIT, "Select hunks to apply");
    seat.press(Key::Char('4'));
    seat.wait_for_text("[x] @@");
    seat.press(Key::Char(' '));
    seat.wait_for_text("[ ] @@");
    seat.press(Key::Enter);
    // The remaining change is shown again.
    seat.wait_for_text("10 + TEN");
    seat.wait_for_request_delay();
    seat.press(Key::Char('1'));
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\n2\n3\n4\n5\n6\n7\n8\n9\nTEN\n");
}

#[test]
fn denied_change_sends_the_reason_to_the_model() {
    let seat = start_with_question(EDIT, "Apply this change?");
    let window = seat.window();
    let row = window.lines().find(|row| row.contains("tell the model")).expect("the choice");
    let number = row.trim_start_matches(['❯', ' ']).chars().next().expect("a number");
    seat.press(Key::Char(number));
    seat.type_text("keep it quiet");
    seat.wait_for_text("keep it quiet");
    seat.press(Key::Enter);
    seat.wait_for_text("That is all.");
    assert!(request_json(&seat, 1).contains("keep it quiet"));
    assert!(seat.world.read("a.txt").starts_with("one\n"));
}

const PLAN: &str = r##"[
    {"calls":[{"name":"write_file","args":{"file_path":"notes/p.md","content":"# The way\n\n- **first** this\n- then that\n"}}]},
    {"calls":[{"name":"exit_plan_mode","args":{"plan_filename":"p.md"}}]},
    {"calls":[{"name":"exit_plan_mode","args":{"plan_filename":"p.md"}}]},
    {"calls":[{"name":"write_file","args":{"file_path":"made.txt","content":"x"}}]},
    {"text":"That is all."}]"##;

#[test]
fn plan_is_reviewed_rejected_and_approved() {
    let world = World::new(PLAN);
    let settings = r#"{"general": {"plan": {"directory": "notes"}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 40));
    seat.prompts("/plan");
    seat.wait_for_text("Describe what you want to plan");
    seat.prompts("/plan what comes first");
    seat.wait_for_text("Start working on this plan?");
    let window = seat.window();
    for expected in
        ["The way", "first this", "1. Yes, and auto-approve edits", "5. No, keep planning"]
    {
        assert!(window.contains(expected), "no {expected} in\n{window}");
    }
    assert!(window.contains("• first this"), "{window}");
    seat.press(Key::Char('4'));
    seat.type_text("smaller steps");
    seat.press(Key::Enter);
    assert!(request_json(&seat, 2).contains("User feedback: smaller steps"));
    seat.has_seen("you answered: smaller steps");
    seat.wait_for_text("Start working on this plan?");
    seat.wait_for_request_delay();
    seat.press(Key::Char('1'));
    seat.wait_for_text("That is all.");
    assert!(exists(&seat, "made.txt"));
    seat.wait_for_text("auto-edit");
    seat.prompts("/plan copy");
    // Text typed immediately after Enter could be treated as one paste with it.
    seat.wait_for_text(COMPOSER);
    seat.prompts("/model why");
    seat.wait_for_text("chosen by you");
}

#[test]
fn declined_fallback_restores_the_prompt() {
    let script = r#"[{"status":404,"repeat":0,"match":{"modelContains":"pro"},
        "error":{"code":404,"message":"no such model","status":"NOT_FOUND"}},{"text":"never"}]"#;
    let arguments = ["-m", "gemini-3-pro-preview"];
    let seat = TerminalDriver::start_in(
        World::new(script),
        &StartOptions::sized(110, 36).arguments(&arguments),
    );
    seat.prompts("tell me more");
    seat.wait_for_text("Use another model?");
    seat.type_text("4");
    let given_back = || seat.window().matches("tell me more").count() == 2;
    crate::support::wait_until("the prompt is given back", given_back);
}

#[test]
fn additional_permissions_are_requested_with_the_original_name() {
    let place = tempfile::Builder::new().prefix("parallax-leave-").tempdir_in("/var/tmp");
    let place = place.expect("a folder");
    let file = place.path().join("aa/c.txt");
    let script = serde_json::json!([
        {"calls": [{"name": "run_shell_command", "args": {
            "command": format!("echo made > {}", file.display()),
            "additional_permissions": {"fileSystem": {"write": [file]}},
        }}]},
        {"text": "That is all."},
    ]);
    let seat =
        TerminalDriver::start_in(World::new(&script.to_string()), &StartOptions::sized(140, 40));
    seat.prompts("go");
    seat.wait_for_text(&format!("1. Yes, allow once, with permission to write {}", file.display()));
    seat.wait_for_text(&format!(
        "2. Yes, allow once with more permissions: permission to write {}",
        place.path().display()
    ));
    seat.press(Key::Enter);
    seat.wait_for_text("That is all.");
    assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), Some("made\n"));
}

#[test]
fn y_and_enter_allow_once_and_typed_words_do_not() {
    let seat = TerminalDriver::ready(
        r#"[{"calls":[{"name":"run_shell_command","args":{"command":"touch first.txt"}}]},{"text":"That is all."}]"#,
    );
    seat.prompts("go");
    seat.wait_for_text("Allow execution of this command?");
    seat.type_text("yet");
    seat.wait_for_text("> yet");
    assert!(!exists(&seat, "first.txt"));
    for _ in 0..3 {
        seat.press(Key::Backspace);
    }
    seat.wait_for_text("Allow execution of this command?");
    seat.type_text("y");
    seat.press(Key::Enter);
    seat.wait_for_text("That is all.");
    assert!(exists(&seat, "first.txt"));
}

#[test]
fn repeated_key_does_not_answer_the_next_request() {
    let seat = start_with_question(TWICE, "$ touch first.txt");
    seat.press(Key::Char('1'));
    seat.wait_for_text("$ touch first.txt second.txt");
    seat.press(Key::Enter);
    seat.wait_for_request_delay();
    assert!(!exists(&seat, "second.txt"));
    seat.press(Key::Enter);
    seat.wait_for_text("That is all.");
    assert!(exists(&seat, "second.txt"));
}

#[test]
fn composer_stays_where_an_approval_request_ended() {
    let script = r#"[{"calls":[{"name":"run_shell_command","args":{"command":"touch a","description":"Makes it"}}]},{"text":"Made."}]"#;
    let seat = TerminalDriver::ready(script);
    seat.wait_until_stable();
    seat.prompts("go");
    seat.wait_for_text("Allow execution of this command?");
    seat.wait_for_request_delay();
    let rows = seat.window().lines().count();
    seat.press(Key::Char('1'));
    seat.wait_for_text("Made.");
    seat.is_idle();
    seat.wait_until_stable();
    assert_eq!(seat.window().lines().count(), rows, "{}", seat.window());
}

#[test]
fn request_that_a_lasting_answer_allows_is_not_announced() {
    let call = |path: &str| {
        format!(r#"{{"name":"run_shell_command","args":{{"command":"mkdir {path}"}}}}"#)
    };
    let script =
        format!(r#"[{{"calls":[{},{}]}},{{"text":"That is all."}}]"#, call("one"), call("two"));
    let options = StartOptions::default().arguments(&["--screen-reader"]);
    let seat = TerminalDriver::start_in(World::new(&script), &options);
    let mark = seat.terminal.mark();
    seat.prompts("go");
    seat.has_seen("$ mkdir one");
    seat.wait_for_request_delay();
    seat.press(Key::Char('2'));
    seat.has_seen("That is all.");
    let output = String::from_utf8_lossy(&seat.terminal.output_since(mark)).into_owned();
    assert!(exists(&seat, "one") && exists(&seat, "two"));
    assert!(!output.contains("$ mkdir two"), "{output}");
}
