//! Tests of subagents and topic headings.

use parallax_protocol::agent::{AgentEnd, AgentProgress, AgentStep};

use super::*;

fn step(name: &str, title: &str, status: Option<ToolStatus>) -> AgentStep {
    AgentStep {
        name: name.into(),
        title: title.into(),
        status,
        error: String::new(),
        started: None,
        duration_ms: None,
    }
}

fn progress() -> AgentProgress {
    let mut failed = step("read_file", "Read b.rs", Some(ToolStatus::Error));
    failed.error = "there is no file `b.rs`".into();
    AgentProgress {
        agent: "scout".into(),
        turns: 2,
        calls: 7,
        tokens: 12_345,
        thought: "Where it is".into(),
        steps: vec![
            step("glob", "Find 1", Some(ToolStatus::Success)),
            step("glob", "Find 2", Some(ToolStatus::Success)),
            failed,
            step("glob", "Find 3\u{1b}[31m", Some(ToolStatus::Success)),
            step("glob", "Find 4", Some(ToolStatus::Success)),
            step("grep_search", "'x' within src", None),
        ],
        ..AgentProgress::default()
    }
}

#[test]
fn subagent_tree_collapses_when_done() {
    let mut view = TestTranscript::default();
    view.call("a", "invoke_agent", json!({"agent_name": "scout"}));
    view.runs("a");
    let now = Arc::new(progress());
    view.event(EventBody::Agent { item: "a".into(), progress: now });
    let rows = view.live_rows(0).join("\n");
    for expected in [
        "Agent  scout",
        "∴ Where it is",
        "├ ✓ FindFiles  2",
        "├ ✕ ReadFile  b.rs  → there is no file `b.rs`",
        "└ ⠋ SearchText  'x' within src",
        "7 calls · 2 turns · 12k tokens",
    ] {
        assert!(rows.contains(expected), "{expected}: {rows}");
    }
    // Only the newest calls, and no control characters.
    assert!(!rows.contains("FindFiles  1") && !rows.contains('\u{1b}'), "{rows}");
    let ended = AgentProgress {
        end: Some(AgentEnd::Goal),
        duration_ms: 3_000,
        result: "one\ntwo\nthree\nfour\nfive".into(),
        ..progress()
    };
    let mut done = tool("a", "invoke_agent", ToolKind::Agent, "scout: look");
    done.display = Some(Display::Agent(ended.clone()));
    view.end(done);
    let rows = view.take().join("\n");
    for expected in ["✓ Agent  scout: look", "12k tokens", "three", "… 2 more lines (ctrl+o)"] {
        assert!(rows.contains(expected), "{expected}: {rows}");
    }
    assert!(!rows.contains("FindFiles") && !rows.contains("four"), "{rows}");

    let mut view = TestTranscript::default();
    view.transcript.options.expanded = true;
    view.call("b", "invoke_agent", json!({"agent_name": "scout"}));
    let mut done = tool("b", "invoke_agent", ToolKind::Agent, "scout: look");
    done.status = ToolStatus::Error;
    done.error = Some((ToolErrorKind::ExecutionFailed, "Subagent 'scout' finished.".into()));
    done.display = Some(Display::Agent(AgentProgress { end: Some(AgentEnd::Timeout), ..ended }));
    view.end(done);
    let rows = view.take().join("\n");
    for expected in ["timed out", "FindFiles  1", "five"] {
        assert!(rows.contains(expected), "{expected}: {rows}");
    }
    assert!(!rows.contains("Subagent 'scout'"), "{rows}");
}

#[test]
fn object_result_is_shown_without_braces() {
    let mut view = TestTranscript::default();
    view.call("a", "invoke_agent", json!({"agent_name": "scout"}));
    let result = json!({"Summary": "It is here.", "Trace": ["glob", "read"],
        "Places": [{"file": "a.rs", "why": "it says so"}]});
    let mut done = tool("a", "invoke_agent", ToolKind::Agent, "scout: look");
    done.display = Some(Display::Agent(AgentProgress {
        end: Some(AgentEnd::Goal),
        result: serde_json::to_string_pretty(&result).expect("JSON"),
        ..progress()
    }));
    view.end(done);
    let rows = view.take().join("\n");
    for expected in ["Summary: It is here.", "Trace: glob · read", "… 1 more line (ctrl+o)"] {
        assert!(rows.contains(expected), "{expected}: {rows}");
    }
    assert!(!rows.contains('{'), "{rows}");
}

#[test]
fn topic_is_a_heading_and_intent_is_a_row() {
    let mut view = TestTranscript::default();
    for (id, title) in [("a", "Looking around"), ("b", "")] {
        let mut topic = tool(id, "update_topic", ToolKind::Think, title);
        topic.display = Some(Display::Topic {
            title: title.into(),
            summary: "Nothing yet.".into(),
            intent: format!("find {id}"),
        });
        view.call(id, "update_topic", json!({})).end(topic);
    }
    let rows = view.take();
    assert!(rows.iter().any(|row| row.starts_with("── Looking around ──")), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row.starts_with("→ find ")).count(), 2, "{rows:?}");
    assert!(rows.iter().all(|row| row.chars().count() <= 60), "{rows:?}");
}
