//! Subagents: their results, and how each end appears to the session that started them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parallax_engine::{Budget, BudgetLimits, Spending};
use parallax_protocol::Object;
use parallax_protocol::agent::{
    AgentDefinition, AgentEnd, AgentJournal, AgentResult, AgentTask, Agents, COMPLETE_TASK,
    SessionTools, SubagentResources,
};
use parallax_protocol::event::{
    ApprovalRequest, EndReason, Event, EventBody, Question, ToolDone, ToolStatus,
};
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::store::NoStore;
use parallax_protocol::tool::{Concurrency, Display, Tool, ToolResult};

use crate::budget::with_usage;
use crate::support::*;

/// Subagents with the tools of the session and `complete_task`.
struct TestAgents(Vec<AgentDefinition>);

impl Agents for TestAgents {
    fn list(&self) -> Vec<Arc<AgentDefinition>> {
        self.0.iter().cloned().map(Arc::new).collect()
    }

    fn prepare_run(
        &self,
        agent: &AgentDefinition,
        _: AgentTask<'_>,
        tools: SessionTools,
        result: AgentResult,
    ) -> Result<SubagentResources, String> {
        let mut tools = tools.declared;
        tools.push(tool(COMPLETE_TASK, Concurrency::Exclusive, move |n, _| {
            result.submit(format!("result {n}").into());
            Box::pin(std::future::ready(ToolResult::text("done")))
        }));
        Ok(SubagentResources {
            tools,
            system: Arc::from(agent.name.as_str()),
            preface: Some("env".into()),
            problems: Vec::new(),
            close: None,
            workspace: None,
        })
    }
}

fn agent(name: &str) -> AgentDefinition {
    AgentDefinition {
        name: name.into(),
        description: "d".into(),
        model: None,
        generation: Object::new(),
        max_turns: 10,
        time: Duration::from_secs(60),
        has_schema: true,
        may_delegate: false,
        remote: None,
    }
}

fn agents_setup(agents: Vec<AgentDefinition>, tools: Vec<Arc<dyn Tool>>) -> Setup {
    Setup { tools, agents: Some(Arc::new(TestAgents(agents))), ..Setup::default() }
}

/// Delegates tasks to subagents, all in one answer.
fn invokes(names: &[&str]) -> ModelReply {
    let calls: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let signature = if at == 0 { r#","thoughtSignature":"c2ln""# } else { "" };
            format!(
                r#"{{"functionCall":{{"name":"invoke_agent","args":{{"agent_name":"{name}","prompt":"look"}}}}{signature}}}"#
            )
        })
        .collect();
    vec![chunk(&format!("[{}]", calls.join(",")), Some("STOP"))]
}

/// Returns the finished calls of the session itself.
fn finished(events: &[Event]) -> Vec<ToolDone> {
    tools_done(events).into_iter().filter(|done| done.name == "invoke_agent").collect()
}

fn agent_end(done: &ToolDone) -> AgentEnd {
    let picture = match &done.display {
        Some(Display::Agent(progress)) => Some(progress),
        _ => None,
    };
    picture.and_then(|progress| progress.end).expect("a picture with an end")
}

