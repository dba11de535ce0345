//! The sandbox of commands: the namespaces that the commands of a session share, and command lines
//! that run a program in its sandbox.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_sandbox::{Plan, SessionNamespaces};

use crate::StartError;

/// The namespaces of a session, started with the first sandboxed command. If they are not
/// available, commands run without them; the tier of the plan determines the consequences.
#[derive(Debug, Default)]
pub(crate) struct SharedNamespaces {
    cell: Mutex<Option<Result<Arc<SessionNamespaces>, String>>>,
}

impl SharedNamespaces {
    /// Returns the namespaces, starting them if necessary and again if they were killed, or `None`
    /// if they are not available. Blocks for a few milliseconds once.
    pub(crate) fn get(&self) -> Option<Arc<SessionNamespaces>> {
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        if cell.as_ref().is_some_and(|cell| cell.as_ref().is_ok_and(|cell| !cell.is_alive())) {
            tracing::warn!("the session namespaces were killed; starting them again");
            *cell = None;
        }
        let started = cell.get_or_insert_with(|| {
            SessionNamespaces::start().map(Arc::new).map_err(|error| {
                tracing::info!(%error, "no session namespaces for commands");
                error.to_string()
            })
        });
        started.as_ref().ok().cloned()
    }

    /// Returns the namespaces, if they were started.
    pub(crate) fn namespaces(&self) -> Option<Arc<SessionNamespaces>> {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        cell.as_ref().and_then(|started| started.as_ref().ok().cloned())
    }

    /// Ends the namespaces and everything inside. Blocking.
    pub(crate) fn end(&self) {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(cell);
    }
}

/// Returns the program and arguments that run a program in its sandbox. Blocking.
pub(crate) fn wrap(
    mut plan: Plan,
    cell: &SharedNamespaces,
    program: &Path,
    arguments: &[OsString],
) -> Result<(OsString, Vec<OsString>), StartError> {
    plan.parent = i32::try_from(std::process::id()).unwrap_or_default();
    plan.session = true;
    if plan.confine {
        plan.cell = cell.get().map(|cell| cell.pid());
    }
    parallax_sandbox::reexec(&plan, program.as_os_str(), arguments)
        .map_err(|error| StartError::Sandbox(error.to_string()))
}
