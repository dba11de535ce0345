//! Shared code of the two search tools: where they search, how they stop, and how they name files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parallax_files::{Access, EntryKind, FileError, RuleSource, Workspace, printable};
use parallax_protocol::CancellationToken;
use parallax_protocol::tool::{ToolError, ToolErrorKind};

use crate::failure::{path_failure, read_failure};

/// The scope of a search.
#[derive(Debug, Clone)]
pub(crate) struct SearchScope {
    /// Directories (or one file), resolved and absolute.
    pub(crate) roots: Vec<PathBuf>,
    /// The directory relative to which files of a single root are named.
    pub(crate) base: Option<PathBuf>,
}

impl SearchScope {
    /// Returns the given directory or file, or all workspace directories.
    ///
    /// # Errors
    /// Returns an error if the path is outside of the workspace, missing, or neither a file nor a
    /// directory.
    pub(crate) fn find(workspace: &Workspace, dir_path: Option<&str>) -> Result<Self, ToolError> {
        let Some(text) = dir_path.filter(|text| !text.trim().is_empty()) else {
            let roots = workspace.roots();
            let base = (roots.len() == 1).then(|| roots.first().cloned()).flatten();
            return Ok(Self { roots, base });
        };
        let target =
            workspace.resolve(text, Access::Search).map_err(|error| path_failure(&error))?;
        let metadata = target.metadata().map_err(|error| match error {
            FileError::NotFound { .. } | FileError::NotADirectory { .. } => ToolError::new(
                ToolErrorKind::FileNotFound,
                format!("Path does not exist: {}", printable(target.display_path())),
            ),
            other => read_failure(&other),
        })?;
        let path = target.path().to_path_buf();
        let base = match metadata.kind {
            EntryKind::Directory => Some(path.clone()),
            EntryKind::File => path.parent().map(Path::to_path_buf),
            EntryKind::Link | EntryKind::Other(_) => {
                return Err(ToolError::new(
                    ToolErrorKind::InvalidToolParams,
                    format!(
                        "Path is neither a file nor a directory: {}",
                        printable(target.display_path())
                    ),
                ));
            }
        };
        Ok(Self { roots: vec![path], base })
    }

    /// Rejects a place whose files the user hides from agents. A place that only git ignores may be
    /// searched if it is named.
    ///
    /// # Errors
    /// Returns the pattern that hides it.
    pub(crate) fn check_hidden_from_agents(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let reason = self.roots.iter().find_map(|root| Some((root, workspace.is_ignored(root)?)));
        match reason.filter(|(_, reason)| reason.source != RuleSource::Git) {
            None => Ok(()),
            Some((root, reason)) => Err(ToolError::new(
                ToolErrorKind::InvalidToolParams,
                format!(
                    "File path '{}' is ignored by configured ignore patterns (`{}`)",
                    printable(root),
                    reason.pattern
                ),
            )),
        }
    }

    /// Returns the name of a found file: relative to a single root, otherwise absolute, so that it
    /// can be passed to a read call.
    pub(crate) fn name(&self, path: &Path) -> String {
        let rest = self.base.as_ref().and_then(|base| path.strip_prefix(base).ok());
        printable(rest.unwrap_or(path)).into_owned()
    }
}

/// Signals a search on other threads to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a guard that sets the flag when it is dropped.
    fn on_drop(&self) -> impl Drop + use<> {
        struct Guard(StopSignal);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Relaxed);
            }
        }
        Guard(self.clone())
    }
}

/// Why a search has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchFailure {
    /// The call was cancelled.
    Cancelled,
    /// The time limit was reached.
    TimedOut,
    /// The search failed because of a bug.
    Failed,
}

/// Runs `work` on a blocking thread until it finishes, is cancelled, or times out. Returns
/// immediately when stopped; the threads notice the flag and end on their own.
pub(crate) async fn run_blocking<T: Send + 'static>(
    cancel: &CancellationToken,
    limit: Duration,
    work: impl FnOnce(&StopSignal) -> T + Send + 'static,
) -> Result<T, SearchFailure> {
    let stop = StopSignal::default();
    let _guard = stop.on_drop();
    let seen = stop.clone();
    let task = tokio::task::spawn_blocking(move || work(&seen));
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(SearchFailure::Cancelled),
        result = task => result.map_err(|_| SearchFailure::Failed),
        () = tokio::time::sleep(limit) => Err(SearchFailure::TimedOut),
    }
}

/// Whether a path found by a walk still exists in the workspace: a directory may have been replaced
/// by a link during the walk.
pub(crate) fn is_inside(workspace: &Workspace, path: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|real| workspace.contains(&real))
}
