//! Undo and redo: restores saved file contents and leaves files alone that others changed since.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parallax_protocol::event::UndoResult;
use rustix::fs::FileType;

use super::command::Changes;
use super::confined_root::{
    ConfinedPath, EntryHandle, Roots, is_missing, open_root, permission_bits, read_state,
    set_folder_mode,
};
use super::content_store::{ContentHandling, is_full};
use super::history::UndoneFiles;
use super::missing::{UnrestoredFiles, identity, rename_back, unavailable_contents};
use super::objects::{blob_id, file_blob_id, hash_of};
use super::protected::{is_in_broken_repository, is_nested_too_deep};
use super::record::{FileRecord, Record};
use super::state::{EncodedPath, PathState, Stamp, StoredContent};
use super::{ChangeOrigin, CheckpointError, Checkpoints};

/// Why a file was restored only partially.
pub(super) const CHANGED_BETWEEN: &str = "it was changed between two changes by the agent, and \
    that change is preserved";

/// A path to restore, with the states before and after the change.
pub(super) struct RestoreCandidate {
    pub(super) path: PathBuf,
    pub(super) before: PathState,
    pub(super) after: Option<PathState>,
    /// The state that other processes left between two changes.
    pub(super) foreign_state: Option<PathState>,
}

/// A path that must be restored.
pub(super) struct RestoreTarget {
    confined_path: ConfinedPath,
    path: PathBuf,
    before: PathState,
    /// The current state, whose contents are saved so that nothing is lost.
    current_state: PathState,
}

/// The result for each wanted path.
#[derive(Default)]
pub(super) struct UndoOutcome {
    pub(super) files: Vec<FileRecord>,
    skipped: Vec<(PathBuf, String)>,
    force_helps: bool,
}

/// Why a path is left alone.
pub(super) struct SkipReason {
    pub(super) reason: String,
    /// Whether a forced undo would restore it.
    force_helps: bool,
}

/// Why a created directory that contains other files is not removed.
pub(super) const NOT_EMPTY: &str = "it contains other files";

/// Why a file is left alone that a later prompt changed; that prompt must be undone first.
const CHANGED_AGAIN: &str = "a later prompt changed it again";

impl<T: Into<String>> From<T> for SkipReason {
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), force_helps: false }
    }
}

impl UndoOutcome {
    fn record_skipped(&mut self, path: &Path, why: impl Into<SkipReason>) {
        let SkipReason { reason, force_helps } = why.into();
        self.skipped.push((path.to_path_buf(), reason));
        self.force_helps |= force_helps;
    }

    pub(super) fn to_undo_result(&self, turn: u64) -> UndoResult {
        let restored = self.files.iter().map(|file| file.path.path()).collect();
        UndoResult {
            turn,
            prompt: None,
            restored,
            skipped: self.skipped.clone(),
            force_helps: self.force_helps,
            problem: None,
        }
    }
}

impl Checkpoints {
    /// Restores the file contents from before a turn: the given one, or the last one that was not
    /// undone yet. Files that others changed since are left alone and reported, unless
    /// `undo_forced` is set; their contents are saved even then. The undo is recorded.
    ///
    /// # Errors
    /// Returns an error if there is nothing to undo, or the records cannot be read or written.
    pub fn undo(&self, turn: Option<u64>, force: bool) -> Result<UndoResult, CheckpointError> {
        self.recover();
        let (turn, changes) = {
            let journal = self.lock_refreshed()?;
            let history = &journal.history;
            let number = match turn {
                Some(turn) => turn,
                None => history.last_turn(force).ok_or(CheckpointError::NothingToUndo)?,
            };
            let found = history.turns.get(&number).filter(|turn| !turn.changes.is_empty());
            let found = found.ok_or(CheckpointError::UnknownTurn { turn: number })?;
            let changes = found.changes.iter().map(|(path, change)| {
                let later = history.next_change(number, path);
                let due = RestoreCandidate {
                    path: path.clone(),
                    before: change.before.clone(),
                    after: change.after.clone(),
                    foreign_state: change.foreign_state.clone(),
                };
                (due, later)
            });
            (number, changes.collect::<Vec<_>>())
        };
        let later: BTreeMap<PathBuf, u64> =
            changes.iter().filter_map(|(due, later)| Some((due.path.clone(), (*later)?))).collect();
        let changes = changes.into_iter().map(|(due, _)| due);
        let outcome = self.restore_all(changes.collect(), force, &later);
        let undone = outcome.to_undo_result(turn);
        let skipped_paths =
            outcome.skipped.iter().map(|(path, _)| EncodedPath::from_path(path)).collect();
        let at = self.next_timestamp();
        self.append(&Record::Undone { turn, at, files: outcome.files, kept: skipped_paths })?;
        Ok(undone)
    }

