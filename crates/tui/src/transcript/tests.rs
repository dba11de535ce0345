//! Tests of the transcript.

mod agents;
mod any_order;
mod commands;
mod everything;
mod pages;
mod progress;
mod reads;

use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::event::{
    ApprovalRequest, CallPhase, CallState, EndReason, Event, EventBody, Failure, FailureKind,
    ItemDone, ItemStart, Level, Question, ToolDone, ToolStart, ToolStatus, TurnEnded,
};
use parallax_protocol::ids::{ApprovalId, CallId, ItemId};
use parallax_protocol::model::{Citation, Retry};
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{Decision, PolicyDecision};
use parallax_protocol::tool::{Display, FileDiff, Todo, TodoStatus, ToolErrorKind, ToolKind};
use parallax_screen::Line;
use parallax_sessions::recorded_items::RecordedItem;
use serde_json::json;

use super::*;
use crate::theme::Theme;

/// A transcript under test and the rows that it returned.
#[derive(Default)]
struct TestTranscript {
    transcript: Transcript,
    emitted: Vec<String>,
    theme: Theme,
}

impl TestTranscript {
    fn event(&mut self, body: EventBody) -> &mut Self {
        self.transcript.apply(&Event { seq: 0, turn: 1, body });
        self
    }

    fn start(&mut self, item: &str, start: ItemStart) -> &mut Self {
        self.event(EventBody::ItemStarted { item: item.into(), start })
    }

    fn delta(&mut self, item: &str, text: &str) -> &mut Self {
        self.event(EventBody::ItemDelta { item: item.into(), text: text.into() })
    }

    fn done(&mut self, item: &str, done: ItemDone) -> &mut Self {
        self.event(EventBody::ItemDone { item: item.into(), done })
    }

    fn text(&mut self, item: &str, text: &str, is_dropped: bool) -> &mut Self {
        self.done(item, ItemDone::Text { text: Arc::new(text.into()), is_dropped })
    }

    fn runs(&mut self, id: &str) -> &mut Self {
        self.phase(id, CallPhase::Executing)
    }

    fn phase(&mut self, id: &str, phase: CallPhase) -> &mut Self {
        self.event(EventBody::CallState(Box::new(CallState {
            item: id.into(),
            call: id.into(),
            phase,
            title: None,
            kind: None,
        })))
    }

    fn call(&mut self, id: &str, name: &str, args: serde_json::Value) -> &mut Self {
        let args = args.as_object().cloned().unwrap_or_default();
        let start = ToolStart { call: id.into(), index: 0, name: name.into(), args };
        self.start(id, ItemStart::Tool(start))
    }

    fn end(&mut self, done: ToolDone) -> &mut Self {
        let id = ItemId::new(done.call.as_str());
        self.event(EventBody::ItemDone { item: id, done: ItemDone::Tool(Box::new(done)) })
    }

    fn take(&mut self) -> Vec<String> {
        let rows = rows_as_text(&self.transcript.take_finished(60, &self.theme));
        self.emitted.extend(rows.clone());
        rows
    }

    fn live_rows(&mut self, now_ms: u64) -> Vec<String> {
        rows_as_text(&self.transcript.live(60, 20, &self.theme, now_ms))
    }
}

fn rows_as_text(rows: &[Line]) -> Vec<String> {
    rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
}

fn tool(id: &str, name: &str, kind: ToolKind, title: &str) -> ToolDone {
    ToolDone {
        call: CallId::from(id),
        index: 0,
        name: name.into(),
        kind: Some(kind),
        title: title.into(),
        status: ToolStatus::Success,
        decision: None,
        policy_decision: None,
        display: None,
        error: None,
        for_model: String::new(),
        data: None,
        duration_ms: 10,
    }
}

