//! Tests of the `files` crate with real files.
#![cfg(test)]

mod confinement;
mod ignoring;
mod reading;
mod tree;
mod writing;

use parallax_files::{Workspace, WorkspaceOptions};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A workspace in a new directory, with a sibling directory outside it.
pub(crate) struct TestWorkspace {
    pub(crate) folder: TempDir,
    pub(crate) workspace: Workspace,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    pub(crate) fn with(change: impl FnOnce(&Path, &mut WorkspaceOptions)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["work", "temp", "outside"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let mut options = WorkspaceOptions {
            root: folder.path().join("work"),
            temp: folder.path().join("temp"),
            ..WorkspaceOptions::default()
        };
        change(folder.path(), &mut options);
        let workspace = Workspace::new(options).expect("a workspace");
        Self { folder, workspace }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("real").join(name)
    }

    pub(crate) fn write_file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("readable")
    }
}
