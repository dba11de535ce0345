//! Worktrees of the subagents that a session in another worktree started.

use std::collections::HashSet;
use std::path::PathBuf;

use parallax_config::worktrees::{WorktreeRecord, record_file};
use parallax_protocol::event::Failure;

use crate::contents::Contents;
use crate::{Worktree, manage};

impl Worktree {
    /// Removes the worktrees of subagents whose work `commit` contains. Returns the others. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn remove_merged_children(&self, commit: &str) -> Result<Vec<PathBuf>, Failure> {
        let project = self.record.path.parent().unwrap_or(&self.record.path);
        let mut others = Vec::new();
        for record in manage::records(project) {
            if self.record.id.is_empty() || record.parent.as_ref() != Some(&self.record.id) {
                continue;
            }
            let lock = manage::lock_if_unused(&record_file(project, &record.name));
            // What cannot be read may be work.
            if lock.is_some() && is_in(&record, commit).unwrap_or(false) {
                manage::delete(&record)?;
            } else {
                others.push(record.path);
            }
        }
        Ok(others)
    }
}

/// Whether a commit contains the work of a worktree: its commits, or the files that they changed.
fn is_in(record: &WorktreeRecord, commit: &str) -> Result<bool, Failure> {
    let contents = Contents::read(record)?;
    if record.path.exists() && contents.is_dirty()? {
        return Ok(false);
    }
    let git = contents.git();
    for tip in contents.tips() {
        let missing = git.line(&["rev-list", "--max-count=1", &tip, "--not", commit])?;
        if missing.is_empty() {
            continue;
        }
        let names = ["diff-tree", "-r", "-z", "--no-renames", "--name-only"];
        let changed = git.paths(&[names.as_slice(), &[&record.base, &tip]].concat())?;
        let different = git.paths(&[names.as_slice(), &[commit, &tip]].concat())?;
        let different: HashSet<PathBuf> = different.into_iter().collect();
        if changed.iter().any(|path| different.contains(path)) {
            return Ok(false);
        }
    }
    Ok(true)
}
