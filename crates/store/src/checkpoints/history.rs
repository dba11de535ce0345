//! The records of a session, combined: what each turn changed and was not undone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::ChangeOrigin;
use super::record::{FileRecord, Record};
use super::state::{EncodedPath, ObjectId, PathState};

/// What one turn did to one path: the first state before and the last state after.
#[derive(Debug, Clone)]
pub(super) struct PathChange {
    pub before: PathState,
    pub after: Option<PathState>,
    pub changed_by: ChangeOrigin,
    /// The last state, if any, that others left between two changes of the turn.
    pub foreign_state: Option<PathState>,
    started_at: i64,
    ended_at: i64,
}

/// Files that were reverted together.
#[derive(Debug, Clone)]
pub(super) struct UndoneFiles {
    pub turn: u64,
    pub files: Vec<FileRecord>,
    /// Whether Parallax reverted the files on its own. What a redo restores then counts as a change
    /// by the user.
    pub automatic: bool,
}

/// What one turn changed.
#[derive(Debug, Default)]
pub(super) struct TurnRecord {
    /// When its first change began, in nanoseconds since 1970.
    pub started_at: i64,
    pub changes: BTreeMap<PathBuf, PathChange>,
    /// Undone paths, each with the state that others left between two changes.
    pub undone_paths: BTreeMap<PathBuf, Option<PathState>>,
    /// Whether an undo was attempted since its last change.
    pub attempted: bool,
}

/// A single recorded change.
#[derive(Debug)]
pub(super) struct SingleChange {
    /// When it began, in nanoseconds since 1970.
    pub started_at: i64,
    pub turn: u64,
    pub changed_by: ChangeOrigin,
    /// The paths with the state before the change, and whether others left that state.
    pub files: Vec<(PathBuf, PathState, bool)>,
}

/// All turns of a session.
#[derive(Debug, Default)]
pub(super) struct CheckpointHistory {
    pub turns: BTreeMap<u64, TurnRecord>,
    /// The last known state of each path.
    pub last: HashMap<PathBuf, PathState>,
    /// When the change that left this state ended.
    last_ended: HashMap<PathBuf, i64>,
    /// What was undone and can be redone, most recent last.
    pub redoable: Vec<UndoneFiles>,
    /// All changes in the order of their records; a finished change appears twice.
    pub single_changes: Vec<SingleChange>,
    /// Objects that records refer to.
    pub referenced_objects: HashSet<ObjectId>,
    /// The workspace directories of the session.
    pub roots: BTreeSet<PathBuf>,
}

impl CheckpointHistory {
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Roots { roots } => self.roots.extend(roots.iter().map(EncodedPath::path)),
            Record::InUse { objects } => self.referenced_objects.extend(objects),
            Record::Changed { turn: number, began: started_at, ended, by: changed_by, files } => {
                let turn = self.turns.entry(number).or_default();
                if turn.changes.is_empty() && turn.undone_paths.is_empty() {
                    turn.started_at = started_at;
                }
                turn.started_at = turn.started_at.min(started_at);
                let mut single =
                    SingleChange { started_at, turn: number, changed_by, files: Vec::new() };
                for file in files {
                    let path = file.path.path();
                    self.referenced_objects.extend(file.before.object());
                    let ended_before =
                        self.last_ended.get(&path).is_some_and(|at| *at <= started_at);
                    let by_others = ended_before
                        && self.last.get(&path).is_some_and(|last| !last.is_same(&file.before));
                    single.files.push((path.clone(), file.before.clone(), by_others));
                    if let Some(after) = &file.after {
                        self.last.insert(path.clone(), after.clone());
                        let at = self.last_ended.entry(path.clone()).or_insert(ended);
                        *at = ended.max(*at);
                    }
                    turn.merge(path, file.before, file.after, (started_at, ended), changed_by);
                }
                self.single_changes.push(single);
            }
            Record::Undone { turn, at, files, .. } => {
                self.redoable.push(UndoneFiles { turn, files: files.clone(), automatic: false });
                for file in files {
                    let path = file.path.path();
                    self.referenced_objects.extend(file.before.object());
                    self.record_last_state(&path, file.after.as_ref(), at);
                    self.turns.entry(turn).or_default().record_undone(path, file.after, at);
                }
                self.turns.entry(turn).or_default().attempted = true;
            }
            Record::RevertedFiles { turn, began, ended, by, files } => {
                self.redoable.push(UndoneFiles { turn, files: files.clone(), automatic: true });
                for FileRecord { path, before, after } in files {
                    let path = path.path();
                    self.referenced_objects.extend(before.object());
                    self.record_last_state(&path, after.as_ref(), ended);
                    // The change has no effect anymore: the states before and after are the same.
                    let was = after.clone().unwrap_or(PathState::Absent);
                    let turn = self.turns.entry(turn).or_default();
                    turn.merge(path, was, after, (began, ended), by);
                }
            }
            Record::RedoneFiles { turn, at, files, skipped_paths } => {
                let done = self.redoable.pop();
                let automatic = done.as_ref().is_some_and(|done| done.automatic);
                if let Some(mut done) = done.filter(|_| !skipped_paths.is_empty()) {
                    done.files.retain(|file| skipped_paths.contains(&file.path));
                    self.redoable.push(done);
                }
                for file in files {
                    let path = file.path.path();
                    self.record_last_state(&path, file.after.as_ref(), at);
                    if automatic {
                        continue;
                    }
                    let turn = self.turns.entry(turn).or_default();
                    let others = turn.undone_paths.get(&path).cloned().flatten();
                    turn.merge(path.clone(), file.before, file.after, (at, at), ChangeOrigin::Edit);
                    if let Some(change) = turn.changes.get_mut(&path) {
                        change.foreign_state = change.foreign_state.take().or(others);
                    }
                }
            }
        }
    }

    fn record_last_state(&mut self, path: &Path, state: Option<&PathState>, at: i64) {
        if let Some(state) = state {
            self.last.insert(path.to_path_buf(), state.clone());
            self.last_ended.insert(path.to_path_buf(), at);
        }
    }

    /// Returns the last turn without an attempted undo or, with `retry`, the last turn with
    /// remaining changes.
    pub fn last_turn(&self, retry: bool) -> Option<u64> {
        let open = |turn: &TurnRecord| !turn.changes.is_empty() && (retry || !turn.attempted);
        self.turns.iter().rev().find(|(_, turn)| open(turn)).map(|(number, _)| *number)
    }

    /// Returns the first later turn with an effective change to this path.
    pub fn next_change(&self, turn: u64, path: &PathBuf) -> Option<u64> {
        let mut later = self.turns.range(turn.saturating_add(1)..);
        later.find(|(_, turn)| turn.changes.contains_key(path)).map(|(number, _)| *number)
    }

    /// Returns the paths that did not exist before the session, with the state in which it left
    /// them according to the records.
    pub fn created_paths(&self) -> BTreeMap<PathBuf, &PathState> {
        let mut first: BTreeMap<&PathBuf, bool> = BTreeMap::new();
        for turn in self.turns.values() {
            for (path, change) in &turn.changes {
                first.entry(path).or_insert_with(|| change.before.is_absent());
            }
        }
        let created = first.into_iter().filter(|(_, was_absent)| *was_absent);
        created
            .filter_map(|(path, _)| Some((path.clone(), self.last.get(path)?)))
            .filter(|(_, last)| !last.is_absent())
            .collect()
    }
}

