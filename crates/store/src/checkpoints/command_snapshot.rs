//! The state of the workspace before a command.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::confined_root::ConfinedPath;
use super::content_store::{store_full, too_large};
use super::listing::{EntryKind, WalkResult, WorkspaceEntry};
use super::state::{EncodedPath, GitId, ObjectId, PathState, StoredContent, human_size};

/// Where the old contents of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreviousContent {
    Stored(ObjectId),
    Git(GitId),
    TooLarge,
    Budget,
    /// The file does not need to be saved: commands of this user cannot change it.
    Fixed,
    Ignored,
    Full,
    Unreadable,
}

/// The state of the workspace before a command.
#[derive(Debug, Clone)]
pub struct CommandSnapshot {
    pub(super) turn: u64,
    pub(super) started_at: i64,
    pub(super) walk_result: Arc<WalkResult>,
    /// The old contents, one item for each entry of the walk.
    pub(super) previous_contents: Arc<Vec<Option<PreviousContent>>>,
    pub(super) protected: Vec<PathBuf>,
    pub(super) not_undoable: Vec<String>,
}

impl CommandSnapshot {
    /// Returns which changes by the command could not be undone, as a few lines to show before it
    /// runs.
    pub fn irreversible_changes(&self) -> &[String] {
        &self.not_undoable
    }

    /// Returns the protected files and directories that exist and are saved.
    pub fn protected(&self) -> &[PathBuf] {
        &self.protected
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    pub(super) fn started_at(&self) -> i64 {
        self.started_at
    }

    /// Returns the states of all entries.
    pub(super) fn states(&self) -> impl Iterator<Item = (EncodedPath, PathState)> {
        let entries = self.walk_result.entries.iter().zip(self.previous_contents.iter());
        entries.map(|(entry, old)| {
            (EncodedPath::from_path(&entry.path.path()), self.state(entry, *old))
        })
    }

    /// Returns the states of the protected entries.
    pub(super) fn protected_states(&self) -> impl Iterator<Item = (PathBuf, PathState)> {
        let entries = self.walk_result.entries.iter().zip(self.previous_contents.iter());
        let protected = entries.filter(|(entry, _)| entry.protected);
        protected.map(|(entry, old)| (entry.path.path(), self.state(entry, *old)))
    }

    /// Returns the state of a path.
    pub(super) fn state_at(&self, location: &ConfinedPath) -> Option<PathState> {
        let index =
            self.walk_result.entries.binary_search_by(|entry| entry.path.cmp(location)).ok()?;
        let (entry, old) =
            (self.walk_result.entries.get(index)?, self.previous_contents.get(index)?);
        Some(self.state(entry, *old))
    }

    /// Converts an entry of the walk to a recorded state.
    pub(super) fn state(&self, entry: &WorkspaceEntry, old: Option<PreviousContent>) -> PathState {
        match &entry.kind {
            EntryKind::Folder => PathState::Folder { mode: entry.stamp.mode },
            EntryKind::Link(target) => PathState::Link { target: target.clone() },
            EntryKind::Special => PathState::Special,
            EntryKind::File { top, .. } => {
                let top = || EncodedPath::from_path(top.as_deref().unwrap_or(Path::new("/")));
                let content = match old {
                    Some(PreviousContent::Stored(id)) => StoredContent::Stored(id),
                    Some(PreviousContent::Git(blob)) => StoredContent::Git { top: top(), blob },
                    Some(PreviousContent::TooLarge) => {
                        StoredContent::Unavailable(too_large(entry.stamp.size))
                    }
                    Some(PreviousContent::Full) => StoredContent::Unavailable(store_full()),
                    Some(PreviousContent::Unreadable) => {
                        StoredContent::Unavailable("it could not be read".to_owned())
                    }
                    Some(PreviousContent::Ignored) => StoredContent::Unavailable(format!(
                        "its previous content was not saved (an ignored file of {})",
                        human_size(entry.stamp.size)
                    )),
                    Some(PreviousContent::Fixed) => StoredContent::Unavailable(
                        "its previous content was not saved (not writable by this user)".to_owned(),
                    ),
                    Some(PreviousContent::Budget) | None => StoredContent::Unavailable(
                        "its previous content was not saved (too much to copy before one command)"
                            .to_owned(),
                    ),
                };
                PathState::File { content, stamp: entry.stamp }
            }
        }
    }
}
