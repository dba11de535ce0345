//! Lists the files of the workspace for completion of `@`.

use std::path::{Path, PathBuf};

use parallax_files::WalkOptions;

use crate::expand::Expander;

/// Number of paths per batch.
const PIECE: usize = 1000;

impl Expander {
    /// Returns the directory that relative paths are based on.
    pub fn root(&self) -> PathBuf {
        self.workspace.root().to_owned()
    }

    /// Lists files and directories (with a trailing `/`) of all workspace directories in batches.
    /// Stops when `piece` returns `false`. Paths are relative to the root, or absolute in other
    /// directories. Skips ignored files and names that cannot be typed. Blocking: call it on a
    /// separate thread.
    pub fn list_files(&self, piece: &mut dyn FnMut(Vec<String>) -> bool) {
        let root = self.workspace.root();
        let roots = self.workspace.roots();
        let max_depth = (!self.file_search().recursive).then_some(1);
        let options = WalkOptions { threads: 1, max_depth, ..WalkOptions::default() };
        let mut paths = Vec::new();
        for entry in parallax_files::walk(&self.workspace, &roots, &options).build().flatten() {
            if entry.depth() == 0 {
                continue;
            }
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            let path = entry.path();
            paths.extend(name(path.strip_prefix(root).unwrap_or(path), is_directory));
            if paths.len() == PIECE && !piece(std::mem::take(&mut paths)) {
                return;
            }
        }
        if !paths.is_empty() {
            piece(paths);
        }
    }
}

/// Returns a path as text, or `None` if it is not valid UTF-8.
fn name(path: &Path, is_directory: bool) -> Option<String> {
    let path = path.to_str()?;
    Some(if is_directory { format!("{path}/") } else { path.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parallax_files::{SeenFiles, Workspace, WorkspaceOptions};

    use super::*;
    use crate::expand::FileSearch;

    #[test]
    fn ignored_files_are_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("project");
        let other = directory.path().join("other");
        for path in ["project/src", "project/target", "project/.git", "other"] {
            std::fs::create_dir_all(directory.path().join(path)).unwrap();
        }
        for path in ["project/src/a.rs", "project/target/b", "project/\u{1b}x", "other/c.md"] {
            std::fs::write(directory.path().join(path), "").unwrap();
        }
        std::fs::write(root.join(".gitignore"), "target\n").unwrap();
        let options = WorkspaceOptions {
            root: root.clone(),
            additional: vec![other.clone()],
            ..WorkspaceOptions::default()
        };
        let workspace = Arc::new(Workspace::new(options).unwrap());
        let expander = Expander::new(&workspace, &Arc::new(SeenFiles::default()), None);
        let mut found = Vec::new();
        expander.list_files(&mut |paths| {
            found.extend(paths);
            true
        });
        let flat = FileSearch { recursive: false, is_fuzzy: true };
        let mut top = Vec::new();
        expander.clone().with_search(flat).list_files(&mut |paths| {
            top.extend(paths);
            true
        });
        assert!(top.contains(&"src/".to_owned()) && !top.contains(&"src/a.rs".to_owned()));
        found.sort();
        let mut expected = vec![
            ".gitignore".to_owned(),
            "src/".to_owned(),
            "src/a.rs".to_owned(),
            "\u{1b}x".to_owned(),
            other.join("c.md").display().to_string(),
        ];
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn listing_stops_when_the_consumer_stops() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..(PIECE * 2 + 10) {
            std::fs::write(root.path().join(number.to_string()), "").unwrap();
        }
        let options =
            WorkspaceOptions { root: root.path().to_owned(), ..WorkspaceOptions::default() };
        let workspace = Arc::new(Workspace::new(options).unwrap());
        let expander = Expander::new(&workspace, &Arc::new(SeenFiles::default()), None);
        let mut pieces = 0;
        expander.list_files(&mut |_| {
            pieces += 1;
            false
        });
        assert_eq!(pieces, 1);
    }
}
