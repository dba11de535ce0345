//! Tests of the progress of MCP calls.

use parallax_protocol::tool::ProgressUpdate;

use super::*;

#[test]
fn mcp_call_shows_progress() {
    let mut view = TestTranscript::default();
    view.call("a", "mcp_s_slow", json!({}));
    view.runs("a");
    let mut advance_to = |progress, total, message: &str| {
        let advance = ProgressUpdate { progress, total, message: message.to_owned() };
        view.event(EventBody::ItemAdvanced { item: "a".into(), advance });
        view.live_rows(0).join("\n")
    };
    let half = advance_to(2.0, Some(4.0), "reading\u{1b}[31m");
    let bar = format!("{}{}  50 %  reading", "█".repeat(12), "░".repeat(12));
    assert!(half.contains(&bar) && !half.contains('\u{1b}'), "{half}");
    // Not 100 %, although nearly.
    let nearly = advance_to(999.0, Some(1_000.0), "");
    assert!(nearly.contains("░  99 %") && !nearly.contains("reading"), "{nearly}");
    assert!(advance_to(9.0, Some(4.0), "").contains("█ 100 %"));
    assert!(advance_to(7.0, None, "files").contains("files (7)"));
}
