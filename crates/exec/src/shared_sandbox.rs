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
    session_namespaces: Mutex<Option<Result<Arc<SessionNamespaces>, String>>>,
}

impl SharedNamespaces {
    /// Returns the namespaces, starting them if necessary and again if they were killed, or `None`
    /// if they are not available. Blocks for a few milliseconds once.
    pub(crate) fn get(&self) -> Option<Arc<SessionNamespaces>> {
        let mut session_namespaces =
            self.session_namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if session_namespaces.as_ref().is_some_and(|session_namespaces| {
            session_namespaces
                .as_ref()
                .is_ok_and(|session_namespaces| !session_namespaces.is_alive())
        }) {
            tracing::warn!("the session namespaces were killed; starting them again");
            *session_namespaces = None;
        }
        let started = session_namespaces.get_or_insert_with(|| {
            SessionNamespaces::start().map(Arc::new).map_err(|error| {
                tracing::info!(%error, "failed to create session namespaces for commands");
                error.to_string()
            })
        });
        started.as_ref().ok().cloned()
    }

    /// Returns the namespaces, if they were started.
    pub(crate) fn namespaces(&self) -> Option<Arc<SessionNamespaces>> {
        let session_namespaces =
            self.session_namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        session_namespaces.as_ref().and_then(|started| started.as_ref().ok().cloned())
    }

    /// Ends the namespaces and everything inside. Blocking.
    pub(crate) fn end(&self) {
        let session_namespaces =
            self.session_namespaces.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(session_namespaces);
    }
}

/// Returns the program and arguments that run a program in its sandbox. Blocking.
pub(crate) fn wrap(
    mut plan: Plan,
    session_namespaces: &SharedNamespaces,
    program: &Path,
    arguments: &[OsString],
) -> Result<(OsString, Vec<OsString>), StartError> {
    plan.parent = i32::try_from(std::process::id()).unwrap_or_default();
    plan.session = true;
    if plan.confine {
        plan.session_namespaces =
            session_namespaces.get().map(|session_namespaces| session_namespaces.pid());
    }
    parallax_sandbox::reexec(&plan, program.as_os_str(), arguments)
        .map_err(|error| StartError::Sandbox(error.to_string()))
}
