//! What the two searches of the disk share: where they look, how they stop, and
//! how they name files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parallax_files::{Access, EntryKind, FileError, RuleSource, Workspace};
use parallax_protocol::CancellationToken;
use parallax_protocol::tool::{ToolError, ToolErrorKind};

use crate::failure::{path_failure, read_failure};

/// Where a search looks.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Folders (or one file), resolved and absolute.
    pub(crate) roots: Vec<PathBuf>,
    /// The folder that a lone root's files are named from.
    pub(crate) base: Option<PathBuf>,
}

impl Place {
    /// The named folder or file, or all workspace folders.
    ///
    /// # Errors
    /// When it is outside the workspace, missing, or neither file nor folder.
    pub(crate) fn find(workspace: &Workspace, dir_path: Option<&str>) -> Result<Self, ToolError> {
        let Some(text) = dir_path.filter(|text| !text.trim().is_empty()) else {
            let roots = workspace.roots();
            let base = (roots.len() == 1).then(|| roots.first().cloned()).flatten();
            return Ok(Self { roots, base });
        };
        let place = workspace.resolve(text, Access::Read).map_err(|error| path_failure(&error))?;
        let facts = place.metadata().map_err(|error| match error {
            FileError::NotFound { .. } | FileError::NotADirectory { .. } => ToolError::new(
                ToolErrorKind::FileNotFound,
                format!("Path does not exist: {}", printable(place.shown())),
            ),
            other => read_failure(&other),
        })?;
        let path = place.path().to_path_buf();
        let base = match facts.kind {
            EntryKind::Directory => Some(path.clone()),
            EntryKind::File => path.parent().map(Path::to_path_buf),
            EntryKind::Link | EntryKind::Other(_) => {
                return Err(ToolError::new(
                    ToolErrorKind::InvalidToolParams,
                    format!("Path is neither a file nor a directory: {}", printable(place.shown())),
                ));
            }
        };
        Ok(Self { roots: vec![path], base })
    }

    /// Refuses a place whose files the user keeps from agents. One that git ignores
    /// may be searched when it is named.
    ///
    /// # Errors
    /// Which pattern keeps it.
    pub(crate) fn kept_from_agents(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let why = self.roots.iter().find_map(|root| Some((root, workspace.is_ignored(root)?)));
        match why.filter(|(_, why)| why.source != RuleSource::Git) {
            None => Ok(()),
            Some((root, why)) => Err(ToolError::new(
                ToolErrorKind::InvalidToolParams,
                format!(
                    "File path '{}' is ignored by configured ignore patterns (`{}`)",
                    printable(root),
                    why.pattern
                ),
            )),
        }
    }

    /// The name of a found file: relative to a lone root, else absolute, so
    /// that it can be read as it stands.
    pub(crate) fn name(&self, path: &Path) -> String {
        let rest = self.base.as_ref().and_then(|base| path.strip_prefix(base).ok());
        printable(rest.unwrap_or(path)).into_owned()
    }
}

/// A path on one line: control characters are escaped, so that a file's name
/// cannot forge a line of the output.
pub(crate) fn printable(path: &Path) -> Cow<'_, str> {
    let text = path.to_string_lossy();
    let harmful = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    if !text.contains(harmful) {
        return text;
    }
    let mut line = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if harmful(letter) { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    Cow::Owned(line)
}

/// Tells a search on other threads to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it is time to end.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the flag when dropped.
    fn on_drop(&self) -> impl Drop + use<> {
        struct Guard(Stop);
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
pub(crate) enum Ended {
    /// The caller cancelled it.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// It broke off by itself (a bug).
    Failed,
}

/// Runs `work` on a blocking thread until it is done, cancelled or too late.
/// Returns at once when stopped; the threads see the flag and end on their own.
pub(crate) async fn run_blocking<T: Send + 'static>(
    cancel: &CancellationToken,
    limit: Duration,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> Result<T, Ended> {
    let stop = Stop::default();
    let _guard = stop.on_drop();
    let seen = stop.clone();
    let task = tokio::task::spawn_blocking(move || work(&seen));
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Ended::Cancelled),
        result = task => result.map_err(|_| Ended::Failed),
        () = tokio::time::sleep(limit) => Err(Ended::TimedOut),
    }
}

/// Whether a path that a walk came by is in the workspace still, and there: a
/// folder may have been exchanged for a link while the walk went on.
pub(crate) fn is_inside(workspace: &Workspace, path: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|real| workspace.contains(&real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(
            printable(Path::new("a\nFile: b\u{1b}[2J\u{2028}")),
            "a\\nFile: b\\u{1b}[2J\\u{2028}"
        );
        assert_eq!(printable(Path::new("grün \\n")), "grün \\n");
    }
}
