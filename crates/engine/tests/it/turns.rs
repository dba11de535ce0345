//! Turns: interrupts, steering, limits, resuming.

use std::sync::Arc;

use parallax_protocol::content::{Content, Part};
use parallax_protocol::event::{EndReason, EventBody, ItemStart, ToolStatus};
use parallax_protocol::op::Op;
use parallax_protocol::store::Record;
use parallax_protocol::tool::{Concurrency, ToolError, ToolErrorKind, ToolResult};
use tokio::sync::Notify;

use crate::support::*;

#[tokio::test]
async fn requests_extend_each_other_across_prompts() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![
        calls(&[("one", 1)]),
        has_text("a"),
        has_text("b"),
        calls(&[("one", 2)]),
        has_text("c"),
    ];
    let mut rig = rig(replies, Setup { tools: vec![one], ..Setup::default() });
    for prompt in ["first", "second", "third"] {
        rig.turn(prompt).await;
    }
    assert_eq!(rig.script.contents().len(), 5);
    rig.script.assert_prefixes();
}

#[tokio::test]
async fn interrupt_keeps_the_text_so_far() {
    let reply = vec![chunk(r#"[{"text":"half an ans"}]"#, None), Step::Hang];
    let mut rig = rig(vec![reply, has_text("done")], Setup::default());
    rig.prompt("go").await;
    rig.wait_for_event(|body| matches!(body, EventBody::ItemDelta { .. })).await;
    rig.handle.ops.send(Op::Interrupt).await.expect("open");
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Cancelled));
    rig.turn("on").await;
    let last = rig.script.contents().pop().expect("request");
    assert!(last[1].contains("half an ans"));
    rig.script.assert_prefixes();
}

#[tokio::test]
async fn interrupt_closes_every_call_and_keeps_finished_results() {
    let quick = tool("quick", Concurrency::Shared, |n, _| echo(n));
    let started = Arc::new(Notify::new());
    let report = started.clone();
    let fast_model_failed = tool("stuck", Concurrency::Shared, move |_, run| {
        let started = started.clone();
        Box::pin(async move {
            started.notify_one();
            run.cancel.cancelled().await;
            let mut outcome = ToolResult::failure(ToolError::new(
                ToolErrorKind::ExecutionFailed,
                "[Operation Cancelled] stopped",
            ));
            outcome.for_model.output = "half".into();
            outcome
        })
    });
    let edit = tool("edit", Concurrency::Exclusive, |n, _| echo(n));
    let replies = vec![calls(&[("quick", 1), ("stuck", 2), ("edit", 3)]), has_text("done")];
    let mut rig =
        rig(replies, Setup { tools: vec![quick, fast_model_failed, edit], ..Setup::default() });
    rig.prompt("go").await;
    report.notified().await;
    rig.wait_for_event(|body| matches!(body, EventBody::ItemDone { item, .. } if item.as_str().starts_with("tool-quick"))).await;
    rig.handle.ops.send(Op::Interrupt).await.expect("open");
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Cancelled));
    assert!(tools_done(&events).iter().all(|done| done.status == ToolStatus::Cancelled));
    rig.turn("on").await;
    let last = rig.script.contents().pop().expect("request");
    assert!(last[2].contains("result 1") && last[2].contains("half"), "{}", last[2]);
    rig.script.assert_prefixes();
}

#[tokio::test]
async fn steering_reaches_the_model_with_the_next_results() {
    let gate = Arc::new(Notify::new());
    let open = gate.clone();
    let wait = tool("wait", Concurrency::Shared, move |n, _| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.notified().await;
            ToolResult::text(n.to_string())
        })
    });
    let mut rig = rig(
        vec![calls(&[("wait", 1)]), has_text("done")],
        Setup { tools: vec![wait], ..Setup::default() },
    );
    rig.prompt("go").await;
    rig.wait_for_event(|body| {
        matches!(body, EventBody::ItemStarted { start: ItemStart::Tool(_), .. })
    })
    .await;
    rig.handle.ops.send(steer("1", "look at b.rs too")).await.expect("open");
    rig.handle.ops.reserve_many(64).await.expect("all orders are taken");
    open.notify_one();
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done));
    let last = rig.script.contents().pop().expect("request");
    assert!(last[2].ends_with(r#"{"text":"look at b.rs too"}]}"#), "{}", last[2]);
}

#[tokio::test]
async fn request_limit_ends_the_turn() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies = (0..9).map(|n| calls(&[("one", n)])).collect();
    let mut rig = rig(replies, Setup { tools: vec![one], max_turns: Some(3), ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::MaxTurns { limit: 3 }));
    assert_eq!(rig.script.contents().len(), 3);
}

#[tokio::test]
async fn step_interrupted_by_a_crash_keeps_finished_results() {
    let call = |id: &str| Part::function_call(Some(id), "one", parallax_protocol::Object::new());
    let history = vec![
        Content::user(vec![Part::text("go")]).seal(),
        Content::model(vec![call("id-1"), call("id-2")]).seal(),
    ];
    let wire = r#"[{"functionResponse":{"id":"id-2","name":"one","response":{"output":"kept"}}}]"#;
    let raw = serde_json::value::RawValue::from_string(wire.into()).expect("json");
    let setup = Setup { history: history.clone(), pending: [(1, raw)].into(), ..Setup::default() };
    let mut rig = rig(vec![has_text("done")], setup);
    let (reason, _) = rig.turn("on").await;
    assert!(matches!(reason, EndReason::Done));
    let request = rig.script.contents().pop().expect("request");
    assert_eq!(request[..2], [history[0].json(), history[1].json()]);
    assert!(request[2].contains("\"id\":\"id-1\"") && request[2].contains("is lost"));
    assert!(request[2].contains("kept"));
}

#[tokio::test]
async fn records_are_written_before_the_next_step() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let mut rig = rig(
        vec![calls(&[("one", 1)]), has_text("done")],
        Setup { tools: vec![one], ..Setup::default() },
    );
    rig.turn("go").await;
    let kinds: Vec<&str> = rig
        .store
        .0
        .lock()
        .expect("records")
        .iter()
        .map(|record| match record {
            Record::Session(_) => "session",
            Record::Content(_) => "content",
            Record::Result(_) => "result",
            Record::Round(_) => "round",
            Record::TurnEnd { .. } => "end",
            Record::Truncate { .. } => "truncate",
            Record::Plan(_) => "plan",
            Record::Name(_) => "name",
            Record::Directories(_) => "directories",
            Record::Compaction(_) => "compaction",
            Record::CompactionUndone { .. } => "compaction undone",
            Record::Pin(_) => "pin",
            Record::Budget(_) => "budget",
            Record::Selection(_) => "selection",
            Record::Spent(_) => "spent",
            Record::Route(_) => "route",
            Record::Request(_) => "request",
            Record::Unfinished(_) => "unfinished",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "content",
            "selection",
            "request",
            "content",
            "result",
            "round",
            "request",
            "content",
            "spent",
            "end"
        ]
    );
}

#[tokio::test]
async fn invalid_answer_is_followed_by_a_retry() {
    let empty = vec![chunk("[]", Some("STOP"))];
    let mut rig = rig(vec![empty, has_text("here"), has_text("more")], Setup::default());
    rig.turn("go").await;
    rig.turn("on").await;
    let retries: Vec<bool> =
        rig.script.requests.lock().expect("requests").iter().map(|one| one.is_retry).collect();
    assert_eq!(retries, [false, true, false]);
}