    /// Reverts the last undo: restores the contents from before the undo for files that did not
    /// change since.
    ///
    /// # Errors
    /// Returns an error if there is no undo to revert, or the records cannot be read or written.
    pub fn redo(&self, force: bool) -> Result<UndoResult, CheckpointError> {
        let last = self.lock_refreshed()?.history.redoable.last().cloned();
        let UndoneFiles { turn, files, .. } = last.ok_or(CheckpointError::NothingToUndo)?;
        let changes =
            files.iter().map(|file| (file.path.path(), file.before.clone(), file.after.clone()));
        let outcome = self.restore_changes(changes.collect(), force, &BTreeMap::new());
        let redone = outcome.to_undo_result(turn);
        let skipped_paths = match outcome.force_helps {
            true => outcome.skipped.iter().map(|(path, _)| EncodedPath::from_path(path)).collect(),
            false => Vec::new(),
        };
        // The changes of the turn apply again, with their original initial states.
        let began: BTreeMap<PathBuf, &FileRecord> =
            files.iter().map(|file| (file.path.path(), file)).collect();
        let files = outcome.files.into_iter().map(|file| {
            let before = began.get(&file.path.path()).and_then(|file| file.after.clone());
            FileRecord {
                path: file.path,
                before: before.unwrap_or(PathState::Absent),
                after: file.after,
            }
        });
        let files = files.collect();
        self.append(&Record::RedoneFiles {
            turn,
            at: self.next_timestamp(),
            files,
            skipped_paths,
        })?;
        Ok(redone)
    }

    /// Restores single paths to their state before a command, regardless of their current state.
    /// Intended for protected files that a command changed. The replaced contents can be restored
    /// with [`redo`](Self::redo).
    ///
    /// # Errors
    /// Returns an error if the records cannot be written.
    pub fn restore(
        &self,
        changes: &Changes,
        paths: &[PathBuf],
    ) -> Result<UndoResult, CheckpointError> {
        let candidates = paths.iter().filter_map(|path| {
            Some((path.clone(), changes.before.get(path)?.clone(), None::<PathState>))
        });
        let outcome = self.restore_changes(candidates.collect(), true, &BTreeMap::new());
        let undone = outcome.to_undo_result(changes.turn);
        if !outcome.files.is_empty() {
            let (turn, began, ended) = (changes.turn, changes.started_at, self.next_timestamp());
            let (by, files) = (ChangeOrigin::Command, outcome.files);
            let record = Record::RevertedFiles { turn, began, ended, by, files };
            match self.append(&record) {
                // The files are restored even if there is no space for the record.
                Err(CheckpointError::Io { source, .. }) if is_full(&source) => {}
                result => result?,
            }
        }
        Ok(undone)
    }

