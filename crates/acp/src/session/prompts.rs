//! The prompts of a session: one runs at a time, and the others wait.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::op::{Op, Prompt};
use parallax_protocol::typed_input::{CommandApprover, TypedInput};
use serde_json::{Value, json};

use super::{
    EditorSession, MAX_TITLE, PendingReply, PreparedInput, PreparingInput, RunningPrompt, quota,
};
use crate::clients::SessionClients;
use crate::consent::{self, ConsentRequests};
use crate::permission;
use crate::prompt_blocks::{self, ConvertedPrompt};
use crate::rpc::RpcError;
use crate::updates::chunk;

impl EditorSession {
    pub(super) async fn start_prompt(&mut self, from: PendingReply, blocks: Vec<Value>) {
        if self.running.is_some() {
            // The new prompt replaces the running one.
            if let Some((earlier, _)) = self.queued.replace((from, blocks)) {
                earlier.respond(Ok(json!({"stopReason": "cancelled"}))).await;
            }
            return self.interrupt().await;
        }
        let read = match prompt_blocks::read(&blocks) {
            Ok(read) => read,
            Err(error) => return from.respond(Err(error)).await,
        };
        if let Some(usage) = self.late_usage.take() {
            self.clients.update(&self.id, usage).await;
        }
        let typed = chunk("user_message_chunk", &read.text);
        self.clients.update_others(&from.client, &self.id, typed).await;
        self.clients.notify_turn(&from.client, self.turn_started()).await;
        self.running = Some(RunningPrompt {
            reply: from,
            is_started: false,
            is_truncated: false,
            usage: BTreeMap::new(),
        });
        let line = self.command_line(&read.text).map(Cow::into_owned);
        let typed = line.clone().unwrap_or_else(|| read.text.clone());
        if let Some(changed) = self.change_option(&typed).await {
            return match changed {
                Ok(text) => {
                    self.clients.update(&self.id, chunk("agent_message_chunk", &text)).await;
                    self.answer(Ok(json!("end_turn"))).await;
                }
                Err(error) => {
                    self.reject_prompt(Failure::new(FailureKind::Input, error.message)).await
                }
            };
        }
        if let Some(line) = line {
            let host = self.host.clone();
            if let Some(command) = host.management(&self.open, &line) {
                self.pending_input = Some(self.run_management_command(line, command));
                return;
            }
            let reply = host.slash(&self.open, &mut self.events, &line).await;
            match reply {
                Ok(None) => {}
                Ok(Some(text)) => {
                    self.clients.update(&self.id, chunk("agent_message_chunk", &text)).await;
                    return self.answer(Ok(json!("end_turn"))).await;
                }
                Err(failure) => return self.reject_prompt(failure).await,
            }
        }
        self.pending_input = Some(self.prepare(read));
    }

