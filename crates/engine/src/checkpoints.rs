//! The checkpoints of the files that the agent changes: undo and restore.

mod checkpointed_call;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::event::UndoResult;
use parallax_protocol::op::{Restore, Rewind};

use crate::inbox::Inbox;

pub(crate) use self::checkpointed_call::{
    CheckpointedCall, changes_files, irreversible_changes, is_command,
};

/// Why nothing can be undone without checkpoints.
const DISABLED: &str = "checkpoints are disabled in this session";

/// The checkpoints of a session, if they are enabled.
pub(crate) struct SessionCheckpoints {
    store: Option<Arc<dyn Checkpoints>>,
    /// Whether changing the file changes what the next build runs.
    is_build_file: fn(&Path) -> bool,
}

impl SessionCheckpoints {
    pub(crate) fn new(
        store: Option<Arc<dyn Checkpoints>>,
        is_build_file: fn(&Path) -> bool,
    ) -> Self {
        Self { store, is_build_file }
    }

    /// Whether changes can be undone.
    pub(crate) fn is_enabled(&self) -> bool {
        self.store.is_some()
    }

    /// Returns the store, for a call that changes files.
    pub(crate) fn store(&self) -> Option<Arc<dyn Checkpoints>> {
        self.store.clone()
    }

    /// Whether changing the file changes what the next build runs.
    pub(crate) fn is_build_file(&self) -> fn(&Path) -> bool {
        self.is_build_file
    }

    /// Undoes the file changes of a turn; `None`: of the newest one with changes.
    pub(crate) async fn undo(
        &self,
        turn: Option<u64>,
        force: bool,
        inbox: &mut Inbox,
    ) -> Result<UndoResult, String> {
        let checkpoints = self.store.clone().ok_or(DISABLED)?;
        let undo_task = tokio::task::spawn_blocking(move || checkpoints.undo(turn, force));
        let undone = inbox.while_receiving(undo_task).await;
        undone.unwrap_or_else(|_| Err("the undo crashed (this is a bug)".into()))
    }

    /// Undoes the turns from the last one back to the given one.
    pub(crate) async fn undo_turns(&self, request: Rewind, inbox: &mut Inbox) -> UndoResult {
        let problem = |reason: &str| UndoResult {
            turn: request.turn,
            problem: Some(reason.to_owned()),
            ..UndoResult::default()
        };
        let Some(checkpoints) = self.store.clone() else { return problem(DISABLED) };
        let undo_task =
            tokio::task::spawn_blocking(move || undo_turns(checkpoints.as_ref(), request));
        let undone = inbox.while_receiving(undo_task).await;
        undone.unwrap_or_else(|_| problem("the undo crashed (this is a bug)"))
    }

    /// Restores the files of a checkpoint. `turn` is the turn that the restore belongs to.
    pub(crate) async fn restore(
        &self,
        request: Restore,
        turn: u64,
        inbox: &mut Inbox,
    ) -> Result<UndoResult, String> {
        let checkpoints = self.store.clone().ok_or(DISABLED)?;
        let restore = move || checkpoints.restore(request.change_time, turn, request.force);
        let restored = inbox.while_receiving(tokio::task::spawn_blocking(restore)).await;
        restored.unwrap_or_else(|_| Err("the restore crashed (this is a bug)".into()))
    }

    /// Returns the files that each turn changed.
    pub(crate) async fn changes(&self, inbox: &mut Inbox) -> HashMap<u64, Vec<PathBuf>> {
        let Some(checkpoints) = self.store.clone() else { return HashMap::new() };
        let task = tokio::task::spawn_blocking(move || checkpoints.changes());
        inbox.while_receiving(task).await.unwrap_or_default().into_iter().collect()
    }
}

/// Undoes each turn with changes from the last one back to the given one. Blocking.
fn undo_turns(checkpoints: &dyn Checkpoints, request: Rewind) -> UndoResult {
    let mut turns: Vec<u64> = checkpoints.changes().into_iter().map(|(turn, _)| turn).collect();
    turns.retain(|turn| *turn >= request.turn);
    turns.sort_unstable();
    let (mut restored, mut unrestored) = (BTreeSet::new(), Vec::new());
    let mut problems = Vec::new();
    let mut force_helps = false;
    for turn in turns.into_iter().rev() {
        match checkpoints.undo(Some(turn), request.force) {
            Ok(undone) => {
                restored.extend(undone.restored);
                unrestored.extend(undone.skipped);
                force_helps |= undone.force_helps;
            }
            Err(reason) => problems.push(reason),
        }
    }
    let restored =
        restored.into_iter().filter(|path| !unrestored.iter().any(|(other, _)| other == path));
    UndoResult {
        turn: request.turn,
        prompt: None,
        restored: restored.collect(),
        skipped: unrestored.clone(),
        force_helps,
        problem: (!problems.is_empty()).then(|| problems.join("; ")),
    }
}