fn ask(call: &str) -> EventBody {
    EventBody::ApprovalRequested(Box::new(ApprovalRequest {
        id: ApprovalId::from("ask"),
        call: CallId::from(call),
        agent: None,
        name: "run_shell_command".into(),
        kind: ToolKind::Execute,
        title: "cargo test".into(),
        preview: None,
        policy_decision: PolicyDecision::new(Decision::Ask, "default", "commands are asked for"),
        outcomes: vec![ApprovalResponse::ProceedOnce],
        question: Question::Exec,
        rules: Vec::new(),
        no_rule_reason: None,
        permissions: Permissions::default(),
        broader_permissions: Permissions::default(),
        not_undoable: Vec::new(),
    }))
}

#[test]
fn nothing_animates_during_an_approval_request() {
    let mut view = TestTranscript::default();
    view.call("a", "run_shell_command", json!({"command": "make"}));
    view.phase("a", CallPhase::AwaitingApproval);
    assert!(!view.transcript.is_animated());
    view.runs("a");
    assert!(view.transcript.is_animated());
}

#[test]
fn answer_rows_are_emitted_once_while_streaming() {
    let mut view = TestTranscript::default();
    view.start("u", ItemStart::User { text: "hi".into() }).start("t", ItemStart::Text);
    view.delta("t", "One.\n\nTw");
    assert_eq!(view.take(), ["> hi", "", "✦ One."]);
    assert_eq!(view.live_rows(0), ["", "  Tw"]);
    view.delta("t", "o\n\nThr");
    assert_eq!(view.take(), ["", "  Two"]);
    assert_eq!(view.live_rows(0), ["", "  Thr"]);
    view.text("t", "One.\n\nTwo\n\nThree", false);
    assert_eq!(view.take(), ["", "  Three"]);
    assert_eq!(view.take(), Vec::<String>::new());
    assert_eq!(view.live_rows(0), Vec::<String>::new());
}

#[test]
fn calls_are_emitted_in_order() {
    let mut view = TestTranscript::default();
    view.call("a", "read_file", json!({"file_path": "a.rs"}));
    view.call("b", "grep_search", json!({"pattern": "x"}));
    assert_eq!(view.live_rows(0), ["○ ReadFile  a.rs", "○ SearchText  x"]);
    view.runs("a").runs("b");
    assert_eq!(view.live_rows(0), ["⠋ ReadFile  a.rs  0s", "⠋ SearchText  x  0s"]);
    let mut found = tool("b", "grep_search", ToolKind::Search, "'x' in src");
    found.display = Some(Display::text("Found 3 matches"));
    view.end(found);
    assert_eq!(view.take(), Vec::<String>::new());
    assert_eq!(view.live_rows(2000)[1], "✓ SearchText  'x' in src  → Found 3 matches");
    view.end(tool("a", "read_file", ToolKind::Read, "Read a.rs"));
    assert_eq!(view.take(), ["✓ ReadFile  a.rs", "✓ SearchText  'x' in src  → Found 3 matches"]);
}

#[test]
fn pasted_text_stays_a_label_until_it_is_expanded() {
    let pasted: String = (0..200).map(|number| format!("line {number}\n")).collect();
    let (text, typed) = (format!("Look: {pasted}"), "Look: [Pasted Text: 200 lines]");
    let mut view = TestTranscript::default();
    view.transcript.remember_typed(&text, typed);
    view.start("u", ItemStart::User { text: text.clone() });
    assert_eq!(view.take(), ["> Look: [Pasted Text: 200 lines]"]);
    let folded = view.transcript.find_truncated_before(usize::MAX, 60, &view.theme);
    assert!(folded.is_some_and(|(_, rows)| rows.len() >= 200));
    // The same text is shown in full if it was typed.
    view.start("v", ItemStart::User { text });
    assert!(view.take().len() >= 200);
}

#[test]
fn interrupted_answer_is_removed_or_marked() {
    let mut view = TestTranscript::default();
    view.start("t", ItemStart::Text).delta("t", "All gone").text("t", "All gone", true);
    assert_eq!(view.take(), Vec::<String>::new());
    view.start("u", ItemStart::Text).delta("u", "Seen.\n\nHalf");
    view.delta("u", "\n").take();
    view.text("u", "Seen.\n\nHalf", true);
    assert_eq!(view.take(), ["↻ The answer was interrupted here; it restarts below"]);
}