    /// Restores paths. Without `undo_forced`, paths that others changed in between are restored
    /// only to the state that they left.
    pub(super) fn restore_all(
        &self,
        due: Vec<RestoreCandidate>,
        force: bool,
        later: &BTreeMap<PathBuf, u64>,
    ) -> UndoOutcome {
        let mut half: BTreeMap<PathBuf, Option<PathState>> = BTreeMap::new();
        let due = due.into_iter().map(|RestoreCandidate { path, before, after, foreign_state }| {
            match foreign_state {
                Some(others) if !force && !before.is_same(&others) => {
                    half.insert(path.clone(), after.clone());
                    (path, others, after)
                }
                _ => (path, before, after),
            }
        });
        let mut outcome = self.restore_changes(due.collect(), force, later);
        let is_there = |file: &FileRecord| {
            file.after.as_ref().is_some_and(|after| after.is_same(&file.before))
        };
        outcome.files.retain(|file| !(half.contains_key(&file.path.path()) && is_there(file)));
        for path in half.into_keys() {
            if !outcome.skipped.iter().any(|(skipped, _)| *skipped == path) {
                outcome.record_skipped(
                    &path,
                    SkipReason { reason: CHANGED_BETWEEN.to_owned(), force_helps: true },
                );
            }
        }
        outcome.skipped.sort();
        outcome
    }

    fn restore_changes(
        &self,
        mut changes: Vec<(PathBuf, PathState, Option<PathState>)>,
        force: bool,
        later: &BTreeMap<PathBuf, u64>,
    ) -> UndoOutcome {
        let mut outcome = UndoOutcome::default();
        let Some((roots, _)) = self.roots_and_workspace() else {
            for (path, ..) in changes {
                outcome.record_skipped(&path, "it is outside the workspace");
            }
            return outcome;
        };
        if force {
            remove_blocking_files(&mut changes, &roots);
        }
        self.open_folders(&changes, &roots, force);
        let mut candidates = Vec::new();
        let mut missing = UnrestoredFiles::default();
        let mut lost = Vec::new();
        for (path, before, after) in changes {
            if let Some(lost_file) = unavailable_contents(&before) {
                lost.push((path, lost_file, before, after));
                continue;
            }
            let later = later.get(&path).copied();
            match self.plan(&roots, &path, before.clone(), after, force, later) {
                Ok(plan) => candidates.extend(plan),
                Err(reason) => {
                    missing.add(&before);
                    outcome.record_skipped(&path, reason);
                }
            }
        }
        // Contents that were not saved may still exist under another name.
        let is_free =
            |location: &ConfinedPath| read_state(location).is_ok_and(|state| state.is_absent());
        let (named, others): (Vec<RestoreTarget>, Vec<RestoreTarget>) =
            candidates.into_iter().partition(|plan| {
                plan.before.is_absent() && matches!(plan.current_state, PathState::File { .. })
            });
        let mut new_names: BTreeMap<_, RestoreTarget> = BTreeMap::new();
        let mut candidates = others;
        for plan in named {
            let twin = match &plan.current_state {
                PathState::File { stamp, .. } => new_names.insert(identity(stamp), plan),
                _ => Some(plan),
            };
            candidates.extend(twin);
        }
        let mut moves: Vec<(RestoreTarget, RestoreTarget)> = Vec::new();
        for (path, stamp, before, after) in lost {
            if let Some(confined_path) = roots.locate(&path).filter(is_free)
                && let Some(new) = new_names.remove(&identity(&stamp))
            {
                moves.push((
                    new,
                    RestoreTarget { confined_path, path, before, current_state: PathState::Absent },
                ));
                continue;
            }
            let later = later.get(&path).copied();
            match self.plan(&roots, &path, before.clone(), after, force, later) {
                Ok(plan) => candidates.extend(plan),
                Err(reason) => {
                    missing.add(&before);
                    outcome.record_skipped(&path, reason);
                }
            }
        }
        candidates.extend(new_names.into_values());
        let mut done = Vec::new();
        // Move immediately if the path is free, because its current directory may have to be
        // removed.
        let mut waiting = Vec::new();
        for (new, old) in moves {
            match rename_back(&new.confined_path, &old.confined_path) {
                Ok(()) => done.extend([new, old]),
                Err(_) => waiting.push((new, old)),
            }
        }
        candidates.sort_by(|one, two| one.confined_path.cmp(&two.confined_path));
        // Remove what is in the way first, the deepest paths first.
        let (new, old): (Vec<RestoreTarget>, Vec<RestoreTarget>) =
            candidates.into_iter().partition(|plan| plan.before.is_absent());
        let files: HashSet<ConfinedPath> = old
            .iter()
            .filter(|plan| !matches!(plan.before, PathState::Folder { .. }))
            .map(|plan| plan.confined_path.clone())
            .collect();
        let is_in_the_way = |plan: &RestoreTarget| {
            plan.confined_path.relative.ancestors().skip(1).any(|ancestor| {
                let root = plan.confined_path.root.clone();
                files.contains(&ConfinedPath { root, relative: ancestor.to_path_buf() })
            })
        };
        let (in_the_way, new): (Vec<RestoreTarget>, Vec<RestoreTarget>) =
            new.into_iter().partition(is_in_the_way);
        let mut first: Vec<RestoreTarget> = old.into_iter().chain(in_the_way).collect();
        first.sort_by(|one, two| one.confined_path.cmp(&two.confined_path));
        let mut ready = Vec::new();
        for plan in first.into_iter().rev() {
            match remove_blocking(&plan) {
                Ok(()) => ready.push(plan),
                Err(reason) => {
                    missing.add(&plan.before);
                    outcome.record_skipped(&plan.path, reason);
                }
            }
        }
        for plan in ready.into_iter().rev() {
            match self.restore_entry(&plan) {
                Ok(()) => done.push(plan),
                Err(reason) => {
                    missing.add_without_contents(&plan.before);
                    outcome.record_skipped(&plan.path, reason);
                }
            }
        }
        for (new, old) in waiting {
            match rename_back(&new.confined_path, &old.confined_path) {
                Ok(()) => done.extend([new, old]),
                Err(error) => {
                    outcome
                        .record_skipped(&new.path, "it contains files that could not be restored");
                    outcome.record_skipped(&old.path, error.to_string());
                }
            }
        }
        // Remove new files last: they may hold the only copy of what was not restored.
        for plan in new.into_iter().rev() {
            let removed = match missing.has(&plan.current_state) {
                true => Err("it contains files that could not be restored".to_owned()),
                false => remove_blocking(&plan),
            };
            match removed {
                Ok(()) => done.push(plan),
                Err(reason) => outcome.record_skipped(&plan.path, reason),
            }
        }
        done.sort_by(|one, two| one.confined_path.cmp(&two.confined_path));
        for plan in done.into_iter().rev() {
            if let PathState::Folder { mode } = plan.before {
                let set = EntryHandle::open(&plan.confined_path, false)
                    .and_then(|leaf| leaf.set_folder_mode(mode));
                if let Err(error) = set {
                    outcome.record_skipped(&plan.path, error.to_string());
                    continue;
                }
            }
            let after = Some(with_current_stamp(&plan));
            let path = EncodedPath::from_path(&plan.path);
            outcome.files.push(FileRecord { path, before: plan.current_state, after });
        }
        outcome.files.reverse();
        outcome.skipped.sort();
        outcome
    }

