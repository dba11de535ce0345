//! Runs hooks at the session's events: start and end, prompts, tool calls, and approval
//! requests. Model requests are in `model_hooks`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::content::{Part, Role};
use parallax_protocol::event::{
    Ask, CompactionCause, EndReason, EventBody, Failure, FailureKind, ItemDone, Level,
};
use parallax_protocol::hooks::{HookCall, HookDecision, HookEvent, HookOutcome, Hooks};
use parallax_protocol::op::Prompt;
use parallax_protocol::policy::{ApprovalMode, Decision, Verdict};
use parallax_protocol::tool::{FileDiff, Outcome, ToolError, ToolErrorKind};
use parallax_protocol::{CancellationToken, Object};
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};

use crate::conversation::Conversation;
use crate::event_bus::EventBus;
use crate::hook_views::{asked, tool_response};
use crate::inbox::TurnInput;
use crate::registry::Registry;
use crate::scheduler::add_note;
use crate::session::Session;
use crate::session::SessionEnvironment;
use crate::tool_batch::{CallSummary, ToolBatch, ToolCall};

/// How often hooks may send the agent back to work within one turn.
const MAX_CONTINUATIONS: u32 = 100;
/// Hooks that run longer than this are shown in the status.
const STATUS_DELAY: Duration = Duration::from_millis(300);
/// Time limit of all hooks at the session's end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// Prefix of the reason in the result of a call that ends the run.
pub(crate) const STOP_PREFIX: &str = "Agent execution stopped by hook: ";

/// The user's hooks and what they did.
pub(crate) struct HookRunner {
    pub(crate) user: Option<Arc<dyn Hooks>>,
    /// The tools that hooks selected for the newest response; `None`: all.
    pub(crate) chosen_tools: Option<Vec<String>>,
    /// The running session-start hooks.
    pub(crate) starting: JoinSet<HookOutcome>,
    /// The running notification hooks.
    notified: JoinSet<()>,
    /// The context that session-start hooks add to the first prompt.
    pub(crate) hook_context: Option<String>,
}

impl HookRunner {
    pub(crate) fn new(user: Option<Arc<dyn Hooks>>) -> Self {
        Self {
            user,
            chosen_tools: None,
            starting: JoinSet::new(),
            notified: JoinSet::new(),
            hook_context: None,
        }
    }
}

/// What `BeforeTool` hooks changed about a call.
#[derive(Default)]
pub(crate) struct BeforeToolResult {
    /// The arguments, if they were changed.
    pub(crate) arguments: Option<Object>,
    /// Why approval is required.
    pub(crate) asks: Option<String>,
}

impl Session {
    /// Runs the hooks of an event and shows their messages to the user.
    pub(crate) async fn hook(&mut self, call: HookCall, cancel: &CancellationToken) -> HookOutcome {
        let Some(hooks) = self.hooks.user.clone() else { return HookOutcome::default() };
        if !hooks.listens(call.event, call.chunk) {
            return HookOutcome::default();
        }
        let names = hooks.titles(&call);
        let running = told(&self.hub, names, hooks.run(call, cancel.clone()));
        let outcome = self.inbox.while_receiving(running).await;
        self.emit_hook_messages(&outcome);
        outcome
    }

    fn emit_hook_messages(&mut self, outcome: &HookOutcome) {
        for (level, text) in &outcome.messages {
            self.inbox.notice(*level, text.clone());
        }
        for text in &outcome.asides {
            self.hub.send(EventBody::Aside { text: text.clone() });
        }
    }

    /// Runs the session-start hooks in the background; the first prompt waits for them and includes
    /// the context they add.
    pub(crate) fn run_start_hooks(&mut self) {
        let Some(hooks) = self.hooks.user.clone() else { return };
        if !hooks.listens(HookEvent::SessionStart, false) {
            return;
        }
        let source = match (self.conversation.history.len() > 0, self.environment.replaces) {
            (true, _) => "resume",
            (false, true) => "clear",
            (false, false) => "startup",
        };
        let mut input = Object::new();
        input.insert("source".to_owned(), source.into());
        let call = HookCall::new(HookEvent::SessionStart, source, input);
        let names = hooks.titles(&call);
        let hub = self.hub.clone();
        self.hooks.starting.spawn(async move {
            told(&hub, names, hooks.run(call, CancellationToken::new())).await
        });
    }