#[test]
fn retry_counts_down() {
    let mut view = TestTranscript::default();
    view.event(EventBody::Retry(Retry {
        attempt: 1,
        max_attempts: 3,
        delay_ms: 5000,
        class: "rate_limit".into(),
        status: Some(429),
        message: "slow down.".into(),
        model: "m".into(),
    }));
    assert!(view.live_rows(10_000)[0].starts_with("↻ Rate limited (HTTP 429): slow down."));
    let words = view.live_rows(12_000).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.ends_with("slow down. Retrying with m in 3s (attempt 2 of 3)"), "{words}");
    view.start("t", ItemStart::Text).delta("t", "x");
    assert_eq!(view.live_rows(0), ["✦ x"]);
}

#[test]
fn retry_of_a_refused_connection_names_the_address_once() {
    let mut view = TestTranscript::default();
    view.event(EventBody::Retry(Retry {
        attempt: 1,
        max_attempts: 3,
        delay_ms: 5000,
        class: "connect".into(),
        status: None,
        message: "`127.0.0.1:9`: Connection refused (os error 111)".into(),
        model: "m".into(),
    }));
    let words = view.live_rows(0).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.starts_with("↻ Cannot connect to `127.0.0.1:9`: Connection refused (os error 111)."),
        "{words}"
    );
}

#[test]
fn no_item_stays_open_after_its_turn() {
    let mut view = TestTranscript::default();
    view.call("a", "read_file", json!({"file_path": "a.rs"})).start("t", ItemStart::Text);
    view.delta("t", "half");
    let end = TurnEnded { reason: EndReason::Cancelled, duration_ms: 1, is_removed: false };
    view.event(EventBody::TurnEnded(end));
    assert_eq!(view.take(), ["- ReadFile  a.rs", "", "✦ half", "", "ℹ Request cancelled."]);
    assert!(!view.transcript.is_animated());
}

#[test]
fn thoughts_follow_the_display_setting() {
    for (thoughts, rows) in [
        (ThoughtDisplay::Off, vec![]),
        (ThoughtDisplay::Subject, vec!["∴ Plan"]),
        (ThoughtDisplay::Full, vec!["∴ Plan", "│ Do it."]),
    ] {
        let mut view = TestTranscript::default();
        view.transcript.options.thoughts = thoughts;
        view.start("h", ItemStart::Thought).delta("h", "**Plan**\n\nDo it.");
        assert_eq!(view.transcript.thought_subject(), Some("Plan"));
        view.delta("h", "\n\n**Second");
        assert_eq!(view.transcript.thought_subject(), Some("Plan"));
        view.delta("h", " step**\n\nMore.");
        assert_eq!(view.transcript.thought_subject(), Some("Second step"));
        view.done("h", ItemDone::Thought { text: "**Plan**\n\nDo it.".into() });
        assert_eq!(view.take(), rows);
    }
}

#[test]
fn change_waits_for_the_grammars_before_its_rows_are_final() {
    let mut view = TestTranscript::default();
    view.transcript.wait_for_grammars(true);
    let mut edit = tool("e", "replace", ToolKind::Edit, "Edit a.rs");
    edit.display = Some(Display::Diff(FileDiff {
        file_path: "/w/a.rs".into(),
        diff: "@@ -1 +1 @@\n-a\n+b\n".into(),
        lines_added: 1,
        lines_removed: 1,
        is_new_file: false,
        texts: None,
    }));
    view.call("e", "replace", json!({})).end(edit);
    assert_eq!(view.take(), Vec::<String>::new());
    assert!(view.live_rows(0).join("\n").contains("1 + b"));
    view.transcript.wait_for_grammars(false);
    assert!(view.take().join("\n").contains("1 + b"));
}