    /// Makes directories accessible that the agent closed, and those of new files that are to be
    /// removed.
    fn open_folders(
        &self,
        changes: &[(PathBuf, PathState, Option<PathState>)],
        roots: &Roots,
        force: bool,
    ) {
        for (path, before, after) in changes {
            if force && before.is_absent() {
                open_parent(path, roots);
            }
            let (PathState::Folder { mode }, Some(PathState::Folder { mode: left })) =
                (before, after)
            else {
                continue;
            };
            let Some(location) = roots.locate(path) else { continue };
            let is_as_left =
                read_state(&location).is_ok_and(|now| now == PathState::Folder { mode: *left });
            if is_as_left && left & 0o700 != 0o700 {
                // The exact permission bits are set at the end.
                let _ = EntryHandle::open(&location, false)
                    .and_then(|leaf| set_folder_mode(&leaf.folder, &leaf.name, mode | 0o700));
            }
        }
    }

    /// Returns what must be done for a path, or `None` for nothing. The error is the reason why it
    /// is left alone.
    pub(super) fn plan(
        &self,
        roots: &Roots,
        path: &Path,
        before: PathState,
        after: Option<PathState>,
        force: bool,
        later: Option<u64>,
    ) -> Result<Option<RestoreTarget>, SkipReason> {
        let location = roots.locate(path).ok_or("it is outside the workspace")?;
        if is_in_broken_repository(path) && path.symlink_metadata().is_err() {
            return Err("its repository no longer exists, and git objects are not saved".into());
        }
        let blob = match &before {
            PathState::File { content: StoredContent::Git { top, blob }, .. } => Some((top, *blob)),
            _ => None,
        };
        let current = self
            .contents
            .snapshot(&location, blob, ContentHandling::Store)
            .map_err(|error| format!("it could not be inspected: {error}"))?;
        let plan = |current_state| {
            let path = path.to_path_buf();
            Ok(Some(RestoreTarget {
                confined_path: location.clone(),
                path,
                before: before.clone(),
                current_state,
            }))
        };
        if current.is_same(&before) {
            return match later {
                // The states match by coincidence: undoing the later turn first restores the
                // changes of this turn, which must be undone after that.
                Some(_) if !force => Err(CHANGED_AGAIN.into()),
                Some(_) => Ok(None),
                None => plan(current),
            };
        }
        if let Some(why) = before.restore_problem() {
            return Err(why.into());
        }
        // A named pipe or socket holds no data that could be lost.
        if current == PathState::Special && !is_pipe_or_socket(&location) {
            return Err("it was replaced by a device".into());
        }
        if !force {
            let untouched = match (&after, &current) {
                // Ignore directory modes, which `open_folders` may have changed.
                (Some(PathState::Folder { .. }), PathState::Folder { .. }) => true,
                (Some(after), current) => current.is_same(after),
                (None, _) => false,
            };
            if !untouched {
                if current.is_absent() && is_outside_directories(&location) {
                    return Err("its directory was replaced by a link or a file".into());
                }
                let reason = match (later, &after) {
                    (Some(_), _) => CHANGED_AGAIN.to_owned(),
                    (None, None) => "the record of its change is incomplete, so later changes \
                        cannot be distinguished"
                        .to_owned(),
                    (None, Some(_)) => "it was changed since".to_owned(),
                };
                return Err(SkipReason { reason, force_helps: true });
            }
        }
        plan(current)
    }

