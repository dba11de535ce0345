//! Hooks of the session's start and end, of prompts, and of compactions.

use std::time::Duration;

use parallax_protocol::content::Part;
use parallax_protocol::event::{CompactionCause, EndReason, Failure, FailureKind, Level};
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome, hook_names};
use parallax_protocol::op::Prompt;
use parallax_protocol::store::HookContinuation;
use parallax_protocol::{CancellationToken, Object};
use serde_json::{Value, json};
use tokio::task::JoinError;

use super::{HookRunner, object, with_status};
use crate::inbox::Inbox;

/// Time limit of all hooks at the session's end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// How often hooks may send the agent back to work within one turn.
const MAX_CONTINUATIONS: u32 = 100;

impl HookRunner {
    /// Runs the session-start hooks in the background; the first prompt waits for them and includes
    /// the context they add.
    /// `source` says how it started.
    pub(crate) fn start(&mut self, source: &str) {
        let Some(hooks) = self.user.clone() else { return };
        if !hooks.has_subscriber(HookEvent::SessionStart, false) {
            return;
        }
        let mut input = Object::new();
        input.insert("source".to_owned(), source.into());
        let call = HookCall::new(HookEvent::SessionStart, source, input);
        let names = hooks.titles(&call);
        let bus = self.bus.clone();
        self.starting.spawn(async move {
            with_status(&bus, names, hooks.run(call, CancellationToken::new())).await
        });
    }

    /// Waits for the session-start hooks; never resolves when none is running. Cancel-safe.
    pub(crate) async fn start_finished(&mut self) -> Result<HookOutcome, JoinError> {
        match self.starting.join_next().await {
            Some(joined) => joined,
            None => std::future::pending().await,
        }
    }

    /// Applies the result of the session-start hooks.
    pub(crate) fn apply_session_start(&mut self, joined: Option<Result<HookOutcome, JoinError>>) {
        if let Some(Ok(outcome)) = joined {
            self.emit_messages(HookEvent::SessionStart, &outcome);
            self.context = outcome.context;
        }
    }

    /// Waits for the session-start hooks.
    async fn wait_for_start(&mut self, inbox: &mut Inbox, cancel: &CancellationToken) {
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
        let joined = inbox.while_receiving(waiting).await;
        self.apply_session_start(joined);
    }

    /// Runs the `PreCompress` hooks. Returns what they want to keep.
    pub(crate) async fn pre_compress(
        &self,
        cause: CompactionCause,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let trigger = if cause == CompactionCause::Manual { "manual" } else { "auto" };
        let mut input = Object::new();
        input.insert("trigger".to_owned(), trigger.into());
        let call = HookCall::new(HookEvent::PreCompress, trigger, input);
        // Hooks cannot prevent a compaction.
        self.run(call, inbox, cancel).await.context
    }

