//! Tests of commands and their results.

use super::*;

#[test]
fn command_shows_its_phases() {
    let mut view = TestTranscript::default();
    view.call("c", "run_shell_command", json!({"command": "cargo test"}));
    view.event(ask("c"));
    assert_eq!(view.live_rows(0), ["? Shell  cargo test"]);
    let outcome = Some(ApprovalResponse::ProceedOnce);
    view.event(EventBody::ApprovalClosed { ask: "ask".into(), outcome });
    view.live_rows(1000);
    view.delta("c", "one\n\u{1b}[32mtwo\u{1b}[0m\n");
    let rows = view.live_rows(4000);
    assert!(rows[1].starts_with("│ ⠸ Shell  cargo test · 3s"), "{rows:?}");
    assert_eq!(rows[3], "│ two", "what is under way has no right side");
    let mut done = tool("c", "run_shell_command", ToolKind::Execute, "cargo test");
    done.display = Some(Display::text((0..30).map(|n| format!("{n}\n")).collect::<String>()));
    done.data = Some(json!({"exitCode": 101, "isError": true}));
    view.end(done);
    let rows = view.take();
    assert_eq!(rows.len(), 2 + 1 + 1 + 15 + 1, "{rows:?}");
    assert!(rows[1].starts_with("│ ✕ Shell  cargo test"));
    assert!(rows[2].starts_with("│ … 15 more lines"));
    assert!(rows[18].starts_with("│ exit code 101"), "{rows:?}");
}

/// Returns the rows of a finished command.
fn command(args: serde_json::Value, title: &str, expanded: bool) -> Vec<String> {
    let mut view = TestTranscript::default();
    view.transcript.options.expanded = expanded;
    let output = tool("c", "run_shell_command", ToolKind::Execute, title);
    view.call("c", "run_shell_command", args).end(output);
    view.take()
}

#[test]
fn command_is_shown_before_its_description() {
    let args = json!({"command": "cargo test -p engine", "description": "Runs the tests"});
    let rows = command(args, "cargo test -p engine (Runs the tests)", false);
    assert_eq!(rows, ["✓ Shell  cargo test -p engine · Runs the tests"]);
}

#[test]
fn long_command_takes_three_rows_and_all_of_them_when_expanded() {
    let words: Vec<String> = (0..60).map(|number| format!("word{number}")).collect();
    let text = format!("echo {}", words.join(" "));
    let args = json!({"command": text, "description": "Says a lot", "dir_path": "sub"});
    let title = format!("{text} [in sub] (Says a lot)");
    let rows = command(args.clone(), &title, false);
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows[0].starts_with("✓ Shell  echo word0 word1"), "{rows:?}");
    assert!(rows[1].starts_with("         word"), "{rows:?}");
    assert!(rows[2].ends_with(" …"), "{rows:?}");
    assert_eq!(rows[3], "         Says a lot · in sub");
    let rows = command(args, &title, true).join(" ");
    let shown: Vec<&str> = rows.split_whitespace().filter(|it| it.starts_with("word")).collect();
    assert_eq!(shown, words);
}

#[test]
fn each_command_line_has_its_own_row() {
    let args = json!({"command": "cat > a.txt <<'EOF'\n\tone\nEOF\n"});
    let rows = command(args, "cat > a.txt <<'EOF' ⏎ one ⏎ EOF", false);
    assert_eq!(rows, ["✓ Shell  cat > a.txt <<'EOF'", "             one", "         EOF"]);
}

#[test]
fn command_that_a_hook_changed_is_shown_as_it_ran() {
    let args = json!({"command": "rm -rf build", "description": "Cleans"});
    assert_eq!(command(args, "echo no", false), ["✓ Shell  echo no"]);
}

#[test]
fn approval_time_is_excluded_from_duration() {
    let mut view = TestTranscript::default();
    view.call("c", "run_shell_command", json!({"command": "make"})).runs("c");
    view.live_rows(0);
    assert!(view.live_rows(2_000)[0].ends_with("Shell  make · 2s"));
    view.event(ask("c"));
    assert!(view.live_rows(3_000)[0].starts_with("? Shell"));
    let outcome = Some(ApprovalResponse::ProceedOnce);
    view.event(EventBody::ApprovalClosed { ask: "ask".into(), outcome });
    view.live_rows(60_000);
    let rows = view.live_rows(61_000);
    assert!(rows[0].ends_with(" · 4s"), "{rows:?}");
}

