//! Tests of the transcript.

mod agents;
mod any_order;
mod everything;
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
struct Show {
    transcript: Transcript,
    given: Vec<String>,
    theme: Theme,
}

impl Show {
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
        let rows = texts(&self.transcript.take_finished(60, &self.theme));
        self.given.extend(rows.clone());
        rows
    }

    fn live_rows(&mut self, now_ms: u64) -> Vec<String> {
        texts(&self.transcript.live(60, 20, &self.theme, now_ms))
    }
}

fn texts(rows: &[Line]) -> Vec<String> {
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
    let mut view = Show::default();
    view.call("a", "run_shell_command", json!({"command": "make"}));
    view.phase("a", CallPhase::AwaitingApproval);
    assert!(!view.transcript.is_animated());
    view.runs("a");
    assert!(view.transcript.is_animated());
}

#[test]
fn answer_rows_are_emitted_once_while_streaming() {
    let mut show = Show::default();
    show.start("u", ItemStart::User { text: "hi".into() }).start("t", ItemStart::Text);
    show.delta("t", "One.\n\nTw");
    assert_eq!(show.take(), ["> hi", "", "✦ One."]);
    assert_eq!(show.live_rows(0), ["", "  Tw"]);
    show.delta("t", "o\n\nThr");
    assert_eq!(show.take(), ["", "  Two"]);
    assert_eq!(show.live_rows(0), ["", "  Thr"]);
    show.text("t", "One.\n\nTwo\n\nThree", false);
    assert_eq!(show.take(), ["", "  Three"]);
    assert_eq!(show.take(), Vec::<String>::new());
    assert_eq!(show.live_rows(0), Vec::<String>::new());
}

#[test]
fn calls_are_emitted_in_order() {
    let mut show = Show::default();
    show.call("a", "read_file", json!({"file_path": "a.rs"}));
    show.call("b", "grep_search", json!({"pattern": "x"}));
    assert_eq!(show.live_rows(0), ["○ ReadFile  a.rs", "○ SearchText  x"]);
    show.runs("a").runs("b");
    assert_eq!(show.live_rows(0), ["⠋ ReadFile  a.rs  0s", "⠋ SearchText  x  0s"]);
    let mut found = tool("b", "grep_search", ToolKind::Search, "'x' in src");
    found.display = Some(Display::text("Found 3 matches"));
    show.end(found);
    assert_eq!(show.take(), Vec::<String>::new());
    assert_eq!(show.live_rows(2000)[1], "✓ SearchText  'x' in src  → Found 3 matches");
    show.end(tool("a", "read_file", ToolKind::Read, "Read a.rs"));
    assert_eq!(show.take(), ["✓ ReadFile  a.rs", "✓ SearchText  'x' in src  → Found 3 matches"]);
}

#[test]
fn command_shows_its_phases() {
    let mut show = Show::default();
    show.call("c", "run_shell_command", json!({"command": "cargo test"}));
    show.event(ask("c"));
    assert_eq!(show.live_rows(0), ["? Shell  cargo test"]);
    let outcome = Some(ApprovalResponse::ProceedOnce);
    show.event(EventBody::ApprovalClosed { ask: "ask".into(), outcome });
    show.live_rows(1000);
    show.delta("c", "one\n\u{1b}[32mtwo\u{1b}[0m\n");
    let rows = show.live_rows(4000);
    assert!(rows[1].starts_with("│ ⠸ Shell  cargo test  3s"), "{rows:?}");
    assert_eq!(rows[3], "│ two", "what is under way has no right side");
    let mut done = tool("c", "run_shell_command", ToolKind::Execute, "cargo test");
    done.display = Some(Display::text((0..30).map(|n| format!("{n}\n")).collect::<String>()));
    done.data = Some(json!({"exitCode": 101, "isError": true}));
    show.end(done);
    let rows = show.take();
    assert_eq!(rows.len(), 2 + 1 + 1 + 15 + 1, "{rows:?}");
    assert!(rows[1].starts_with("│ ✕ Shell  cargo test"));
    assert!(rows[2].starts_with("│ … 15 more lines"));
    assert!(rows[18].starts_with("│ exit code 101"), "{rows:?}");
}

