//! What protected links of a workspace and of the home directory lead to: as protected as the links
//! themselves, for the policy engine, the sandbox, and checkpoints.

use std::collections::HashSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files and directories below workspace directories that are protected although their names are
/// not, including everything below: where protected links lead, each link on the way, and the parts
/// of git directories with other names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LinkTargets(HashSet<PathBuf>);

impl LinkTargets {
    /// Creates the set.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(paths.into_iter().collect())
    }

    /// Whether a path is one of them or below one.
    pub fn hold(&self, path: &Path) -> bool {
        !self.0.is_empty() && path.ancestors().any(|above| self.0.contains(above))
    }

    /// Returns the one that is the path or the outermost directory around it.
    pub fn around(&self, path: &Path) -> Option<&PathBuf> {
        path.ancestors().filter_map(|above| self.0.get(above)).last()
    }
}

/// Finds what protected links lead to.
pub trait FindLinkTargets: Debug + Send + Sync {
    /// Searches these workspace directories, whose paths must be resolved. Blocking.
    fn link_targets(&self, roots: &[PathBuf]) -> Arc<LinkTargets>;
}
