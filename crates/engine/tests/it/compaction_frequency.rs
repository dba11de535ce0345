//! How often the history is compacted, and how large the results of one step may be.

use std::sync::Arc;

use parallax_engine::{CompactionOptions, tokens};
use parallax_protocol::event::{
    Compaction, CompactionMethod, EndReason, Event, EventBody, ItemDone,
};
use parallax_protocol::tool::{Concurrency, Tool, ToolResult};

use crate::support::*;

const GOOD: &str = "<state_snapshot><overall_goal>read</overall_goal>\
                    <key_knowledge>much</key_knowledge><task_state>reading</task_state></state_snapshot>";

/// Creates a tool whose results have about `size` tokens and all differ.
fn large_result_tool(name: &str, size: usize) -> Arc<dyn Tool> {
    tool(name, Concurrency::Shared, move |n, _| {
        let text = format!("line {n}\n");
        let text = text.repeat(size * 4 / text.len());
        Box::pin(async move { ToolResult::text(text) })
    })
}

/// Returns the tokens of each request's contents.
fn sizes(rig: &Rig) -> Vec<u64> {
    let requests = rig.script.contents();
    requests.iter().map(|all| all.iter().map(|json| tokens::estimate_content(json)).sum()).collect()
}

fn compactions(events: &[Event]) -> Vec<Compaction> {
    let report = events.iter().filter_map(|event| match &event.body {
        EventBody::Compaction(compaction) => Some(compaction.clone()),
        _ => None,
    });
    report.collect()
}

#[tokio::test]
async fn step_with_many_large_results_stays_within_its_share() {
    let round = |from: u64| {
        let many: Vec<(&str, u64)> = (from..from + 30).map(|n| ("look", n)).collect();
        calls(&many)
    };
    let replies = vec![round(0), round(100), round(200), has_text("done")];
    let compaction = CompactionOptions {
        save_output: Some(Arc::new(|tool, _| Ok(format!("/kept/{tool}.txt").into()))),
        probe: false,
        ..CompactionOptions::default()
    };
    let setup =
        Setup { tools: vec![large_result_tool("look", 9_700)], compaction, ..Setup::default() };
    let mut rig = rig(replies, setup);
    rig.script.writes(vec![GOOD; 9]);
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let sizes = sizes(&rig);
    assert!(sizes.iter().all(|size| *size < 160_000), "{sizes:?}");
    let sent = rig.script.contents();
    let results = sent[1].last().expect("results");
    assert!(results.matches("The full output is in `/kept/look.txt`").count() >= 20);
    assert!((40_000..60_000).contains(&sizes[1]), "{sizes:?}");
}

#[tokio::test]
async fn ineffective_compactions_become_rarer() {
    let mut replies: Vec<ModelReply> = (0..60).map(|n| calls(&[("look", n)])).collect();
    replies.push(has_text("done"));
    // Unmasked content uses most of the threshold.
    let setup = Setup {
        tools: vec![large_result_tool("look", 1_800)],
        compaction: CompactionOptions {
            tokens: 5_000,
            probe: false,
            ..CompactionOptions::default()
        },
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.script.writes(vec![GOOD; 60]);
    let (reason, events) = rig.turn(&"a long prompt ".repeat(700)).await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let report = compactions(&events);
    let small = report.iter().filter(|report| report.after > report.before * 2 / 5);
    assert!(small.count() <= 5 && report.len() <= 20, "{} compactions: {report:?}", report.len());
    let bare =
        |report: &&Compaction| report.after > report.before * 2 / 5 && report.remark.is_none();
    assert_eq!(report.iter().find(bare), None, "every small compaction has a remark");
}

#[tokio::test]
async fn threshold_below_the_fixed_request_size_is_reported_once() {
    let mut replies: Vec<ModelReply> = (0..20).map(|n| calls(&[("look", n)])).collect();
    replies.push(has_text("done"));
    let tools: Vec<Arc<dyn Tool>> =
        vec![large_result_tool("look", 100), verbose_tool("manual", 4_800)];
    let compaction =
        CompactionOptions { tokens: 4_000, probe: false, ..CompactionOptions::default() };
    let mut rig = rig(replies, Setup { tools, compaction, ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let report = events.iter().filter(|event| {
        matches!(&event.body, EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. }
            if text.contains("alone use about"))
    });
    assert_eq!(report.count(), 1);
    assert!(compactions(&events).is_empty(), "{:?}", compactions(&events));
}

#[tokio::test]
async fn newest_result_is_sent_once_under_any_threshold() {
    let mut replies: Vec<ModelReply> =
        (0..30).map(|n| calls(&[("look", 2 * n), ("look", 2 * n + 1)])).collect();
    replies.push(has_text("done"));
    let setup = Setup {
        tools: vec![large_result_tool("look", 4_500)],
        compaction: CompactionOptions { tokens: 2_000, ..CompactionOptions::default() },
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.script.writes(vec![GOOD; 90]);
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    for sent in rig.script.contents().iter().skip(1) {
        let newest = sent.last().expect("results");
        assert!(!newest.contains("tool_output_masked"), "{}", &newest[..300]);
    }
    let (utility_requests, report) = (rig.script.utility_requests().len(), compactions(&events));
    let used =
        report.iter().filter(|report| report.how == Some(CompactionMethod::Snapshot)).count();
    assert!(
        utility_requests <= 2 * used + 4,
        "{utility_requests} requests for {used} accounts: {report:?}"
    );
    let report = events.iter().filter(|event| {
        matches!(&event.body, EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. }
            if text.contains("cannot be kept below"))
    });
    assert_eq!(report.count(), 1);
}
