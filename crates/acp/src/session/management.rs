//! Commands that change what sessions use, such as `/extensions install`. They run in a task, so
//! that the user can cancel them, and ask for the user's consent.

use std::sync::atomic::Ordering;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::UndoResult;
use parallax_protocol::op::Op;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::reopening::ReopenNotice;
use super::{EditorSession, PreparedInput, PreparingInput};
use crate::host::{CommandReply, ManagementCommand};
use crate::tool_updates;
use crate::updates::chunk;

/// The commands that run on threads. Each has a clone of the sender.
pub(super) struct RunningCommands {
    sender: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
}

impl RunningCommands {
    pub(super) fn new() -> Self {
        let (sender, ended) = mpsc::channel(1);
        Self { sender, ended }
    }

    /// Waits until all commands have ended.
    pub(super) async fn wait(self) {
        let Self { sender, mut ended } = self;
        drop(sender);
        // Nothing is sent.
        let _ = ended.recv().await;
    }
}

/// Text that the user has to agree to, and where the answer goes.
type ConsentRequest = (String, oneshot::Sender<bool>);

impl EditorSession {
    /// Runs a command. Without its task, every consent request is declined.
    pub(super) fn run_management_command(
        &self,
        line: String,
        command: ManagementCommand,
    ) -> PreparingInput {
        let consents = self.consents.clone();
        self.has_consent.store(false, Ordering::Release);
        let has_consent = self.has_consent.clone();
        let running = self.running_commands.sender.clone();
        tokio::spawn(async move {
            let cancel = CancellationToken::new();
            // Aborting this task ends what the command started.
            let _guard = cancel.clone().drop_guard();
            let (requests, mut requested) = mpsc::channel::<ConsentRequest>(1);
            let mut running = tokio::task::spawn_blocking(move || {
                let _running = running;
                let mut ask = |text: &str| {
                    let (reply, answer) = oneshot::channel();
                    let is_sent = requests.blocking_send((text.to_owned(), reply)).is_ok();
                    is_sent && answer.blocking_recv().unwrap_or(false)
                };
                command(&mut ask, cancel)
            });
            loop {
                tokio::select! {
                    result = &mut running => {
                        return match result {
                            Ok(result) => result.map(PreparedInput::Reply),
                            Err(error) => Err(super::internal_failure(&error)),
                        };
                    }
                    Some((text, reply)) = requested.recv() => {
                        let call = json!({"title": line, "kind": "other",
                            "content": [tool_updates::text_content(&text)]});
                        let is_agreed = consents.request_consent(call, "Agree", "Cancel").await;
                        has_consent.store(is_agreed, Ordering::Release);
                        // Fails only if the command has ended.
                        let _ = reply.send(is_agreed);
                    }
                }
            }
        })
    }

    pub(super) async fn handle_reply(&mut self, reply: CommandReply) {
        match reply {
            CommandReply::Text(text) => {
                self.clients.update(&self.id, chunk("agent_message_chunk", &text)).await;
                self.answer(Ok(json!("end_turn"))).await;
                self.next_prompt().await;
            }
            // Answered when the session is reopened.
            CommandReply::Reopen { text, then } => {
                self.reopening = Some(ReopenNotice { text, then });
            }
            // Answered at the end of the turn.
            CommandReply::Turn(op) => self.run_turn(op).await,
        }
    }

    async fn run_turn(&mut self, op: Op) {
        if let Some(running) = &mut self.running {
            running.is_started = true;
        }
        self.send(op).await;
    }

    /// Reports restored files. A turn follows, unless nothing was restored.
    pub(super) async fn report_restored_files(&mut self, undone: UndoResult) {
        let mut text = match &undone.problem {
            Some(problem) => format!("Restore failed: {problem}"),
            None => undone.restore_summary().to_owned(),
        };
        for path in &undone.restored {
            text.push_str(&format!("\n- {}", path.display()));
        }
        for (path, reason) in &undone.skipped {
            text.push_str(&format!("\n- skipped {}: {reason}", path.display()));
        }
        text.push('\n');
        self.clients.update(&self.id, chunk("agent_message_chunk", &text)).await;
        if undone.problem.is_some() {
            self.answer(Ok(json!("end_turn"))).await;
            self.next_prompt().await;
        }
    }
}
