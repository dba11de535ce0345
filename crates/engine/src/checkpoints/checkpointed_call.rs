//! Runs a tool call with a checkpoint of the files it changes.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::checkpoint::{CheckpointGuard, Checkpoints, PendingChange};
use parallax_protocol::event::Level;
use parallax_protocol::tool::{Effects, Invocation, RunContext, ToolResult};

/// A call and what its checkpoint needs.
pub(crate) struct CheckpointedCall {
    pub(crate) invocation: Box<dyn Invocation>,
    pub(crate) run: RunContext,
    pub(crate) effects: Effects,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints>>,
    pub(crate) turn: u64,
}

impl CheckpointedCall {
    pub(crate) async fn run(self) -> ToolResult {
        let Self { invocation, run, effects, checkpoints, turn } = self;
        let keeps = changes_files(&effects) || effects.may_change_files;
        let checkpoint = match checkpoints.filter(|_| keeps) {
            Some(checkpoints) => save_checkpoint(checkpoints, turn, &effects, &run).await,
            None => None,
        };
        let (permissions, mode) = (run.permissions.clone(), run.mode);
        let progress = Arc::clone(&run.progress);
        let mut outcome = invocation.run(run).await;
        let Some(checkpoint) = checkpoint else { return outcome };
        let write_scope = outcome.write_scope.clone();
        let after = move || checkpoint.finish(&effects, &permissions, mode, &write_scope);
        let after = tokio::task::spawn_blocking(after);
        let reverted = after.await.unwrap_or_default();
        if let Some(note) = reverted.note() {
            progress.notice(Level::Warning, &note);
            add_revert_note(&mut outcome, &note);
        }
        outcome
    }
}

/// Whether the call needs a checkpoint.
pub(crate) fn changes_files(effects: &Effects) -> bool {
    is_command(effects) || !effects.writes.is_empty()
}

fn planned_change<'a>(command: Option<&'a str>, writes: &'a [PathBuf]) -> PendingChange<'a> {
    match command {
        Some(command) => PendingChange::Command(command),
        None => PendingChange::Files(writes),
    }
}

/// Returns the effects of the call that could not be undone, to show before it runs.
pub(crate) async fn irreversible_changes(
    checkpoints: Arc<dyn Checkpoints>,
    effects: &Effects,
) -> Vec<String> {
    let (writes, command) = (effects.writes.clone(), effects.runs.first().cloned());
    let task = tokio::task::spawn_blocking(move || {
        checkpoints.irreversible_changes(planned_change(command.as_deref(), &writes))
    });
    task.await.unwrap_or_default()
}

/// Whether the call runs a command that may change files.
pub(crate) fn is_command(effects: &Effects) -> bool {
    !effects.is_read_only && !effects.runs.is_empty()
}

async fn save_checkpoint(
    checkpoints: Arc<dyn Checkpoints>,
    turn: u64,
    effects: &Effects,
    run: &RunContext,
) -> Option<Box<dyn CheckpointGuard>> {
    let progress = run.progress.as_ref();
    let unnamed = effects.may_change_files.then(String::new);
    let command = effects.runs.first().cloned().or(unnamed);
    let expected = (effects.clone(), run.permissions.clone(), run.mode);
    let save_task = tokio::task::spawn_blocking(move || {
        let (effects, permissions, mode) = expected;
        let change = planned_change(command.as_deref(), &effects.writes);
        let mut checkpoint = checkpoints.save_before(turn, change)?;
        checkpoint.expect(&effects, &permissions, mode);
        Ok::<_, String>(checkpoint)
    });
    match save_task.await {
        Ok(Ok(kept)) => {
            // Most MCP calls change no files here.
            let output =
                kept.irreversible_changes().into_iter().filter(|_| !effects.may_change_files);
            for text in output {
                progress.notice(Level::Warning, &format!("Cannot be undone: {text}"));
            }
            Some(kept)
        }
        Ok(Err(_)) if effects.may_change_files => None,
        Ok(Err(reason)) => {
            progress.notice(Level::Warning, &format!("This change cannot be undone: {reason}"));
            None
        }
        // A panic there is a bug, but the call can run without a checkpoint.
        Err(_) => None,
    }
}

/// Adds a note that a protected file was restored, so that the model does not assume that its
/// change persists.
fn add_revert_note(outcome: &mut ToolResult, note: &str) {
    match &mut outcome.error {
        Some(error) => error.message = format!("{}\n[{note}]", error.message),
        None => outcome.for_model.output = format!("{}\n[{note}]", outcome.for_model.output),
    }
}
