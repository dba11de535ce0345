//! The queue of operations that run between turns.

use std::collections::VecDeque;

use parallax_protocol::context::ResultLocation;
use parallax_protocol::op::{Restore, Rewind};

/// An edit of the context that the user requested.
pub(crate) enum ContextEdit {
    /// Compact the history.
    Compact {
        /// What to focus on.
        focus: Option<String>,
    },
    /// Restore the form before the newest compaction.
    UndoCompaction,
    /// Replace these results with notes.
    DropResults(Vec<ResultLocation>),
    /// Replace the instructions of a skill with notes.
    UnloadSkill(String),
    /// Pin or unpin a result.
    Pin(ResultLocation, bool),
}

/// An operation on the context: between turns, or between two requests of a turn.
pub(crate) enum ContextOp {
    /// Edit it.
    Edit(ContextEdit),
    /// Send a context breakdown.
    Describe,
}

/// An operation that runs between turns.
pub(crate) enum QueuedOp {
    /// Undo the file changes of a prompt.
    Undo {
        /// The prompt's number; `None`: the newest one.
        prompt: Option<u64>,
        /// Whether to overwrite later changes.
        force: bool,
    },
    /// Go back to a prompt.
    Rewind(Rewind),
    /// Go back to a checkpoint and run its call again.
    Restore(Restore),
    /// Edit or describe the context.
    Context(ContextOp),
    /// Send the list of prompts.
    ListPrompts,
}

/// Operations that wait for the end of the turn, in the order sent.
#[derive(Default)]
pub(super) struct OpQueue {
    ops: VecDeque<QueuedOp>,
}

impl OpQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Adds an operation. Each is answered, because its sender may count the answers.
    pub(super) fn push(&mut self, op: QueuedOp) {
        self.ops.push_back(op);
    }

    /// Takes the next operation.
    pub(super) fn next(&mut self) -> Option<QueuedOp> {
        self.ops.pop_front()
    }

    /// Takes the next operation that can also run between two requests of a turn.
    pub(super) fn next_context_op(&mut self) -> Option<ContextOp> {
        let is_context = |op: &QueuedOp| matches!(op, QueuedOp::Context(_));
        let index = self.ops.iter().position(is_context)?;
        match self.ops.remove(index)? {
            QueuedOp::Context(op) => Some(op),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(focus: &str) -> QueuedOp {
        let focus = Some(focus.to_owned());
        QueuedOp::Context(ContextOp::Edit(ContextEdit::Compact { focus }))
    }

    fn name(op: &QueuedOp) -> String {
        match op {
            QueuedOp::Undo { .. } => "undo".to_owned(),
            QueuedOp::Rewind(_) => "rewind".to_owned(),
            QueuedOp::Restore(_) => "restore".to_owned(),
            QueuedOp::ListPrompts => "list".to_owned(),
            QueuedOp::Context(op) => context_name(op),
        }
    }

    fn context_name(op: &ContextOp) -> String {
        match op {
            ContextOp::Describe => "describe".to_owned(),
            ContextOp::Edit(ContextEdit::Compact { focus }) => focus.clone().unwrap_or_default(),
            ContextOp::Edit(_) => "edit".to_owned(),
        }
    }

    #[test]
    fn operations_run_in_the_order_sent() {
        let mut queue = OpQueue::default();
        let undo = || QueuedOp::Undo { prompt: None, force: false };
        for op in [compact("a"), undo(), QueuedOp::ListPrompts, QueuedOp::ListPrompts, undo()] {
            queue.push(op);
        }
        let order: Vec<String> = std::iter::from_fn(|| queue.next()).map(|op| name(&op)).collect();
        assert_eq!(order, ["a", "undo", "list", "list", "undo"]);
    }

    #[test]
    fn context_operations_overtake_others_during_a_turn() {
        let mut queue = OpQueue::default();
        queue.push(QueuedOp::Undo { prompt: None, force: false });
        queue.push(compact("a"));
        queue.push(QueuedOp::Context(ContextOp::Describe));
        let now: Vec<String> =
            std::iter::from_fn(|| queue.next_context_op()).map(|op| context_name(&op)).collect();
        assert_eq!(now, ["a", "describe"]);
        assert!(matches!(queue.next(), Some(QueuedOp::Undo { .. })) && queue.is_empty());
    }
}