    /// Puts the old state in place; the path is free.
    fn restore_entry(&self, plan: &RestoreTarget) -> Result<(), String> {
        if plan.current_state.is_same(&plan.before) {
            return Ok(());
        }
        let text = |error: io::Error| error.to_string();
        match &plan.before {
            PathState::Absent | PathState::Special => Ok(()),
            PathState::Folder { .. } => EntryHandle::open(&plan.confined_path, true)
                .and_then(|leaf| leaf.make_folder())
                .map_err(text),
            PathState::Link { target } => {
                let leaf = EntryHandle::open(&plan.confined_path, true).map_err(text)?;
                let temporary = leaf.temporary_link(&target.path()).map_err(text)?;
                check_unchanged(&leaf, &plan.current_state)?;
                leaf.exchange(temporary, replaces(&plan.current_state)).map_err(text)
            }
            PathState::File { content, stamp } => {
                let leaf = EntryHandle::open(&plan.confined_path, true).map_err(text)?;
                let written =
                    leaf.create_temporary_file().map_err(text).and_then(|(temporary, mut file)| {
                        self.fill(&mut file, content, stamp.size)?;
                        Ok((temporary, file))
                    });
                let (temporary, file) = match written {
                    Ok(written) => written,
                    Err(error) => {
                        let file =
                            self.reserved_copies.take(&plan.confined_path, stamp).ok_or(error)?;
                        (leaf.link_temporary(&file).map_err(text)?, file)
                    }
                };
                if let Ok(Some(stat)) = leaf.stat() {
                    // Changing the owner succeeds only if the system allows it.
                    let owner = rustix::fs::Uid::from_raw(stat.st_uid);
                    let group = rustix::fs::Gid::from_raw(stat.st_gid);
                    let _ = rustix::fs::fchown(&file, Some(owner), Some(group));
                }
                rustix::fs::fchmod(&file, permission_bits(stamp.mode))
                    .map_err(|error| error.to_string())?;
                check_unchanged(&leaf, &plan.current_state)?;
                leaf.exchange(temporary, replaces(&plan.current_state)).map_err(text)
            }
        }
    }

