//! A request to the strong model that is sent while a small one thinks: what becomes of it
//! where something else changes meanwhile, and where none may be sent.

use std::time::Duration;

use parallax_engine::{Budget, BudgetLimits, RoutingOptions, Spending};
use parallax_protocol::content::{Content, Part};
use parallax_protocol::event::{EndReason, Event, EventBody, ModelCall};
use parallax_protocol::op::Op;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::SentAhead;

use crate::routing::{auto, busy, fallbacks, models, routes};
use crate::support::*;

const UNCLEAR: &str = "Add a flag\nto the parser";
const STRONG: &str = r#"{"complexity_score": 95}"#;
const FAST: &str = r#"{"complexity_score": 5}"#;

/// A session in which the small model thinks long enough for a request ahead.
fn thinking(replies: Vec<ModelReply>, has_text: &str, setup: Setup) -> Rig {
    let head_start = Duration::from_millis(10);
    let routing = RoutingOptions { ahead: true, head_start, ..setup.routing };
    let rig = rig(replies, Setup { routing, ..setup });
    rig.script.writes(vec![has_text]);
    rig.script.thinks(Duration::from_millis(150));
    rig
}

fn asked_in_vain(events: &[Event]) -> Vec<ModelCall> {
    let call = |event: &Event| match &event.body {
        EventBody::ModelCall(call) if call.role == "utility_router" => Some(call.clone()),
        _ => None,
    };
    events.iter().filter_map(call).filter(|call| call.model == "strong").collect()
}

fn ahead(events: &[Event]) -> Option<SentAhead> {
    routes(events)[0].ahead
}

#[tokio::test]
async fn nobody_is_asked_ahead_unless_that_is_wanted() {
    let mut rig = rig(vec![has_text("a")], auto(RoutingOptions::default()));
    rig.script.writes(vec![FAST]);
    rig.script.thinks(Duration::from_millis(300));
    let (_, events) = rig.turn(UNCLEAR).await;
    assert_eq!((models(&rig), ahead(&events)), (vec!["fast".to_owned()], None));
}

#[tokio::test]
async fn what_was_asked_in_another_mode_is_asked_anew_and_counted() {
    let standard = auto(RoutingOptions::default());
    let mut rig = thinking(vec![vec![Step::Hang], has_text("a")], STRONG, standard);
    rig.prompt(UNCLEAR).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    rig.send(Op::SetMode(ApprovalMode::AutoEdit)).await;
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    assert_eq!(models(&rig), ["strong", "strong"]);
    assert_eq!(ahead(&events), Some(SentAhead::Dropped));
    let [call] = asked_in_vain(&events).try_into().expect("one");
    assert!(call.error.is_none() && call.request_bytes > 0);
}

#[tokio::test]
async fn without_capacity_it_falls_back_where_it_counted_and_only_there() {
    for (says_what, result) in [(STRONG, 1), (FAST, 0)] {
        let setup = Setup { unattended: true, ..auto(RoutingOptions::default()) };
        let mut rig = thinking(vec![busy(), has_text("a")], says_what, setup);
        let (reason, events) = rig.turn(UNCLEAR).await;
        assert!(matches!(reason, EndReason::Done), "{reason:?}");
        assert_eq!(models(&rig), ["strong", "fast"]);
        assert_eq!(fallbacks(&events).len(), result, "{says_what}");
        let used = if result == 1 { SentAhead::Used } else { SentAhead::Dropped };
        assert_eq!(ahead(&events), Some(used));
        // One that was refused costs nothing, and is told as what it was.
        let errors: Vec<_> = asked_in_vain(&events).into_iter().map(|call| call.error).collect();
        assert_eq!(errors.len(), 1 - result);
        assert!(errors.iter().all(|error| error.as_deref() == Some("server")), "{errors:?}");
    }
}

#[tokio::test]
async fn an_interrupt_counts_what_was_sent() {
    let standard = auto(RoutingOptions::default());
    let mut rig = thinking(vec![vec![Step::Hang]], STRONG, standard);
    rig.prompt(UNCLEAR).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    rig.send(Op::Interrupt).await;
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Cancelled), "{reason:?}");
    let [call] = asked_in_vain(&events).try_into().expect("one");
    assert!(call.error.is_none(), "it was sent: it counts by its size");
}

#[tokio::test]
async fn a_budget_that_asking_twice_would_nearly_spend_is_kept() {
    // The request has some 20 tokens by its size.
    for (tokens, sent) in [(30, false), (100_000, true)] {
        let session = BudgetLimits { tokens: Some(tokens), ..BudgetLimits::default() };
        let budget = Budget::new(session, BudgetLimits::default(), Spending::default());
        let setup = Setup { budget, ..auto(RoutingOptions::default()) };
        let mut rig = thinking(vec![vec![Step::Hang], has_text("a")], STRONG, setup);
        rig.prompt(UNCLEAR).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        let asked = models(&rig).len();
        assert_eq!(asked, usize::from(sent), "{tokens}");
        rig.send(Op::Interrupt).await;
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_long_conversation_is_not_sent_in_vain() {
    for (window, sent) in [(2_000, 0), (1_000_000, 1)] {
        let said = Part::text("and so on ".repeat(300));
        let history =
            vec![Content::user(vec![Part::text("go")]).seal(), Content::model(vec![said]).seal()];
        let setup = Setup { history, ..auto(RoutingOptions::default()) };
        let mut rig = thinking(vec![vec![Step::Hang]], STRONG, setup);
        rig.script.window(window);
        rig.prompt(UNCLEAR).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(models(&rig).len(), sent, "{window}");
        rig.send(Op::Interrupt).await;
        rig.finish().await;
    }
}
