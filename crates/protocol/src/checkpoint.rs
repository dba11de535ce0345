//! Checkpoints of files before the agent changes them.

use std::path::PathBuf;

use crate::approval_mode::ApprovalMode;
use crate::event::UndoResult;
use crate::permissions::Permissions;
use crate::tool::Effects;

pub use crate::write_scope::WriteScope;

/// An operation that is about to change files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingChange<'a> {
    /// A tool changes these files.
    Files(&'a [PathBuf]),
    /// A command runs and may change any file of the workspace.
    Command(&'a str),
}

/// Saves files before a change and restores them. All functions block.
pub trait Checkpoints: Send + Sync {
    /// Returns the effects of this change that could not be undone, for the user.
    fn irreversible_changes(&self, change: PendingChange<'_>) -> Vec<String>;
    /// Saves the files that the change may replace.
    ///
    /// # Errors
    /// Returns a message for the user if nothing could be saved. The change may proceed.
    fn save_before(
        &self,
        turn: u64,
        change: PendingChange<'_>,
    ) -> Result<Box<dyn CheckpointGuard>, String>;
    /// Returns the files and directories that the agent created in this session.
    fn created_paths(&self) -> Vec<PathBuf>;
    /// Returns the files that each turn changed and that can be reverted, in the order of the
    /// turns.
    fn changes(&self) -> Vec<(u64, Vec<PathBuf>)>;
    /// Restores files to their state before a turn; without a turn, before the last one that
    /// changed files.
    ///
    /// # Errors
    /// Returns a message for the user if nothing could be reverted.
    fn undo(&self, turn: Option<u64>, force: bool) -> Result<UndoResult, String>;
    /// Restores files to their state before a change that began at `moment` (nanoseconds since
    /// 1970). This counts as a change of `turn`, so that undoing the turn reverts it.
    ///
    /// # Errors
    /// Returns a message for the user if nothing could be restored.
    fn restore(&self, moment: i64, turn: u64, force: bool) -> Result<UndoResult, String> {
        let _ = (moment, turn, force);
        Err("single changes are not recorded here".to_owned())
    }
}

/// A checkpoint that was saved before a change.
pub trait CheckpointGuard: Send {
    /// Returns what cannot be restored and was not reported before, for the user.
    fn irreversible_changes(&self) -> Vec<String>;
    /// Records that the change is about to run with these permissions. If the program is killed
    /// while it runs, the next start reverts what [`CheckpointGuard::finish`] would have reverted.
    /// Blocking.
    fn expect(&mut self, effects: &Effects, granted: &Permissions, mode: ApprovalMode) {
        let _ = (effects, granted, mode);
    }
    /// Ends the change. Protected files that it changed without permission are restored.
    fn finish(
        self: Box<Self>,
        effects: &Effects,
        granted: &Permissions,
        mode: ApprovalMode,
        write_scope: &WriteScope,
    ) -> RevertedFiles;
}

/// Maximum number of paths in a list of a note.
const MAX_NAMED: usize = 50;

/// The result for protected files that a command changed without permission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevertedFiles {
    /// Files that were restored.
    pub restored: Vec<PathBuf>,
    /// New files and directories that were moved away instead of being saved and removed.
    pub moved_away: Vec<PathBuf>,
    /// The directories that contain them until the next start.
    pub moved_to: Vec<PathBuf>,
    /// Files that could not be restored, each with the reason.
    pub unrestored: Vec<(PathBuf, String)>,
    /// Directories that could not be searched completely, each with the reason.
    pub unsearched: Vec<(PathBuf, String)>,
    /// Changed programs that are no longer setuid or setgid.
    pub set_id: Vec<PathBuf>,
}

impl RevertedFiles {
    /// Combines both, where `folders` is about whole directories: paths inside one of them are not
    /// listed again.
    #[must_use]
    pub fn combine(self, mut folders: Self) -> Self {
        let whole = folders.restored.clone();
        let alone = |path: &PathBuf| !whole.iter().any(|directory| path.starts_with(directory));
        folders.restored.extend(self.restored.into_iter().filter(|path| alone(path)));
        folders.unrestored.extend(self.unrestored.into_iter().filter(|(path, _)| alone(path)));
        folders.moved_away.extend(self.moved_away);
        folders.moved_to.extend(self.moved_to);
        folders.unsearched.extend(self.unsearched);
        folders.set_id.extend(self.set_id);
        folders
    }

    /// Returns a note for the user and the model; `None` if there is nothing to report.
    pub fn note(&self) -> Option<String> {
        let listed = |mut names: Vec<String>, count: usize| {
            if count > names.len() {
                names.push(format!("and {} more", count - names.len()));
            }
            names.join(", ")
        };
        let names = |paths: &[PathBuf]| {
            let names = paths.iter().take(MAX_NAMED).map(|path| format!("`{}`", path.display()));
            listed(names.collect(), paths.len())
        };
        let reasons = |paths: &[(PathBuf, String)]| {
            let names = paths
                .iter()
                .take(MAX_NAMED)
                .map(|(path, reason)| format!("`{}` ({reason})", path.display()));
            listed(names.collect(), paths.len())
        };
        let mut notes = Vec::new();
        if !self.restored.is_empty() {
            notes.push(format!(
                "they were restored: {} (the replaced contents are saved: if you made the change \
                 yourself, run `parallax undo --redo` to reapply it)",
                names(&self.restored)
            ));
        }
        if !self.moved_away.is_empty() {
            notes.push(format!(
                "new ones were too many or nested too deep to be saved, so they were moved to {}, \
                 which is removed when Parallax starts the next time: {}",
                names(&self.moved_to),
                names(&self.moved_away)
            ));
        }
        if !self.unrestored.is_empty() {
            notes.push(format!("could not restore: {}", reasons(&self.unrestored)));
        }
        if !self.unsearched.is_empty() {
            let unsearched = reasons(&self.unsearched);
            notes.push(format!("check these for files that should not be there: {unsearched}"));
        }
        let mut note = notes.join("; ");
        if !note.is_empty() {
            note.insert_str(0, "commands cannot change protected files; ");
        }
        if !self.set_id.is_empty() {
            let end = if note.is_empty() { "" } else { "; " };
            note.push_str(&format!(
                "{end}the command changed setuid or setgid programs, so their set-ID bits were \
                 removed: {}",
                names(&self.set_id)
            ));
        }
        (!note.is_empty()).then_some(note)
    }
}