/// Returns the rows of a finished command.
fn command(args: serde_json::Value, title: &str, expanded: bool) -> Vec<String> {
    let mut show = Show::default();
    show.transcript.options.expanded = expanded;
    let done = tool("c", "run_shell_command", ToolKind::Execute, title);
    show.call("c", "run_shell_command", args).end(done);
    show.take()
}

#[test]
fn command_is_shown_before_its_description() {
    let args = json!({"command": "cargo test -p engine", "description": "Runs the tests"});
    let rows = command(args, "cargo test -p engine (Runs the tests)", false);
    assert_eq!(rows, ["✓ Shell  cargo test -p engine  Runs the tests"]);
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
fn pasted_text_stays_a_label_until_it_is_expanded() {
    let pasted: String = (0..200).map(|number| format!("line {number}\n")).collect();
    let (text, typed) = (format!("Look: {pasted}"), "Look: [Pasted Text: 200 lines]");
    let mut show = Show::default();
    show.transcript.remember_typed(&text, typed);
    show.start("u", ItemStart::User { text: text.clone() });
    assert_eq!(show.take(), ["> Look: [Pasted Text: 200 lines]"]);
    let folded = show.transcript.truncated_before(usize::MAX, 60, &show.theme);
    assert!(folded.is_some_and(|(_, rows)| rows.len() >= 200));
    // The same text is shown in full if it was typed.
    show.start("v", ItemStart::User { text });
    assert!(show.take().len() >= 200);
}

#[test]
fn approval_time_is_excluded_from_duration() {
    let mut show = Show::default();
    show.call("c", "run_shell_command", json!({"command": "make"})).runs("c");
    show.live_rows(0);
    assert!(show.live_rows(2_000)[0].ends_with("Shell  make  2s"));
    show.event(ask("c"));
    assert!(show.live_rows(3_000)[0].starts_with("? Shell"));
    let outcome = Some(ApprovalResponse::ProceedOnce);
    show.event(EventBody::ApprovalClosed { ask: "ask".into(), outcome });
    show.live_rows(60_000);
    let rows = show.live_rows(61_000);
    assert!(rows[0].ends_with("  4s"), "{rows:?}");
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
        let mut show = Show::default();
        show.transcript.resume(vec![RecordedItem::Shell {
            command: "make".to_owned(),
            output: output.to_owned(),
            code,
        }]);
        let rows = show.take();
        assert!(rows[1].starts_with("│ ! make"), "{rows:?}");
        let inner = |row: &String| row.trim_matches(['│', ' ']).to_owned();
        let inside: Vec<String> = rows[2..rows.len() - 1].iter().map(inner).collect();
        assert_eq!(inside.join("|"), expected);
    }
}

#[test]
fn interrupted_answer_is_removed_or_marked() {
    let mut show = Show::default();
    show.start("t", ItemStart::Text).delta("t", "All gone").text("t", "All gone", true);
    assert_eq!(show.take(), Vec::<String>::new());
    show.start("u", ItemStart::Text).delta("u", "Seen.\n\nHalf");
    show.delta("u", "\n").take();
    show.text("u", "Seen.\n\nHalf", true);
    assert_eq!(show.take(), ["↻ The answer was interrupted here; it restarts below"]);
}

#[test]
fn denial_gives_the_reason_and_the_rule_on_request() {
    let mut show = Show::default();
    let mut done = tool("d", "run_shell_command", ToolKind::Execute, "rm -rf /");
    done.status = ToolStatus::Error;
    done.error = Some((ToolErrorKind::PolicyViolation, "denied".into()));
    done.policy_decision = Some(PolicyDecision::new(
        Decision::Deny,
        "no-rm in policies/x.toml",
        "`rm -rf` is not allowed",
    ));
    show.call("d", "run_shell_command", json!({"command": "rm -rf /"})).end(done);
    let rows = show.take().join("\n");
    assert!(rows.contains("✕ Shell  rm -rf /"), "{rows}");
    assert!(rows.contains("Denied: `rm -rf` is not allowed") && !rows.contains("no-rm"), "{rows}");
}

