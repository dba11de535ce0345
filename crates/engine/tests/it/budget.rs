//! Budgets: limits, spending, and the end of a turn whose budget is used up.

use std::time::Duration;

use parallax_engine::{Budget, BudgetLimits, Spending};
use parallax_protocol::event::{
    ApprovalRequest, BudgetKind, BudgetScope, EndReason, Event, EventBody, ItemDone, Question,
};
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::model::Usage;
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision, Rewind};
use parallax_protocol::store::{BudgetRecord, Record};
use parallax_protocol::tool::{Concurrency, Preview};

use crate::support::*;

pub fn with_usage(mut reply: ModelReply, tokens: u64) -> ModelReply {
    if let Some(Step::Chunk(chunk)) = reply.first_mut() {
        chunk.usage = Some(Usage { prompt: tokens, total: tokens, ..Usage::default() });
    }
    reply
}

fn notices(events: &[Event]) -> impl Iterator<Item = &String> {
    events.iter().filter_map(|event| match &event.body {
        EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. } => Some(text),
        _ => None,
    })
}

fn tokens(limit: u64) -> BudgetLimits {
    BudgetLimits { tokens: Some(limit), ..BudgetLimits::default() }
}

#[tokio::test]
async fn budget_end_keeps_finished_calls_and_sends_nothing() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![
        with_usage(calls(&[("one", 1)]), 900),
        with_usage(calls(&[("one", 2)]), 200),
        has_text("never"),
    ];
    let budget = Budget::new(tokens(1000), BudgetLimits::default(), Spending::default());
    let mut rig = rig(replies, Setup { tools: vec![one], budget, ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    let EndReason::Budget(spent) = reason else { unreachable!("{reason:?}") };
    assert_eq!((spent.kind, spent.scope), (BudgetKind::Tokens, BudgetScope::Session));
    assert_eq!((spent.limit, spent.used), (1000.0, 1100.0));
    assert!(notices(&events).any(|text| text.contains("900 tokens of the budget")));
    assert_eq!(rig.script.contents().len(), 2);
    let records = rig.store.0.lock().expect("records").clone();
    let rounds = records.iter().filter(|record| matches!(record, Record::Round(_))).count();
    assert_eq!(rounds, 2);
    // The session remains: the next prompt ends immediately and is removed.
    let (reason, _) = rig.turn("on").await;
    assert!(matches!(reason, EndReason::Budget(_)));
    assert!(matches!(
        rig.store.0.lock().expect("records").iter().rev().nth(1),
        Some(Record::Truncate { .. })
    ));
}

#[tokio::test]
async fn each_prompt_has_its_own_budget() {
    let replies = vec![with_usage(has_text("a"), 900), with_usage(has_text("b"), 900)];
    let budget = Budget::new(BudgetLimits::default(), tokens(500), Spending::default());
    let mut rig = rig(replies, Setup { budget, ..Setup::default() });
    for _ in 0..2 {
        assert!(matches!(rig.turn("go").await.0, EndReason::Done));
    }
}

#[tokio::test]
async fn time_limit_ends_a_hanging_turn() {
    let reply = vec![chunk(r#"[{"text":"half an ans"}]"#, None), Step::Hang];
    let limits = BudgetLimits { time: Some(Duration::from_millis(50)), ..BudgetLimits::default() };
    let budget = Budget::new(BudgetLimits::default(), limits, Spending::default());
    let mut rig = rig(vec![reply, has_text("done")], Setup { budget, ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    let EndReason::Budget(spent) = reason else { unreachable!("{reason:?}") };
    assert_eq!((spent.kind, spent.scope), (BudgetKind::Time, BudgetScope::Prompt));
    let (reason, _) = rig.turn("on").await;
    assert!(matches!(reason, EndReason::Done));
    let last = rig.script.contents().pop().expect("request");
    assert!(last.iter().any(|content| content.contains("half an ans")));
}

#[tokio::test]
async fn cost_limit_without_a_known_price_is_rejected() {
    let limits = BudgetLimits { cost: Some(1.0), ..BudgetLimits::default() };
    let budget = Budget::new(limits, BudgetLimits::default(), Spending::default());
    let mut rig = rig(vec![has_text("a")], Setup { budget, ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    let EndReason::Failed(failure) = reason else { unreachable!("{reason:?}") };
    assert!(failure.message.contains("modelConfigs.prices"), "{failure}");
    assert!(!events.iter().any(|event| matches!(event.body, EventBody::ModelCall(_))));
}

/// Responds to the next budget request.
async fn answer(
    rig: &mut Rig,
    decide: impl FnOnce(ApprovalId) -> RequestDecision,
) -> ApprovalRequest {
    let event = rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await;
    let EventBody::ApprovalRequested(ask) = event.body else { unreachable!() };
    assert_eq!(ask.question, Question::Budget);
    rig.send(Op::Decide(Box::new(decide(ask.id.clone())))).await;
    *ask
}

#[tokio::test]
async fn turn_continues_when_the_user_raises_the_budget() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![
        with_usage(calls(&[("one", 1)]), 1100),
        with_usage(calls(&[("one", 2)]), 1100),
        with_usage(calls(&[("one", 3)]), 5000),
        with_usage(has_text("done"), 10),
    ];
    let budget = Budget::new(tokens(1000), BudgetLimits::default(), Spending::default())
        .with_user_prompts(true);
    let mut rig = rig(replies, Setup { tools: vec![one], budget, ..Setup::default() });
    rig.prompt("go").await;
    let approval =
        answer(&mut rig, |id| RequestDecision::new(id, ApprovalResponse::ProceedOnce)).await;
    assert!(
        approval
            .title
            .contains("1100 tokens of the budget of this session (1000 tokens) have been used")
    );
    let Some(Preview::Budget(spent)) = approval.preview else { unreachable!() };
    assert_eq!((spent.limit, spent.used), (1000.0, 1100.0));
    // Increased by the original amount: 2100, of which 2200 are spent. Now a custom amount:
    let more = |id| RequestDecision {
        increase: Some(100.0),
        ..RequestDecision::new(id, ApprovalResponse::ProceedOnce)
    };
    let approval = answer(&mut rig, more).await;
    assert!(
        approval.title.contains("2200 tokens") && approval.title.contains("2100"),
        "{}",
        approval.title
    );
    // Setting a limit meanwhile also answers the request.
    rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await;
    let (kind, scope) = (BudgetKind::Tokens, BudgetScope::Session);
    rig.send(Op::SetBudget { kind, scope, limit: None }).await;
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    assert!(
        events
            .iter()
            .any(|event| matches!(event.body, EventBody::ApprovalClosed { outcome: None, .. }))
    );
    // The journal contains all limits.
    let records = rig.store.0.lock().expect("records");
    let limits = records.iter().filter_map(|record| match record {
        Record::Budget(BudgetRecord { kind, scope, limit, .. }) => Some((*kind, *scope, *limit)),
        _ => None,
    });
    let limits: Vec<_> = limits.collect();
    assert_eq!(limits, [Some(2100.0), Some(2300.0), None].map(|limit| (kind, scope, limit)));
}

#[tokio::test]
async fn stopping_at_the_budget_returns_the_prompt_and_asks_again_next_time() {
    let budget = Budget::new(tokens(1000), BudgetLimits::default(), Spending::default())
        .with_user_prompts(true);
    let replies = vec![with_usage(has_text("a"), 1000), has_text("b")];
    let mut rig = rig(replies, Setup { budget, ..Setup::default() });
    assert!(matches!(rig.turn("one").await.0, EndReason::Done));
    rig.prompt("two").await;
    answer(&mut rig, |id| RequestDecision::new(id, ApprovalResponse::Cancel)).await;
    let ended = rig.wait_for_event(|body| matches!(body, EventBody::TurnEnded(_))).await;
    let EventBody::TurnEnded(ended) = ended.body else { unreachable!() };
    assert!(matches!(ended.reason, EndReason::Budget(_)) && ended.is_removed, "{ended:?}");
    rig.prompt("three").await;
    answer(&mut rig, |id| RequestDecision::new(id, ApprovalResponse::ProceedOnce)).await;
    assert!(matches!(rig.finish().await.0, EndReason::Done));
    let sent = rig.script.contents().pop().expect("request");
    assert!(!sent.iter().any(|content| content.contains("two")), "{sent:?}");
}

#[tokio::test]
async fn turn_over_its_time_limit_continues_after_a_raise() {
    let reply = vec![chunk(r#"[{"text":"half an ans"}]"#, None), Step::Hang];
    let limits = BudgetLimits { time: Some(Duration::from_millis(50)), ..BudgetLimits::default() };
    let budget =
        Budget::new(limits, BudgetLimits::default(), Spending::default()).with_user_prompts(true);
    let mut rig = rig(vec![reply, has_text("the rest")], Setup { budget, ..Setup::default() });
    rig.prompt("go").await;
    let more = |id| RequestDecision {
        increase: Some(60.0),
        ..RequestDecision::new(id, ApprovalResponse::ProceedOnce)
    };
    let approval = answer(&mut rig, more).await;
    assert!(approval.title.contains("time limit of this session"), "{}", approval.title);
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let sent = rig.script.contents().pop().expect("request");
    let text = sent.concat();
    assert!(text.contains("half an ans") && text.contains("Continue where you left off"), "{text}");
}

#[tokio::test]
async fn turn_without_more_time_ends() {
    let reply = vec![chunk(r#"[{"text":"half an ans"}]"#, None), Step::Hang];
    let limits = BudgetLimits { time: Some(Duration::from_millis(50)), ..BudgetLimits::default() };
    let budget =
        Budget::new(BudgetLimits::default(), limits, Spending::default()).with_user_prompts(true);
    let mut rig = rig(vec![reply, has_text("b")], Setup { budget, ..Setup::default() });
    rig.prompt("go").await;
    answer(&mut rig, |id| RequestDecision::new(id, ApprovalResponse::Cancel)).await;
    assert!(matches!(rig.finish().await.0, EndReason::Budget(_)));
    assert!(matches!(rig.turn("on").await.0, EndReason::Done));
}

#[tokio::test]
async fn rewind_does_not_refund_spent_tokens() {
    let replies = vec![
        with_usage(has_text("a"), 700),
        with_usage(has_text("b"), 800),
        with_usage(has_text("c"), 10),
    ];
    let before = Spending { tokens: 5_000, ..Spending::default() };
    let budget = Budget::new(tokens(100_000), BudgetLimits::default(), Spending::default());
    let setup =
        Setup { budget: budget.with_earlier_spending(before, Vec::new()), ..Setup::default() };
    let mut rig = rig(replies, setup);
    rig.turn("one").await;
    rig.turn("two").await;
    rig.send(Op::Rewind(Rewind { turn: 1, chat: true, files: false, force: false })).await;
    rig.wait_for_event(|body| matches!(body, EventBody::Rewound(_))).await;
    rig.turn("three").await;
    let records = rig.store.0.lock().expect("records");
    let spent: Vec<u64> = records
        .iter()
        .filter_map(|record| match record {
            Record::Spent(spent) => Some(spent.tokens),
            _ => None,
        })
        .collect();
    assert_eq!(spent, [5_700, 6_500, 6_510]);
}
