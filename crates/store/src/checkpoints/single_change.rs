//! Single changes of a session: lists them, previews restoring to one, and restores.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use parallax_protocol::event::UndoResult;

use super::confined_root::{EntryHandle, read_state};
use super::record::Record;
use super::state::{PathState, StoredContent};
use super::undo::{CHANGED_BETWEEN, NOT_EMPTY, RestoreCandidate};
use super::{ChangeKind, ChangeOrigin, CheckpointError, Checkpoints};

/// Size limit in bytes of a string in a preview.
const MAX_SHOWN: u64 = 1024 * 1024;

/// A change made by a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// When it began, in nanoseconds since 1970; identifies the change for
    /// [`Checkpoints::restore_before`].
    pub change_time: i64,
    /// The turn.
    pub turn: u64,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// What restoring would do to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePreview {
    /// The file or directory.
    pub path: PathBuf,
    /// What would happen: created, changed, or removed.
    pub kind: ChangeKind,
    /// Why the path would be left alone, if it would.
    pub skip_reason: Option<String>,
    /// The current text; `None` if the file does not exist, is not text, or is too large.
    pub current_text: Option<String>,
    /// The text after restoring.
    pub restored_text: Option<String>,
}

impl Checkpoints {
    /// Returns the changes made by tools that were not undone, oldest first.
    ///
    /// # Errors
    /// Returns an error if the records cannot be read.
    pub fn edits(&self) -> Result<Vec<Edit>, CheckpointError> {
        let journal = self.lock_refreshed()?;
        let history = &journal.history;
        let stands = |turn: u64, path: &PathBuf| {
            history.turns.get(&turn).is_some_and(|turn| turn.changes.contains_key(path))
        };
        let mut edits: Vec<Edit> = Vec::new();
        for single in
            history.single_changes.iter().filter(|single| single.changed_by == ChangeOrigin::Edit)
        {
            let files: Vec<PathBuf> = single.files.iter().map(|(path, ..)| path.clone()).collect();
            let known = edits.iter().any(|edit| edit.change_time == single.started_at);
            if !known && files.iter().any(|path| stands(single.turn, path)) {
                edits.push(Edit { change_time: single.started_at, turn: single.turn, files });
            }
        }
        edits.sort_by_key(|edit| edit.change_time);
        Ok(edits)
    }

    /// Restores files to their state before the change that began at this time, including all later
    /// changes of the session. Recorded as a change of `turn`, so that undoing that turn reverts
    /// the restoration. Like an undo, leaves files alone that others changed since, unless
    /// `undo_forced` is set.
    ///
    /// # Errors
    /// Returns an error if nothing changed since, or the records cannot be read or written.
    pub fn restore_before(
        &self,
        moment: i64,
        turn: u64,
        force: bool,
    ) -> Result<UndoResult, CheckpointError> {
        self.recover();
        let candidates = self.restore_candidates(|_, began| began >= moment)?;
        if candidates.is_empty() {
            return Err(CheckpointError::NothingToUndo);
        }
        let began = self.next_timestamp();
        let outcome = self.restore_all(candidates, force, &BTreeMap::new());
        let undone = outcome.to_undo_result(turn);
        if !outcome.files.is_empty() {
            let (ended, by, files) = (self.next_timestamp(), ChangeOrigin::Edit, outcome.files);
            self.append(&Record::Changed { turn, began, ended, by, files })?;
        }
        Ok(undone)
    }

