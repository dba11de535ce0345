//! Background sessions, as other processes see them.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, finish, wait_until};

pub(crate) const CALL: &str = r#"[
    {"match": {"promptContains": "go"}, "calls": [{"name": "run_shell_command",
        "args": {"command": "touch made.txt"}}]},
    {"match": {"lastToolResultContains": ""}, "text": "all done"},
    {"match": {"promptContains": "more"}, "repeat": 0, "text": "more done"}]"#;

/// Starts a background session, and returns its id.
pub(crate) fn start(world: &World, arguments: &[&str]) -> String {
    let done = world.run_ok(&[&["--bg", "-o", "json"], arguments].concat());
    let output: Value = serde_json::from_str(&done.stdout()).expect("JSON");
    output["session_id"].as_str().expect("an id").to_owned()
}

/// Returns the session as `ps --json` shows it.
fn session_json(world: &World, id: &str) -> Value {
    let text = world.run_ok(&["ps", "--json"]).stdout();
    let all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    all.into_iter().find(|session| session["id"] == json!(id)).unwrap_or_default()
}

fn until_state(world: &World, id: &str, state: &str) -> Value {
    let mut session = Value::Null;
    wait_until(state, || {
        session = session_json(world, id);
        session["state"] == json!(state)
    });
    session
}

#[test]
fn request_is_answered_from_another_process() {
    let world = World::new(CALL);
    let id = start(&world, &["-p", "go"]);
    let session = until_state(&world, &id, "awaiting approval");
    assert_eq!(session["last_line"], json!("touch made.txt"));
    assert_eq!(session["project"], json!(world.home.project()));
    let stdout = world.run_ok(&["answer", &id]).stdout();
    assert!(stdout.contains("touch made.txt") && stdout.contains("1  Allow once"), "{stdout}");
    let refused = world.run(&["answer", &id, "perhaps"]);
    assert!(refused.code() == 42 && refused.err().contains("allow"), "{}", refused.err());
    world.run_ok(&["answer", &id[..8], "allow"]);
    let session = until_state(&world, &id, "done");
    assert!(world.home.project().join("made.txt").exists());
    assert!(session["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{session}");
    let log = world.run_ok(&["logs", &id, "-f"]).stdout();
    assert!(log.starts_with("> go\n• run_shell_command") && log.ends_with("all done\n"), "{log}");
    assert_eq!(world.run(&["stop", &id]).code(), 42);
    assert_eq!(world.run_ok(&["--resume", &id, "-p", "more"]).stdout(), "more done\n");
    use std::os::unix::fs::PermissionsExt as _;
    let directory = world.home.parallax().join("background").join(&id);
    let mode = directory.metadata().expect("a directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn session_that_is_resumed_twice_at_once_gets_one_of_the_prompts() {
    let reply = json!([{"match": {"promptContains": "go"}, "repeat": 0, "text": "done"}]);
    let world = World::new(&reply.to_string());
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "done");
    for round in 1..=3 {
        let prompts = [format!("go one {round}"), format!("go two {round}")];
        let runs = prompts.each_ref().map(|prompt| {
            let mut command = world.command(&["--bg", "--resume", &id, "-p", prompt]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("a process")
        });
        let outputs = runs.map(|run| run.wait_with_output().expect("an output"));
        wait_until("the end", || session_json(&world, &id)["state"] == json!("done"));
        let sent = world.server.requests();
        for (prompt, output) in prompts.iter().zip(&outputs) {
            let is_sent = sent.iter().any(|request| request.json().to_string().contains(prompt));
            assert_eq!(is_sent, output.status.success(), "{prompt}: {output:?}");
            if !is_sent {
                let reason = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(42), "{reason}");
                assert!(reason.contains("is already running"), "{reason}");
            }
        }
        assert!(outputs.iter().any(|output| output.status.success()), "{outputs:?}");
    }
}

#[test]
fn session_open_elsewhere_is_not_continued_in_a_copy() {
    let world = World::new(r#"[{"chunks":[{"text":"half "},{"gate":"half"},{"finish":"STOP"}]}]"#);
    let running = world.start(&["-p", "go", "--session-id", "open"]);
    wait_until("the request", || world.server.requests().len() == 1);
    let output = world.run(&["--bg", "--resume", "open", "-p", "more"]);
    assert_eq!(output.code(), 42, "{}", output.stdout());
    assert!(output.err().contains("`open` is in use by another process"), "{}", output.err());
    world.server.open_gate("half");
    let finished = running.finish(Duration::from_secs(20)).expect("an end");
    assert_eq!(finished.code(), 0, "{}", finished.err());
    assert_eq!(world.server.requests().len(), 1);
}

#[test]
fn session_in_a_long_home_directory_is_reached() {
    let world = World::new(CALL);
    let home = world.home.root().join("h".repeat(120));
    std::fs::create_dir(&home).expect("a directory");
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("HOME", &home).env("GEMINI_CLI_HOME", &home);
        let output = finish(command);
        assert_eq!(output.code(), 0, "{args:?}: {}", output.err());
        output.stdout()
    };
    let output = run(&["--bg", "-o", "json", "-p", "go"]);
    let output: Value = serde_json::from_str(&output).expect("JSON");
    let id = output["session_id"].as_str().expect("an id");
    assert!(home.join(".parallax/background").join(id).exists());
    wait_until("the request", || run(&["ps"]).contains("awaiting approval"));
    run(&["answer", id, "allow"]);
    wait_until("the end", || run(&["logs", id]).ends_with("all done\n"));
}

#[test]
fn every_question_is_shown_and_answered() {
    let options = |labels: [&str; 2]| {
        labels.map(|label| json!({"label": label, "description": "so"})).to_vec()
    };
    let questions = json!([
        {"question": "Which color?", "header": "Color", "type": "choice",
            "options": options(["red", "blue"])},
        {"question": "Which name?", "header": "Name", "type": "text"}]);
    let script = json!([
        {"match": {"promptContains": "go"},
            "calls": [{"name": "ask_user", "args": {"questions": questions}}]},
        {"match": {"lastToolResultContains": ""}, "text": "all done"}]);
    let world = World::new(&script.to_string());
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "awaiting approval");
    let stdout = world.run_ok(&["answer", &id]).stdout();
    assert!(stdout.contains("  2  blue") && stdout.contains("Which name?"), "{stdout}");
    let refused = world.run(&["answer", &id, "2"]);
    assert!(refused.code() == 42 && refused.err().contains("2 questions"), "{}", refused.err());
    world.run_ok(&["answer", &id, "2", "any name"]);
    until_state(&world, &id, "done");
    let answers = crate::support::answers(&world.server).join("\n");
    assert!(answers.contains("blue") && answers.contains("any name"), "{answers}");
}

