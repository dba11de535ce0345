//! Plan mode in a session: calls switch the mode, and the plan is remembered.

use parallax_engine::ApprovedPlan;
use parallax_protocol::event::{EventBody, Level};
use parallax_protocol::op::Op;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::store::{PlanRecord, Record};
use parallax_protocol::tool::{Concurrency, SessionChange, ToolError, ToolErrorKind, ToolResult};

use crate::support::*;

fn session_changing_tool(name: &str, change: SessionChange) -> std::sync::Arc<TestTool> {
    tool(name, Concurrency::Exclusive, move |n, _| {
        let mut outcome = match n {
            0 => ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, "no")),
            _ => ToolResult::text("done"),
        };
        outcome.change = Some(change.clone());
        Box::pin(async move { outcome })
    })
}

fn plan_approved(mode: ApprovalMode) -> SessionChange {
    SessionChange::PlanApproved { plan: "/plans/p.md".into(), mode }
}

fn modes(events: &[parallax_protocol::event::Event]) -> Vec<ApprovalMode> {
    let mode = |event: &parallax_protocol::event::Event| match &event.body {
        EventBody::StateChanged { mode, .. } => Some(*mode),
        _ => None,
    };
    events.iter().filter_map(mode).collect()
}

#[tokio::test]
async fn successful_call_switches_the_mode() {
    let tools: Vec<std::sync::Arc<dyn parallax_protocol::tool::Tool>> = vec![
        session_changing_tool("enter", SessionChange::Planning),
        session_changing_tool("exit", plan_approved(ApprovalMode::AutoEdit)),
    ];
    let replies = vec![
        calls(&[("enter", 0)]),
        calls(&[("enter", 1), ("exit", 0)]),
        calls(&[("exit", 1)]),
        has_text("done"),
    ];
    let mut rig = rig(replies, Setup { tools, ..Setup::default() });
    let (_, events) = rig.turn("go").await;
    assert_eq!(modes(&events), [ApprovalMode::Plan, ApprovalMode::AutoEdit]);
    let records = rig.store.0.lock().expect("records").clone();
    let plans: Vec<&PlanRecord> = records
        .iter()
        .filter_map(|record| match record {
            Record::Plan(plan) => Some(plan),
            _ => None,
        })
        .collect();
    let [plan] = plans.as_slice() else { unreachable!("{plans:?}") };
    assert_eq!((plan.approved, plan.mode), (true, Some(ApprovalMode::AutoEdit)));
    // Another process knows the plan, unless the history was rewound to before it.
    let contents = 8;
    let of = |contents| ApprovedPlan::from_records(&records, contents).map(|plan| plan.path);
    assert_eq!(of(contents), Some("/plans/p.md".into()));
    assert_eq!(of(3), None);
}

#[tokio::test]
async fn auto_approved_tools_are_listed_in_the_prompt() {
    let tools: Vec<std::sync::Arc<dyn parallax_protocol::tool::Tool>> =
        vec![session_changing_tool("exit", plan_approved(ApprovalMode::Yolo))];
    let replies = vec![calls(&[("exit", 1)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools, unattended: true, ..Setup::default() });
    let (_, events) = rig.turn("go").await;
    let report = events.iter().any(|event| {
        matches!(&event.body, EventBody::ItemDone {
            done: parallax_protocol::event::ItemDone::Notice { level: Level::Warning, text, .. }, ..
        } if text.contains("auto-approved"))
    });
    assert!(report);
}

#[tokio::test]
async fn plan_survives_compaction() {
    let tools: Vec<std::sync::Arc<dyn parallax_protocol::tool::Tool>> = vec![
        session_changing_tool("exit", plan_approved(ApprovalMode::AutoEdit)),
        tool("look", Concurrency::Shared, |n, _| {
            Box::pin(async move { ToolResult::text(format!("line {n}\n").repeat(4_000)) })
        }),
    ];
    let replies = vec![
        calls(&[("exit", 1)]),
        calls(&[("look", 1)]),
        has_text("one"),
        calls(&[("look", 2)]),
        has_text("two"),
        has_text("three"),
    ];
    let mut rig = rig(replies, Setup { tools, ..Setup::default() });
    rig.turn("first").await;
    rig.turn("second").await;
    rig.send(Op::Compact { focus: None }).await;
    rig.wait_for_event(|body| matches!(body, EventBody::Compaction(_))).await;
    rig.turn("third").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(sent.contains("follow it: /plans/p.md"), "{sent}");
}
