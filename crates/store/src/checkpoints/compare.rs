//! The workspace before and after a command, compared: by the facts of the
//! system where they tell, by the bytes where they do not.

use std::path::PathBuf;

use super::Checkpoints;
use super::beneath::{Place, look};
use super::command::{CommandMark, Old};
use super::observe::Bytes;
use super::state::{Content, State};
use super::walk::{Entry, Found, Walked};

/// Whether a file of git was created together with its repository: taking that
/// single file away would only break the repository.
pub(super) fn is_of_new_repository(place: &Place, before: &State, walked: &Walked) -> bool {
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
    pub after: &'a Walked,
    /// Bytes hashed so far.
    pub budget: u64,
}

impl Comparison<'_> {
    /// What differs: place, state before, state after.
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
        // It may have been there, where the first walk did not look.
        if self.mark.walked.is_unseen(&new.place) {
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
        // It was left out since: nothing is known of it.
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
            // Seen by the first walk only, because it is ignored by now.
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

    /// Whether the facts alone say that nothing happened.
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

    /// What is there now; `None` when it cannot be told.
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
