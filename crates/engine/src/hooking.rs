//! Where a session lets hooks have a say: its start and end, prompts, calls and
//! questions. Requests to the model are in `model_hooks`.

use std::path::Path;
use std::time::Duration;

use parallax_protocol::content::{Part, Role};
use parallax_protocol::event::{
    Ask, CompactionCause, EndReason, EventBody, Failure, FailureKind, ItemDone, Level,
};
use parallax_protocol::hooks::{HookCall, HookDecision, HookEvent, HookOutcome};
use parallax_protocol::op::Prompt;
use parallax_protocol::policy::{ApprovalMode, Decision, Verdict};
use parallax_protocol::tool::{FileDiff, Outcome, ToolError, ToolErrorKind};
use parallax_protocol::{CancellationToken, Object};
use serde_json::{Value, json};
use tokio::task::JoinError;

use crate::board::{Board, Call, Finish};
use crate::hook_views::{asked, responded};
use crate::hub::EventHub;
use crate::inbox::Beginning;
use crate::scheduler::add_note;
use crate::session::Session;

/// How often hooks may send the agent back to work after its last answer.
const CONTINUATIONS: u32 = 100;
/// Hooks that take longer are told of while they run.
const QUIET: Duration = Duration::from_millis(300);
/// How long the hooks of a session's end may take together.
const FAREWELL: Duration = Duration::from_secs(15);

/// What stands before the reason in the result of a call that ends the run.
pub(crate) const STOPPED: &str = "Agent execution stopped by hook: ";

/// What hooks changed of a call before it was judged.
#[derive(Default)]
pub(crate) struct Hooked {
    /// The arguments, when they were changed.
    pub(crate) arguments: Option<Object>,
    /// Why a person must be asked.
    pub(crate) asks: Option<String>,
}

impl Session {
    /// Runs the hooks of an event and tells people what they say.
    pub(crate) async fn hook(&mut self, call: HookCall, cancel: &CancellationToken) -> HookOutcome {
        let Some(hooks) = self.hooks.clone() else { return HookOutcome::default() };
        if !hooks.listens(call.event, call.chunk) {
            return HookOutcome::default();
        }
        let names = hooks.titles(&call);
        let running = told(&self.hub, names, hooks.run(call, cancel.clone()));
        let outcome = self.inbox.during(running).await;
        self.tell_of_hooks(&outcome);
        outcome
    }

    fn tell_of_hooks(&mut self, outcome: &HookOutcome) {
        for (level, text) in &outcome.messages {
            self.inbox.notice(*level, text.clone());
        }
        for text in &outcome.asides {
            self.hub.send(EventBody::Aside { text: text.clone() });
        }
    }

    /// The session begins. Its hooks run beside it; the first prompt waits for
    /// them, and what they add goes with it.
    pub(crate) fn hook_start(&mut self) {
        let Some(hooks) = self.hooks.clone() else { return };
        if !hooks.listens(HookEvent::SessionStart, false) {
            return;
        }
        let source = match (self.history.len() > 0, self.replaces) {
            (true, _) => "resume",
            (false, true) => "clear",
            (false, false) => "startup",
        };
        let mut input = Object::new();
        input.insert("source".to_owned(), source.into());
        let call = HookCall::new(HookEvent::SessionStart, source, input);
        let names = hooks.titles(&call);
        let hub = self.hub.clone();
        self.starting.spawn(async move {
            told(&hub, names, hooks.run(call, CancellationToken::new())).await
        });
    }

    /// Takes over what the hooks of the start came to.
    pub(crate) fn started(&mut self, joined: Option<Result<HookOutcome, JoinError>>) {
        if let Some(Ok(outcome)) = joined {
            self.tell_of_hooks(&outcome);
            self.hook_context = outcome.context;
        }
    }

