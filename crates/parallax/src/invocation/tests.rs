use std::path::PathBuf;

use parallax_protocol::policy::ApprovalMode;

use super::*;
use crate::output_options::OutputOptions;

fn read(words: &[&str]) -> Result<Invocation, InvocationError> {
    let argv: Vec<OsString> =
        std::iter::once("parallax").chain(words.iter().copied()).map(OsString::from).collect();
    Invocation::read(&argv, &StartupInfo::default())
}

fn prompt(words: &[&str]) -> (Option<String>, SessionFlags, OutputOptions) {
    match read(words) {
        Ok(Invocation::Async(AsyncCommand::Prompt { prompt, flags, printing })) => {
            (prompt, flags, printing)
        }
        other => panic!("{words:?}: {other:?}"),
    }
}

fn refusal(words: &[&str]) -> String {
    match read(words) {
        Err(InvocationError::Usage(usage)) => format!("{} | {}", usage.message, usage.hint),
        Err(InvocationError::Group(help)) => help,
        Err(InvocationError::Failure(failure)) => format!("42 {}", failure.message),
        Ok(other) => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn flags_are_accepted_anywhere_and_the_last_wins() {
    let (text, flags, output_options) = prompt(&[
        "--approval-mode=yolo",
        "fix",
        "-m",
        "a",
        "the bug",
        "-o=text",
        "-m",
        "b",
        "-ojson",
        "--allowed-tools",
        "x, run_shell_command(git log, -1)",
        "--allowed-tools=y",
        "--max-turns",
        "3",
    ]);
    assert_eq!(text.as_deref(), Some("fix the bug"));
    assert_eq!(flags.options.approval_mode, Some(ApprovalMode::Yolo));
    assert_eq!(flags.options.model.as_deref(), Some("b"));
    assert_eq!(flags.options.max_turns, Some(3));
    assert_eq!(output_options.format, Some(OutputFormat::Json));
    assert_eq!(flags.options.allowed_tools, ["x", "run_shell_command(git log, -1)", "y"]);
    assert_eq!(output_options.warnings.len(), 1);
}

#[test]
fn prompts_may_look_like_lists_flags_or_commands() {
    assert_eq!(prompt(&["-p", "- one\n- two"]).0.as_deref(), Some("- one\n- two"));
    assert_eq!(prompt(&["--prompt=--yolo"]).0.as_deref(), Some("--yolo"));
    assert_eq!(prompt(&["explain", "demo"]).0.as_deref(), Some("explain demo"));
    assert_eq!(prompt(&["help", "me"]).0.as_deref(), Some("help me"));
    assert_eq!(prompt(&["--", "-x"]).0.as_deref(), Some("-x"));
    assert!(refusal(&["-p", "--yolo"]).contains("--prompt=--yolo"));
    assert!(refusal(&["demo", "the", "app"]).contains("quote the prompt"));
    assert!(matches!(read(&["demo"]), Ok(Invocation::Async(AsyncCommand::Demo))));
    assert!(matches!(read(&["-o", "json", "demo"]), Ok(Invocation::Async(AsyncCommand::Demo))));
}

#[test]
fn session_flags_select_the_session_and_are_exclusive() {
    assert_eq!(
        prompt(&["-r", "-p", "x"]).1.options.session,
        SessionChoice::Resume("latest".into())
    );
    assert_eq!(prompt(&["--resume=3", "x"]).1.options.session, SessionChoice::Resume("3".into()));
    assert_eq!(
        prompt(&["--session-id", "a-1", "x"]).1.options.session,
        SessionChoice::WithId("a-1".into())
    );
    assert!(refusal(&["--session-id", "a/b", "x"]).starts_with("42 Invalid session id `a/b`"));
    assert!(refusal(&["-r", "1", "--session-id", "x"]).contains("`--resume` and `--session-id`"));
    assert!(matches!(
        read(&["--list-sessions"]),
        Ok(Invocation::Async(AsyncCommand::ListSessions { .. }))
    ));
    assert!(matches!(
        read(&["--delete-session", "2"]),
        Ok(Invocation::Async(AsyncCommand::DeleteSession { .. }))
    ));
}

#[test]
fn conflicting_arguments_are_rejected_with_a_hint() {
    for (words, part) in [
        (&["--outptu-format", "json"][..], "Did you mean `--output-format`?"),
        (&["--sandbox=dokcer"], "Choose one of: true, false, docker"),
        (&["trust", "me", "now"], "parallax -p \"trust …\""),
        (&["-o", "xml"], "Choose one of: text, json, stream-json"),
        (&["-o"], "requires a value | Choose one of: text, json, stream-json"),
        (&["--approval-mode", "free"], "Choose one of: default, auto_edit, yolo, plan"),
        (&["--max-turns", "0"], "Invalid value `0`"),
        (&["-p", "a", "b"], "both with `--prompt` and as words"),
        (&["-y", "--approval-mode", "plan", "x"], "`--yolo` and `--approval-mode`"),
        (&["--replay", "a", "--fake-responses", "b", "x"], "`--replay` and `--fake-responses`"),
        (&["--verbose-json", "-o", "text", "x"], "requires `--output-format json`"),
        (
            &["--verbose-json", "--stream-version", "2", "x"],
            "cannot be used with `--stream-version`",
        ),
        (&["--input-format", "stream-json", "x"], "from stdin"),
        (&["--input-format", "stream-json", "-o", "json"], "cannot be used with `--output-format`"),
        (&["--stream-version", "3"], "Choose one of: 1, 2"),
    ] {
        let refusal = refusal(words);
        assert!(refusal.contains(part), "{words:?}: {refusal}");
        assert!(!refusal.contains('\n'), "{refusal}");
    }
}

#[test]
fn sandbox_value_requires_an_equals_sign() {
    for (words, sandbox) in [
        (&["-s", "fix it"][..], "true"),
        (&["fix it", "--sandbox"], "true"),
        (&["--sandbox=docker", "fix it"], "docker"),
        (&["-s=false", "fix it"], "false"),
    ] {
        let (text, flags, _) = prompt(words);
        assert_eq!(
            (text.as_deref(), flags.options.sandbox.as_deref()),
            (Some("fix it"), Some(sandbox))
        );
    }
    let (_, flags, _) = prompt(&["--policy", "a,b", "--policy", "c", "--admin-policy=d", "x"]);
    assert_eq!(flags.options.policy_paths, ["a", "b", "c"].map(PathBuf::from));
    assert_eq!(flags.options.admin_policy_paths, ["d"].map(PathBuf::from));
}

#[test]
fn trust_without_an_action_shows_the_status() {
    let action = |words: &[&str]| match read(words) {
        Ok(Invocation::Blocking(BlockingCommand::Trust { action, json })) => (action, json),
        other => panic!("{words:?}: {other:?}"),
    };
    assert_eq!(action(&["trust"]), (TrustAction::Status { path: None }, false));
    let add = TrustAction::Add { path: Some("x".into()), parent: true, settings: false };
    assert_eq!(action(&["trust", "add", "x", "--parent", "--json"]), (add, true));
}

#[test]
fn format_specific_flags_select_their_format() {
    assert_eq!(prompt(&["--verbose-json", "x"]).2.format, Some(OutputFormat::Json));
    let Ok(Invocation::Async(AsyncCommand::StreamInput { flags, printing })) =
        read(&["--input-format", "stream-json"])
    else {
        panic!("no conversation")
    };
    assert!(flags.options.interactive);
    assert_eq!(printing.format, Some(OutputFormat::StreamJson));
    assert_eq!(prompt(&["x"]).2.format, None);
}

#[test]
fn terminal_start_without_prompt_flag_is_interactive() {
    let startup =
        StartupInfo { stdin_is_terminal: true, stdout_is_terminal: true, ..StartupInfo::default() };
    let start = |words: &[&str]| {
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        Invocation::read(&argv, &startup)
    };
    let prompt_of = |words: &[&str]| match start(words) {
        Ok(Invocation::Async(AsyncCommand::Interactive { prompt, flags, warnings, .. })) => {
            assert!(flags.options.interactive);
            (prompt, warnings.len())
        }
        other => panic!("{words:?}: {other:?}"),
    };
    assert_eq!(prompt_of(&["parallax"]), (None, 0));
    assert_eq!(prompt_of(&["parallax", "hello", "you"]), (Some("hello you".to_owned()), 1));
    assert_eq!(prompt_of(&["parallax", "-i", "- a"]), (Some("- a".to_owned()), 0));
    assert!(matches!(
        start(&["parallax", "-p", "hello"]),
        Ok(Invocation::Async(AsyncCommand::Prompt { .. }))
    ));
    assert!(matches!(
        start(&["parallax", "-o", "json", "x"]),
        Ok(Invocation::Async(AsyncCommand::Prompt { .. }))
    ));
    assert!(
        matches!(start(&["parallax", "-o", "json"]), Err(InvocationError::Failure(failure)) if failure.message.contains("No \
                                                                                                                 prompt"))
    );
    assert!(refusal(&["-i", "x"]).starts_with("42 The --prompt-interactive flag cannot be used"));
    assert!(refusal(&["-i", "x", "-p", "y"]).contains("cannot be used together"));
    assert!(matches!(
        start(&["parallax", "-v"]),
        Ok(Invocation::Blocking(BlockingCommand::Version))
    ));
}

#[test]
fn help_has_the_headings_that_programs_parse() {
    let Ok(Invocation::Blocking(BlockingCommand::Help(help))) = read(&["--help"]) else {
        panic!("no help")
    };
    let offset = |heading: &str| help.find(heading).unwrap_or_else(|| panic!("{heading}: {help}"));
    assert!(
        offset("Usage: ") < offset("\nCommands:\n")
            && offset("\nCommands:\n") < offset("\nOptions:\n")
    );
    assert!(help.contains("  -o, --output-format <FORMAT>  "), "{help}");
    assert!(!help.contains("fake-responses"));
}
