//! Compaction: what is sent when the history grows too long, and what never changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use parallax_engine::{CompactionOptions, invariants};
use parallax_protocol::content::{Content, Part, SealedContent};
use parallax_protocol::context::ResultLocation;
use parallax_protocol::event::{
    Compaction, CompactionCause, CompactionMethod, EndReason, Event, EventBody,
};
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome, Hooks};
use parallax_protocol::op::Op;
use parallax_protocol::store::{CompactionRecord, Record, RewindTarget};
use parallax_protocol::tool::{Concurrency, Tool, ToolResult};
use parallax_protocol::{BoxFuture, CancellationToken};

use crate::support::*;

const GOOD: &str = "<state_snapshot><overall_goal>count things</overall_goal>\
                    <key_knowledge>they are many</key_knowledge>\
                    <task_state>counting</task_state></state_snapshot>";

/// Creates a tool whose results have about `size` tokens and differ from each other.
fn large_result_tool(name: &str, size: usize) -> Arc<dyn Tool> {
    let count = AtomicUsize::new(0);
    tool(name, Concurrency::Shared, move |_, _| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let text = format!("line {number}\n").repeat(size * 4 / 8);
        Box::pin(async move { ToolResult::text(text) })
    })
}

fn small_window(tokens: u64) -> CompactionOptions {
    CompactionOptions { tokens, probe: false, ..CompactionOptions::default() }
}

fn compactions(events: &[Event]) -> Vec<Compaction> {
    let report = events.iter().filter_map(|event| match &event.body {
        EventBody::Compaction(compaction) => Some(compaction.clone()),
        _ => None,
    });
    report.collect()
}

/// Returns the state with which a resumed session would start.
fn journal(rig: &Rig) -> (Vec<SealedContent>, Vec<CompactionRecord>) {
    let (mut contents, mut compactions) = (Vec::new(), Vec::new());
    let mut results = Vec::new();
    for record in rig.store.0.lock().expect("records").iter() {
        match record {
            Record::Content(content) => contents.push(content.wire.clone()),
            Record::Result(result) => results.push(result.wire.clone()),
            Record::Round(round) => {
                let wires: Vec<_> = results.iter().map(|wire| &**wire).collect();
                contents.push(parallax_protocol::store::assemble_step(
                    &wires,
                    round.parts_after_results.as_deref(),
                ));
                results.clear();
            }
            Record::Compaction(compaction) => compactions.push(compaction.clone()),
            Record::CompactionUndone { .. } => {
                compactions.pop();
            }
            _ => {}
        }
    }
    (contents, compactions)
}

/// A hook that names what to keep.
struct Keeper;

impl Hooks for Keeper {
    fn has_subscriber(&self, event: HookEvent, _chunk: bool) -> bool {
        event == HookEvent::PreCompress
    }

    fn run(&self, call: HookCall, _: CancellationToken) -> BoxFuture<'static, HookOutcome> {
        let context = Some(format!("keep the ports, for it is {}", call.matcher_subject));
        Box::pin(std::future::ready(HookOutcome { context, ..HookOutcome::default() }))
    }
}

