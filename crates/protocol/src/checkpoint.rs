//! Keeping the bytes of files before the agent changes them.

use std::path::{Path, PathBuf};

use crate::event::Undone;
use crate::permissions::Permissions;
use crate::policy::ApprovalMode;
use crate::tool::Effects;

/// What is about to change files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// A tool changes these files.
    Files(&'a [PathBuf]),
    /// This command runs and may change any file of the workspace.
    Command(&'a str),
}

/// Keeps what is there before a change, and gives it back. All functions block.
pub trait Checkpoints: Send + Sync {
    /// What this change, made now, might do for good, for people.
    fn not_undoable(&self, change: Change<'_>) -> Vec<String>;
    /// Keeps what the change may replace.
    ///
    /// # Errors
    /// Why nothing could be kept, for people. The change may go on.
    fn before(&self, turn: u64, change: Change<'_>) -> Result<Box<dyn Kept>, String>;
    /// Files and folders that the agent made in this session.
    fn made(&self) -> Vec<PathBuf>;
    /// What the turns changed and can be undone, the first turn first.
    fn changes(&self) -> Vec<(u64, Vec<PathBuf>)>;
    /// Gives files back what they were before a turn; without a turn, the last
    /// one that changed anything.
    ///
    /// # Errors
    /// Why nothing could be taken back, for people.
    fn undo(&self, turn: Option<u64>, force: bool) -> Result<Undone, String>;
    /// Gives files back what they were before a change that began then
    /// (nanoseconds since 1970). It counts as a change of the turn, so that an undo
    /// of the turn takes it back.
    ///
    /// # Errors
    /// Why nothing could be taken back, for people.
    fn restore(&self, moment: i64, turn: u64, force: bool) -> Result<Undone, String> {
        let _ = (moment, turn, force);
        Err("single changes are not kept here".to_owned())
    }
}

/// What was kept before a change.
pub trait Kept: Send {
    /// What cannot be given back and was not said before, for people.
    fn not_undoable(&self) -> Vec<String>;
    /// The change is about to run with these permissions. If the program is killed while
    /// it does, the next start reverts what this one would have reverted. Blocking.
    fn expect(&mut self, effects: &Effects, granted: &Permissions, mode: ApprovalMode) {
        let _ = (effects, granted, mode);
    }
    /// The change is done. Protected files that it could and had no leave to change
    /// get their bytes back.
    fn after(
        self: Box<Self>,
        effects: &Effects,
        granted: &Permissions,
        mode: ApprovalMode,
        reach: &Reach,
    ) -> PutBack;
}

/// What a program could have written where it ran: a change that it could not have
/// made is somebody else's. Without closed places: anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files and folders that were closed to it, and could not be replaced.
    pub closed: Vec<PathBuf>,
    /// What was open, also inside of those.
    pub open: Vec<PathBuf>,
}

impl Reach {
    /// Whether the program could have written, made or removed this. Of what is
    /// named the deepest decides.
    pub fn holds(&self, path: &Path) -> bool {
        let depth = |paths: &[PathBuf]| {
            let around = paths.iter().filter(|around| path.starts_with(around));
            around.map(|around| around.components().count()).max()
        };
        match depth(&self.closed) {
            Some(closed) => depth(&self.open).is_some_and(|open| open > closed),
            None => true,
        }
    }
}

/// What became of protected files that a command changed without leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutBack {
    /// They are as before.
    pub restored: Vec<PathBuf>,
    /// They are not, each with the reason.
    pub lost: Vec<(PathBuf, String)>,
}

impl PutBack {
    /// Both, where the first is about whole folders: what lies in one is not
    /// named again.
    #[must_use]
    pub fn behind(self, mut folders: Self) -> Self {
        let whole = folders.restored.clone();
        let alone = |path: &PathBuf| !whole.iter().any(|folder| path.starts_with(folder));
        folders.restored.extend(self.restored.into_iter().filter(|path| alone(path)));
        folders.lost.extend(self.lost.into_iter().filter(|(path, _)| alone(path)));
        folders
    }

    /// What is to be said of it to people and models; `None`: nothing.
    pub fn note(&self) -> Option<String> {
        let mut notes = Vec::new();
        if !self.restored.is_empty() {
            let paths: Vec<String> =
                self.restored.iter().map(|path| format!("`{}`", path.display())).collect();
            notes.push(format!(
                "they were put back: {} (what stood there is kept: if you changed them yourself, \
                 `parallax undo --redo` brings it back)",
                paths.join(", ")
            ));
        }
        if !self.lost.is_empty() {
            let lost = self.lost.iter().map(|(path, why)| format!("`{}` ({why})", path.display()));
            let lost: Vec<String> = lost.collect();
            notes.push(format!("these could not be put back: {}", lost.join(", ")));
        }
        let notes = notes.join("; ");
        (!notes.is_empty())
            .then(|| format!("protected files may not be changed by commands; {notes}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_open_and_closed_places_the_deepest_decides() {
        let reach = Reach {
            closed: vec!["/".into(), "/w/.git".into(), "/w/open".into()],
            open: vec!["/w".into(), "/w/.git/objects".into(), "/w/open".into()],
        };
        for (path, holds) in [
            ("/w/a", true),
            ("/w/.git/config", false),
            ("/w/.git", false),
            ("/w/.git/objects/1", true),
            ("/w/.gitignore", true),
            ("/w/open/a", false),
            ("/etc/a", false),
        ] {
            assert_eq!(reach.holds(Path::new(path)), holds, "{path}");
        }
        assert!(Reach::default().holds(Path::new("/etc/a")));
    }
}