    /// Applies the result of the session-start hooks.
    pub(crate) fn started(&mut self, joined: Option<Result<HookOutcome, JoinError>>) {
        if let Some(Ok(outcome)) = joined {
            self.emit_hook_messages(&outcome);
            self.hooks.hook_context = outcome.context;
        }
    }

    /// Waits for the session-start hooks.
    async fn wait_for_start_hooks(&mut self, cancel: &CancellationToken) {
        if self.hooks.starting.is_empty() {
            return;
        }
        let starting = &mut self.hooks.starting;
        let waiting = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                joined = starting.join_next() => joined,
            }
        };
        let joined = self.inbox.while_receiving(waiting).await;
        self.started(joined);
    }

    /// Runs the `PreCompress` hooks. Returns what they want to keep.
    pub(crate) async fn run_compress_hooks(
        &mut self,
        cause: CompactionCause,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let trigger = if cause == CompactionCause::Manual { "manual" } else { "auto" };
        let mut input = Object::new();
        input.insert("trigger".to_owned(), trigger.into());
        let call = HookCall::new(HookEvent::PreCompress, trigger, input);
        // Hooks cannot prevent a compaction.
        self.hook(call, cancel).await.context
    }

    /// Runs the session-end hooks.
    pub(crate) async fn run_end_hooks(&mut self) {
        self.hooks.starting.abort_all();
        let mut input = Object::new();
        let reason = if self.inbox.cleared { "clear" } else { "exit" };
        input.insert("reason".to_owned(), reason.into());
        let call = HookCall::new(HookEvent::SessionEnd, reason, input);
        // Best effort: it is limited in time, and an interrupt ends it. Dropping the future ends
        // the hooks.
        let cancel = CancellationToken::new();
        self.inbox.turn = Some(cancel.clone());
        // Interrupts are still received; nothing else is started.
        self.inbox.shutdown = false;
        let timed_out = tokio::select! {
            ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.hook(call, &cancel)) => ended.is_err(),
            () = cancel.cancelled() => return,
        };
        if timed_out {
            let seconds = SHUTDOWN_TIMEOUT.as_secs();
            let text = format!(
                "SessionEnd hooks did not finish within {seconds} s and were \
                stopped"
            );
            self.inbox.notice(Level::Warning, text);
        }
        let notified = &mut self.hooks.notified;
        let ended = async { while notified.join_next().await.is_some() {} };
        tokio::select! {
            ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, ended) => drop(ended),
            () = cancel.cancelled() => {}
        }
    }

    /// Runs a turn, and the continuations that hooks request after it.
    pub(crate) async fn run_turn(
        &mut self,
        beginning: TurnInput,
        cancel: &CancellationToken,
    ) -> EndReason {
        let mut beginning = beginning;
        let mut deciders = Vec::new();
        for number in 0..=MAX_CONTINUATIONS {
            let text = beginning.text().to_owned();
            let reason = match beginning {
                TurnInput::Prompt(prompt) => self.run_with_hooks(prompt, cancel).await,
                TurnInput::Continue => self.resume_turn(false, cancel).await,
                TurnInput::Rerun => self.resume_turn(true, cancel).await,
            };
            if !matches!(reason, EndReason::Done) {
                return reason;
            }
            let input = object(json!({
                "prompt": text, "prompt_response": self.conversation.answered(), "stop_hook_active": number > 0,
            }));
            let after = self.hook(HookCall::new(HookEvent::AfterAgent, "", input), cancel).await;
            if after.given("clearContext") == Some(&Value::Bool(true)) {
                self.save_spending();
                // The next prompt includes the session context again.
                self.conversation.preface = self.conversation.context_of_dropped_prompts(0);
                self.conversation.history.truncate(0);
                self.conversation.prompts.truncate(0);
                self.drop_lost_context();
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
                    beginning = TurnInput::Prompt(Prompt { text, ..Prompt::default() });
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
                "{who} continued the agent {MAX_CONTINUATIONS} times, which is the limit for one \
                    prompt: {}",
                beginning.text()
            ),
            status: None,
        })
    }

    /// Runs a prompt that hooks accept, with the context they add.
    async fn run_with_hooks(
        &mut self,
        mut prompt: Prompt,
        cancel: &CancellationToken,
    ) -> EndReason {
        self.wait_for_start_hooks(cancel).await;
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
            self.record_prompt(prompt);
            return EndReason::Stopped { reason, blocked: false };
        }
        self.run_prompt(prompt, cancel).await
    }

    /// Runs the `BeforeTool` hooks. `None`: they rejected the call, and it is finished.
    pub(crate) async fn run_before_tool_hooks(
        &mut self,
        board: &mut ToolBatch<'_>,
        call: &ToolCall,
        index: usize,
        cancel: &CancellationToken,
    ) -> Option<BeforeToolResult> {
        let mut input = self.registry.tool_input(call);
        input.insert("tool_input".to_owned(), Value::Object(call.args.clone().unwrap_or_default()));
        let subject = self.registry.tool_name(call);
        let outcome = self.hook(HookCall::new(HookEvent::BeforeTool, subject, input), cancel).await;
        let refused = match (&outcome.stop, outcome.denial()) {
            (Some(stop), _) => Some((
                ToolErrorKind::StopExecution,
                format!("{STOP_PREFIX}{}", outcome.named(stop)),
            )),
            (None, Some(why)) => {
                let message = format!("Tool execution blocked: {}", outcome.named(why));
                Some((ToolErrorKind::PolicyViolation, message))
            }
            (None, None) => None,
        };
        if let Some((kind, message)) = refused {
            let finish = CallSummary::without_decision(None, call.name.clone());
            let error = ToolError::new(kind, message);
            self.finish(board, index, Outcome::failure(error), finish);
            return None;
        }
        let asks =
            (outcome.decision == Some(HookDecision::Ask)).then(|| match outcome.reason.as_str() {
                "" => "a hook requires approval".to_owned(),
                reason => reason.to_owned(),
            });
        let arguments = outcome.given("tool_input").and_then(Value::as_object).map(|changed| {
            let mut arguments = call.args.clone().unwrap_or_default();
            arguments.extend(changed.clone());
            arguments
        });
        Some(BeforeToolResult { arguments, asks })
    }

    /// Runs the `AfterTool` hooks, which may change the result or request a replacement call.
    pub(crate) async fn run_after_tool_hooks(
        &mut self,
        call: &ToolCall,
        arguments: Option<&Object>,
        outcome: &mut Outcome,
        cancel: &CancellationToken,
    ) -> Option<(String, Object)> {
        let wants = |hooks: &std::sync::Arc<dyn parallax_protocol::hooks::Hooks>| {
            hooks.listens(HookEvent::AfterTool, false)
        };
        if !self.hooks.user.as_ref().is_some_and(wants) {
            return None;
        }
        let mut input = self.registry.tool_input(call);
        let used = arguments.or(call.args.as_ref().ok()).cloned().unwrap_or_default();
        input.insert("tool_input".to_owned(), Value::Object(used));
        let subject = self.registry.tool_name(call);
        let response = tool_response(outcome, &subject, self.checkpoints.is_build_file);
        input.insert("tool_response".to_owned(), Value::Object(response));
        let hooked = self.hook(HookCall::new(HookEvent::AfterTool, subject, input), cancel).await;
        if let Some(stop) = &hooked.stop {
            // As with a denial, the tool's output is not used.
            let message = format!("{STOP_PREFIX}{}", hooked.named(stop));
            *outcome = Outcome::failure(ToolError::new(ToolErrorKind::StopExecution, message));
            return None;
        }
        if hooked.decision == Some(HookDecision::Deny) {
            let message = format!("Tool result blocked: {}", hooked.named(&hooked.reason));
            *outcome = Outcome::failure(ToolError::new(ToolErrorKind::ExecutionFailed, message));
        } else if let Some(wanted) = hooked.given("tailToolCallRequest") {
            match replacement_call(wanted) {
                Some(tail) => return Some(tail),
                None => {
                    let text = "A hook requested a tool call without a `name`; it was ignored";
                    self.inbox.notice(Level::Warning, text);
                }
            }
        }
        if let Some(context) = hooked.context {
            add_note(outcome, &context);
        }
        None
    }

    /// Notifies hooks of an approval request, without waiting for them.
    pub(crate) fn notify_hooks_of_approval(&mut self, ask: &Ask) {
        let Some(hooks) = self.hooks.user.clone() else { return };
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
        self.spawn_hooks(HookCall::new(HookEvent::Notification, "ToolPermission", input));
    }

    /// Notifies hooks of an approved plan, without waiting for them.
    pub(crate) fn notify_hooks_of_plan(&mut self, plan: &Path, mode: ApprovalMode) {
        let input = object(json!({"plan_path": plan.to_string_lossy(), "mode": mode.as_str()}));
        self.spawn_hooks(HookCall::new(HookEvent::PlanApproved, mode.as_str(), input));
    }

    /// Notifies hooks of a changed file, without waiting for them.
    pub(crate) fn notify_hooks_of_file(&mut self, tool: &str, diff: &FileDiff) {
        let path = diff.file_path.to_string_lossy().into_owned();
        let input =
            object(json!({"file_path": path, "tool_name": tool, "is_new": diff.is_new_file}));
        self.spawn_hooks(HookCall::new(HookEvent::FileChanged, path, input));
    }

    /// Runs hooks in the background.
    fn spawn_hooks(&mut self, call: HookCall) {
        let Some(hooks) = self.hooks.user.clone().filter(|hooks| hooks.listens(call.event, false))
        else {
            return;
        };
        // They may outlive the turn, but not their own time limit.
        while self.hooks.notified.try_join_next().is_some() {}
        let cancel = CancellationToken::new();
        let (hub, ids) = (self.hub.clone(), self.inbox.notice_ids());
        self.hooks.notified.spawn(async move {
            let outcome = hooks.run(call, cancel).await;
            for ((level, text), item) in outcome.messages.into_iter().zip(ids) {
                hub.send(EventBody::ItemDone { item, done: ItemDone::Notice { level, text } });
            }
        });
    }
}