#[tokio::test]
async fn hooks_add_instructions_to_the_summary() {
    let replies =
        vec![calls(&[("look", 1)]), has_text("one"), calls(&[("look", 2)]), has_text("two")];
    let setup = Setup {
        tools: vec![large_result_tool("look", 4_000)],
        hooks: Some(Arc::new(Keeper)),
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.script.writes(vec![GOOD, "COMPLETE"]);
    rig.turn("first wish").await;
    rig.turn("second wish").await;
    rig.send(Op::Compact { focus: Some("the numbers".into()) }).await;
    rig.wait_for_event(|body| matches!(body, EventBody::Compaction(_))).await;
    let utility_requests = rig.script.utility_requests();
    assert!(utility_requests[0].contains("the numbers"), "the user's focus stays");
    assert!(
        utility_requests[0].contains("keep the ports, for it is manual"),
        "the hook's focus is added"
    );
}

#[tokio::test]
async fn manual_compaction_can_be_undone() {
    let replies = vec![
        calls(&[("look", 1)]),
        has_text("one"),
        calls(&[("look", 2)]),
        has_text("two"),
        has_text("three"),
        has_text("four"),
    ];
    let setup = Setup { tools: vec![large_result_tool("look", 4_000)], ..Setup::default() };
    let mut rig = rig(replies, setup);
    rig.script.writes(vec![GOOD, "COMPLETE"]);
    rig.turn("first wish").await;
    rig.turn("second wish").await;
    rig.send(Op::Compact { focus: Some("the numbers".into()) }).await;
    let report = rig.wait_for_event(|body| matches!(body, EventBody::Compaction(_))).await;
    let EventBody::Compaction(report) = report.body else { panic!("another event") };
    assert_eq!(
        (report.cause, report.how),
        (CompactionCause::Manual, Some(CompactionMethod::Snapshot))
    );
    assert!(report.after < report.before, "{report:?}");
    let utility_requests = rig.script.utility_requests();
    assert_eq!(utility_requests.len(), 2, "a snapshot and its probe");
    assert!(
        utility_requests[0].contains("the numbers") && utility_requests[0].contains("first wish")
    );
    rig.turn("third wish").await;
    let sent = rig.script.contents().pop().expect("request");
    let all = sent.join("\n");
    assert!(all.contains("count things") && all.contains("<session_context/>"), "{all}");
    assert!(all.contains("<prompt>first wish</prompt>") && all.contains("second wish"));
    assert!(!all.contains("line 0"), "{all}");

    // Another process sends the same contents.
    let (contents, compactions) = journal(&rig);
    assert_eq!(compactions.len(), 1);
    let resumed = Setup { history: contents, compactions, ..Setup::default() };
    let mut again = crate::support::rig(vec![has_text("hello")], resumed);
    again.turn("fourth wish").await;
    let resent = again.script.contents().pop().expect("request");
    assert_eq!(resent[..sent.len()], sent[..]);

    rig.send(Op::UndoCompaction).await;
    rig.wait_for_event(|body| {
        matches!(body, EventBody::Compaction(report) if report.cause == CompactionCause::Undo && report.remark.is_none())
    })
    .await;
    rig.turn("fourth wish").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(sent.contains("line 0") && !sent.contains("count things"));
}

#[tokio::test]
async fn one_long_prompt_is_compacted_as_often_as_needed() {
    const ROUNDS: u64 = 400;
    let mut replies: Vec<ModelReply> =
        (0..ROUNDS).map(|n| calls(&[("look", n), ("see", n)])).collect();
    replies.push(has_text("all counted"));
    let setup = Setup {
        tools: vec![large_result_tool("look", 300), large_result_tool("see", 200)],
        compaction: small_window(12_000),
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.script.window(24_000);
    let (reason, events) = rig.turn("count everything, and mind the dog").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let report = compactions(&events);
    assert!(report.len() > 5 && report.len() < 100, "{} compactions", report.len());
    for one in
        report.iter().filter(|one| one.how.is_some_and(|how| how != CompactionMethod::Results))
    {
        assert!(one.after <= one.before * 2 / 5, "less than 60 % is saved: {one:?}");
    }
    for request in rig.script.contents() {
        let size: u64 =
            request.iter().map(|json| parallax_engine::tokens::estimate_content(json)).sum();
        assert!(size < 24_000, "{size} tokens");
        let whole = request.iter().filter(|json| {
            json.starts_with("{\"role\":\"user\",\"parts\":[{\"text\":\"<session_context/>\"},{\"text\":\"count everything, and mind the dog\"}]")
        });
        assert_eq!(whole.count(), 1, "the prompt stays word for word");
    }
    // Between compactions, every request extends the previous one.
    let requests = rig.script.contents();
    let broken = requests.windows(2).filter(|pair| !pair[1].starts_with(&pair[0])).count();
    assert!(broken <= report.len(), "{broken} broken prefixes, {} compactions", report.len());
}

#[tokio::test]
async fn large_results_under_a_low_threshold_compact_in_large_steps() {
    // Each result uses an eighth of the threshold.
    const ROUNDS: u64 = 60;
    let mut replies: Vec<ModelReply> = (0..ROUNDS).map(|n| calls(&[("look", n)])).collect();
    replies.push(has_text("all counted"));
    let setup = Setup {
        tools: vec![large_result_tool("look", 4_000)],
        compaction: small_window(30_000),
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.turn("count everything").await;
    // The records include those that were made before the events of the turn were read.
    let (_, created) = journal(&rig);
    assert!(created.len() < 25, "{} compactions in {ROUNDS} rounds", created.len());
    for compaction in created.iter().filter(|one| one.how == CompactionMethod::Snapshot) {
        assert!(compaction.after <= compaction.before * 2 / 5, "{compaction:?}");
    }
}

#[tokio::test]
async fn invalid_summary_never_ends_the_session() {
    let endless = "many words ".repeat(20_000);
    let long = GOOD.replace("many</key", &format!("{endless}</key"));
    let bad = ["", "I cannot help with that.", "<state_snapshot><overall_goal>x", "no tags", &long];
    for (number, text) in bad.into_iter().enumerate() {
        let mut replies: Vec<ModelReply> = (0..14).map(|n| calls(&[("look", n)])).collect();
        replies.push(has_text("done"));
        let setup = Setup {
            tools: vec![large_result_tool("look", 1_000)],
            compaction: small_window(10_000),
            ..Setup::default()
        };
        let mut rig = rig(replies, setup);
        rig.script.writes(vec![text; 20]);
        let (reason, events) = rig.turn("go").await;
        assert!(matches!(reason, EndReason::Done), "case {number}: {reason:?}");
        let report = compactions(&events);
        assert!(
            report.iter().any(|report| report.how == Some(CompactionMethod::Mechanical)),
            "case {number}: {report:?}"
        );
    }
}

#[tokio::test]
async fn summary_is_prepared_in_the_background_before_it_is_needed() {
    let mut replies: Vec<ModelReply> = (0..12).map(|n| calls(&[("look", n)])).collect();
    replies.push(has_text("done"));
    let setup = Setup {
        tools: vec![large_result_tool("look", 1_000)],
        // Masking alone gains nothing.
        compaction: CompactionOptions { protect: 1_000_000, ..small_window(10_000) },
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.script.writes(vec![GOOD]);
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let sizes = rig.script.contents().into_iter().map(|request| {
        request.iter().map(|json| parallax_engine::tokens::estimate_content(json)).sum::<u64>()
    });
    let report = compactions(&events);
    assert_eq!(report[0].how, Some(CompactionMethod::Snapshot), "{report:?}");
    assert_eq!(rig.script.utility_requests().len(), 1, "what was written ahead is used");
    let largest = sizes.max().expect("requests");
    assert!((8_000..12_500).contains(&largest), "{largest} tokens");
}

#[tokio::test]
async fn request_rejected_as_too_long_is_compacted_and_retried() {
    let refusal = || {
        vec![Step::Fail(parallax_protocol::model::ModelError::BadRequest {
            status: 400,
            code: Some("INVALID_ARGUMENT".into()),
            message: "The input token count (9) exceeds the maximum number of tokens allowed (8)."
                .into(),
        })]
    };
    let replies = vec![
        calls(&[("look", 1)]),
        calls(&[("look", 2)]),
        calls(&[("look", 3)]),
        refusal(),
        has_text("done"),
        refusal(),
        refusal(),
    ];
    let setup = Setup { tools: vec![large_result_tool("look", 4_000)], ..Setup::default() };
    let mut rig = rig(replies, setup);
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let report = compactions(&events);
    assert_eq!(report.len(), 1);
    assert_eq!(report[0].cause, CompactionCause::Overflow);
    let (reason, _) = rig.turn("again").await;
    let EndReason::Failed(failure) = reason else { panic!("{reason:?}") };
    assert!(failure.message.contains("allowed (8); run `/compress`"), "{}", failure.message);
}

#[tokio::test]
async fn duplicates_become_notes_and_large_results_go_to_files() {
    let kept: Arc<Mutex<Vec<String>>> = Arc::default();
    let files = Arc::clone(&kept);
    let read = tool("read_file", Concurrency::Shared, |_, _| {
        Box::pin(async { ToolResult::text("the file ".repeat(2_000)) })
    });
    let mut replies: Vec<ModelReply> = Vec::new();
    replies.push(calls(&[("read_file", 7)]));
    replies.push(calls(&[("read_file", 7)]));
    replies.extend((0..6).map(|n| calls(&[("run", n)])));
    replies.push(has_text("done"));
    let compaction = CompactionOptions {
        protect: 6_000,
        save_output: Some(Arc::new(move |tool, text| {
            files.lock().expect("files").push(text.to_owned());
            Ok(format!("/kept/{tool}").into())
        })),
        ..small_window(20_000)
    };
    let setup = Setup {
        tools: vec![read, large_result_tool("run", 3_000)],
        compaction,
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.turn("go").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(sent.contains("tool_output_masked") && sent.contains("/kept/run"), "{sent}");
    let kept = kept.lock().expect("files");
    assert!(kept.iter().any(|text| text.starts_with("line 0\n") && text.len() > 10_000));
}

#[tokio::test]
async fn rewind_before_a_compaction_restores_the_full_history() {
    let replies = vec![calls(&[("look", 1)]), has_text("one"), has_text("two"), has_text("three")];
    let setup = Setup { tools: vec![large_result_tool("look", 4_000)], ..Setup::default() };
    let mut rig = rig(replies, setup);
    rig.turn("first").await;
    rig.turn("second").await;
    rig.send(Op::Compact { focus: None }).await;
    rig.wait_for_event(
        |body| matches!(body, EventBody::Compaction(report) if report.how.is_some()),
    )
    .await;
    let rewind = parallax_protocol::op::Rewind { turn: 2, chat: true, files: false, force: false };
    rig.send(Op::Rewind(rewind)).await;
    rig.wait_for_event(|body| matches!(body, EventBody::Rewound(_))).await;
    rig.turn("another second").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(sent.contains("line 0") && !sent.contains("compacted_history"), "{sent}");
}

/// Generates a plausible history: prompts, steps with or without call ids, signatures, text next to
/// calls, an injected pair.
fn history(shape: &[(u8, u16)]) -> (Vec<SealedContent>, Vec<RewindTarget>) {
    let (mut contents, mut prompts) = (Vec::new(), Vec::new());
    let content = |json: String| {
        SealedContent::from_json(serde_json::value::RawValue::from_string(json).expect("json"))
            .expect("content")
    };
    for (number, (kind, size)) in shape.iter().enumerate() {
        let bulk = format!("{number} ").repeat(usize::from(*size));
        if contents.len() % 2 == 0 {
            let text = format!("prompt {number} {}", bulk.get(..20).unwrap_or_default());
            prompts.push(RewindTarget {
                turn: prompts.len() as u64 + 1,
                at: contents.len(),
                text: text.clone(),
                time: String::new(),
                lines_added: 0,
                lines_removed: 0,
            });
            contents.push(Content::user(vec![Part::text(text)]).seal());
        }
        match kind % 4 {
            0 => contents.push(Content::model(vec![Part::text(bulk)]).seal()),
            kind => {
                let id = if kind == 1 { String::new() } else { format!("\"id\":\"c{number}\",") };
                let call = |name: &str| {
                    format!(
                        "{{\"functionCall\":{{{id}\"name\":\"{name}\",\"args\":{{\"file_path\":\"/f{}\"}}}},\"thoughtSignature\":\"c2ln{number}\"}}",
                        size % 3
                    )
                };
                let response = |name: &str| {
                    format!(
                        "{{\"functionResponse\":{{{id}\"name\":\"{name}\",\"response\":{{\"output\":\"{bulk}\"}}}}}}"
                    )
                };
                let names: &[&str] =
                    if kind == 3 { &["look", "read_file"] } else { &["read_file"] };
                let join = |texts: Vec<String>| texts.join(",");
                let (created, answers) = (
                    join(names.iter().map(|name| call(name)).collect()),
                    join(names.iter().map(|name| response(name)).collect()),
                );
                contents.push(content(format!("{{\"role\":\"model\",\"parts\":[{created}]}}")));
                contents.push(content(format!("{{\"role\":\"user\",\"parts\":[{answers}]}}")));
                if size % 2 == 0 {
                    contents.push(Content::model(vec![Part::text("so")]).seal());
                }
            }
        }
    }
    if contents.len() % 2 == 1 {
        contents.push(Content::model(vec![Part::text("end")]).seal());
    }
    (contents, prompts)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 48, ..Default::default() })]
    #[test]
    fn every_request_after_a_compaction_is_valid(
        shape in proptest::collection::vec((0u8..4, 0u16..3000), 1..40),
        mark in 1_000u64..20_000,
        writes in proptest::bool::ANY,
        whole_contexts in 0u8..2,
        chosen in proptest::collection::vec((0usize..80, 0usize..2, proptest::bool::ANY), 0..6),
    ) {
        let (contents, prompts) = history(&shape);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("runtime");
        runtime.block_on(async {
            let setup = Setup {
                history: contents.clone(),
                prompts,
                tools: vec![large_result_tool("look", 500)],
                compaction: small_window(mark),
                ..Setup::default()
            };
            let replies = vec![
                calls(&[("look", 1)]),
                calls(&[("look", 2)]),
                has_text("one"),
                calls(&[("look", 3)]),
                has_text("two"),
            ];
            let mut rig = rig(replies, setup);
            if writes {
                rig.script.writes(vec![GOOD; 20]);
            }
            for (content, part, left_out) in &chosen {
                let position = ResultLocation { content: *content, part: *part };
                rig.send(match left_out {
                    true => Op::DropResults(vec![position]),
                    false => Op::Pin { place: position, on: true },
                })
                .await;
            }
            if whole_contexts == 1 {
                rig.send(Op::Compact { focus: None }).await;
            }
            rig.turn("the active prompt").await;
            rig.turn("the last prompt").await;
            let originals: std::collections::HashSet<String> =
                journal(&rig).0.iter().chain(&contents).map(|c| c.json().to_owned()).collect();
            let requests = rig.script.requests.lock().expect("requests");
            assert_eq!(requests.len(), 5);
            for (number, request) in requests.iter().enumerate() {
                // The script has checked pairs and order. Messages from the model are sent back
                // byte for byte, including signatures.
                assert_eq!(invariants::violation(&request.contents), None);
                let active = if number < 3 { "the active prompt" } else { "the last prompt" };
                let mut active = request.contents.iter().filter(|content| {
                    let prompt = content.open().expect("content").visible_text();
                    prompt.ends_with(active) && !prompt.contains("compacted_history")
                });
                assert!(active.next().is_some(), "request {number} has no active prompt");
                for content in request.contents.iter().filter(|c| c.json().contains("c2ln")) {
                    assert!(originals.contains(content.json()), "{}", content.json());
                }
            }
        });
    }
}
