//! Lasting approvals, edited arguments, additional permissions, checkpoints.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax_protocol::checkpoint::{
    CheckpointGuard, Checkpoints, PendingChange, RevertedFiles, WriteScope,
};
use parallax_protocol::event::{
    ApprovalRequest, Event, EventBody, ItemDone, Level, Question, UndoResult,
};
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, RuleScope, RuleStore, SuggestedRule};
use parallax_protocol::tool::{Concurrency, Effects, Tool, ToolResult};
use serde_json::json;

use crate::support::*;

async fn next_ask(rig: &mut Rig) -> ApprovalRequest {
    let event = rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await;
    match event.body {
        EventBody::ApprovalRequested(ask) => *ask,
        _ => unreachable!(),
    }
}

async fn respond(rig: &Rig, decide: RequestDecision) {
    rig.handle.ops.send(Op::Decide(Box::new(decide))).await.expect("session");
}

#[tokio::test(start_paused = true)]
async fn turn_time_excludes_only_waits_for_the_user() {
    let asks = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
    let slow = tool("slow", Concurrency::Shared, |n, _| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(7)).await;
            echo(n).await
        })
    });
    // Two concurrent requests, one more alone, and a slow call.
    let replies = vec![
        calls(&[("ask_run", 1), ("ask_run", 2)]),
        calls(&[("ask_run", 3)]),
        calls(&[("slow", 4)]),
        has_text("done"),
    ];
    let mut rig = rig(replies, Setup { tools: vec![asks, slow], ..Setup::default() });
    rig.prompt("go").await;
    let open = [next_ask(&mut rig).await.id, next_ask(&mut rig).await.id];
    for id in open {
        tokio::time::sleep(Duration::from_secs(100)).await;
        respond(&rig, RequestDecision::new(id, ApprovalResponse::ProceedOnce)).await;
    }
    let last = next_ask(&mut rig).await.id;
    tokio::time::sleep(Duration::from_secs(1000)).await;
    respond(&rig, RequestDecision::new(last, ApprovalResponse::ProceedOnce)).await;
    let took = rig.turn_ms().await;
    assert!((7_000..60_000).contains(&took), "{took}");

    // The wait does not count either if an interrupt ends it.
    let asks = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
    let setup = Setup { tools: vec![asks], ..Setup::default() };
    let mut rig = crate::support::rig(vec![calls(&[("ask_run", 1)])], setup);
    rig.prompt("go").await;
    next_ask(&mut rig).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    rig.send(Op::Interrupt).await;
    let took = rig.turn_ms().await;
    assert!(took < 60_000, "{took}");
}

#[derive(Default)]
struct TestRuleStore(Mutex<Vec<(SuggestedRule, RuleScope)>>);

impl RuleStore for TestRuleStore {
    fn save(&self, rule: &SuggestedRule, scope: RuleScope) -> Result<PathBuf, String> {
        self.0.lock().expect("rules").push((rule.clone(), scope));
        Ok("/rules".into())
    }
}

#[tokio::test]
async fn saved_rule_avoids_the_next_approval() {
    let keeper = Arc::new(TestRuleStore::default());
    let ask = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![calls(&[("ask_run", 1)]), calls(&[("ask_run", 2)]), has_text("done")];
    let setup = Setup {
        tools: vec![ask],
        keeper: Some(keeper.clone() as Arc<dyn RuleStore>),
        ..Setup::default()
    };
    let mut rig = rig(replies, setup);
    rig.prompt("go").await;
    let approval = next_ask(&mut rig).await;
    assert_eq!(approval.question, Question::Exec);
    assert!(approval.outcomes.contains(&ApprovalResponse::ProceedAlwaysAndSave));
    let rule = SuggestedRule { allow_redirection: true, ..approval.rules[0].clone() };
    respond(
        &rig,
        RequestDecision {
            rule: Some(rule.clone()),
            scope: Some(RuleScope::Project),
            ..RequestDecision::new(approval.id, ApprovalResponse::ProceedAlwaysAndSave)
        },
    )
    .await;
    let (_, events) = rig.finish().await;
    assert!(!events.iter().any(|event| matches!(event.body, EventBody::ApprovalRequested(_))));
    assert_eq!(tools_done(&events).len(), 2);
    assert_eq!(*keeper.0.lock().expect("rules"), [(rule, RuleScope::Project)]);
}