impl Conversation {
    /// Returns the model's text since the newest prompt, over all continuations.
    pub(crate) fn answered(&self) -> String {
        let at = self.prompts.marks().last().map_or(0, |mark| mark.at);
        let contents = self.history.contents().get(at..).unwrap_or_default();
        let said = contents.iter().filter(|content| content.role() == Role::Model);
        let texts = said.filter_map(|content| Some(content.open().ok()?.visible_text()));
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

impl SessionEnvironment {
    /// Requires approval because a hook asked for it.
    pub(crate) fn require_approval_for_hook(&self, verdict: &mut Verdict, why: &str) {
        if verdict.decision == Decision::Deny {
            return;
        }
        verdict.decision = if self.interactive { Decision::Ask } else { Decision::Deny };
        verdict.each_time = true;
        "hook".clone_into(&mut verdict.rule);
        why.clone_into(&mut verdict.why);
        if !self.interactive {
            verdict.why.push_str(" (a hook requires approval, but no user is present)");
        }
    }
}

impl Registry {
    pub(crate) fn tool_name(&self, call: &ToolCall) -> String {
        self.get(&call.name).map_or_else(|| call.name.clone(), |tool| tool.spec().name.clone())
    }

    /// Returns the hook input that describes the tool.
    pub(crate) fn tool_input(&self, call: &ToolCall) -> Object {
        let name = self.tool_name(call);
        let mut input = object(json!({"tool_name": name}));
        let asked = call.replaces.as_ref().unwrap_or(&call.name);
        if name != *asked {
            input.insert("original_request_name".to_owned(), asked.clone().into());
        }
        if let Some(served) = self.get(&call.name).and_then(|tool| tool.served()) {
            let mut context =
                object(json!({"server_name": served.server, "tool_name": served.tool}));
            context.extend(served.endpoint.clone());
            input.insert("mcp_context".to_owned(), Value::Object(context));
        }
        input
    }
}

/// Shows slow hooks in the status while they run.
async fn told<F: Future>(hub: &EventBus, names: Vec<String>, running: F) -> F::Output {
    tokio::pin!(running);
    if names.is_empty() {
        return running.await;
    }
    tokio::select! {
        biased;
        outcome = &mut running => return outcome,
        () = tokio::time::sleep(STATUS_DELAY) => hub.send(EventBody::HooksRun { names }),
    }
    let outcome = running.await;
    hub.send(EventBody::HooksRun { names: Vec::new() });
    outcome
}

/// Returns the replacement call that a hook requests.
fn replacement_call(wanted: &Value) -> Option<(String, Object)> {
    let name = wanted.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let args = wanted.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
    Some((name.to_owned(), args))
}

/// Returns the fields of an object literal.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
