//! A temporary directory for untrusted files.

use std::path::{Path, PathBuf};

/// A temporary directory that is removed with everything in it, at any depth. The standard
/// library's function is recursive, and an archive may have any number of levels.
#[derive(Debug)]
pub(crate) struct TemporaryTree(PathBuf);

impl TemporaryTree {
    /// Takes over an existing directory.
    pub(crate) fn at(directory: PathBuf) -> Self {
        Self(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryTree {
    fn drop(&mut self) {
        if let Err(error) = parallax_files::remove_tree(self.path()) {
            tracing::debug!(%error, "failed to remove a temporary directory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_directories_are_removed_without_recursion() {
        let tree = TemporaryTree::at(tempfile::tempdir().expect("a directory").keep());
        let path = tree.path().to_owned();
        let script = "p=$(printf 'd/%.0s' $(seq 1500)); mkdir -p $p && cd $p && mkdir -p $p";
        let time = std::time::Duration::from_secs(60);
        let created = parallax_exec::program::output("sh", ["-c", script], &path, &[], 1, time);
        assert!(created.is_some());
        drop(tree);
        assert!(!path.exists());
    }
}
