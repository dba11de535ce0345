//! The sandbox around commands: the cell that those of a session share, and
//! what became of a command that the sandbox refused to run.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_sandbox::{Cell, Plan};

use crate::StartError;

/// The session's cell, started with the first command that is confined. Where
/// none can be had commands do without: the plan's tier says what then holds.
#[derive(Debug, Default)]
pub(crate) struct SharedCell {
    cell: Mutex<Option<Result<Arc<Cell>, String>>>,
}

impl SharedCell {
    /// The cell, if there is or can be one. Blocking: some milliseconds once.
    pub(crate) fn get(&self) -> Option<Arc<Cell>> {
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        let started = cell.get_or_insert_with(|| {
            Cell::start().map(Arc::new).map_err(|error| {
                tracing::info!(%error, "no cell for commands");
                error.to_string()
            })
        });
        started.as_ref().ok().cloned()
    }

    /// The cell, if one was started.
    pub(crate) fn started(&self) -> Option<Arc<Cell>> {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        cell.as_ref().and_then(|started| started.as_ref().ok().cloned())
    }

    /// Ends it, with all that is in it. Blocking.
    pub(crate) fn end(&self) {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(cell);
    }
}

/// What is started in place of a program, so that the plan holds. Blocking.
pub(crate) fn wrap(
    mut plan: Plan,
    cell: &SharedCell,
    with_terminal: bool,
    program: &Path,
    arguments: &[OsString],
) -> Result<(OsString, Vec<OsString>), StartError> {
    plan.parent = i32::try_from(std::process::id()).unwrap_or_default();
    plan.session = !with_terminal;
    if plan.confine {
        plan.cell = cell.get().map(|cell| cell.pid());
    }
    parallax_sandbox::reexec(&plan, program.as_os_str(), arguments)
        .map_err(|error| StartError::Sandbox(error.to_string()))
}