    fn fill(&self, file: &mut File, content: &StoredContent, size: u64) -> Result<(), String> {
        match content {
            StoredContent::Stored(id) => match self.contents.objects.copy_to(id, file) {
                Ok(true) => Ok(()),
                Ok(false) => Err("its previous content in the store is damaged".to_owned()),
                Err(error) if is_missing(&error) => {
                    Err("its previous content is no longer in the store".to_owned())
                }
                Err(error) => Err(format!("its previous content could not be copied: {error}")),
            },
            StoredContent::Git { top, blob } => {
                let Some(blobs) = &self.options.blobs else {
                    return Err("its previous content is in git, which is not available".to_owned());
                };
                let bytes = (blobs.0)(&top.path(), &blob.hex())
                    .map_err(|error| format!("git did not return its previous content: {error}"))?;
                // A different length shows that git converted the file at some point.
                if bytes.len() as u64 != size || blob_id(&bytes) != *blob {
                    return Err("git returned different content".to_owned());
                }
                file.write_all(&bytes).map_err(|error| error.to_string())
            }
            StoredContent::Hashed(_) | StoredContent::Unavailable(_) => {
                Err("its previous content was not saved".to_owned())
            }
        }
    }
}

/// Whether a parent of the place is not a directory.
fn is_outside_directories(location: &ConfinedPath) -> bool {
    let opened = EntryHandle::open(location, false).map(|_| ());
    opened.is_err_and(|error| is_missing(&error) && error.kind() != io::ErrorKind::NotFound)
}

/// Whether an existing entry is replaced by the new file.
fn replaces(now: &PathState) -> bool {
    matches!(now, PathState::File { .. } | PathState::Link { .. } | PathState::Special)
}

/// Whether the entry is a named pipe or a socket.
fn is_pipe_or_socket(location: &ConfinedPath) -> bool {
    let stat = EntryHandle::open(location, false).and_then(|leaf| leaf.stat());
    stat.is_ok_and(|stat| stat.is_some_and(|stat| has_no_data(stat.st_mode)))
}

/// Whether a file of this type stores nothing.
fn has_no_data(mode: u32) -> bool {
    matches!(FileType::from_raw_mode(mode), FileType::Fifo | FileType::Socket)
}

/// Removes a file that replaced a directory if other files must be restored in that directory.
fn remove_blocking_files(
    changes: &mut Vec<(PathBuf, PathState, Option<PathState>)>,
    roots: &Roots,
) {
    let mut known: HashSet<PathBuf> = changes.iter().map(|(path, ..)| path.clone()).collect();
    let mut directories = Vec::new();
    let comes_back = |before: &PathState| !before.is_absent() && before.restore_problem().is_none();
    for (path, ..) in changes.iter().filter(|(_, before, _)| comes_back(before)) {
        let ancestors: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|ancestor| roots.locate(ancestor).is_some())
            .collect();
        let is_file = |ancestors: &&Path| {
            let location = roots.locate(ancestors);
            location
                .is_some_and(|location| matches!(read_state(&location), Ok(PathState::File { .. })))
        };
        let Some(index) = ancestors.iter().position(is_file) else { continue };
        // Also restore the directories between.
        for folder in ancestors.iter().take(index + 1) {
            if known.insert(folder.to_path_buf()) {
                directories.push((folder.to_path_buf(), PathState::Folder { mode: 0o755 }, None));
            }
        }
    }
    changes.extend(directories);
}

