//! What protected links of a workspace and of the home directory point to: as protected as the
//! links themselves, for the policy engine, the sandbox, and checkpoints.

use std::collections::HashSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files and directories below workspace directories that are protected although their names are
/// not, including everything below: where protected links point, each link on the way, and the
/// parts of git directories with other names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LinkTargets {
    paths: HashSet<PathBuf>,
    git_directories: Vec<PathBuf>,
}

impl LinkTargets {
    /// Creates the set.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { paths: paths.into_iter().collect(), git_directories: Vec::new() }
    }

    /// Adds the git directories below workspace directories that are not named `.git`.
    pub fn with_git_directories(self, git_directories: Vec<PathBuf>) -> Self {
        Self { git_directories, ..self }
    }

    /// Whether a path is one of them or below one.
    pub fn contains(&self, path: &Path) -> bool {
        !self.paths.is_empty() && path.ancestors().any(|ancestor| self.paths.contains(ancestor))
    }

    /// Whether a path is in a git directory, which only git writes.
    pub fn is_in_git_directory(&self, path: &Path) -> bool {
        self.git_directories.iter().any(|directory| path.starts_with(directory))
    }

    /// Returns the one that is the path or the outermost directory around it.
    pub fn containing_target(&self, path: &Path) -> Option<&PathBuf> {
        path.ancestors().filter_map(|ancestor| self.paths.get(ancestor)).last()
    }
}

/// Finds what protected links point to.
pub trait FindLinkTargets: Debug + Send + Sync {
    /// Searches these workspace directories, whose paths must be resolved. Blocking.
    fn link_targets(&self, roots: &[PathBuf]) -> Arc<LinkTargets>;

    /// Like [`Self::link_targets`], after links were made, so that no earlier search counts.
    fn link_targets_now(&self, roots: &[PathBuf]) -> Arc<LinkTargets> {
        self.link_targets(roots)
    }
}
