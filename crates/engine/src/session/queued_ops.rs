//! Runs what waits between turns, in the order sent.

use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::event::{EventBody, Level, PromptEntry, RewindResult, UndoResult};
use parallax_protocol::op::{Restore, Rewind};
use parallax_protocol::store::RewindTarget;

use super::Session;
use crate::closing_notes::UNANSWERED;
use crate::history::ContentMetadata;
use crate::inbox::{ContextOp, QueuedOp, TurnInput};
use crate::user_commands::CommandReport;

/// The model's side after a user command, so that roles alternate.
const ACKNOWLEDGED: &str = "[Noted.]";

impl Session {
    /// Runs the queued operations, and saves what changed since.
    pub(super) async fn run_queued_ops(&mut self) {
        while let Some(op) = self.inbox.next_op() {
            match op {
                QueuedOp::Undo { prompt, force } => self.undo(prompt, force).await,
                QueuedOp::Rewind(request) => self.rewind(request).await,
                QueuedOp::Restore(request) => self.restore(request).await,
                QueuedOp::Context(op) => self.apply_context_op(op).await,
                QueuedOp::ListPrompts => self.list_prompts().await,
            }
        }
        self.commit_reports();
        self.conversation.record_limits(&mut self.inbox);
        self.conversation.record_selection(&mut self.inbox);
        if self.conversation.history().len() > 0 {
            self.emit_context_usage();
        }
    }

    /// Undoes file changes. The changes of a running turn would not be complete.
    async fn undo(&mut self, prompt: Option<u64>, force: bool) {
        let marks = self.conversation.prompts();
        let mark = prompt.map(|number| RewindTarget::find_by_number(marks, number)).transpose();
        let undone = match mark.map(|mark| mark.map(|mark| mark.turn)) {
            Ok(turn) => self.checkpoints.undo(turn, force, &mut self.inbox).await,
            Err(problem) => Err(problem),
        };
        let undone = match undone {
            Ok(undone) => {
                let prompt = RewindTarget::number(self.conversation.prompts(), undone.turn);
                UndoResult { prompt, ..undone }
            }
            Err(reason) => UndoResult { prompt, problem: Some(reason), ..UndoResult::default() },
        };
        self.conversation.record_restored_files(&undone);
        self.bus.send(EventBody::Undone(undone));
    }

    /// Rewinds to before a prompt: the conversation, the files, or both.
    async fn rewind(&mut self, request: Rewind) {
        let marks = self.conversation.prompts().iter();
        let found = (1..).zip(marks).find(|(_, mark)| mark.turn == request.turn);
        let Some((number, mark)) = found.map(|(number, mark)| (number, mark.clone())) else {
            let text = "Cannot rewind: that prompt was already removed";
            self.inbox.notice(Level::Error, text);
            return;
        };
        let files = match request.files {
            true => Some(self.checkpoints.undo_turns(request, &mut self.inbox).await),
            false => None,
        };
        if request.chat {
            self.rewind_conversation(mark.at).await;
        } else if let Some(undone) = &files {
            self.conversation.record_restored_files(undone);
        }
        let (chat, prompt) = (request.chat, mark.text);
        self.bus.send(EventBody::Rewound(RewindResult { number, prompt, chat, files }));
    }

    /// Removes the contents after the first `keep`.
    async fn rewind_conversation(&mut self, keep: usize) {
        self.clear_conversation(keep);
        self.conversation.sync(&mut self.inbox).await;
    }

    /// Like [`Self::rewind_conversation`], but the journal is not synced yet.
    pub(super) fn clear_conversation(&mut self, keep: usize) {
        self.budget.save_spending(self.conversation.history_mut());
        self.conversation.rewind(keep);
        self.context.drop_lost_context(self.conversation.history());
    }

    /// Restores a checkpoint, and queues the turn that runs its call again.
    async fn restore(&mut self, request: Restore) {
        let Some(earlier) = self.conversation.results_before(request) else {
            let problem = Some("its tool call was removed from the conversation".to_owned());
            self.bus.send(EventBody::Restored(UndoResult { problem, ..UndoResult::default() }));
            return;
        };
        // A separate turn, so that an undo reverts the restore.
        if self.checkpoints.is_enabled() {
            self.conversation.start_turn();
        }
        let turn = self.conversation.turn();
        let restored = self.checkpoints.restore(request, turn, &mut self.inbox).await;
        let undone = restored
            .unwrap_or_else(|reason| UndoResult { problem: Some(reason), ..UndoResult::default() });
        if undone.problem.is_none() {
            self.rewind_conversation(request.keep_contents).await;
            self.conversation.restore_results(earlier);
            self.inbox.push_input(TurnInput::Rerun);
        }
        self.bus.send(EventBody::Restored(undone));
    }

    async fn apply_context_op(&mut self, op: ContextOp) {
        let is_edit = matches!(op, ContextOp::Edit(_));
        let cancel = CancellationToken::new();
        self.inbox.set_edit(Some(cancel.clone()));
        self.compactor().apply(op, &cancel).await;
        self.inbox.set_edit(None);
        if is_edit {
            self.budget.save_spending(self.conversation.history_mut());
            self.conversation.sync(&mut self.inbox).await;
        }
    }

    /// Emits the prompts that can be rewound to.
    async fn list_prompts(&mut self) {
        let mut changes = self.checkpoints.changes(&mut self.inbox).await;
        let marks = self.conversation.prompts().iter();
        let prompts = marks.zip(1..).map(|(mark, number)| PromptEntry {
            turn: mark.turn,
            number,
            time: mark.time.clone(),
            text: mark.text.clone(),
            lines_added: mark.lines_added,
            lines_removed: mark.lines_removed,
            files: changes.remove(&mark.turn).unwrap_or_default(),
        });
        let prompts = prompts.collect();
        self.bus.send(EventBody::Prompts { prompts });
    }

    /// Adds the reports on user commands to the history.
    fn commit_reports(&mut self) {
        for CommandReport { command, mut text } in self.inbox.take_reports() {
            self.conversation.close_open_calls(UNANSWERED);
            self.environment.redact(&mut text);
            let content = Content::user(vec![Part::text(text)]);
            let remarks = ContentMetadata { command, ..ContentMetadata::synthetic() };
            self.conversation.history_mut().push(&content, remarks);
            let answer = Content::model(vec![Part::text(ACKNOWLEDGED)]);
            self.conversation.history_mut().push(&answer, ContentMetadata::synthetic());
            self.conversation.report_storage_error(self.inbox.notices());
        }
    }
}
