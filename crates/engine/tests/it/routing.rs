//! Model routing, and fallback when a model is unavailable.

use parallax_engine::RoutingOptions;
use parallax_protocol::event::{EndReason, Event, EventBody, ItemDone, Question};
use parallax_protocol::model::ModelError;
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::{
    Fallback, FallbackCause, FallbackPolicy, Route, RouteSource, RoutingMode,
};
use parallax_protocol::tool::Concurrency;

use crate::support::*;

pub fn auto(routing: RoutingOptions) -> Setup {
    Setup { model: Some("auto"), routing, ..Setup::default() }
}

pub fn busy() -> ModelReply {
    vec![Step::Fail(ModelError::Unavailable {
        status: Some(503),
        delay: None,
        class: "server",
        message: "overloaded".into(),
    })]
}

fn quota_exhausted() -> ModelReply {
    vec![Step::Fail(ModelError::Quota {
        daily: true,
        reset: None,
        status: 429,
        message: "quota spent".into(),
    })]
}

pub fn routes(events: &[Event]) -> Vec<Route> {
    let route = |event: &Event| match &event.body {
        EventBody::Routed(route) => Some(route.as_ref().clone()),
        _ => None,
    };
    events.iter().filter_map(route).collect()
}

pub fn fallbacks(events: &[Event]) -> Vec<Fallback> {
    let fallback = |event: &Event| match &event.body {
        EventBody::FellBack(fallback) => Some(fallback.as_ref().clone()),
        _ => None,
    };
    events.iter().filter_map(fallback).collect()
}

fn warnings(events: &[Event]) -> String {
    let text = |event: &Event| match &event.body {
        EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. } => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

pub fn models(rig: &Rig) -> Vec<String> {
    rig.script.requests.lock().expect("requests").iter().map(|it| it.model.clone()).collect()
}

#[tokio::test]
async fn unambiguous_prompt_is_routed_by_rules_without_a_classifier_request() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![calls(&[("one", 1)]), has_text("a"), has_text("b"), has_text("c")];
    let mut rig = rig(replies, Setup { tools: vec![one], ..auto(RoutingOptions::default()) });
    let (_, events) = rig.turn("What is in a.rs?").await;
    let [route] = routes(&events).try_into().expect("one choice");
    assert_eq!((route.model.as_str(), route.source), ("fast", RouteSource::Rules));
    rig.turn("continue").await;
    let (_, events) = rig.turn("Refactor the parser").await;
    assert_eq!(routes(&events)[0].source, RouteSource::Rules);
    assert_eq!(models(&rig), ["fast", "fast", "fast", "strong"]);
    assert_eq!(rig.script.utility_requests(), Vec::<String>::new());
}