    /// Runs the session-end hooks.
    pub(crate) async fn end(&mut self, inbox: &mut Inbox) {
        self.starting.abort_all();
        let mut input = Object::new();
        let reason = if inbox.is_cleared() { "clear" } else { "exit" };
        input.insert("reason".to_owned(), reason.into());
        let call = HookCall::new(HookEvent::SessionEnd, reason, input);
        // Best effort: it is limited in time, and an interrupt ends it. Dropping the future ends
        // the hooks.
        let cancel = CancellationToken::new();
        // Interrupts are still received; nothing else is started.
        inbox.reopen_for(cancel.clone());
        let timed_out = tokio::select! {
            ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.run(call, inbox, &cancel)) => ended.is_err(),
            () = cancel.cancelled() => return,
        };
        if timed_out {
            let seconds = SHUTDOWN_TIMEOUT.as_secs();
            let text = format!(
                "SessionEnd hooks did not finish within {seconds} s and were \
                stopped"
            );
            self.notices.show(Level::Warning, text);
        }
        let notified = &mut self.notified;
        let ended = async { while notified.join_next().await.is_some() {} };
        tokio::select! {
            ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, ended) => drop(ended),
            () = cancel.cancelled() => {}
        }
    }

    /// Runs the `BeforeAgent` hooks, after the session-start hooks have ended.
    pub(crate) async fn before_agent(
        &mut self,
        mut prompt: Prompt,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> Result<BeforeAgentResult, EndReason> {
        self.wait_for_start(inbox, cancel).await;
        if cancel.is_cancelled() {
            return Err(EndReason::Cancelled);
        }
        let mut input = Object::new();
        input.insert("prompt".to_owned(), prompt.text.clone().into());
        let call = HookCall::new(HookEvent::BeforeAgent, "", input);
        let before = self.run(call, inbox, cancel).await;
        if let Some(reason) = before.denial() {
            return Err(EndReason::Stopped {
                reason: before.with_hook_names(reason),
                blocked: true,
            });
        }
        let stop = before.stop.as_ref().map(|reason| before.with_hook_names(reason));
        prompt.attachments.extend(before.context.map(Part::text));
        Ok(match stop {
            Some(reason) => {
                BeforeAgentResult::Stop(prompt, EndReason::Stopped { reason, blocked: false })
            }
            None => BeforeAgentResult::Run(prompt),
        })
    }

    /// Takes the context that session-start hooks add to the first prompt.
    pub(crate) fn take_context(&mut self) -> Option<String> {
        self.context.take()
    }

    /// Runs the `AfterAgent` hooks, which may send the agent back to work.
    pub(crate) async fn after_agent(
        &self,
        prompt: &str,
        response: String,
        continuations: &mut Continuations,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> AfterAgentResult {
        let input = object(json!({
            "prompt": prompt, "prompt_response": response, "stop_hook_active": continuations.count > 0,
        }));
        let call = HookCall::new(HookEvent::AfterAgent, "", input);
        let after = self.run(call, inbox, cancel).await;
        let clears_context = after.field("clearContext") == Some(&Value::Bool(true));
        let next = match (after.stop.clone(), after.denial()) {
            (Some(reason), _) => {
                Err(EndReason::Stopped { reason: after.with_hook_names(&reason), blocked: false })
            }
            (None, None) => Ok(None),
            (None, Some(why)) => {
                let next = continuations.add(&after.deciding_hooks, why);
                if let Ok(continuation) = &next {
                    let kind = format!("AfterAgent {}", continuation.hooks.join(", "));
                    self.notices.show_kind(Level::Warning, &kind, continuation.to_string());
                }
                next.map(Some)
            }
        };
        AfterAgentResult { clears_context, next }
    }
}

/// The decision of `BeforeAgent` hooks for a prompt.
pub(crate) enum BeforeAgentResult {
    /// The prompt runs, with the context that hooks added.
    Run(Prompt),
    /// The prompt is recorded, and the turn ends.
    Stop(Prompt, EndReason),
}

/// What `AfterAgent` hooks decided.
pub(crate) struct AfterAgentResult {
    /// Whether the conversation is cleared.
    pub(crate) clears_context: bool,
    /// The text that continues the turn, if it does not end.
    pub(crate) next: Result<Option<HookContinuation>, EndReason>,
}

/// The continuations of a turn that hooks requested.
#[derive(Default)]
pub(crate) struct Continuations {
    count: u32,
}

impl Continuations {
    /// Counts a continuation and returns it.
    fn add(&mut self, deciders: &[String], reason: &str) -> Result<HookContinuation, EndReason> {
        if self.count < MAX_CONTINUATIONS {
            self.count += 1;
            return Ok(HookContinuation { hooks: deciders.to_vec(), text: reason.to_owned() });
        }
        let who = hook_names(deciders);
        Err(EndReason::Failed(Failure {
            kind: FailureKind::Continuations,
            message: format!(
                "{who} continued the agent {MAX_CONTINUATIONS} times, which is the limit for one \
                    prompt: {reason}"
            ),
            status: None,
        }))
    }
}