#[tokio::test]
async fn only_the_subagent_result_is_returned() {
    let look = tool("look", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![
        invokes(&["scout"]),
        calls(&[("look", 1)]),
        calls(&[(COMPLETE_TASK, 7)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], vec![look]));
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
    let output = &finished(&events)[0];
    assert_eq!(
        output.for_model,
        "Subagent 'scout' finished.\nTermination Reason: GOAL\nResult:\nresult 7"
    );
    let Some(Display::Agent(progress)) = &output.display else { unreachable!("no picture") };
    assert_eq!((progress.turns, progress.calls), (2, 2));
    assert_eq!(progress.steps[0].title, "call 1");
    let live = |event: &&Event| matches!(event.body, EventBody::Agent { .. });
    assert!(events.iter().filter(live).count() >= 4);
    let roles: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ModelCall(call) => Some(call.role.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(roles, ["main", "subagent", "subagent", "main"]);
    let contents = rig.script.contents();
    assert!(contents[1].len() == 1 && contents[1][0].contains("env"), "{:?}", contents[1]);
    assert!(!contents[3].iter().any(|text| text.contains("call 1")), "{:?}", contents[3]);
    let requests = rig.script.requests.lock().expect("requests");
    assert_eq!((&*requests[0].system, &*requests[1].system), ("system", "scout"));
}

#[tokio::test]
async fn subagent_cannot_call_undeclared_tools() {
    let replies = vec![
        invokes(&["scout"]),
        calls(&[("nothing", 1)]),
        invokes(&["scout"]),
        calls(&[(COMPLETE_TASK, 1)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], Vec::new()));
    let (_, events) = rig.turn("go").await;
    let output = &finished(&events)[0];
    assert_eq!(agent_end(output), AgentEnd::Goal);
    let Some(Display::Agent(progress)) = &output.display else { unreachable!("no picture") };
    for step in &progress.steps[..2] {
        assert_eq!(step.status, Some(ToolStatus::Error));
        assert!(step.error.contains("not found"), "{}", step.error);
    }
}

#[tokio::test]
async fn looping_subagent_is_stopped_with_a_reason() {
    let look = tool("look", Concurrency::Shared, |n, _| echo(n));
    let mut replies = vec![invokes(&["scout"])];
    replies.extend((0..30).map(|_| calls(&[("look", 1)])));
    let mut scout = agent("scout");
    scout.max_turns = 100;
    let mut rig = rig(replies, agents_setup(vec![scout], vec![look]));
    rig.prompt("go").await;
    let event = rig
        .wait_for_event(|body| {
            matches!(body, EventBody::Agent { progress, .. } if progress.end.is_some())
                || matches!(body, EventBody::ItemDone { .. } if is_invoke(body))
        })
        .await;
    let EventBody::ItemDone { done: parallax_protocol::event::ItemDone::Tool(done), .. } =
        event.body
    else {
        unreachable!("no end")
    };
    assert!(done.for_model.contains("Termination Reason: ERROR"), "{}", done.for_model);
    assert!(done.for_model.contains("because of a loop"), "{}", done.for_model);
    assert_eq!(done.status, ToolStatus::Error);
}

fn is_invoke(body: &EventBody) -> bool {
    matches!(body, EventBody::ItemDone { done: parallax_protocol::event::ItemDone::Tool(done), .. }
        if done.name == "invoke_agent")
}

#[tokio::test]
async fn subagent_without_remaining_turns_gets_one_final_turn() {
    let look = tool("look", Concurrency::Shared, |n, _| echo(n));
    let mut scout = agent("scout");
    scout.max_turns = 2;
    let replies = vec![
        invokes(&["scout"]),
        calls(&[("look", 1)]),
        calls(&[("look", 2)]),
        // The final turn.
        calls(&[("look", 3), (COMPLETE_TASK, 9)]),
        invokes(&["scout"]),
        calls(&[("look", 1)]),
        calls(&[("look", 2)]),
        calls(&[("look", 3)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![scout], vec![look.clone()]));
    let (_, events) = rig.turn("go").await;
    let output = finished(&events);
    assert!(output[0].for_model.ends_with("GOAL\nResult:\nresult 9"), "{}", output[0].for_model);
    assert_eq!(agent_end(&output[1]), AgentEnd::MaxTurns);
    assert!(output[1].for_model.contains("its limit of 2 requests"));
    // Calls in the final turn do not run, except `complete_task`.
    assert_eq!(look.prepared.load(std::sync::atomic::Ordering::SeqCst), 4);
    let urged = |texts: &Vec<String>| texts.last().is_some_and(|text| text.contains("last turn"));
    assert!(urged(&rig.script.contents()[3]) && urged(&rig.script.contents()[7]));
}

#[tokio::test]
async fn subagent_without_remaining_time_gets_one_final_turn() {
    let replies = vec![
        invokes(&["scout"]),
        vec![Step::Hang],
        calls(&[(COMPLETE_TASK, 3)]),
        invokes(&["scout"]),
        vec![Step::Hang],
        // The subagent does not use its final turn.
        has_text("I am not done"),
        has_text("ok"),
    ];
    let mut hasty = agent("scout");
    hasty.time = Duration::from_millis(20);
    let mut rig = rig(replies, agents_setup(vec![hasty], Vec::new()));
    let (_, events) = rig.turn("go").await;
    let ends: Vec<AgentEnd> = finished(&events).iter().map(agent_end).collect();
    assert_eq!(ends, [AgentEnd::Goal, AgentEnd::Timeout]);
}

#[tokio::test]
async fn plain_text_is_a_result_only_without_a_schema() {
    let mut free = agent("free");
    free.has_schema = false;
    let replies = vec![
        invokes(&["free"]),
        has_text("found it"),
        invokes(&["strict"]),
        has_text("found it"),
        has_text("really"),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![free, agent("strict")], Vec::new()));
    let (_, events) = rig.turn("go").await;
    let output = finished(&events);
    assert!(output[0].for_model.ends_with("GOAL\nResult:\nfound it"), "{}", output[0].for_model);
    assert_eq!(agent_end(&output[1]), AgentEnd::ErrorNoCompleteTaskCall);
}

async fn next_approval(rig: &mut Rig) -> ApprovalRequest {
    match rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await.body {
        EventBody::ApprovalRequested(ask) => *ask,
        _ => unreachable!(),
    }
}

#[tokio::test]
async fn subagent_approvals_reach_the_user_and_apply_to_all_subagents() {
    let run = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![
        invokes(&["scout"]),
        calls(&[("ask_run", 1)]),
        calls(&[(COMPLETE_TASK, 1)]),
        calls(&[("ask_run", 2)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], vec![run]));
    rig.prompt("go").await;
    let ask = next_approval(&mut rig).await;
    assert_eq!((ask.agent.as_deref(), ask.name.as_str()), (Some("scout"), "ask_run"));
    let decide = RequestDecision::new(ask.id.clone(), ApprovalResponse::ProceedAlways);
    rig.send(Op::Decide(Box::new(decide))).await;
    let closed = rig.wait_for_event(|body| matches!(body, EventBody::ApprovalClosed { .. })).await;
    assert!(matches!(closed.body, EventBody::ApprovalClosed { ask: id, .. } if id == ask.id));
    // The session's own call needs no approval, because the rule applies to it too.
    let end = rig
        .wait_for_event(|body| {
            matches!(body, EventBody::ApprovalRequested(_) | EventBody::TurnEnded(_))
        })
        .await;
    assert!(matches!(end.body, EventBody::TurnEnded(_)));
}

#[tokio::test(start_paused = true)]
async fn time_limits_exclude_waiting_for_approval() {
    let run = tool("ask_run", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![
        invokes(&["scout"]),
        calls(&[("ask_run", 1)]),
        calls(&[(COMPLETE_TASK, 1)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], vec![run]));
    rig.prompt("go").await;
    let ask = next_approval(&mut rig).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    rig.send(Op::Decide(Box::new(RequestDecision::new(ask.id, ApprovalResponse::ProceedOnce))))
        .await;
    let event = rig
        .wait_for_event(|body| {
            !finished(&[Event { seq: 0, turn: 0, body: body.clone() }]).is_empty()
        })
        .await;
    let call = finished(&[event]).remove(0);
    let Some(Display::Agent(progress)) = &call.display else { unreachable!() };
    assert!(progress.duration_ms < 60_000, "{}", progress.duration_ms);
    assert!(call.duration_ms < 60_000, "{}", call.duration_ms);
    let took = rig.turn_ms().await;
    assert!(took < 60_000, "{took}");
}

#[tokio::test]
async fn mode_chosen_for_a_subagent_edit_applies_to_the_session() {
    let edit = tool("ask_edit", Concurrency::Exclusive, |n, _| echo(n));
    let replies = vec![
        invokes(&["scout"]),
        calls(&[("ask_edit", 1)]),
        calls(&[(COMPLETE_TASK, 1)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], vec![edit]));
    rig.prompt("go").await;
    let ask = next_approval(&mut rig).await;
    assert!(!ask.outcomes.contains(&ApprovalResponse::ModifyWithEditor));
    rig.send(Op::Decide(Box::new(RequestDecision::new(ask.id, ApprovalResponse::ProceedAlways))))
        .await;
    let state = rig.wait_for_event(|body| matches!(body, EventBody::StateChanged { .. })).await;
    assert!(matches!(state.body, EventBody::StateChanged { mode: ApprovalMode::AutoEdit, .. }));
}

#[tokio::test]
async fn interrupt_ends_all_subagents() {
    let fast_model_failed = tool("stuck", Concurrency::Shared, |_, run| {
        Box::pin(async move {
            run.cancel.cancelled().await;
            ToolResult::text("stopped")
        })
    });
    let replies = vec![invokes(&["scout", "scout"]), calls(&[("stuck", 1)]), vec![Step::Hang]];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], vec![fast_model_failed]));
    rig.prompt("go").await;
    let two = |body: &EventBody| match body {
        EventBody::Agent { progress, .. } => !progress.steps.is_empty(),
        _ => false,
    };
    rig.wait_for_event(two).await;
    rig.send(Op::Interrupt).await;
    let mut events = Vec::new();
    loop {
        let event = rig.wait_for_event(|_| true).await;
        if matches!(event.body, EventBody::TurnEnded(_)) {
            break;
        }
        events.push(event);
    }
    let output = finished(&events);
    assert_eq!(output.len(), 2);
    for done in output {
        assert_eq!(done.status, ToolStatus::Cancelled);
        assert!(done.for_model.contains("ABORTED"), "{}", done.for_model);
    }
}