#[test]
fn one_of_two_answers_is_rejected() {
    let world = World::new(CALL);
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "awaiting approval");
    let answer = || {
        let mut command = world.command(&["answer", &id, "allow"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("start")
    };
    let both = [answer(), answer()].map(|child| child.wait_with_output().expect("the end"));
    let taken = both.iter().filter(|output| output.status.success()).count();
    let errors: String =
        both.iter().map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).collect();
    assert_eq!(taken, 1, "{errors}");
    until_state(&world, &id, "done");
}

#[test]
fn session_with_a_damaged_record_is_listed_and_answered() {
    let world = World::new(CALL);
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "awaiting approval");
    let directory = world.home.parallax().join("background").join(&id);
    std::fs::write(directory.join("state.json"), "{\"id").expect("written");
    let session = session_json(&world, &id);
    assert_eq!(session["state"], json!("awaiting approval"), "{session}");
    assert!(world.run_ok(&["logs", &id]).stdout().contains("touch made.txt"));
    assert!(world.run_ok(&["answer", &id]).stdout().contains("touch made.txt"));
    world.run_ok(&["answer", &id, "allow"]);
    until_state(&world, &id, "done");
}

#[test]
fn unwritten_state_is_requested_and_written_later() {
    let call =
        |line: &str| json!({"calls": [{"name": "run_shell_command", "args": {"command": line}}]});
    let script = json!([call("touch first.txt"), call("touch second.txt"), {"text": "done"}]);
    let world = World::new(&script.to_string());
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "awaiting approval");
    let directory = world.home.parallax().join("background").join(&id);
    // As on a full disk.
    let obstacle = directory.join("state.json.new");
    std::fs::create_dir(&obstacle).expect("a directory");
    world.run_ok(&["answer", &id, "allow"]);
    wait_until("the second request", || {
        session_json(&world, &id)["last_line"] == json!("touch second.txt")
    });
    let question = world.run_ok(&["answer", &id]).stdout();
    assert!(question.contains("touch second.txt"), "{question}");
    let state = || std::fs::read_to_string(directory.join("state.json")).unwrap_or_default();
    assert!(!state().contains("second.txt"));
    std::fs::remove_dir(&obstacle).expect("removed");
    wait_until("the record", || state().contains("second.txt"));
    world.run_ok(&["answer", &id, "allow"]);
    until_state(&world, &id, "done");
}