impl TurnRecord {
    /// Handles an undone path. It has the state from before the turn or, if others changed it in
    /// between, the state that they left.
    fn record_undone(&mut self, path: PathBuf, after: Option<PathState>, at: i64) {
        let Some(mut change) = self.changes.remove(&path) else {
            self.undone_paths.insert(path, None);
            return;
        };
        let to_others =
            change.foreign_state.as_ref().zip(after.as_ref()).is_some_and(|(others, after)| {
                after.is_same(others) && !after.is_same(&change.before)
            });
        match to_others {
            true => {
                (change.after, change.ended_at) = (after, at);
                self.changes.insert(path, change);
            }
            false => {
                self.undone_paths.insert(path, change.foreign_state);
            }
        }
    }

    fn merge(
        &mut self,
        path: PathBuf,
        before: PathState,
        after: Option<PathState>,
        (started_at, ended_at): (i64, i64),
        changed_by: ChangeOrigin,
    ) {
        use std::collections::btree_map::Entry;
        self.undone_paths.remove(&path);
        self.attempted = false;
        match self.changes.entry(path) {
            Entry::Vacant(vacant) => {
                let unchanged = after.as_ref().is_some_and(|after| before.is_same(after));
                if !unchanged {
                    vacant.insert(PathChange {
                        before,
                        after,
                        changed_by,
                        foreign_state: None,
                        started_at,
                        ended_at,
                    });
                }
            }
            Entry::Occupied(mut occupied) => {
                let change = occupied.get_mut();
                let follows = started_at >= change.ended_at;
                if follows && change.after.as_ref().is_some_and(|after| !after.is_same(&before)) {
                    change.foreign_state = Some(before.clone());
                }
                if started_at < change.started_at {
                    change.started_at = started_at;
                    change.before = before;
                }
                if after.is_some() && (change.after.is_none() || ended_at >= change.ended_at) {
                    change.after = after;
                    change.ended_at = ended_at;
                    change.changed_by = changed_by;
                }
                if change.after.as_ref().is_some_and(|after| change.before.is_same(after)) {
                    occupied.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::FileRecord;
    use super::super::state::{EncodedPath, Stamp, StoredContent};
    use super::*;

    fn file(content: u8) -> PathState {
        let stamp = Stamp { size: 1, mode: 0o644, inode: 1, modified: 0, changed: 0 };
        PathState::File { content: StoredContent::Stored(ObjectId([content; 32])), stamp }
    }

    fn changed(turn: u64, times: (i64, i64), before: PathState, after: PathState) -> Record {
        let files =
            vec![FileRecord { path: EncodedPath::Text("/x".into()), before, after: Some(after) }];
        Record::Changed { turn, began: times.0, ended: times.1, by: ChangeOrigin::Command, files }
    }

    #[test]
    fn overlapping_changes_keep_the_first_state_before_and_the_last_after() {
        let mut history = CheckpointHistory::default();
        history.apply(changed(1, (20, 30), file(1), file(2)));
        history.apply(changed(1, (10, 40), file(0), file(3)));
        let change = history.turns[&1].changes[&PathBuf::from("/x")].clone();
        assert_eq!((change.before, change.after), (file(0), Some(file(3))));
        // Back to the initial state: not a change.
        history.apply(changed(1, (50, 60), file(3), file(0)));
        assert!(history.turns[&1].changes.is_empty() && history.last_turn(true).is_none());
    }
}