#[tokio::test]
async fn lasting_answer_runs_the_other_waiting_calls_it_allows() {
    let tools: [Arc<dyn Tool>; 2] =
        ["ask_run", "ask_other"].map(|name| tool(name, Concurrency::Shared, |n, _| echo(n)) as _);
    let replies =
        vec![calls(&[("ask_run", 1), ("ask_run", 2), ("ask_other", 3)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: tools.to_vec(), ..Setup::default() });
    rig.prompt("go").await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(next_ask(&mut rig).await.id);
    }
    respond(&rig, RequestDecision::new(open[0].clone(), ApprovalResponse::ProceedAlways)).await;
    let is_closed = |body: &EventBody| matches!(body, EventBody::ApprovalClosed { .. });
    // What the answer allows as well is closed before the answered request, after which front ends
    // show the next one.
    for id in [&open[1], &open[0]] {
        let event = rig.wait_for_event(is_closed).await;
        let always = Some(ApprovalResponse::ProceedAlways);
        assert!(
            matches!(&event.body, EventBody::ApprovalClosed { ask, outcome }
                if ask == id && *outcome == always),
            "{event:?}"
        );
    }
    // The rule does not match the third call.
    respond(&rig, RequestDecision::new(open[2].clone(), ApprovalResponse::ProceedOnce)).await;
    let (_, events) = rig.finish().await;
    assert!(!events.iter().any(|event| matches!(event.body, EventBody::ApprovalRequested(_))));
    assert_eq!(tools_done(&events).len(), 3);
}

#[tokio::test]
async fn rule_that_does_not_match_the_call_is_reported() {
    for (name, misses) in [("ask_run", false), ("ask_other", true)] {
        let ask = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
        let replies = vec![calls(&[("ask_run", 1)]), has_text("done")];
        let mut rig = rig(replies, Setup { tools: vec![ask], ..Setup::default() });
        rig.prompt("go").await;
        let approval = next_ask(&mut rig).await;
        let rule = SuggestedRule { tool_name: name.into(), ..approval.rules[0].clone() };
        let always = RequestDecision::new(approval.id, ApprovalResponse::ProceedAlways);
        respond(&rig, RequestDecision { rule: Some(rule), ..always }).await;
        let (_, events) = rig.finish().await;
        let report = events.iter().any(|event| {
            matches!(&event.body, EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. }
                if text.contains("does not match this call"))
        });
        assert_eq!(report, misses, "{name}: {events:?}");
        assert_eq!(tools_done(&events).len(), 1);
    }
}

#[tokio::test]
async fn denial_by_the_user_ends_the_turn() {
    let ask = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
    for (ends_turn, requests) in [(true, 0), (false, 1)] {
        let replies = vec![calls(&[("ask_run", 1)]), has_text("something else")];
        let mut rig = rig(replies, Setup { tools: vec![ask.clone()], ..Setup::default() });
        rig.prompt("go").await;
        let approval = next_ask(&mut rig).await;
        let decide = RequestDecision {
            ends_turn,
            ..RequestDecision::new(approval.id, ApprovalResponse::Cancel)
        };
        respond(&rig, decide).await;
        let (_, events) = rig.finish().await;
        let called = |event: &&Event| matches!(event.body, EventBody::ModelCall(_));
        assert_eq!(events.iter().filter(called).count(), requests, "ends: {ends_turn}");
        assert!(tools_done(&events)[0].for_model.contains("User denied"));
    }
}