#[test]
fn retry_counts_down() {
    let mut show = Show::default();
    show.event(EventBody::Retry(Retry {
        attempt: 1,
        max_attempts: 3,
        delay_ms: 5000,
        class: "rate_limit".into(),
        status: Some(429),
        message: "slow down.".into(),
        model: "m".into(),
    }));
    assert!(show.live_rows(10_000)[0].starts_with("↻ Rate limited (HTTP 429): slow down."));
    let words = show.live_rows(12_000).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.ends_with("slow down. Retrying with m in 3s (attempt 2 of 3)"), "{words}");
    show.start("t", ItemStart::Text).delta("t", "x");
    assert_eq!(show.live_rows(0), ["✦ x"]);
}

#[test]
fn retry_of_a_refused_connection_names_the_address_once() {
    let mut show = Show::default();
    show.event(EventBody::Retry(Retry {
        attempt: 1,
        max_attempts: 3,
        delay_ms: 5000,
        class: "connect".into(),
        status: None,
        message: "`127.0.0.1:9`: Connection refused (os error 111)".into(),
        model: "m".into(),
    }));
    let words = show.live_rows(0).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.starts_with("↻ Cannot connect to `127.0.0.1:9`: Connection refused (os error 111)."),
        "{words}"
    );
}

#[test]
fn no_item_stays_open_after_its_turn() {
    let mut show = Show::default();
    show.call("a", "read_file", json!({"file_path": "a.rs"})).start("t", ItemStart::Text);
    show.delta("t", "half");
    let end = TurnEnded { reason: EndReason::Cancelled, duration_ms: 1, is_removed: false };
    show.event(EventBody::TurnEnded(end));
    assert_eq!(show.take(), ["- ReadFile  a.rs", "", "✦ half", "", "ℹ Request cancelled."]);
    assert!(!show.transcript.is_animated());
}

#[test]
fn thoughts_follow_the_display_setting() {
    for (thoughts, rows) in [
        (Thoughts::Off, vec![]),
        (Thoughts::Subject, vec!["∴ Plan"]),
        (Thoughts::Full, vec!["∴ Plan", "│ Do it."]),
    ] {
        let mut show = Show::default();
        show.transcript.options.thoughts = thoughts;
        show.start("h", ItemStart::Thought).delta("h", "**Plan**\n\nDo it.");
        assert_eq!(show.transcript.thought_subject(), Some("Plan"));
        show.done("h", ItemDone::Thought { text: "**Plan**\n\nDo it.".into() });
        assert_eq!(show.take(), rows);
    }
}

#[test]
fn change_shows_its_diff_and_todos_their_symbols() {
    let mut show = Show::default();
    let mut edit = tool("e", "replace", ToolKind::Edit, "Edit a.rs");
    edit.display = Some(Display::Diff(FileDiff {
        file_path: "/w/a.rs".into(),
        diff: "@@ -1 +1 @@\n-a\n+b\n".into(),
        lines_added: 1,
        lines_removed: 1,
        is_new_file: false,
        texts: None,
    }));
    show.call("e", "replace", json!({})).end(edit);
    let mut todos = tool("f", "write_todos", ToolKind::Plan, "Todos: x");
    let todo = |description: &str, status| Todo { description: description.into(), status };
    todos.display = Some(Display::Todos {
        todos: vec![todo("x", TodoStatus::InProgress), todo("y", TodoStatus::Completed)],
    });
    show.call("f", "write_todos", json!({})).end(todos);
    let rows = show.take().join("\n");
    for wanted in ["✓ Edit  a.rs  +1 −1", "1 - a", "1 + b", "✓ To-do list  1/2 done", "» x", "✓ y"]
    {
        assert!(rows.contains(wanted), "{wanted}: {rows}");
    }
}

#[test]
fn results_have_boxes_without_compact_mode() {
    for whole in [false, true] {
        let mut show = Show::default();
        show.transcript.options.boxes_results = whole;
        let read = tool("r", "read_file", ToolKind::Read, "Read a.txt");
        show.call("r", "read_file", json!({"file_path": "a.txt"})).end(read);
        let rows = show.take().join("\n");
        assert!(rows.contains("✓ ReadFile  a.txt"), "{rows}");
        assert_eq!(rows.contains('│'), whole, "{rows}");
    }
}