#[tokio::test]
async fn subagents_run_in_parallel() {
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let meet = tool("meet", Concurrency::Shared, move |n, _| {
        let both = Arc::clone(&both);
        Box::pin(async move {
            both.wait().await;
            ToolResult::text(n.to_string())
        })
    });
    let replies = vec![
        invokes(&["a", "b"]),
        calls(&[("meet", 1)]),
        calls(&[("meet", 2)]),
        calls(&[(COMPLETE_TASK, 1)]),
        calls(&[(COMPLETE_TASK, 2)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![agent("a"), agent("b")], vec![meet]));
    let (_, events) = rig.turn("go").await;
    let ends: Vec<AgentEnd> = finished(&events).iter().map(agent_end).collect();
    assert_eq!(ends, [AgentEnd::Goal, AgentEnd::Goal]);
}

#[tokio::test]
async fn steering_message_reaches_running_subagents() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let open = Arc::clone(&gate);
    let wait = tool("wait", Concurrency::Shared, move |n, _| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.notified().await;
            ToolResult::text(n.to_string())
        })
    });
    let replies = vec![
        invokes(&["scout"]),
        calls(&[("wait", 1)]),
        calls(&[(COMPLETE_TASK, 1)]),
        has_text("ok"),
    ];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], vec![wait]));
    rig.prompt("go").await;
    rig.wait_for_event(|body| match body {
        EventBody::Agent { progress, .. } => {
            progress.steps.iter().any(|step| !step.title.is_empty())
        }
        _ => false,
    })
    .await;
    rig.send(steer("s", "mind the gap")).await;
    rig.wait_until_processed().await;
    open.notify_one();
    rig.finish().await;
    let contents = rig.script.contents();
    for request in [2, 3] {
        let newest = contents[request].last().expect("a content");
        assert!(newest.contains("mind the gap"), "{newest}");
    }
}