    /// Waits for them.
    async fn await_start(&mut self, cancel: &CancellationToken) {
        if self.starting.is_empty() {
            return;
        }
        let starting = &mut self.starting;
        let waiting = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                joined = starting.join_next() => joined,
            }
        };
        let joined = self.inbox.during(waiting).await;
        self.started(joined);
    }

    /// The history is about to be made shorter. Gives what hooks want kept.
    pub(crate) async fn hook_compress(
        &mut self,
        cause: CompactionCause,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let trigger = if cause == CompactionCause::Manual { "manual" } else { "auto" };
        let mut input = Object::new();
        input.insert("trigger".to_owned(), trigger.into());
        let call = HookCall::new(HookEvent::PreCompress, trigger, input);
        // It cannot keep it from happening.
        self.hook(call, cancel).await.context
    }

    /// The session ends.
    pub(crate) async fn hook_end(&mut self) {
        self.starting.abort_all();
        let mut input = Object::new();
        let reason = if self.inbox.cleared { "clear" } else { "exit" };
        input.insert("reason".to_owned(), reason.into());
        let call = HookCall::new(HookEvent::SessionEnd, reason, input);
        // Best effort: nobody waits longer for it, and an interrupt ends it. Dropped,
        // the hooks are ended.
        let cancel = CancellationToken::new();
        self.inbox.turn = Some(cancel.clone());
        // An interrupt is still heard; nothing else is begun any more.
        self.inbox.shutdown = false;
        let timed_out = tokio::select! {
            ended = tokio::time::timeout(FAREWELL, self.hook(call, &cancel)) => ended.is_err(),
            () = cancel.cancelled() => return,
        };
        if timed_out {
            let seconds = FAREWELL.as_secs();
            let text = format!("SessionEnd hooks did not end within {seconds} s and were stopped");
            self.inbox.notice(Level::Warning, text);
        }
        let notified = &mut self.notified;
        let ended = async { while notified.join_next().await.is_some() {} };
        tokio::select! {
            ended = tokio::time::timeout(FAREWELL, ended) => drop(ended),
            () = cancel.cancelled() => {}
        }
    }

    /// Runs a turn, and what hooks send after its answer.
    pub(crate) async fn run_turn(
        &mut self,
        beginning: Beginning,
        cancel: &CancellationToken,
    ) -> EndReason {
        let mut beginning = beginning;
        let mut deciders = Vec::new();
        for number in 0..=CONTINUATIONS {
            let text = beginning.text().to_owned();
            let reason = match beginning {
                Beginning::Prompt(prompt) => self.run_hooked(prompt, cancel).await,
                Beginning::CutOff => self.go_on(false, cancel).await,
                Beginning::Restored => self.go_on(true, cancel).await,
            };
            if !matches!(reason, EndReason::Done) {
                return reason;
            }
            let input = object(json!({
                "prompt": text, "prompt_response": self.answered(), "stop_hook_active": number > 0,
            }));
            let after = self.hook(HookCall::new(HookEvent::AfterAgent, "", input), cancel).await;
            if after.given("clearContext") == Some(&Value::Bool(true)) {
                self.note_spent();
                // What the session is about goes with the next prompt again.
                self.preface = self.prefaces_from(0);
                self.history.truncate(0);
                self.prompts.truncate(0);
                self.forget_lost_context();
            }
            match (after.stop.clone(), after.denial()) {
                (Some(reason), _) => {
                    return EndReason::Stopped { reason: after.named(&reason), blocked: false };
                }
                (None, None) => return reason,
                (None, Some(why)) => {
                    let text = format!("Agent execution blocked: {}", after.named(why));
                    self.inbox.notice(Level::Warning, text);
                    let text = why.to_owned();
                    deciders.clone_from(&after.deciders);
                    beginning = Beginning::Prompt(Prompt { text, ..Prompt::default() });
                }
            }
        }
        let names: Vec<String> = deciders.iter().map(|name| format!("`{name}`")).collect();
        let who = match names.is_empty() {
            true => "hooks".to_owned(),
            false => format!("the hook {}", names.join(", ")),
        };
        EndReason::Failed(Failure {
            kind: FailureKind::Continuations,
            message: format!(
                "{who} sent the agent back to work {CONTINUATIONS} times, which is as often as \
                 one prompt allows: {}",
                beginning.text()
            ),
            status: None,
        })
    }

    /// Runs a prompt that hooks agree to, with what they add.
    async fn run_hooked(&mut self, mut prompt: Prompt, cancel: &CancellationToken) -> EndReason {
        self.await_start(cancel).await;
        if cancel.is_cancelled() {
            return EndReason::Cancelled;
        }
        let mut input = Object::new();
        input.insert("prompt".to_owned(), prompt.text.clone().into());
        let before = self.hook(HookCall::new(HookEvent::BeforeAgent, "", input), cancel).await;
        if let Some(reason) = before.denial() {
            return EndReason::Stopped { reason: before.named(reason), blocked: true };
        }
        let stop = before.stop.as_ref().map(|reason| before.named(reason));
        prompt.attachments.extend(before.context.map(Part::text));
        if let Some(reason) = stop {
            self.keep_prompt(prompt);
            return EndReason::Stopped { reason, blocked: false };
        }
        self.run_prompt(prompt, cancel).await
    }

    /// What the model said to the newest prompt, in all its turns.
    fn answered(&self) -> String {
        let at = self.prompts.marks().last().map_or(0, |mark| mark.at);
        let contents = self.history.contents().get(at..).unwrap_or_default();
        let said = contents.iter().filter(|content| content.role() == Role::Model);
        let texts = said.filter_map(|content| Some(content.open().ok()?.visible_text()));
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Asks hooks about a call. `None`: it is finished already, as they refused it.
    pub(crate) async fn hook_before_tool(
        &mut self,
        board: &mut Board<'_>,
        call: &Call,
        index: usize,
        cancel: &CancellationToken,
    ) -> Option<Hooked> {
        let mut input = self.tool_input(call);
        input.insert("tool_input".to_owned(), Value::Object(call.args.clone().unwrap_or_default()));
        let subject = self.tool_name(call);
        let outcome = self.hook(HookCall::new(HookEvent::BeforeTool, subject, input), cancel).await;
        let refused = match (&outcome.stop, outcome.denial()) {
            (Some(stop), _) => {
                Some((ToolErrorKind::StopExecution, format!("{STOPPED}{}", outcome.named(stop))))
            }
            (None, Some(why)) => {
                let message = format!("Tool execution blocked: {}", outcome.named(why));
                Some((ToolErrorKind::PolicyViolation, message))
            }
            (None, None) => None,
        };
        if let Some((kind, message)) = refused {
            let finish = Finish::unjudged(None, call.name.clone());
            let error = ToolError::new(kind, message);
            self.finish(board, index, Outcome::failure(error), finish);
            return None;
        }
        let asks =
            (outcome.decision == Some(HookDecision::Ask)).then(|| match outcome.reason.as_str() {
                "" => "a hook wants somebody to look at it".to_owned(),
                reason => reason.to_owned(),
            });
        let arguments = outcome.given("tool_input").and_then(Value::as_object).map(|changed| {
            let mut arguments = call.args.clone().unwrap_or_default();
            arguments.extend(changed.clone());
            arguments
        });
        Some(Hooked { arguments, asks })
    }

    /// The verdict on a call that a hook wants a person to look at.
    pub(crate) fn asked_by_hook(&self, verdict: &mut Verdict, why: &str) {
        if verdict.decision == Decision::Deny {
            return;
        }
        verdict.decision = if self.interactive { Decision::Ask } else { Decision::Deny };
        verdict.each_time = true;
        "hook".clone_into(&mut verdict.rule);
        why.clone_into(&mut verdict.why);
        if !self.interactive {
            verdict.why.push_str(" (a hook asks, and nobody can be asked here)");
        }
    }

    /// Shows hooks what came of a call; they may change what the model reads, and
    /// give another call to be made in its place.
    pub(crate) async fn hook_after_tool(
        &mut self,
        call: &Call,
        arguments: Option<&Object>,
        outcome: &mut Outcome,
        cancel: &CancellationToken,
    ) -> Option<(String, Object)> {
        let wants = |hooks: &std::sync::Arc<dyn parallax_protocol::hooks::Hooks>| {
            hooks.listens(HookEvent::AfterTool, false)
        };
        if !self.hooks.as_ref().is_some_and(wants) {
            return None;
        }
        let mut input = self.tool_input(call);
        let used = arguments.or(call.args.as_ref()).cloned().unwrap_or_default();
        input.insert("tool_input".to_owned(), Value::Object(used));
        let subject = self.tool_name(call);
        let response = responded(outcome, &subject, self.is_build_file);
        input.insert("tool_response".to_owned(), Value::Object(response));
        let hooked = self.hook(HookCall::new(HookEvent::AfterTool, subject, input), cancel).await;
        if let Some(stop) = &hooked.stop {
            // As with a no: what the tool gave is for nobody.
            let message = format!("{STOPPED}{}", hooked.named(stop));
            *outcome = Outcome::failure(ToolError::new(ToolErrorKind::StopExecution, message));
            return None;
        }
        if hooked.decision == Some(HookDecision::Deny) {
            let message = format!("Tool result blocked: {}", hooked.named(&hooked.reason));
            *outcome = Outcome::failure(ToolError::new(ToolErrorKind::ExecutionFailed, message));
        } else if let Some(wanted) = hooked.given("tailToolCallRequest") {
            match tail_call(wanted) {
                Some(tail) => return Some(tail),
                None => {
                    let text = "a hook asks for a further call that has no `name`: it is not made";
                    self.inbox.notice(Level::Warning, text);
                }
            }
        }
        if let Some(context) = hooked.context {
            add_note(outcome, &context);
        }
        None
    }

    /// Tells hooks that a person is asked. Nobody waits for them.
    pub(crate) fn hook_notify(&mut self, ask: &Ask) {
        let Some(hooks) = self.hooks.clone() else { return };
        if !hooks.listens(HookEvent::Notification, false) {
            return;
        }
        let tool = self.registry.get(&ask.name);
        let name = tool.map_or_else(|| ask.name.clone(), |tool| tool.spec().name.clone());
        let (message, details) = asked(ask, &name);
        let input = object(json!({
            "notification_type": "ToolPermission",
            "message": message,
            "details": details,
        }));
        self.tell_hooks(HookCall::new(HookEvent::Notification, "ToolPermission", input));
    }

    /// Tells hooks that a plan was agreed to. Nobody waits for them.
    pub(crate) fn hook_plan(&mut self, plan: &Path, mode: ApprovalMode) {
        let input = object(json!({"plan_path": plan.to_string_lossy(), "mode": mode.as_str()}));
        self.tell_hooks(HookCall::new(HookEvent::PlanApproved, mode.as_str(), input));
    }

    /// Tells hooks that a tool changed a file. Nobody waits for them.
    pub(crate) fn hook_file(&mut self, tool: &str, diff: &FileDiff) {
        let path = diff.file_path.to_string_lossy().into_owned();
        let input =
            object(json!({"file_path": path, "tool_name": tool, "is_new": diff.is_new_file}));
        self.tell_hooks(HookCall::new(HookEvent::FileChanged, path, input));
    }

    /// Tells hooks of what happened, and waits for none of them.
    fn tell_hooks(&mut self, call: HookCall) {
        let Some(hooks) = self.hooks.clone().filter(|hooks| hooks.listens(call.event, false))
        else {
            return;
        };
        // It may outlive the turn, not its own limit.
        while self.notified.try_join_next().is_some() {}
        let cancel = CancellationToken::new();
        let (hub, ids) = (self.hub.clone(), self.inbox.notice_ids());
        self.notified.spawn(async move {
            let outcome = hooks.run(call, cancel).await;
            for ((level, text), item) in outcome.messages.into_iter().zip(ids) {
                hub.send(EventBody::ItemDone { item, done: ItemDone::Notice { level, text } });
            }
        });
    }

    fn tool_name(&self, call: &Call) -> String {
        self.registry
            .get(&call.name)
            .map_or_else(|| call.name.clone(), |tool| tool.spec().name.clone())
    }

    /// What hooks of calls are told of the tool.
    fn tool_input(&self, call: &Call) -> Object {
        let name = self.tool_name(call);
        let mut input = object(json!({"tool_name": name}));
        let asked = call.replaces.as_ref().unwrap_or(&call.name);
        if name != *asked {
            input.insert("original_request_name".to_owned(), asked.clone().into());
        }
        if let Some(served) = self.registry.get(&call.name).and_then(|tool| tool.served()) {
            let mut context =
                object(json!({"server_name": served.server, "tool_name": served.tool}));
            context.extend(served.endpoint.clone());
            input.insert("mcp_context".to_owned(), Value::Object(context));
        }
        input
    }
}

/// Tells people of hooks that take their time.
async fn told<F: Future>(hub: &EventHub, names: Vec<String>, running: F) -> F::Output {
    tokio::pin!(running);
    if names.is_empty() {
        return running.await;
    }
    tokio::select! {
        biased;
        outcome = &mut running => return outcome,
        () = tokio::time::sleep(QUIET) => hub.send(EventBody::HooksRun { names }),
    }
    let outcome = running.await;
    hub.send(EventBody::HooksRun { names: Vec::new() });
    outcome
}

/// The call that a hook wants in the place of the one that was made.
fn tail_call(wanted: &Value) -> Option<(String, Object)> {
    let name = wanted.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let args = wanted.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
    Some((name.to_owned(), args))
}

/// The fields of an object literal.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