    /// Returns the line of a slash command. Some editors send their commands with `$`.
    fn command_line<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if text.starts_with('/') {
            return Some(text.into());
        }
        let line = text.strip_prefix('$')?;
        let name = line.split_whitespace().next()?;
        let is_known =
            self.host.commands().iter().any(|(known, ..)| known.split(' ').next() == Some(name));
        is_known.then(|| format!("/{line}").into())
    }

    /// Reports an invalid command or file as text.
    pub(super) async fn reject_prompt(&mut self, failure: Failure) {
        if failure.kind == FailureKind::Input {
            let text = failure.message;
            self.clients.update(&self.id, chunk("agent_message_chunk", &text)).await;
            return self.answer(Ok(json!("end_turn"))).await;
        }
        self.answer(Err(failure.into())).await;
    }

    /// Expands the files that a prompt references. Files outside the workspace require the user's
    /// consent.
    pub(super) fn prepare(&self, read: ConvertedPrompt) -> PreparingInput {
        let (consents, id, mode) = (self.consents.clone(), self.id.clone(), self.mode.get());
        let expander = self.open.expander.clone();
        let expand = self.host.expand(&self.open);
        tokio::spawn(async move {
            for path in expander.paths_outside_workspace(&read.text) {
                let call = json!({"title": format!("Read {}", path.display()), "kind": "read",
                    "locations": [{"path": path}]});
                if consents.request_consent(call, "Allow", "Reject").await {
                    expander.allow(&path);
                }
            }
            let mut prompt = match read.text.trim().is_empty() {
                true => Prompt::default(),
                false => {
                    let approver = Some(command_approver(consents, id));
                    expand(TypedInput { text: read.text, mode, approver }).await?
                }
            };
            prompt.attachments.extend(read.attachments);
            Ok(PreparedInput::Prompt(prompt))
        })
    }

    pub(super) async fn handle_prepared(&mut self, input: Result<PreparedInput, Failure>) {
        self.pending_input = None;
        self.has_consent.store(false, Ordering::Release);
        match input {
            Ok(PreparedInput::Reply(reply)) => self.handle_reply(reply).await,
            Ok(PreparedInput::Prompt(prompt)) => {
                if !self.has_title {
                    self.has_title = true;
                    let title: String = prompt
                        .typed_command
                        .as_deref()
                        .unwrap_or(&prompt.text)
                        .lines()
                        .next()
                        .unwrap_or_default()
                        .chars()
                        .take(MAX_TITLE)
                        .collect();
                    let update = json!({"sessionUpdate": "session_info_update", "title": title});
                    self.clients.update(&self.id, update).await;
                }
                if let Some(running) = &mut self.running {
                    running.is_started = true;
                }
                self.send(Op::Prompt(prompt)).await;
            }
            Err(failure) => {
                self.reject_prompt(failure).await;
                self.next_prompt().await;
            }
        }
    }

    pub(super) async fn cancel(&mut self, request: Option<PendingReply>) {
        let is_requested =
            |it: &PendingReply| request.as_ref().is_none_or(|request| request.is_same(it));
        if let Some((from, _)) = self.queued.take_if(|(from, _)| is_requested(from)) {
            from.respond(Ok(json!({"stopReason": "cancelled"}))).await;
        }
        if self.running.as_ref().is_some_and(|running| is_requested(&running.reply)) {
            self.interrupt().await;
        }
    }

    pub(super) async fn interrupt(&mut self) {
        if self.running.as_ref().is_some_and(|running| running.is_started) {
            self.send(Op::Interrupt).await;
            // Only after the turn is interrupted, so that its tool's result does not continue it.
            self.files_cancelled.notify_waiters();
            return;
        }
        self.files_cancelled.notify_waiters();
        // What the user agreed to is done; its answer follows.
        if self.pending_input.is_some() && self.has_consent.load(Ordering::Acquire) {
            return;
        }
        if let Some(preparing) = self.pending_input.take() {
            preparing.abort();
        }
        self.consents.cancel().await;
        self.answer(Ok(json!("cancelled"))).await;
        self.next_prompt().await;
    }

    /// Answers the running prompt with a stop reason or an error.
    pub(super) async fn answer(&mut self, result: Result<Value, RpcError>) {
        let Some(running) = self.running.take() else { return };
        running.respond(&self.clients, &self.id, result).await;
    }

    /// Returns the notification for clients other than the one that began the turn.
    pub(super) fn turn_started(&self) -> Value {
        json!({"sessionId": self.id, "state": "started"})
    }

    pub(super) async fn next_prompt(&mut self) {
        if let Some((from, blocks)) = self.queued.take() {
            Box::pin(self.start_prompt(from, blocks)).await;
        }
    }
}

impl RunningPrompt {
    /// Responds to the prompt, and notifies the other clients that its turn ended.
    pub(super) async fn respond(
        self,
        clients: &SessionClients,
        session: &str,
        result: Result<Value, RpcError>,
    ) {
        let mut turn = json!({"sessionId": session, "state": "ended"});
        match &result {
            Ok(reason) => turn["stopReason"] = reason.clone(),
            Err(error) => turn["error"] = error.to_json(),
        }
        clients.notify_turn(&self.reply.client, turn).await;
        let result = result
            .map(|reason| json!({"stopReason": reason, "_meta": {"quota": quota(&self.usage)}}));
        self.reply.respond(result).await;
    }
}

/// Asks the clients whether shell commands of a custom command may run.
fn command_approver(consents: ConsentRequests, session: String) -> CommandApprover {
    Arc::new(move |ask| {
        let (consents, session) = (consents.clone(), session.clone());
        Box::pin(async move {
            let id = consent::new_id();
            let request = permission::request(&session, &ask, &id, &json!([]));
            let is_allowed = |answer: &Value| permission::is_allowed(&ask, answer);
            let answer = consents.request(id, request, is_allowed).await;
            permission::decision(&ask, &answer).outcome
        })
    })
}
