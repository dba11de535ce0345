//! The way to the processes of running calls and commands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_protocol::CancellationToken;
use parallax_protocol::ids::ItemId;
use parallax_protocol::op::ToolInput;
use parallax_protocol::shell::{ProcessControl, TerminalSize};

/// Shared by the actor and the calls that run. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Reach {
    lines: Arc<Mutex<HashMap<ItemId, Line>>>,
    /// The size that a face wanted last. Its window is there before a process is.
    size: Arc<Mutex<Option<TerminalSize>>>,
}

struct Line {
    cancel: CancellationToken,
    /// `None` until there is a process, and for calls without one.
    control: Option<Arc<dyn ProcessControl>>,
}

impl Reach {
    fn lines(&self) -> MutexGuard<'_, HashMap<ItemId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins to run.
    pub(crate) fn enter(&self, item: ItemId, cancel: CancellationToken) {
        self.lines().insert(item, Line { cancel, control: None });
    }

    fn size(&self) -> MutexGuard<'_, Option<TerminalSize>> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has a process.
    pub(crate) fn control(&self, item: &ItemId, control: Arc<dyn ProcessControl>) {
        if let Some(size) = *self.size() {
            control.resize(size);
        }
        if let Some(line) = self.lines().get_mut(item) {
            line.control = Some(control);
        }
    }

    /// It is over.
    pub(crate) fn leave(&self, item: &ItemId) {
        self.lines().remove(item);
    }

    /// Hands something to a call. What comes too late, or to a call without a
    /// process, is dropped, as a terminal drops it.
    pub(crate) fn input(&self, item: &ItemId, input: ToolInput) {
        if let ToolInput::Resize(size) = input {
            *self.size() = Some(size);
        }
        let lines = self.lines();
        let Some(line) = lines.get(item) else { return };
        match (input, &line.control) {
            (ToolInput::Kill, _) => line.cancel.cancel(),
            (ToolInput::Bytes(bytes), Some(control)) => control.input(bytes),
            (ToolInput::Resize(size), Some(control)) => control.resize(size),
            (ToolInput::ToBackground, Some(control)) => control.to_background(),
            (_, None) => tracing::debug!(%item, "input for a call without a process"),
        }
    }
}
