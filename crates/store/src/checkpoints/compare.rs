//! Compares the workspace before and after a command: by metadata if that is conclusive, otherwise
//! by contents.

use std::path::PathBuf;

use super::Checkpoints;
use super::beneath::{Place, look};
use super::command::{CommandMark, Old};
use super::listing::{Entry, Found, WalkResult};
use super::observe::Bytes;
use super::state::{Content, State};

/// Whether a git file was created together with its repository; removing only that file would break
/// the repository.
pub(super) fn is_of_new_repository(place: &Place, before: &State, walked: &WalkResult) -> bool {
    let names: Vec<_> = place.relative.iter().collect();
    let Some(at) = names.iter().position(|name| *name == ".git") else { return false };
    let git: PathBuf = names.iter().take(at + 1).collect();
    let config = Place { root: place.root.clone(), relative: git.join("config") };
    before.is_absent() && at + 1 < names.len() && walked.get(&config).is_none()
}

/// The workspace before and after a command.
pub(super) struct Comparison<'a> {
    pub checkpoints: &'a Checkpoints,
    pub mark: &'a CommandMark,
    pub after: &'a WalkResult,
    /// Number of bytes hashed so far.
    pub budget: u64,
}

impl Comparison<'_> {
    /// Returns the differences: place, state before, state after.
    pub fn run(&mut self) -> Vec<(Place, State, State)> {
        let mut differences = Vec::new();
        let mut after = self.after.entries.iter().peekable();
        for (entry, old) in self.mark.walked.entries.iter().zip(self.mark.old.iter()) {
            while let Some(new) = after.next_if(|new| new.place < entry.place) {
                self.created(new, &mut differences);
            }
            let new = after.next_if(|new| new.place == entry.place);
            self.compare(entry, *old, new, &mut differences);
        }
        for new in after {
            self.created(new, &mut differences);
        }
        differences
    }

    fn created(&mut self, new: &Entry, differences: &mut Vec<(Place, State, State)>) {
        // The entry may have existed in a part that the first walk did not reach.
        if self.mark.walked.is_unseen(new) {
            return;
        }
        if let Some(state) = self.state_after(&new.place, None)
            && !state.is_absent()
        {
            differences.push((new.place.clone(), State::Absent, state));
        }
    }

    fn compare(
        &mut self,
        entry: &Entry,
        old: Option<Old>,
        new: Option<&Entry>,
        differences: &mut Vec<(Place, State, State)>,
    ) {
        // The directory is skipped since then, so its state is unknown.
        if self.after.too_large.contains(&*entry.place.root) {
            return;
        }
        if let Some(new) = new
            && self.is_same(entry, old, new)
        {
            return;
        }
        let before = self.mark.state(entry, old);
        if before == State::Special {
            return;
        }
        let Some(after) = self.state_after(&entry.place, Some(&before)) else { return };
        let unchanged = match (&before, &after) {
            // Only the first walk contains the entry, because it is now ignored.
            (State::File { stamp, .. }, State::File { stamp: now, .. })
                if new.is_none() && stamp == now =>
            {
                true
            }
            _ => before.is_same(&after),
        };
        if !unchanged {
            differences.push((entry.place.clone(), before, after));
        }
    }

    /// Whether the metadata alone shows that nothing changed.
    fn is_same(&self, entry: &Entry, old: Option<Old>, new: &Entry) -> bool {
        match (&entry.found, &new.found) {
            (Found::File { .. }, Found::File { .. }) => {
                entry.stamp == new.stamp
                    && (!entry.stamp.is_racy(self.mark.walked.began)
                        || !matches!(old, Some(Old::Kept(_) | Old::Git(_))))
            }
            (Found::Link(one), Found::Link(two)) => one == two,
            (Found::Folder, Found::Folder) => entry.stamp.mode == new.stamp.mode,
            (Found::Special, Found::Special) => true,
            _ => false,
        }
    }

    /// Returns the current state, or `None` if it cannot be determined.
    fn state_after(&mut self, place: &Place, before: Option<&State>) -> Option<State> {
        let blob = match before {
            Some(State::File { content: Content::Git { top, blob }, .. }) => Some((top, *blob)),
            _ => None,
        };
        let cap = self.checkpoints.options.command_bytes.saturating_mul(4);
        let state = look(place).ok()?;
        let State::File { stamp, .. } = &state else { return Some(state) };
        self.budget = self.budget.saturating_add(stamp.size);
        if self.budget > cap {
            let content = Content::Lost("not read".to_owned());
            return Some(State::File { content, stamp: *stamp });
        }
        self.checkpoints.observe(place, blob, Bytes::Hash).ok()
    }
}