#[test]
fn tall_live_region_is_truncated() {
    let mut show = Show::default();
    show.start("t", ItemStart::Text);
    show.delta("t", "- a\n");
    show.delta("t", &"  - x\n".repeat(40));
    let rows = texts(&show.transcript.live(60, 10, &show.theme, 0));
    assert_eq!(rows.len(), 10);
    assert!(rows[0].ends_with("more rows above (ctrl+o to show more)"), "{rows:?}");
}

fn long_session(turns: usize) -> Vec<Content> {
    let args = json!({"file_path": "src/main.rs"});
    let args: Object = args.as_object().cloned().unwrap_or_default();
    (0..turns)
        .flat_map(|turn| {
            let mut output = Object::new();
            output.insert("output".into(), "text".repeat(200).into());
            [
                Content::user(vec![Part::text(format!("prompt {turn}"))]),
                Content::model(vec![Part::function_call(None, "read_file", args.clone())]),
                Content::user(vec![Part::function_response(None, "read_file", output, vec![])]),
                Content::model(vec![Part::text("An *answer*.\n\n```rust\nfn main() {}\n```\n")]),
            ]
        })
        .collect()
}

#[test]
fn loaded_session_emits_only_its_end() {
    let mut show = Show::default();
    show.transcript.load(&long_session(3), 2);
    assert_eq!(show.transcript.len(), 9);
    assert_eq!(
        show.take(),
        ["✓ ReadFile  src/main.rs", "", "✦ An answer.", "", "    fn main() {}"]
    );
}

#[test]
fn text_added_to_a_prompt_is_not_shown() {
    let texts = [
        "<session_context>\nx</session_context>",
        "read @a.rs",
        "\n--- Content from referenced files ---",
        "\nContent from @a.rs:\n",
        "fn secret() {}",
        "\n--- End of content ---",
    ];
    let mut show = Show::default();
    show.transcript.load(&[Content::user(texts.map(Part::text).to_vec())], 9);
    assert_eq!(show.take(), ["> read @a.rs"]);
}

#[test]
fn long_prompt_of_a_resumed_session_is_shortened() {
    let lines: Vec<String> = (0..200).map(|line| format!("pasted {line}")).collect();
    let mut show = Show::default();
    show.transcript.load(&[Content::user(vec![Part::text(lines.join("\n"))])], 9);
    let rows = show.take();
    assert_eq!((rows.len(), rows[0].as_str()), (31, "> pasted 0"), "{rows:?}");
    assert_eq!(rows[30].trim(), "[… 170 more lines]");
}

#[test]
fn page_of_a_streaming_answer_matches_the_final_one() {
    let text = "# Title\n\nText.\n\n- a\n- b\n\n```c\nint x;\nint y;\n```\nEnd";
    crate::highlight::wait_until_loaded();
    let mut show = Show::default();
    show.start("t", ItemStart::Text);
    for at in 0..text.len() {
        show.delta("t", &text[at..=at]);
        let page = show.transcript.page(Anchor::Bottom, 40, 50, &show.theme, 0);
        let mut whole = Show::default();
        whole.text("t", &text[..=at], false);
        assert_eq!(page.rows, whole.transcript.take_finished(40, &whole.theme), "{at}");
    }
}

#[test]
fn transcript_pages_are_parts_of_one_text() {
    let mut show = Show::default();
    show.transcript.load(&long_session(20), 0);
    let (theme, mut transcript) = (show.theme, show.transcript);
    let whole = transcript.page(Anchor::Top { item: 0, row: 0 }, 40, 10_000, &theme, 0);
    assert!(whole.at_end);
    let bottom = transcript.page(Anchor::Bottom, 40, 7, &theme, 0);
    assert_eq!(bottom.rows, whole.rows[whole.rows.len() - 7..]);
    // Scroll up row by row to the top, and down again.
    let mut anchor = Anchor::Bottom;
    for begin in (0..whole.rows.len() - 7).rev() {
        anchor = transcript.scroll(anchor, -1, 40, 7, &theme);
        let page = transcript.page(anchor, 40, 7, &theme, 0);
        assert_eq!(page.rows, whole.rows[begin..begin + 7], "at {begin}");
        assert!(!page.at_end);
    }
    anchor = transcript.scroll(anchor, 10, 40, 7, &theme);
    assert_eq!(transcript.page(anchor, 40, 7, &theme, 0).rows, whole.rows[10..17]);
    assert_eq!(transcript.scroll(anchor, 10_000, 40, 7, &theme), Anchor::Bottom);
}