#[tokio::test]
async fn unknown_subagent_is_rejected_with_available_names() {
    let replies = vec![invokes(&["nobody"]), has_text("ok")];
    let mut rig = rig(replies, agents_setup(vec![agent("scout")], Vec::new()));
    let (_, events) = rig.turn("go").await;
    assert!(finished(&events)[0].for_model.contains("Available agents: scout"));
}

#[tokio::test]
async fn subagent_costs_count_for_the_session_and_raises_apply_to_both() {
    for (outcome, done) in
        [(ApprovalResponse::ProceedOnce, true), (ApprovalResponse::Cancel, false)]
    {
        let look = tool("look", Concurrency::Shared, |n, _| echo(n));
        let replies = vec![
            invokes(&["scout"]),
            with_usage(calls(&[("look", 1)]), 1100),
            calls(&[(COMPLETE_TASK, 7)]),
            has_text("ok"),
        ];
        let limits = BudgetLimits { tokens: Some(1000), ..BudgetLimits::default() };
        let budget = Budget::new(limits, BudgetLimits::default(), Spending::default())
            .with_user_prompts(true);
        let mut rig =
            rig(replies, Setup { budget, ..agents_setup(vec![agent("scout")], vec![look]) });
        rig.prompt("go").await;
        let ask = next_approval(&mut rig).await;
        assert_eq!((ask.question, ask.agent.as_deref()), (Question::Budget, Some("scout")));
        rig.send(Op::Decide(Box::new(RequestDecision::new(ask.id, outcome)))).await;
        // After one rejection, the session itself is not asked again.
        let (reason, events) = rig.finish().await;
        assert!(
            !events.iter().any(|event| matches!(event.body, EventBody::ApprovalRequested(_))),
            "{outcome:?}"
        );
        match done {
            true => assert!(matches!(reason, EndReason::Done), "{reason:?}"),
            false => assert!(matches!(reason, EndReason::Budget(_)), "{reason:?}"),
        }
    }
}