#[tokio::test]
async fn denial_without_feedback_skips_calls_not_started() {
    for (feedback, left_out) in [(None, true), (Some("not so".to_owned()), false)] {
        let edit = tool("ask_edit", Concurrency::Exclusive, |n, _| echo(n));
        let replies = vec![calls(&[("ask_edit", 1), ("ask_edit", 2)]), has_text("on")];
        let mut rig = rig(replies, Setup { tools: vec![edit], ..Setup::default() });
        rig.prompt("go").await;
        let approval = next_ask(&mut rig).await;
        respond(
            &rig,
            RequestDecision {
                feedback,
                ..RequestDecision::new(approval.id, ApprovalResponse::Cancel)
            },
        )
        .await;
        if !left_out {
            let approval = next_ask(&mut rig).await;
            respond(&rig, RequestDecision::new(approval.id, ApprovalResponse::ProceedOnce)).await;
        }
        let (_, events) = rig.finish().await;
        let output = tools_done(&events);
        let second = output.iter().find(|done| done.index == 1).expect("the second");
        assert_eq!(second.for_model.contains("denied an earlier call"), left_out, "{second:?}");
        // The model continues in both cases, because the session is not interactive.
        assert_eq!(texts(&events), ["on"]);
    }
}

#[tokio::test]
async fn response_that_was_not_offered_leaves_the_request_open() {
    let ask = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![calls(&[("ask_run", 1)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![ask], ..Setup::default() });
    rig.prompt("go").await;
    let approval = next_ask(&mut rig).await;
    assert!(!approval.outcomes.contains(&ApprovalResponse::ProceedAlwaysAndSave));
    for outcome in [ApprovalResponse::ProceedAlwaysAndSave, ApprovalResponse::ModifyWithEditor] {
        respond(&rig, RequestDecision::new(approval.id.clone(), outcome)).await;
        let is_error = |body: &EventBody| {
            matches!(
                body,
                EventBody::ItemDone { done: ItemDone::Notice { level: Level::Error, .. }, .. }
            )
        };
        rig.wait_for_event(is_error).await;
    }
    respond(&rig, RequestDecision::new(approval.id, ApprovalResponse::ProceedOnce)).await;
    let (_, events) = rig.finish().await;
    assert_eq!(tools_done(&events)[0].for_model, "result 1");
}

#[tokio::test]
async fn changed_arguments_require_a_new_approval() {
    let edit = tool("ask_edit", Concurrency::Exclusive, |n, _| echo(n));
    let replies = vec![calls(&[("ask_edit", 1)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![edit], ..Setup::default() });
    rig.prompt("go").await;
    let first = next_ask(&mut rig).await;
    let arguments = json!({"n": 7}).as_object().cloned();
    respond(
        &rig,
        RequestDecision {
            arguments,
            ..RequestDecision::new(first.id.clone(), ApprovalResponse::ModifyWithEditor)
        },
    )
    .await;
    let second = next_ask(&mut rig).await;
    assert_ne!(first.id, second.id);
    assert_eq!(second.title, "call 7");
    respond(&rig, RequestDecision::new(second.id, ApprovalResponse::ProceedAlways)).await;
    let (_, events) = rig.finish().await;
    let report = &tools_done(&events)[0].for_model;
    assert!(report.starts_with("result 7\n[The user changed this call"), "{report}");
    assert!(events.iter().any(|event| matches!(
        event.body,
        EventBody::StateChanged { mode: ApprovalMode::AutoEdit, .. }
    )));
}

/// Creates a tool that is denied network access until it has the permission.
fn network_tool() -> Arc<TestTool> {
    tool("run", Concurrency::Shared, |n, run| {
        Box::pin(async move {
            let mut outcome =
                ToolResult::text(format!("run {n}: network {}", run.permissions.network));
            outcome.denied_permissions.network = !run.permissions.network;
            outcome
        })
    })
}

#[tokio::test]
async fn sandbox_denial_is_offered_with_missing_permissions() {
    for (answered, expected) in [
        (ApprovalResponse::ProceedOnce, "run 1: network true\n[The command ran twice"),
        (
            ApprovalResponse::Cancel,
            "run 1: network false\n[The sandbox denied this command: network. The user denied",
        ),
    ] {
        let replies = vec![calls(&[("run", 1)]), has_text("done")];
        let mut rig = rig(replies, Setup { tools: vec![network_tool()], ..Setup::default() });
        rig.prompt("go").await;
        let approval = next_ask(&mut rig).await;
        assert_eq!(approval.question, Question::SandboxExpansion);
        assert_eq!(approval.permissions.descriptions(), ["network"]);
        respond(&rig, RequestDecision::new(approval.id, answered)).await;
        let (_, events) = rig.finish().await;
        let output = tools_done(&events);
        assert_eq!(output.len(), 1);
        assert!(output[0].for_model.starts_with(expected), "{}", output[0].for_model);
    }
}

#[tokio::test]
async fn broader_permissions_are_granted_when_chosen() {
    for broader_permissions in [false, true] {
        let run = tool("run", Concurrency::Shared, |_, run| {
            Box::pin(async move {
                let mut outcome = ToolResult::text(format!("caches {}", run.permissions.caches));
                outcome.denied_permissions.network = !run.permissions.network;
                outcome
            })
        });
        let replies = vec![calls(&[("run", 1)]), has_text("done")];
        let mut rig = rig(replies, Setup { tools: vec![run], ..Setup::default() });
        rig.prompt("go").await;
        let approval = next_ask(&mut rig).await;
        assert!(!approval.permissions.caches && approval.broader_permissions.caches);
        let decide = RequestDecision {
            broader_permissions,
            ..RequestDecision::new(approval.id, ApprovalResponse::ProceedOnce)
        };
        respond(&rig, decide).await;
        let (_, events) = rig.finish().await;
        assert!(
            tools_done(&events)[0]
                .for_model
                .starts_with(&format!("caches {broader_permissions}\n"))
        );
    }
}

#[tokio::test]
async fn rule_grants_or_denies_access_after_a_sandbox_denial() {
    let replies = vec![calls(&[("run", 1)]), calls(&[("run", 2)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![network_tool()], ..Setup::default() });
    rig.prompt("go").await;
    let approval = next_ask(&mut rig).await;
    assert_eq!(
        approval.rules[0].permissions,
        Permissions { network: true, ..Permissions::default() }
    );
    respond(&rig, RequestDecision::new(approval.id, ApprovalResponse::ProceedAlways)).await;
    let (_, events) = rig.finish().await;
    let texts: Vec<_> = tools_done(&events).into_iter().map(|done| done.for_model).collect();
    assert!(texts[0].starts_with("run 1: network true\n[The command ran twice"), "{texts:?}");
    assert_eq!(texts[1], "run 2: network true");
}

#[tokio::test]
async fn headless_sandbox_denial_is_sent_to_the_model() {
    let replies = vec![calls(&[("run", 1)]), has_text("done")];
    let setup = Setup { tools: vec![network_tool()], unattended: true, ..Setup::default() };
    let mut rig = rig(replies, setup);
    let (_, events) = rig.turn("go").await;
    let text = &tools_done(&events)[0].for_model;
    assert_eq!(
        text,
        "run 1: network false\n[The sandbox denied this command: network. it wants more]"
    );
}

#[tokio::test]
async fn keys_are_redacted_before_output_is_emitted() {
    let leak = tool("leak", Concurrency::Shared, |_, _| {
        Box::pin(async { ToolResult::text("key=hush-hush-hush.") })
    });
    let replies = vec![calls(&[("leak", 1)]), has_text("it is hush-hush-hush")];
    let mut rig = rig(replies, Setup { tools: vec![leak], ..Setup::default() });
    let (_, events) = rig.turn("my key is hush-hush-hush").await;
    assert_eq!(tools_done(&events)[0].for_model, "key=[key removed].");
    let journal = format!("{:?}", rig.store.0.lock().expect("records"));
    assert!(!journal.contains("hush-hush"), "{journal}");
}

#[derive(Default)]
struct CheckpointLog(Arc<Mutex<Vec<String>>>);

impl Checkpoints for CheckpointLog {
    fn irreversible_changes(&self, _: PendingChange<'_>) -> Vec<String> {
        vec!["big.bin".into()]
    }
    fn save_before(
        &self,
        turn: u64,
        change: PendingChange<'_>,
    ) -> Result<Box<dyn CheckpointGuard>, String> {
        self.0.lock().expect("log").push(format!("before {turn} {change:?}"));
        Ok(Box::new(LoggedCheckpoint(self.0.clone())))
    }
    fn created_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    fn changes(&self) -> Vec<(u64, Vec<PathBuf>)> {
        Vec::new()
    }
    fn undo(&self, turn: Option<u64>, _force: bool) -> Result<UndoResult, String> {
        match turn {
            Some(turn) => Ok(UndoResult { turn, ..UndoResult::default() }),
            None => Err("nothing to undo".into()),
        }
    }
}

struct LoggedCheckpoint(Arc<Mutex<Vec<String>>>);

impl CheckpointGuard for LoggedCheckpoint {
    fn irreversible_changes(&self) -> Vec<String> {
        Vec::new()
    }
    fn finish(
        self: Box<Self>,
        _: &Effects,
        granted: &Permissions,
        _: ApprovalMode,
        _: &WriteScope,
    ) -> RevertedFiles {
        self.0.lock().expect("log").push(format!("after {}", granted.repository_programs));
        RevertedFiles { restored: vec!["/w/.envrc".into()], ..RevertedFiles::default() }
    }
}

#[tokio::test]
async fn checkpoints_are_saved_around_edits_and_commands() {
    let log = CheckpointLog::default();
    let seen = log.0.clone();
    let tools: Vec<Arc<dyn parallax_protocol::tool::Tool>> = vec![
        tool("ask_run", Concurrency::Shared, |n, _| echo(n)),
        tool("edit", Concurrency::Exclusive, |n, _| echo(n)),
        tool("look", Concurrency::Shared, |n, _| echo(n)),
    ];
    let replies = vec![calls(&[("edit", 5), ("ask_run", 6), ("look", 7)]), has_text("done")];
    let setup = Setup { tools, checkpoints: Some(Arc::new(log)), ..Setup::default() };
    let mut rig = rig(replies, setup);
    rig.prompt("go").await;
    let approval = next_ask(&mut rig).await;
    assert_eq!(approval.not_undoable, ["big.bin"]);
    respond(&rig, RequestDecision::new(approval.id, ApprovalResponse::ProceedOnce)).await;
    let (_, events) = rig.finish().await;
    assert_eq!(
        *seen.lock().expect("log"),
        [
            "before 1 Files([\"/5\"])",
            "after false",
            "before 1 Command(\"6\")",
            // The user approved the call, so programs of the repository may run.
            "after true",
        ]
    );
    let mut done = tools_done(&events);
    done.sort_by_key(|done| done.index);
    assert!(done.last().is_some_and(|done| done.for_model == "result 7"));
    assert!(done[0].for_model.contains("were restored: `/w/.envrc`"), "{}", done[0].for_model);

    rig.handle.ops.send(Op::Undo { prompt: Some(1), force: false }).await.expect("session");
    let undone = rig.wait_for_event(|body| matches!(body, EventBody::Undone(_))).await;
    let EventBody::Undone(undone) = undone.body else { unreachable!() };
    assert_eq!((undone.turn, undone.prompt), (1, Some(1)));
    rig.handle.ops.send(Op::Undo { prompt: Some(2), force: false }).await.expect("session");
    let undone = rig.wait_for_event(|body| matches!(body, EventBody::Undone(_))).await;
    let EventBody::Undone(undone) = undone.body else { unreachable!() };
    assert_eq!(undone.problem.as_deref(), Some("unknown prompt 2: the last one is 1"));
}
