//! What a session may spend, and how it ends when that is spent.

use std::time::Duration;

use parallax_engine::{Budget, BudgetLimits, Spent};
use parallax_protocol::event::{BudgetKind, BudgetScope, EndReason, Event, EventBody, ItemDone};
use parallax_protocol::model::Usage;
use parallax_protocol::store::Record;
use parallax_protocol::tool::Sharing;

use crate::support::*;

fn used(mut reply: Reply, tokens: u64) -> Reply {
    if let Some(Step::Chunk(chunk)) = reply.first_mut() {
        chunk.usage = Some(Usage {
            prompt_token_count: tokens,
            total_token_count: tokens,
            ..Usage::default()
        });
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
async fn finished_calls_are_kept_and_nothing_more_is_asked() {
    let one = tool("one", Sharing::Shared, |n, _| echo(n));
    let replies =
        vec![used(calls(&[("one", 1)]), 900), used(calls(&[("one", 2)]), 200), says("never")];
    let budget = Budget::new(tokens(1000), BudgetLimits::default(), Spent::default());
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
    // The session stands: the next prompt ends at once, and is taken back.
    let (reason, _) = rig.turn("on").await;
    assert!(matches!(reason, EndReason::Budget(_)));
    assert!(matches!(
        rig.store.0.lock().expect("records").iter().rev().nth(1),
        Some(Record::Truncate { .. })
    ));
}

#[tokio::test]
async fn each_prompt_has_its_own() {
    let replies = vec![used(says("a"), 900), used(says("b"), 900)];
    let budget = Budget::new(BudgetLimits::default(), tokens(500), Spent::default());
    let mut rig = rig(replies, Setup { budget, ..Setup::default() });
    for _ in 0..2 {
        assert!(matches!(rig.turn("go").await.0, EndReason::Done));
    }
}

#[tokio::test]
async fn time_ends_a_turn_that_hangs() {
    let reply = vec![chunk(r#"[{"text":"half an ans"}]"#, None), Step::Hang];
    let limits = BudgetLimits { time: Some(Duration::from_millis(50)), ..BudgetLimits::default() };
    let budget = Budget::new(BudgetLimits::default(), limits, Spent::default());
    let mut rig = rig(vec![reply, says("done")], Setup { budget, ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    let EndReason::Budget(spent) = reason else { unreachable!("{reason:?}") };
    assert_eq!((spent.kind, spent.scope), (BudgetKind::Time, BudgetScope::Prompt));
    let (reason, _) = rig.turn("on").await;
    assert!(matches!(reason, EndReason::Done));
    let last = rig.script.contents().pop().expect("request");
    assert!(last.iter().any(|content| content.contains("half an ans")));
}

#[tokio::test]
async fn without_a_price_a_limit_of_money_is_refused() {
    let limits = BudgetLimits { cost: Some(1.0), ..BudgetLimits::default() };
    let budget = Budget::new(limits, BudgetLimits::default(), Spent::default());
    let mut rig = rig(vec![says("a")], Setup { budget, ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    let EndReason::Failed(failure) = reason else { unreachable!("{reason:?}") };
    assert!(failure.message.contains("modelConfigs.prices"), "{failure}");
    assert!(!events.iter().any(|event| matches!(event.body, EventBody::ModelCall(_))));
}