#[test]
fn hook_that_continues_the_agent_is_not_shown_as_a_prompt() {
    let mut view = TestTranscript::default();
    view.done(
        "n",
        ItemDone::Notice {
            level: Level::Warning,
            text: "Continued by the hook `tests`: 2 tests fail".into(),
            kind: Some("AfterAgent tests".into()),
        },
    );
    view.start("u", ItemStart::User { text: "2 tests fail".into() });
    assert_eq!(view.take(), ["↻ Continued by the hook `tests`: 2 tests fail"]);
    view.start("v", ItemStart::User { text: "thanks".into() });
    assert_eq!(view.take(), ["", "> thanks"]);
}

#[test]
fn result_of_a_call_gets_half_of_the_row_and_all_of_it_when_expanded() {
    let mut view = TestTranscript::default();
    let title = r#"create_issue (tracker MCP Server) {"title":"Retry loop of the scheduler"}"#;
    let mut issue = tool("m", "mcp_tracker_create_issue", ToolKind::Other, title);
    issue.display = Some(Display::Text { text: "created issue 17, assigned to the team".into() });
    view.call("m", "mcp_tracker_create_issue", json!({})).end(issue);
    let rows = view.take();
    assert_eq!(rows, ["✓ create_issue  tracker · title: Ret…  → created issue 17, …"]);
    let (_, rows) = view.transcript.find_truncated_before(1, 60, &view.theme).expect("rows");
    let text = rows_as_text(&rows).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        text,
        "✓ create_issue tracker · title: Retry loop of the scheduler → created issue 17, assigned \
         to the team"
    );
}

#[test]
fn expanded_call_shows_all_of_its_arguments() {
    let args =
        json!({"title": "Retry", "body": format!("first\n{}end", "word ".repeat(100)), "n": 7});
    let json: String = args.to_string().chars().take(200).collect();
    let mut issue =
        tool("m", "mcp_t_create", ToolKind::Other, &format!("create (t MCP Server) {json}"));
    issue.display = Some(Display::Text { text: "created".into() });
    let mut view = TestTranscript::default();
    view.call("m", "mcp_t_create", args.clone()).end(issue.clone());
    let loaded = RecordedItem::Tool {
        name: "mcp_t_create".into(),
        args: args.as_object().cloned().expect("arguments"),
        status: Some("success".into()),
        display: Some(json!({"type": "text", "text": "created"})),
        output: "created".into(),
        details: None,
    };
    let mut resumed = TestTranscript::default();
    resumed.transcript.resume(vec![loaded]);
    for view in [&view, &resumed] {
        let (_, rows) = view.transcript.find_truncated_before(1, 60, &view.theme).expect("rows");
        let rows = rows_as_text(&rows);
        assert_eq!(rows.iter().find(|row| row.contains("title")).expect("it"), "    title: Retry");
        assert!(rows.contains(&"    body:".to_owned()), "{rows:#?}");
        assert!(rows.contains(&"      first".to_owned()), "{rows:#?}");
        assert!(rows.iter().any(|row| row.ends_with("word end")), "{rows:#?}");
        assert_eq!(rows[rows.len() - 2..], ["    n: 7", "    → created"]);
    }
    // A hook changed the arguments.
    let title = r#"create (t MCP Server) {"title":"Other"}"#;
    issue.title = title.into();
    let mut view = TestTranscript::default();
    view.call("m", "mcp_t_create", args).end(issue);
    view.transcript.options.expanded = true;
    assert_eq!(view.take(), ["✓ create  t · title: Other  → created"]);
}