#[tokio::test]
async fn unclear_prompt_is_classified_and_classifier_failure_is_tolerated() {
    let mut rig = rig(vec![has_text("a"), has_text("b")], auto(RoutingOptions::default()));
    rig.script.writes(vec![r#"{"complexity_reasoning": "one file", "complexity_score": 30}"#]);
    let (_, events) = rig.turn("Add a flag\nto the parser").await;
    let route = routes(&events).remove(0);
    assert_eq!((route.model.as_str(), route.source), ("fast", RouteSource::NumericalClassifier));
    assert!(route.reason.contains("one file"), "{}", route.reason);
    let call = events.iter().any(
        |event| matches!(&event.body, EventBody::ModelCall(call) if call.role == "utility_router"),
    );
    assert!(call);
    let (_, events) = rig.turn("Add another flag\nto the parser").await;
    let route = routes(&events).remove(0);
    assert_eq!((route.model.as_str(), route.source), ("strong", RouteSource::Default));
    assert!(route.error.is_some());
    assert_eq!(rig.script.utility_requests().len(), 2);
}

#[tokio::test]
async fn disabled_or_rule_only_routing_sends_no_request() {
    for router in [RoutingMode::Off, RoutingMode::Rules] {
        let routing = RoutingOptions { router, ..RoutingOptions::default() };
        let mut rig = rig(vec![has_text("a")], auto(routing));
        let (_, events) = rig.turn("Add a flag\nto the parser").await;
        let source = match router {
            RoutingMode::Off => RouteSource::Override,
            _ => RouteSource::Default,
        };
        assert_eq!(routes(&events)[0].source, source);
        assert_eq!(
            (models(&rig), rig.script.utility_requests().len()),
            (vec!["strong".to_owned()], 0)
        );
    }
}

#[tokio::test]
async fn chosen_model_without_capacity_falls_back_with_a_notice() {
    let replies = vec![busy(), has_text("a"), has_text("b")];
    let mut rig = rig(replies, Setup { unattended: true, ..auto(RoutingOptions::default()) });
    let (reason, events) = rig.turn("Refactor the parser").await;
    assert!(matches!(reason, EndReason::Done));
    let [fallback] = fallbacks(&events).try_into().expect("one");
    assert_eq!((fallback.from.as_str(), fallback.to.as_str()), ("strong", "fast"));
    assert_eq!((fallback.cause, fallback.is_approved), (FallbackCause::Capacity, false));
    assert!(warnings(&events).contains("Using `fast`"));
    // The next prompt tries the model again, once.
    rig.turn("Refactor the lexer").await;
    assert_eq!(models(&rig), ["strong", "fast", "strong"]);
    let attempts: Vec<_> = {
        let requests = rig.script.requests.lock().expect("requests");
        requests.iter().map(|request| request.max_attempts).collect()
    };
    assert_eq!(attempts, [None, None, Some(1)]);
}

#[tokio::test]
async fn turn_ends_when_both_models_lack_capacity() {
    let mut rig = rig(vec![busy(), busy()], auto(RoutingOptions::default()));
    let (reason, _) = rig.turn("Refactor the parser").await;
    assert!(matches!(reason, EndReason::Failed(_)), "{reason:?}");
    assert_eq!(models(&rig), ["strong", "fast"]);
}

#[tokio::test]
async fn fallback_request_follows_each_user_choice() {
    for (outcome, expected_requests) in [
        (ApprovalResponse::ProceedOnce, vec!["strong", "fast"]),
        (ApprovalResponse::ProceedAlways, vec!["strong", "fast", "fast"]),
        (ApprovalResponse::Retry, vec!["strong", "strong", "strong"]),
        (ApprovalResponse::Cancel, vec!["strong"]),
    ] {
        let replies = vec![quota_exhausted(), has_text("a"), has_text("b")];
        let setup = Setup { model: Some("strong"), ..Setup::default() };
        let mut rig = rig(replies, setup);
        rig.prompt("go").await;
        let event =
            rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await;
        let EventBody::ApprovalRequested(ask) = event.body else { unreachable!() };
        assert_eq!(ask.question, Question::Fallback);
        rig.send(Op::Decide(Box::new(RequestDecision::new(ask.id, outcome)))).await;
        let (reason, _) = rig.finish().await;
        assert_eq!(matches!(reason, EndReason::Done), outcome != ApprovalResponse::Cancel);
        if matches!(outcome, ApprovalResponse::ProceedAlways | ApprovalResponse::Retry) {
            rig.turn("on").await;
        }
        assert_eq!(models(&rig), expected_requests, "{outcome:?}");
    }
}

#[tokio::test]
async fn non_interactive_run_ends_unless_fallback_is_allowed() {
    let run = async |fallback: FallbackPolicy| {
        let routing = RoutingOptions { fallback, ..RoutingOptions::default() };
        let setup = Setup { model: Some("strong"), unattended: true, routing, ..Setup::default() };
        let mut rig = rig(vec![quota_exhausted(), has_text("a")], setup);
        let (reason, events) = rig.turn("go").await;
        (reason, warnings(&events), models(&rig).len())
    };
    let (reason, ..) = run(FallbackPolicy::Ask).await;
    let EndReason::Failed(failure) = reason else { unreachable!("{reason:?}") };
    assert!(failure.message.contains("--fallback auto"), "{failure}");
    let (reason, _, requests) = run(FallbackPolicy::Off).await;
    assert!(matches!(reason, EndReason::Failed(_)) && requests == 1);
    let (reason, report, requests) = run(FallbackPolicy::Auto).await;
    assert!(matches!(reason, EndReason::Done) && requests == 2);
    assert!(report.contains("has no quota left"), "{report}");
}

#[tokio::test]
async fn interrupt_closes_the_fallback_request() {
    let setup = Setup { model: Some("strong"), ..Setup::default() };
    let mut rig = rig(vec![quota_exhausted()], setup);
    rig.prompt("go").await;
    rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await;
    rig.send(Op::Interrupt).await;
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Cancelled));
    assert!(
        events
            .iter()
            .any(|event| matches!(event.body, EventBody::ApprovalClosed { outcome: None, .. }))
    );
}

#[tokio::test]
async fn plan_mode_falls_back_without_asking_and_reports_it() {
    let setup = Setup { model: Some("strong"), mode: ApprovalMode::Plan, ..Setup::default() };
    let mut rig = rig(vec![quota_exhausted(), has_text("a")], setup);
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    assert_eq!(models(&rig), ["strong", "fast"]);
    assert!(warnings(&events).contains("Using `fast`"));
}
