//! The processes of running calls and commands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_protocol::CancellationToken;
use parallax_protocol::ids::ItemId;
use parallax_protocol::op::ToolInput;
use parallax_protocol::shell::{ProcessControl, TerminalSize};

/// Shared by the actor and the running calls. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RunningProcesses {
    lines: Arc<Mutex<HashMap<ItemId, RunningProcess>>>,
    /// The size that a front end last requested, possibly before there is a process.
    size: Arc<Mutex<Option<TerminalSize>>>,
}

struct RunningProcess {
    cancel: CancellationToken,
    /// `None` until there is a process, and for calls without one.
    control: Option<Arc<dyn ProcessControl>>,
}

impl RunningProcesses {
    fn lines(&self) -> MutexGuard<'_, HashMap<ItemId, RunningProcess>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a running call.
    pub(crate) fn enter(&self, item: ItemId, cancel: CancellationToken) {
        self.lines().insert(item, RunningProcess { cancel, control: None });
    }

    fn size(&self) -> MutexGuard<'_, Option<TerminalSize>> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets its process.
    pub(crate) fn set_control(&self, item: &ItemId, control: Arc<dyn ProcessControl>) {
        if let Some(size) = *self.size() {
            control.resize(size);
        }
        if let Some(line) = self.lines().get_mut(item) {
            line.control = Some(control);
        }
    }

    /// Removes a finished call.
    pub(crate) fn remove(&self, item: &ItemId) {
        self.lines().remove(item);
    }

    /// Sends input to a call. Input that is too late, or for a call without a process, is dropped,
    /// as a terminal does.
    pub(crate) fn send_input(&self, item: &ItemId, input: ToolInput) {
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
            (_, None) => tracing::debug!(%item, "dropped input for a call without a process"),
        }
    }
}