#[test]
fn change_shows_its_diff_and_todos_their_symbols() {
    let mut view = TestTranscript::default();
    let mut edit = tool("e", "replace", ToolKind::Edit, "Edit a.rs");
    edit.display = Some(Display::Diff(FileDiff {
        file_path: "/w/a.rs".into(),
        diff: "@@ -1 +1 @@\n-a\n+b\n".into(),
        lines_added: 1,
        lines_removed: 1,
        is_new_file: false,
        texts: None,
    }));
    view.call("e", "replace", json!({})).end(edit);
    let mut todos = tool("f", "write_todos", ToolKind::Plan, "Todos: x");
    let todo = |description: &str, status| Todo { description: description.into(), status };
    todos.display = Some(Display::Todos {
        todos: vec![todo("x", TodoStatus::InProgress), todo("y", TodoStatus::Completed)],
    });
    view.call("f", "write_todos", json!({})).end(todos);
    let rows = view.take().join("\n");
    for expected in
        ["✓ Edit  a.rs  +1 −1", "1 - a", "1 + b", "✓ To-do list  1/2 done", "» x", "✓ y"]
    {
        assert!(rows.contains(expected), "{expected}: {rows}");
    }
}

#[test]
fn results_have_boxes_without_compact_mode() {
    for whole in [false, true] {
        let mut view = TestTranscript::default();
        view.transcript.options.boxes_results = whole;
        let read = tool("r", "read_file", ToolKind::Read, "Read a.txt");
        view.call("r", "read_file", json!({"file_path": "a.txt"})).end(read);
        let rows = view.take().join("\n");
        assert!(rows.contains("✓ ReadFile  a.txt"), "{rows}");
        assert_eq!(rows.contains('│'), whole, "{rows}");
    }
}

#[test]
fn tall_live_region_is_truncated() {
    let mut view = TestTranscript::default();
    view.start("t", ItemStart::Text);
    view.delta("t", "- a\n");
    view.delta("t", &"  - x\n".repeat(40));
    let rows = rows_as_text(&view.transcript.live(60, 10, &view.theme, 0));
    assert_eq!(rows.len(), 10);
    assert!(rows[0].ends_with("more rows above (ctrl+o)"), "{rows:?}");
}

#[test]
fn server_error_is_shown_once_without_markers() {
    let mut view = TestTranscript::default();
    view.call("f", "mcp_s_fail", json!({}));
    let mut done = tool("f", "mcp_s_fail", ToolKind::Other, "fails");
    done.status = ToolStatus::Error;
    let wrapped = parallax_protocol::untrusted::wrap("no such thing");
    done.error = Some((ToolErrorKind::McpToolError, format!("{wrapped}\n(MCP tool `fail`)")));
    done.display = Some(Display::text("no such thing"));
    view.end(done);
    let rows = view.take().join("\n");
    assert_eq!(rows.matches("no such thing").count(), 1, "{rows}");
    assert!(!rows.contains("untrusted"), "{rows}");
}

#[test]
fn names_and_text_cannot_control_the_terminal() {
    let mut view = TestTranscript::default();
    let evil = "x\u{1b}]0;t\u{7}\u{1b}[2J\u{202e}y";
    view.call("e", evil, json!({evil: evil}));
    let mut rows = view.live_rows(0);
    let mut done = tool("e", evil, ToolKind::Other, evil);
    done.status = ToolStatus::Error;
    done.error = Some((ToolErrorKind::Unknown, evil.into()));
    done.display = Some(Display::text(evil));
    view.end(done).start("u", ItemStart::User { text: evil.into() });
    view.done("n", ItemDone::notice(Level::Error, evil));
    view.transcript.push(LocalItem::Shell {
        command: evil.into(),
        output: evil.into(),
        code: Some(0),
    });
    view.transcript.push(LocalItem::Hint(evil.into()));
    rows.extend(view.take());
    for row in rows {
        assert!(!row.contains(|char: char| char.is_control() || char == '\u{202e}'), "{row:?}");
    }
}

#[test]
fn boxes_are_as_short_as_their_text() {
    let mut view = TestTranscript::default();
    let mut done = tool("c", "run_shell_command", ToolKind::Execute, "ls");
    done.display = Some(Display::text("a\nb"));
    view.call("c", "run_shell_command", json!({"command": "ls"})).end(done);
    let rows = view.transcript.take_finished(60, &view.theme);
    let rows: Vec<String> = rows.iter().map(Line::text).collect();
    // A terminal that gets narrower would wrap more.
    assert_eq!(rows, ["╭─", "│ ✓ Shell  ls", "│ a", "│ b", "╰─"]);
}