/// Subagents whose runs are saved and that do not end in time.
struct SlowAgents(TestAgents);

impl Agents for SlowAgents {
    fn list(&self) -> Vec<Arc<AgentDefinition>> {
        self.0.list()
    }

    fn journal(&self, agent: &str, _: Option<&str>) -> Option<AgentJournal> {
        Some(AgentJournal {
            id: format!("{agent}-1"),
            store: Arc::new(NoStore),
            task: None,
            contents: Vec::new(),
            compactions: Vec::new(),
            pending: BTreeMap::new(),
        })
    }

    fn prepare_run(
        &self,
        agent: &AgentDefinition,
        task: AgentTask<'_>,
        tools: SessionTools,
        result: AgentResult,
    ) -> Result<SubagentResources, String> {
        let kit = self.0.prepare_run(agent, task, tools, result)?;
        Ok(SubagentResources { close: Some(Box::new(|| Box::pin(std::future::pending()))), ..kit })
    }
}

#[tokio::test(start_paused = true)]
async fn subagent_that_exceeds_its_time_can_be_resumed() {
    let fast_model_failed =
        tool("stuck", Concurrency::Shared, |_, _| Box::pin(std::future::pending()));
    let agents: Arc<dyn Agents> = Arc::new(SlowAgents(TestAgents(vec![agent("scout")])));
    let setup = Setup { tools: vec![fast_model_failed], agents: Some(agents), ..Setup::default() };
    let mut rig = rig(vec![invokes(&["scout"]), calls(&[("stuck", 1)])], setup);
    rig.prompt("go").await;
    rig.wait_for_event(
        |body| matches!(body, EventBody::Agent { progress, .. } if !progress.steps.is_empty()),
    )
    .await;
    rig.send(Op::Interrupt).await;
    let is_done = |body: &EventBody| matches!(body, EventBody::ItemDone { .. });
    let events = vec![rig.wait_for_event(is_done).await];
    let output = &finished(&events)[0];
    assert_eq!(output.status, ToolStatus::Cancelled);
    assert!(output.for_model.contains("`resume`: \"scout-1\""), "{}", output.for_model);
}
