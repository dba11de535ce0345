//! Tests of grouped reads and searches.

use super::*;

/// Adds three finished reads and a search.
fn push_reads(view: &mut TestTranscript) {
    for (id, name, title) in [
        ("a", "read_file", "Read src/a.rs"),
        ("b", "read_file", "Read src/b.rs"),
        ("c", "grep_search", "'retry' in src"),
        ("d", "read_file", "Read src/c.rs"),
    ] {
        view.call(id, name, json!({}));
        view.end(tool(id, name, ToolKind::Read, title));
    }
}

const LINE: &str = "✓ Read 3 files, searched once  src/a.rs, src/b.rs, 'retry' …";

#[test]
fn consecutive_reads_are_one_line() {
    let mut view = TestTranscript::default();
    view.event(EventBody::TurnStarted { prompt: "go".into() });
    push_reads(&mut view);
    assert_eq!(view.take(), Vec::<String>::new(), "more may come");
    assert_eq!(view.live_rows(0), [LINE]);
    view.start("t", ItemStart::Text).delta("t", "Found.");
    assert_eq!(view.take(), [LINE]);
    view.text("t", "Found.", false);
    assert_eq!(view.take(), ["", "✦ Found."]);
}

#[test]
fn turn_end_closes_the_read_group() {
    let mut view = TestTranscript::default();
    view.event(EventBody::TurnStarted { prompt: "go".into() });
    push_reads(&mut view);
    let ended = TurnEnded { reason: EndReason::Done, duration_ms: 1, is_removed: false };
    view.event(EventBody::TurnEnded(ended));
    assert_eq!(view.take(), [LINE]);
}

#[test]
fn failed_read_and_two_reads_have_separate_lines() {
    let mut view = TestTranscript::default();
    for id in ["a", "b"] {
        view.call(id, "read_file", json!({}));
        view.end(tool(id, "read_file", ToolKind::Read, &format!("Read {id}.rs")));
    }
    view.call("c", "read_file", json!({}));
    let mut failed = tool("c", "read_file", ToolKind::Read, "Read c.rs");
    failed.status = ToolStatus::Error;
    failed.error = Some((ToolErrorKind::Unknown, "there is no file".to_owned()));
    view.end(failed);
    let rows = view.take();
    assert_eq!(rows[..2], ["✓ ReadFile  a.rs", "✓ ReadFile  b.rs"]);
    assert!(rows.iter().any(|row| row.contains("✕ ReadFile  c.rs")), "{rows:?}");
}

#[test]
fn read_group_expands_to_its_calls() {
    let mut view = TestTranscript::default();
    push_reads(&mut view);
    let (at, rows) = view
        .transcript
        .find_truncated_before(usize::MAX, 60, &view.theme)
        .expect("something folded");
    let rows: Vec<String> = rows.iter().map(Line::text).collect();
    assert_eq!((at, rows.len()), (0, 4), "{rows:?}");
    assert_eq!(rows[3], "✓ ReadFile  src/c.rs");
    // In a scrolling view, the first item has the line.
    let page = view.transcript.page(Anchor::Bottom, 60, 20, &view.theme, 0);
    assert_eq!(page.rows.iter().map(Line::text).collect::<Vec<_>>(), [LINE]);
}