#[test]
fn denial_reaches_the_model_with_its_text() {
    let world = World::new(CALL);
    let id = start(&world, &["-p", "go"]);
    until_state(&world, &id, "awaiting approval");
    world.run_ok(&["answer", &id, "deny", "use", "git"]);
    until_state(&world, &id, "done");
    assert!(!world.home.project().join("made.txt").exists());
    let answers = crate::support::answers(&world.server).join("\n");
    assert!(answers.contains("use git"), "{answers}");
}

#[test]
fn running_session_is_stopped_and_a_killed_one_is_dead() {
    let world = World::new(
        r#"[{"calls": [{"name": "run_shell_command", "args": {"command": "sleep 60"}}], "repeat": 2},
            {"text": "resumed", "repeat": 0}]"#,
    );
    let id = start(&world, &["-p", "go", "-y"]);
    world.wait_for_requests(1);
    assert!(world.run_ok(&["stop", &id]).stdout().contains(&id));
    until_state(&world, &id, "stopped");

    let id = start(&world, &["-p", "go", "-y"]);
    world.wait_for_requests(2);
    let pid = session_json(&world, &id)["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    kill_process(pid.and_then(Pid::from_raw).expect("a process"), Signal::KILL).expect("kill");
    until_state(&world, &id, "dead");
    let refused = world.run(&["attach", &id]);
    assert!(refused.err().contains("parallax --resume"), "{}", refused.err());
    // An interrupted turn can be continued in the background.
    world.run_ok(&["--bg", "--resume", &id]);
    until_state(&world, &id, "done");
}

#[test]
fn session_that_does_not_react_to_stop_is_killed_and_recorded_as_stopped() {
    let world = World::new(
        r#"[{"calls": [{"name": "run_shell_command", "args": {"command": "sleep 60"}}]}]"#,
    );
    let id = start(&world, &["-p", "go", "-y"]);
    world.wait_for_requests(1);
    let pid = session_json(&world, &id)["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    kill_process(pid.and_then(Pid::from_raw).expect("a process"), Signal::STOP).expect("paused");
    world.run_ok(&["stop", &id]);
    assert_eq!(session_json(&world, &id)["state"], "stopped");
}

#[test]
fn empty_id_matches_no_session() {
    let world = World::new(r#"[{"text": "done"}]"#);
    start(&world, &["-p", "go"]);
    let error = world.run(&["answer", "", "allow"]).err();
    assert!(error.contains("Unknown background session ``"), "{error}");
}

#[test]
fn attached_session_waits_for_the_next_prompt() {
    let world = World::new(
        r#"[{"match": {"promptContains": "go"}, "chunks": [{"gate": "held"},
                {"candidates": [{"content": {"role": "model", "parts": [{"text": "went"}]},
                    "finishReason": "STOP"}]}]},
            {"match": {"promptContains": "more"}, "text": "more done"}]"#,
    );
    let id = start(&world, &["-p", "go"]);
    world.at_gate("held");
    let mut command = world.command(&["attach", &id]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut attached = command.spawn().expect("start");
    // The session keeps running only once the client is there.
    std::thread::sleep(std::time::Duration::from_millis(300));
    world.server.open_gate("held");
    until_state(&world, &id, "idle");
    let mut stdin = attached.stdin.take().expect("stdin");
    stdin.write_all(b"more\n").expect("written");
    wait_until("the second answer", || {
        session_json(&world, &id)["last_line"] == json!("more done")
    });
    drop(stdin);
    let output = attached.wait_with_output().expect("the end");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("went\n> more\nmore done"), "{text}");
    until_state(&world, &id, "done");
}

#[test]
fn failures_before_the_session_are_reported_at_once() {
    let world = World::new("[]");
    let output = world.run(&["--bg"]);
    assert!(output.code() != 0 && output.stdout().is_empty(), "{}", output.err());
    let output = world.run(&["--bg", "--acp", "-p", "x"]);
    assert!(output.err().contains("--bg"), "{}", output.err());
    let unknown = world.run(&["logs", "nothing"]);
    assert!(unknown.err().contains("parallax ps --all"), "{}", unknown.err());
    assert!(world.run_ok(&["ps"]).stdout().contains("No background sessions"));
}