#[test]
fn server_error_is_shown_once_without_markers() {
    let mut show = Show::default();
    show.call("f", "mcp_s_fail", json!({}));
    let mut done = tool("f", "mcp_s_fail", ToolKind::Other, "fails");
    done.status = ToolStatus::Error;
    let wrapped = parallax_protocol::untrusted::wrap("no such thing");
    done.error = Some((ToolErrorKind::McpToolError, format!("{wrapped}\n(MCP tool `fail`)")));
    done.display = Some(Display::text("no such thing"));
    show.end(done);
    let rows = show.take().join("\n");
    assert_eq!(rows.matches("no such thing").count(), 1, "{rows}");
    assert!(!rows.contains("untrusted"), "{rows}");
}

#[test]
fn names_and_texts_cannot_control_the_terminal() {
    let mut show = Show::default();
    let evil = "x\u{1b}]0;t\u{7}\u{1b}[2J\u{202e}y";
    show.call("e", evil, json!({evil: evil}));
    let mut rows = show.live_rows(0);
    let mut done = tool("e", evil, ToolKind::Other, evil);
    done.status = ToolStatus::Error;
    done.error = Some((ToolErrorKind::Unknown, evil.into()));
    done.display = Some(Display::text(evil));
    show.end(done).start("u", ItemStart::User { text: evil.into() });
    show.done("n", ItemDone::notice(Level::Error, evil));
    show.transcript.push(LocalItem::Shell {
        command: evil.into(),
        output: evil.into(),
        code: Some(0),
    });
    show.transcript.push(LocalItem::Hint(evil.into()));
    rows.extend(show.take());
    for row in rows {
        assert!(!row.contains(|char: char| char.is_control() || char == '\u{202e}'), "{row:?}");
    }
}

#[test]
fn boxes_are_as_short_as_their_text() {
    let mut show = Show::default();
    let mut done = tool("c", "run_shell_command", ToolKind::Execute, "ls");
    done.display = Some(Display::text("a\nb"));
    show.call("c", "run_shell_command", json!({"command": "ls"})).end(done);
    let rows = show.transcript.take_finished(60, &show.theme);
    let rows: Vec<String> = rows.iter().map(Line::text).collect();
    // A terminal that gets narrower would wrap more.
    assert_eq!(rows, ["╭─", "│ ✓ Shell  ls", "│ a", "│ b", "╰─"]);
}

#[test]
fn screen_reader_transcript_is_plain_text() {
    let mut show = Show::default();
    show.transcript.options.screen_reader = true;
    let mut done = tool("c", "run_shell_command", ToolKind::Execute, "ls");
    done.display = Some(Display::text("a\nb"));
    show.start("u", ItemStart::User { text: "hi".into() });
    show.call("c", "run_shell_command", json!({"command": "ls"})).end(done);
    show.start("t", ItemStart::Text).delta("t", "- a").text("t", "- a", false);
    assert_eq!(show.take(), ["You: hi", "", "done: Shell  ls", "a", "b", "", "Model:", "- a"]);
}

#[test]
fn citations_are_links_without_escape_sequences() {
    let mut show = Show::default();
    let source = |title: Option<&str>, uri: &str| Citation {
        title: title.map(str::to_owned),
        uri: uri.to_owned(),
    };
    show.transcript.push(LocalItem::Sources(vec![
        source(Some("The sun"), "https://sun.example/facts"),
        source(Some("evil\u{1b}[2J\n"), "javascript:alert(1)"),
        source(None, "https://bare.example/"),
    ]));
    let rows = show.transcript.take_finished(60, &show.theme);
    let text: Vec<String> = rows.iter().map(Line::text).collect();
    assert_eq!(text[1], "  1. The sun https://sun.example/facts");
    assert_eq!(text[3], "  3. https://bare.example/");
    assert!(!text[2].contains('\u{1b}') && !text[2].contains('\n'), "{text:?}");
    let links = |row: &Line| row.spans.iter().filter_map(|span| span.link.clone()).count();
    assert_eq!(rows.iter().map(links).collect::<Vec<_>>(), [0, 2, 0, 1]);
}

