//! Snapshots of a session with one of each item at several widths.

use super::*;

/// Returns a session with one of each item.
fn rich() -> TestTranscript {
    let mut view = TestTranscript::default();
    view.transcript.push(LocalItem::Rows(vec![Line::raw("Parallax 0.1")]));
    view.start("u", ItemStart::User { text: "Fix the parser, please.\nIt fails on `x`.".into() });
    view.done("h", ItemDone::Thought { text: "**Finding the fault**\n\nFirst the tests.".into() });
    view.text("t", "I look at **it**:\n\n- one\n- two", false);
    let mut read = tool("1", "read_file", ToolKind::Read, "Read src/parser.rs, lines 1-200");
    read.display = Some(Display::text("Read lines 1-200 of 812"));
    let mut grep = tool("2", "grep_search", ToolKind::Search, "'fn parse' within src");
    grep.display = Some(Display::text("Found 3 matches"));
    let mut failed = tool("3", "read_file", ToolKind::Read, "Read no.rs");
    failed.status = ToolStatus::Error;
    failed.error = Some((
        ToolErrorKind::FileNotFound,
        "there is no file `no.rs`: use `glob` to find it".into(),
    ));
    let mut shell =
        tool("4", "run_shell_command", ToolKind::Execute, "cargo test (runs the tests)");
    shell.display = Some(Display::text(
        "\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m parser\nrunning 1 test\ntest a ... \u{1b}[31mFAILED\u{1b}[0m",
    ));
    shell.data = Some(json!({"exitCode": 101}));
    shell.duration_ms = 4200;
    let mut edit = tool("5", "replace", ToolKind::Edit, "Edit src/parser.rs");
    edit.display = Some(Display::Diff(FileDiff {
        file_path: "/w/src/parser.rs".into(),
        diff: "@@ -10,4 +10,4 @@\n fn parse() {\n-    let end = text.len();\n+    let end = text.trim().len();\n     go(end)\n }\n@@ -40 +40,2 @@\n-\told\n+\tnew\n+\tnewer\n".into(),
        lines_added: 3,
        lines_removed: 2,
        is_new_file: false,
        texts: None,
    }));
    let mut create = tool("6", "write_file", ToolKind::Edit, "Write src/new.rs");
    create.display = Some(Display::Diff(FileDiff {
        file_path: "/w/src/new.rs".into(),
        diff: "@@ -0,0 +1,2 @@\n+//! New.\n+fn f() -> u8 { 1 }\n".into(),
        lines_added: 2,
        lines_removed: 0,
        is_new_file: true,
        texts: None,
    }));
    let mut refused = tool("7", "web_fetch", ToolKind::Fetch, "Fetch https://example.com");
    refused.status = ToolStatus::Cancelled;
    refused.decision = Some(parallax_protocol::event::CallDecision::Reject);
    let mut mcp = tool("8", "mcp_db_query", ToolKind::Other, "mcp_db_query");
    mcp.display =
        Some(Display::text((1..30).map(|row| format!("row {row}\n")).collect::<String>()));
    for done in [read, grep, failed, shell, edit, create, refused, mcp] {
        view.end(done);
    }
    view.done("n", ItemDone::notice(Level::Warning, "the context window is nearly full"));
    view.transcript.push(LocalItem::Compressed { before: 90_000, after: 12_000 });
    view.transcript.push(LocalItem::ModelChanged { model: "gemini-2.5-flash".into() });
    view.transcript.push(LocalItem::Shell {
        command: "git status".into(),
        output: "clean".into(),
        code: Some(0),
    });
    let failure = Failure {
        kind: FailureKind::Quota,
        message: "the daily quota is spent".into(),
        status: Some(429),
    };
    view.event(EventBody::TurnEnded(TurnEnded {
        reason: EndReason::Failed(failure),
        duration_ms: 1,
        is_removed: false,
    }));
    view
}

#[test]
fn everything_renders_at_three_widths() {
    crate::highlight::wait_until_loaded();
    for width in [40, 80, 140] {
        let mut view = rich();
        let rows = view.transcript.take_finished(width, &view.theme);
        insta::assert_snapshot!(
            format!("session_{width}"),
            parallax_screen::described::describe_rows(&rows)
        );
        // The same rows in pages.
        let top = Anchor::Top { item: 0, row: 0 };
        let page = view.transcript.page(top, width, 10_000, &view.theme, 0);
        assert_eq!(page.rows, rows);
    }
    let mut view = rich();
    view.theme = Theme::by_name("GitHub Light").expect("a theme");
    let rows = view.transcript.take_finished(70, &view.theme);
    insta::assert_snapshot!("session_colours", parallax_screen::described::describe_rows(&rows));
    let mut view = rich();
    view.transcript.options.screen_reader = true;
    let rows = view.transcript.take_finished(70, &view.theme);
    insta::assert_snapshot!(
        "session_screen_reader",
        parallax_screen::described::describe_rows(&rows)
    );
}