/// Removes what is in the way of the old state.
fn remove_blocking(plan: &RestoreTarget) -> Result<(), String> {
    if plan.current_state.is_same(&plan.before) {
        return Ok(());
    }
    let goes = match (&plan.before, &plan.current_state) {
        (_, PathState::Absent) => false,
        (PathState::Absent, _) => true,
        (PathState::Folder { .. }, PathState::Folder { .. }) => false,
        (PathState::Folder { .. }, _) | (_, PathState::Folder { .. }) => true,
        _ => false,
    };
    if !goes {
        return Ok(());
    }
    let leaf = match EntryHandle::open(&plan.confined_path, false) {
        Err(error) if is_missing(&error) => return Ok(()),
        result => result.map_err(|error| error.to_string())?,
    };
    if matches!(plan.current_state, PathState::Folder { .. }) {
        return match leaf.remove_folder() {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                match is_nested_too_deep(&plan.confined_path.relative) {
                    true => leaf.remove_tree().map_err(|error| error.to_string()),
                    false => Err(NOT_EMPTY.to_owned()),
                }
            }
            Err(error) if is_missing(&error) => Ok(()),
            result => result.map_err(|error| error.to_string()),
        };
    }
    check_unchanged(&leaf, &plan.current_state)?;
    leaf.remove().map_err(|error| error.to_string())
}

/// Checks again, immediately before the change, that the entry did not change in the meantime.
fn check_unchanged(leaf: &EntryHandle, planned: &PathState) -> Result<(), String> {
    let current = leaf.stat().map_err(|error| error.to_string())?;
    let same = match (planned, &current) {
        (PathState::File { stamp, content }, Some(current)) => {
            let current = Stamp::from_stat(current);
            // Removing another hard link of the file changes its metadata.
            *stamp == current
                || (Stamp { changed: current.changed, ..*stamp } == current
                    && has_contents(leaf, content, current))
        }
        (PathState::Link { target }, Some(_)) => {
            leaf.link_target().is_ok_and(|current| current == *target)
        }
        (PathState::Special, Some(current)) => has_no_data(current.st_mode),
        // The entry was already removed; whatever exists now is never replaced.
        _ => true,
    };
    if same { Ok(()) } else { Err("it was changed just now".to_owned()) }
}

/// Whether the file has these contents, and its metadata did not change while they were read.
fn has_contents(leaf: &EntryHandle, content: &StoredContent, stamp: Stamp) -> bool {
    let Ok((file, opened)) = leaf.file() else { return false };
    opened == stamp
        && match content {
            StoredContent::Stored(id) | StoredContent::Hashed(id) => {
                hash_of(&file, stamp.size).is_ok_and(|found| found == Some(*id))
            }
            StoredContent::Git { blob, .. } => {
                file_blob_id(&mut &file, stamp.size).is_ok_and(|found| found == Some(*blob))
            }
            StoredContent::Unavailable(_) => false,
        }
}

/// Makes the directory of a new path writable.
pub(super) fn open_parent(path: &Path, roots: &Roots) {
    let Some(parent) = path.parent() else { return };
    let Some(parent) = roots.locate(parent) else {
        let root = roots.folders().iter().find(|root| ***root == *parent);
        root.into_iter().for_each(|root| open_root(root, 0o700));
        return;
    };
    if let Ok(PathState::Folder { mode }) = read_state(&parent)
        && mode & 0o700 != 0o700
    {
        let _ = EntryHandle::open(&parent, false)
            .and_then(|leaf| set_folder_mode(&leaf.folder, &leaf.name, mode | 0o700));
    }
}

/// Returns the old state with the stamp of the file that now holds it.
fn with_current_stamp(plan: &RestoreTarget) -> PathState {
    match (&plan.before, read_state(&plan.confined_path)) {
        (PathState::File { content, .. }, Ok(PathState::File { stamp, .. })) => {
            PathState::File { content: content.clone(), stamp }
        }
        _ => plan.before.clone(),
    }
}