#[test]
fn resumed_command_shows_its_real_end() {
    for (output, code, expected) in [
        (
            "Command moved to background (PID: 42).\n(Command produced no output)",
            None,
            "moved to the background as process 42",
        ),
        ("Command terminated by signal 9.\nhalf", None, "half|terminated by signal 9"),
        ("Command was cancelled.\nhalf", None, "half|stopped by you"),
        (
            "Command did not start: no shell\n(Command produced no output)",
            None,
            "failed to start: no shell",
        ),
        ("all", Some(0), "all"),
        ("all", Some(3), "all|exit code 3"),
    ] {
        let mut view = TestTranscript::default();
        view.transcript.resume(vec![RecordedItem::Shell {
            command: "make".to_owned(),
            output: output.to_owned(),
            code,
        }]);
        let rows = view.take();
        assert!(rows[1].starts_with("│ ! make"), "{rows:?}");
        let inner = |row: &String| row.trim_matches(['│', ' ']).to_owned();
        let inside: Vec<String> = rows[2..rows.len() - 1].iter().map(inner).collect();
        assert_eq!(inside.join("|"), expected);
    }
}

#[test]
fn cancelled_command_is_marked_once_even_after_resume() {
    let sentence = "The command was cancelled by the user before it completed.";
    let message = format!("[Operation Cancelled] {sentence}");
    for expected in [sentence, &message, "one\ntwo"] {
        let mut view = TestTranscript::default();
        let mut done = tool("c", "run_shell_command", ToolKind::Execute, "sleep 60");
        done.status = ToolStatus::Cancelled;
        done.display = Some(Display::text(expected));
        done.error = Some((ToolErrorKind::ExecutionFailed, message.clone()));
        let args = json!({"command": "sleep 60"});
        view.call("c", "run_shell_command", args.clone()).end(done);
        let live = view.take();
        assert_eq!(live.concat().to_lowercase().matches("cancelled").count(), 1, "{live:?}");
        let mut resumed = TestTranscript::default();
        resumed.transcript.resume(vec![RecordedItem::Tool {
            name: "run_shell_command".to_owned(),
            args: args.as_object().cloned().unwrap(),
            status: Some("cancelled".to_owned()),
            display: serde_json::to_value(Display::text(expected)).ok(),
            output: message.clone(),
            details: None,
        }]);
        assert_eq!(resumed.take(), live);
    }
}

#[test]
fn denial_feedback_is_shown_under_the_call_even_after_resume() {
    let message = "[Operation Cancelled] User denied execution. The user says: use math.inf";
    let mut view = TestTranscript::default();
    let mut done = tool("c", "replace", ToolKind::Edit, "Edit calc/core.py");
    done.status = ToolStatus::Cancelled;
    done.decision = Some(parallax_protocol::event::CallDecision::Reject);
    done.error = Some((ToolErrorKind::PolicyViolation, message.to_owned()));
    let args = json!({"file_path": "calc/core.py"});
    view.call("c", "replace", args.clone()).end(done);
    let live = view.take();
    assert_eq!(live, ["- Edit  calc/core.py  Cancelled", "  you answered: use math.inf"]);
    let mut resumed = TestTranscript::default();
    resumed.transcript.resume(vec![RecordedItem::Tool {
        name: "replace".to_owned(),
        args: args.as_object().cloned().unwrap(),
        status: Some("cancelled".to_owned()),
        display: None,
        output: message.to_owned(),
        details: None,
    }]);
    assert_eq!(resumed.take(), live);
}

#[test]
fn denial_gives_the_reason_and_the_rule_on_request() {
    let mut view = TestTranscript::default();
    let mut done = tool("d", "run_shell_command", ToolKind::Execute, "rm -rf /");
    done.status = ToolStatus::Error;
    done.error = Some((ToolErrorKind::PolicyViolation, "denied".into()));
    done.policy_decision = Some(PolicyDecision::new(
        Decision::Deny,
        "no-rm in policies/x.toml",
        "`rm -rf` is not allowed",
    ));
    view.call("d", "run_shell_command", json!({"command": "rm -rf /"})).end(done);
    let rows = view.take().join("\n");
    assert!(rows.contains("✕ Shell  rm -rf /"), "{rows}");
    assert!(rows.contains("Denied: `rm -rf` is not allowed") && !rows.contains("no-rm"), "{rows}");
}

#[test]
fn cancelled_command_keeps_its_state_behind_a_long_description() {
    let mut view = TestTranscript::default();
    let args = json!({"command": "make", "description": "Builds everything ".repeat(10)});
    view.call("a", "run_shell_command", args);
    let mut done = tool("a", "run_shell_command", ToolKind::Execute, "make");
    done.status = ToolStatus::Cancelled;
    view.end(done);
    let rows = view.take().join("\n");
    assert!(rows.contains("… · Cancelled"), "{rows}");
}