    /// Returns what restoring to the state before a turn would do to files, without changing
    /// anything.
    ///
    /// # Errors
    /// Returns an error if the records cannot be read.
    pub fn preview_restore(&self, turn: u64) -> Result<Vec<RestorePreview>, CheckpointError> {
        self.recover();
        let candidates = self.restore_candidates(|number, _| number >= turn)?;
        let Some((roots, _)) = self.roots_and_workspace() else { return Ok(Vec::new()) };
        let mut foreseen = Vec::new();
        let mut directories = Vec::new();
        for RestoreCandidate { path, before, after, foreign_state } in candidates {
            let is_half = foreign_state.as_ref().is_some_and(|others| !others.is_same(&before));
            let before = foreign_state.unwrap_or(before);
            let Some(location) = roots.locate(&path) else { continue };
            let Ok(now) = read_state(&location) else { continue };
            let planned = self.plan(&roots, &path, before.clone(), after, false, None);
            let skip_reason = match planned {
                Ok(None) => continue,
                Ok(Some(_)) => is_half.then(|| CHANGED_BETWEEN.to_owned()),
                Err(skipped) => Some(skipped.reason),
            };
            let kind = match (before.is_absent(), now.is_absent()) {
                (true, true) => continue,
                (true, false) => ChangeKind::Deleted,
                (false, true) => ChangeKind::Created,
                (false, false) => ChangeKind::Changed,
            };
            let text_now = match &now {
                PathState::File { stamp, .. } if stamp.size <= MAX_SHOWN => {
                    let opened = EntryHandle::open(&location, false).and_then(|leaf| leaf.file());
                    opened.ok().and_then(|(file, _)| read_some(file))
                }
                _ => None,
            };
            let restored_text = self.text_of(&before);
            if text_now.is_some() && text_now == restored_text.clone().map(String::into_bytes) {
                continue;
            }
            let is_directory = matches!(now, PathState::Folder { .. });
            if is_directory && kind == ChangeKind::Deleted && skip_reason.is_none() {
                directories.push(foreseen.len());
            }
            let current_text = text_now.and_then(|bytes| String::from_utf8(bytes).ok());
            foreseen.push(RestorePreview { path, kind, skip_reason, current_text, restored_text });
        }
        mark_filled_directories(&mut foreseen, directories);
        Ok(foreseen)
    }

    /// Returns the first state before and the last state after the matching changes (by turn and
    /// start time), for each path.
    fn restore_candidates(
        &self,
        fits: impl Fn(u64, i64) -> bool,
    ) -> Result<Vec<RestoreCandidate>, CheckpointError> {
        let journal = self.lock_refreshed()?;
        let history = &journal.history;
        let mut first: BTreeMap<&Path, (i64, &PathState)> = BTreeMap::new();
        let mut foreign_state: BTreeMap<&Path, (i64, &PathState)> = BTreeMap::new();
        for single in
            history.single_changes.iter().filter(|single| fits(single.turn, single.started_at))
        {
            for (path, before, by_others) in &single.files {
                let known = first.entry(path).or_insert((single.started_at, before));
                if single.started_at < known.0 {
                    *known = (single.started_at, before);
                }
                if *by_others
                    && foreign_state
                        .get(path.as_path())
                        .is_none_or(|(at, _)| single.started_at >= *at)
                {
                    foreign_state.insert(path, (single.started_at, before));
                }
            }
        }
        let candidates = first.into_iter().map(|(path, (began, before))| RestoreCandidate {
            path: path.to_path_buf(),
            before: before.clone(),
            after: history.last.get(path).cloned(),
            // If others changed the file before the first of these changes, that is the state to
            // restore.
            foreign_state: foreign_state
                .get(path)
                .filter(|(at, _)| *at > began)
                .map(|(_, state)| (*state).clone()),
        });
        Ok(candidates.collect())
    }

    /// Returns the contents of a saved state as text.
    fn text_of(&self, state: &PathState) -> Option<String> {
        let PathState::File { content, stamp } = state else { return None };
        if stamp.size > MAX_SHOWN {
            return None;
        }
        let bytes = match content {
            StoredContent::Stored(id) => {
                read_some(File::open(self.contents.objects.path(id)).ok()?)?
            }
            StoredContent::Git { top, blob } => {
                (self.options.blobs.as_ref()?.0)(&top.path(), &blob.hex()).ok()?
            }
            StoredContent::Hashed(_) | StoredContent::Unavailable(_) => return None,
        };
        String::from_utf8(bytes).ok()
    }
}

fn read_some(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_SHOWN + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_SHOWN).then_some(bytes)
}

/// Marks directories as kept if they would be removed but contain something that stays.
/// `directories` are their indexes, in path order.
fn mark_filled_directories(foreseen: &mut [RestorePreview], directories: Vec<usize>) {
    let goes = |one: &RestorePreview| one.kind == ChangeKind::Deleted && one.skip_reason.is_none();
    let mut going: HashSet<PathBuf> =
        foreseen.iter().filter(|one| goes(one)).map(|one| one.path.clone()).collect();
    // A nested directory comes after its parent.
    for location in directories.into_iter().rev() {
        let Some(folder) = foreseen.get_mut(location) else { continue };
        let Ok(mut entries) = std::fs::read_dir(&folder.path) else { continue };
        if entries.any(|entry| entry.is_ok_and(|entry| !going.contains(&entry.path()))) {
            going.remove(&folder.path);
            folder.skip_reason = Some(NOT_EMPTY.to_owned());
        }
    }
}