#[test]
fn screen_reader_transcript_is_plain_text() {
    let mut view = TestTranscript::default();
    view.transcript.options.screen_reader = true;
    let mut done = tool("c", "run_shell_command", ToolKind::Execute, "ls");
    done.display = Some(Display::text("a\nb"));
    view.start("u", ItemStart::User { text: "hi".into() });
    view.call("c", "run_shell_command", json!({"command": "ls"})).end(done);
    view.start("t", ItemStart::Text).delta("t", "- a").text("t", "- a", false);
    assert_eq!(view.take(), ["You: hi", "", "done: Shell  ls", "a", "b", "", "Model:", "- a"]);
}

#[test]
fn citations_are_links_without_escape_sequences() {
    let mut view = TestTranscript::default();
    let source = |title: Option<&str>, uri: &str| Citation {
        title: title.map(str::to_owned),
        uri: uri.to_owned(),
    };
    view.transcript.push(LocalItem::Sources(vec![
        source(Some("The sun"), "https://sun.example/facts"),
        source(Some("evil\u{1b}[2J\n"), "javascript:alert(1)"),
        source(None, "https://bare.example/"),
    ]));
    let rows = view.transcript.take_finished(60, &view.theme);
    let text: Vec<String> = rows.iter().map(Line::text).collect();
    assert_eq!(text[1], "  1. The sun https://sun.example/facts");
    assert_eq!(text[3], "  3. https://bare.example/");
    assert!(!text[2].contains('\u{1b}') && !text[2].contains('\n'), "{text:?}");
    let links = |row: &Line| row.spans.iter().filter_map(|span| span.link.clone()).count();
    assert_eq!(rows.iter().map(links).collect::<Vec<_>>(), [0, 2, 0, 1]);
}

#[test]
fn tool_title_keeps_the_file_name() {
    for (name, expected) in [("write_file", "WriteFile"), ("replace", "Edit")] {
        let mut view = TestTranscript::default();
        let mut done = tool("c", name, ToolKind::Edit, name);
        done.status = ToolStatus::Cancelled;
        view.call("c", name, json!({"file_path": "src/a.rs"})).end(done);
        let rows = view.take().concat();
        assert!(rows.contains(&format!("{expected}  src/a.rs")), "{rows}");
    }
    let mut view = TestTranscript::default();
    let output = tool("c", "save_memory", ToolKind::Edit, "Save to GEMINI.md: tabs");
    view.call("c", "save_memory", json!({"fact": "tabs"})).end(output);
    let rows = view.take().concat();
    assert!(rows.contains("SaveMemory  GEMINI.md: tabs"), "{rows}");
}

#[test]
fn rows_after_an_image_wait_until_it_was_viewed() {
    let mut view = TestTranscript::default();
    let image = |name: &str, mime: &str| parallax_protocol::image::Image {
        name: Some(name.to_owned()),
        mime_type: mime.to_owned(),
        data: "R0lGODlhAAAAAA==".into(),
    };
    view.event(EventBody::Image(image("a\x1b[31m\n.gif", "image/gif")));
    view.event(EventBody::Image(image("b.svg", "image/svg+xml")));
    view.text("t", "After.", false);
    assert!(view.take().is_empty());
    let (first, picture) = view.transcript.next_image().unwrap();
    assert!(view.transcript.next_image().is_none(), "one after another");
    let seen = DecodedImage::new(&picture, None, (80, 24));
    view.transcript.record_decoded(first, &picture, seen);
    let rows = view.take();
    assert_eq!(rows, ["↳ a .gif · image/gif, 10 bytes · not shown: no pixels"]);
    // At the end, images are no longer awaited.
    view.transcript.stop_waiting_for_images();
    view.emitted.clear();
    assert_eq!(view.take(), ["↳ b.svg · image/svg+xml, 10 bytes", "", "✦ After."]);
}
