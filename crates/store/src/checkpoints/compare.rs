//! Compares the workspace before and after a command: by metadata if that is conclusive, otherwise
//! by contents.

use std::path::PathBuf;

use super::Checkpoints;
use super::command_snapshot::{CommandSnapshot, PreviousContent};
use super::confined_root::{ConfinedPath, read_state};
use super::content_store::ContentHandling;
use super::listing::{EntryKind, WalkResult, WorkspaceEntry};
use super::protected::MAX_REMOVED;
use super::state::{PathState, StoredContent};

/// Whether a git file was created together with its repository; removing only that file would break
/// the repository.
pub(super) fn is_in_new_repository(
    location: &ConfinedPath,
    before: &PathState,
    walked: &WalkResult,
) -> bool {
    let names: Vec<_> = location.relative.iter().collect();
    let Some(index) = names.iter().position(|name| *name == ".git") else { return false };
    let git: PathBuf = names.iter().take(index + 1).collect();
    let config = ConfinedPath { root: location.root.clone(), relative: git.join("config") };
    before.is_absent() && index + 1 < names.len() && walked.get(&config).is_none()
}

/// The workspace before and after a command.
pub(super) struct Comparison<'a> {
    pub checkpoints: &'a Checkpoints,
    pub mark: &'a CommandSnapshot,
    pub after: &'a WalkResult,
    /// Number of bytes hashed so far.
    pub budget: u64,
    /// Number of new protected entries so far.
    pub new_protected: usize,
}

impl Comparison<'_> {
    /// Returns the differences: place, state before, state after.
    pub fn run(&mut self) -> Vec<(ConfinedPath, PathState, PathState)> {
        let mut differences = Vec::new();
        let mut after = self.after.entries.iter().peekable();
        for (entry, old) in
            self.mark.walk_result.entries.iter().zip(self.mark.previous_contents.iter())
        {
            while let Some(new) = after.next_if(|new| new.path < entry.path) {
                self.record_created(new, &mut differences);
            }
            let new = after.next_if(|new| new.path == entry.path);
            self.compare(entry, *old, new, &mut differences);
        }
        for new in after {
            self.record_created(new, &mut differences);
        }
        differences
    }

    fn record_created(
        &mut self,
        new: &WorkspaceEntry,
        differences: &mut Vec<(ConfinedPath, PathState, PathState)>,
    ) {
        // The entry may have existed in a part that the first walk did not reach.
        if self.mark.walk_result.is_unseen(new) {
            return;
        }
        let state = match new.protected && self.is_over_limit() {
            true => Some(self.mark.state(new, None)),
            false => self.state_after(&new.path, None),
        };
        if let Some(state) = state
            && !state.is_absent()
        {
            differences.push((new.path.clone(), PathState::Absent, state));
        }
    }

    /// Whether a new protected entry is one of too many. Their contents are not read, because they
    /// are moved away instead of being saved.
    fn is_over_limit(&mut self) -> bool {
        self.new_protected += 1;
        self.new_protected > MAX_REMOVED
    }

    fn compare(
        &mut self,
        entry: &WorkspaceEntry,
        old: Option<PreviousContent>,
        new: Option<&WorkspaceEntry>,
        differences: &mut Vec<(ConfinedPath, PathState, PathState)>,
    ) {
        // The directory is skipped since then, so its state is unknown.
        if self.after.too_large.contains(&*entry.path.root) {
            return;
        }
        if let Some(new) = new
            && self.is_same(entry, old, new)
        {
            return;
        }
        let before = self.mark.state(entry, old);
        if before == PathState::Special {
            return;
        }
        let Some(after) = self.state_after(&entry.path, Some(&before)) else { return };
        let unchanged = match (&before, &after) {
            // Only the first walk contains the entry, because it is now ignored.
            (PathState::File { stamp, .. }, PathState::File { stamp: now, .. })
                if new.is_none() && stamp == now =>
            {
                true
            }
            _ => before.is_same(&after),
        };
        if !unchanged {
            differences.push((entry.path.clone(), before, after));
        }
    }

    /// Whether the metadata alone shows that nothing changed.
    fn is_same(
        &self,
        entry: &WorkspaceEntry,
        old: Option<PreviousContent>,
        new: &WorkspaceEntry,
    ) -> bool {
        match (&entry.kind, &new.kind) {
            (EntryKind::File { .. }, EntryKind::File { .. }) => {
                entry.stamp == new.stamp
                    && (!entry.stamp.may_change_unnoticed(self.mark.walk_result.started_at)
                        || !matches!(
                            old,
                            Some(PreviousContent::Stored(_) | PreviousContent::Git(_))
                        ))
            }
            (EntryKind::Link(one), EntryKind::Link(two)) => one == two,
            (EntryKind::Folder, EntryKind::Folder) => entry.stamp.mode == new.stamp.mode,
            (EntryKind::Special, EntryKind::Special) => true,
            _ => false,
        }
    }

    /// Returns the current state, or `None` if it cannot be determined.
    fn state_after(
        &mut self,
        location: &ConfinedPath,
        before: Option<&PathState>,
    ) -> Option<PathState> {
        let blob = match before {
            Some(PathState::File { content: StoredContent::Git { top, blob }, .. }) => {
                Some((top, *blob))
            }
            _ => None,
        };
        let cap = self.checkpoints.options.command_bytes.saturating_mul(4);
        let state = read_state(location).ok()?;
        let PathState::File { stamp, .. } = &state else { return Some(state) };
        self.budget = self.budget.saturating_add(stamp.size);
        if self.budget > cap {
            let content = StoredContent::Unavailable("not read".to_owned());
            return Some(PathState::File { content, stamp: *stamp });
        }
        self.checkpoints.contents.snapshot(location, blob, ContentHandling::Hash).ok()
    }
}
