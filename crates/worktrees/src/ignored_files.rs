//! Ignored files of a worktree. They are in no commit, so removing the worktree deletes them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use parallax_protocol::excerpt::one_line;

/// Maximum number of names in the text.
const MAX_NAMES: usize = 5;
/// Larger trees are not counted to the end.
const MAX_FILES: u64 = 1_000_000;

/// The ignored files of a worktree, without those that were copied from the main checkout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredFiles {
    /// Number of files.
    pub count: u64,
    /// The ignored files and directories that contain them, relative to the worktree.
    pub paths: Vec<PathBuf>,
}

impl IgnoredFiles {
    /// Counts the files in `paths`, which are relative to the worktree `top`, once each, except for
    /// the files and directories in `passed`.
    pub(super) fn count(top: &Path, mut paths: Vec<PathBuf>, passed: &BTreeSet<PathBuf>) -> Self {
        let mut ignored = Self::default();
        // Git lists both a directory with only ignored files and the files in it.
        paths.sort();
        paths.dedup_by(|path, above| path.starts_with(above));
        for path in paths {
            let before = ignored.count;
            let mut pending = vec![path.clone()];
            while let Some(path) = pending.pop().filter(|_| ignored.count < MAX_FILES) {
                // Git ends the names of directories with a slash.
                if passed.contains(&path.components().collect::<PathBuf>()) {
                    continue;
                }
                let full = top.join(&path);
                if full.symlink_metadata().is_ok_and(|data| data.is_dir()) {
                    let entries = std::fs::read_dir(&full).into_iter().flatten().flatten();
                    pending.extend(entries.map(|entry| path.join(entry.file_name())));
                } else {
                    ignored.count += 1;
                }
            }
            if ignored.count > before {
                ignored.paths.push(path);
            }
        }
        ignored
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// `2 ignored files (build/, notes.log)`.
impl fmt::Display for IgnoredFiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.count == 1 { "file" } else { "files" };
        let names = self.paths.iter().take(MAX_NAMES);
        let mut names: Vec<String> = names.map(|path| one_line(&path.to_string_lossy())).collect();
        if self.paths.len() > MAX_NAMES {
            names.push("…".to_owned());
        }
        write!(out, "{} ignored {word} ({})", self.count, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_files_are_counted_once_without_copies() {
        let id = uuid::Uuid::new_v4().simple();
        let top = std::env::temp_dir().join(format!("parallax-ignored-{id}"));
        std::fs::create_dir_all(top.join("out/empty")).expect("directories");
        for name in ["out/a", "out/b", "key", "log"] {
            std::fs::write(top.join(name), "x").expect("a file");
        }
        let listed = ["key", "log", "out/", "out/a", "out/b"].map(PathBuf::from).to_vec();
        let ignored = IgnoredFiles::count(&top, listed, &BTreeSet::from(["key".into()]));
        // It may be gone already.
        let _ = std::fs::remove_dir_all(&top);
        assert_eq!(ignored.to_string(), "3 ignored files (log, out/)");
    }
}