#[test]
fn tool_title_keeps_the_file_name() {
    for (name, shown) in [("write_file", "WriteFile"), ("replace", "Edit")] {
        let mut show = Show::default();
        let mut done = tool("c", name, ToolKind::Edit, name);
        done.status = ToolStatus::Cancelled;
        show.call("c", name, json!({"file_path": "src/a.rs"})).end(done);
        let rows = show.take().concat();
        assert!(rows.contains(&format!("{shown}  src/a.rs")), "{rows}");
    }
    let mut show = Show::default();
    let done = tool("c", "save_memory", ToolKind::Edit, "Save to GEMINI.md: tabs");
    show.call("c", "save_memory", json!({"fact": "tabs"})).end(done);
    let rows = show.take().concat();
    assert!(rows.contains("SaveMemory  GEMINI.md: tabs"), "{rows}");
}

#[test]
fn cancelled_command_is_marked_once_also_after_resume() {
    let sentence = "The command was cancelled by user before it could complete.";
    let message = format!("[Operation Cancelled] {sentence}");
    for shown in [sentence, &message, "one\ntwo"] {
        let mut show = Show::default();
        let mut done = tool("c", "run_shell_command", ToolKind::Execute, "sleep 60");
        done.status = ToolStatus::Cancelled;
        done.display = Some(Display::text(shown));
        done.error = Some((ToolErrorKind::ExecutionFailed, message.clone()));
        let args = json!({"command": "sleep 60"});
        show.call("c", "run_shell_command", args.clone()).end(done);
        let live = show.take();
        assert_eq!(live.concat().to_lowercase().matches("cancelled").count(), 1, "{live:?}");
        let mut resumed = Show::default();
        resumed.transcript.resume(vec![RecordedItem::Tool {
            name: "run_shell_command".to_owned(),
            args: args.as_object().cloned().unwrap(),
            status: Some("cancelled".to_owned()),
            display: serde_json::to_value(Display::text(shown)).ok(),
            output: message.clone(),
            details: None,
        }]);
        assert_eq!(resumed.take(), live);
    }
}

#[test]
fn denial_feedback_is_shown_under_the_call_also_after_resume() {
    let message = "[Operation Cancelled] User denied execution. The user says: use math.inf";
    let mut show = Show::default();
    let mut done = tool("c", "replace", ToolKind::Edit, "Edit calc/core.py");
    done.status = ToolStatus::Cancelled;
    done.decision = Some(parallax_protocol::event::CallDecision::Reject);
    done.error = Some((ToolErrorKind::PolicyViolation, message.to_owned()));
    let args = json!({"file_path": "calc/core.py"});
    show.call("c", "replace", args.clone()).end(done);
    let live = show.take();
    assert_eq!(live, ["- Edit  calc/core.py  Cancelled", "  you answered: use math.inf"]);
    let mut resumed = Show::default();
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
fn rows_after_an_image_wait_until_it_was_viewed() {
    let mut show = Show::default();
    let image = |name: &str, mime: &str| parallax_protocol::image::Image {
        name: Some(name.to_owned()),
        mime_type: mime.to_owned(),
        data: "R0lGODlhAAAAAA==".into(),
    };
    show.event(EventBody::Image(image("a\x1b[31m\n.gif", "image/gif")));
    show.event(EventBody::Image(image("b.svg", "image/svg+xml")));
    show.text("t", "After.", false);
    assert!(show.take().is_empty());
    let (first, picture) = show.transcript.next_picture().unwrap();
    assert!(show.transcript.next_picture().is_none(), "one after another");
    let seen = DecodedImage::new(&picture, None, (80, 24));
    show.transcript.picture_seen(first, &picture, seen);
    let rows = show.take();
    assert_eq!(rows, ["↳ a .gif · image/gif, 10 bytes · not shown: no pixels"]);
    // At the end, pictures are no longer awaited.
    show.transcript.stop_waiting_for_pictures();
    show.given.clear();
    assert_eq!(show.take(), ["↳ b.svg · image/svg+xml, 10 bytes", "", "✦ After."]);
}
