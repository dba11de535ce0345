//! Steering messages: delivered, edited, withdrawn, too late.

use std::sync::Arc;

use parallax_protocol::event::{EndReason, Event, EventBody, ItemStart, SteeringOutcome};
use parallax_protocol::op::Op;
use parallax_protocol::tool::{Concurrency, ToolResult};
use tokio::sync::Notify;

use crate::support::*;

/// Starts a session in the middle of a call that ends on request.
async fn waiting(answers: &[&str]) -> (Rig, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let open = Arc::clone(&gate);
    let wait = tool("wait", Concurrency::Shared, move |n, _| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.notified().await;
            ToolResult::text(n.to_string())
        })
    });
    let replies = [calls(&[("wait", 1)])].into_iter();
    let replies = replies.chain(answers.iter().map(|text| has_text(text))).collect();
    let mut rig = rig(replies, Setup { tools: vec![wait], ..Setup::default() });
    rig.prompt("go").await;
    rig.wait_for_event(|body| {
        matches!(body, EventBody::ItemStarted { start: ItemStart::Tool(_), .. })
    })
    .await;
    (rig, open)
}

fn steering_outcomes(events: &[Event]) -> Vec<(String, String, SteeringOutcome)> {
    let fate = |event: &Event| match &event.body {
        EventBody::SteerEnded(end) => Some((end.id.0.clone(), end.text.clone(), end.outcome)),
        _ => None,
    };
    events.iter().filter_map(fate).collect()
}

#[tokio::test]
async fn queued_steering_message_can_be_edited_and_removed() {
    let (mut rig, open) = waiting(&["done"]).await;
    for op in [
        steer("1", "first"),
        steer("2", "second"),
        steer("3", "third"),
        Op::Withdraw("2".into()),
        steer("1", "first, edited"),
        Op::Withdraw("unknown".into()),
    ] {
        rig.send(op).await;
    }
    rig.wait_until_processed().await;
    open.notify_one();
    let (_, events) = rig.finish().await;
    let expected = [
        ("2", "second", SteeringOutcome::Withdrawn),
        ("unknown", "", SteeringOutcome::NotFound),
        ("1", "first, edited", SteeringOutcome::Delivered),
        ("3", "third", SteeringOutcome::Delivered),
    ];
    let expected = expected.map(|(id, text, fate)| (id.to_owned(), text.to_owned(), fate));
    assert_eq!(steering_outcomes(&events), expected);
    let last = rig.script.contents().pop().expect("request");
    assert!(last[2].ends_with(r#"{"text":"first, edited"},{"text":"third"}]}"#), "{}", last[2]);
    // A delivered message can no longer be withdrawn.
    rig.send(Op::Withdraw("1".into())).await;
    let gone = rig.wait_for_event(|body| matches!(body, EventBody::SteerEnded(_))).await;
    assert_eq!(steering_outcomes(&[gone])[0].2, SteeringOutcome::NotFound);
}

#[tokio::test]
async fn key_in_a_steering_message_is_redacted() {
    let (mut rig, open) = waiting(&["done"]).await;
    rig.send(steer("1", "it is hush-hush-hush")).await;
    rig.wait_until_processed().await;
    open.notify_one();
    rig.finish().await;
    assert!(!rig.script.contents().concat().concat().contains("hush-hush"));
}

#[tokio::test]
async fn late_steering_message_becomes_a_prompt() {
    let (mut rig, _open) = waiting(&["second answer"]).await;
    rig.send(steer("1", "and then this")).await;
    rig.send(Op::Interrupt).await;
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Cancelled));
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done));
    assert_eq!(
        steering_outcomes(&events),
        [("1".into(), "and then this".into(), SteeringOutcome::Prompted)]
    );
    let place = |wanted: fn(&EventBody) -> bool| events.iter().position(|e| wanted(&e.body));
    let report = place(|body| matches!(body, EventBody::SteerEnded(_)));
    let turn_started = place(|body| matches!(body, EventBody::TurnStarted { .. }));
    assert!(report < turn_started, "{report:?} {turn_started:?}");
    assert_eq!(texts(&events), ["second answer"]);
}

#[tokio::test]
async fn steering_message_without_a_turn_becomes_a_prompt() {
    let mut rig = rig(vec![has_text("yes")], Setup::default());
    rig.send(steer("1", "hello")).await;
    let (_, events) = rig.finish().await;
    assert_eq!(
        steering_outcomes(&events),
        [("1".into(), "hello".into(), SteeringOutcome::Prompted)]
    );
    assert_eq!(texts(&events), ["yes"]);
}

#[tokio::test]
async fn nothing_starts_after_shutdown_begins() {
    let (mut rig, _open) = waiting(&["never asked for"]).await;
    rig.send(steer("1", "and then this")).await;
    rig.send(Op::Shutdown).await;
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Cancelled));
    assert_eq!(
        steering_outcomes(&events),
        [("1".into(), "and then this".into(), SteeringOutcome::Withdrawn)]
    );
    let Rig { handle, script, .. } = rig;
    handle.join().await;
    assert_eq!(script.contents().len(), 1);
}
