//! The records of a session, folded: what each turn changed and was not taken
//! back yet.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use super::ChangedBy;
use super::journal::{FileRecord, Record};
use super::state::{ObjectId, State};

/// What one turn did to one path: the first state before, the last after.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub before: State,
    pub after: Option<State>,
    pub by: ChangedBy,
    began: i64,
    ended: i64,
}

/// What one turn changed.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// When its first change began, in nanoseconds since 1970.
    pub began: i64,
    pub changes: BTreeMap<PathBuf, Change>,
    /// Paths that were given back.
    pub undone: BTreeMap<PathBuf, ()>,
    /// Whether an undo was tried since its last change.
    pub attempted: bool,
}

/// One change as it was recorded.
#[derive(Debug)]
pub(super) struct Single {
    /// When it began, in nanoseconds since 1970.
    pub began: i64,
    pub turn: u64,
    pub by: ChangedBy,
    /// The paths with what was there before.
    pub files: Vec<(PathBuf, State)>,
}

/// All turns of a session.
#[derive(Debug, Default)]
pub(super) struct History {
    pub turns: BTreeMap<u64, Turn>,
    /// The last state of each path that we know of.
    pub last: HashMap<PathBuf, State>,
    /// What was undone and can be done again, the last at the end.
    pub undone: Vec<(u64, Vec<FileRecord>)>,
    /// All changes, in the order of their records; one that came to its end is
    /// there twice.
    pub singles: Vec<Single>,
    /// Objects that a record names.
    pub held: HashSet<ObjectId>,
}

impl History {
    pub fn take(&mut self, record: Record) {
        match record {
            Record::Held { objects } => self.held.extend(objects),
            Record::Changed { turn: number, began, ended, by, files } => {
                let turn = self.turns.entry(number).or_default();
                if turn.changes.is_empty() && turn.undone.is_empty() {
                    turn.began = began;
                }
                turn.began = turn.began.min(began);
                self.singles.push(Single {
                    began,
                    turn: number,
                    by,
                    files: files.iter().map(|f| (f.path.path(), f.before.clone())).collect(),
                });
                for file in files {
                    let path = file.path.path();
                    self.held.extend(file.before.object());
                    if let Some(after) = &file.after {
                        self.last.insert(path.clone(), after.clone());
                    }
                    turn.merge(path, file.before, file.after, (began, ended), by);
                }
            }
            Record::Undone { turn, files, .. } => {
                self.undone.push((turn, files.clone()));
                let turn = self.turns.entry(turn).or_default();
                turn.attempted = true;
                for file in files {
                    let path = file.path.path();
                    self.held.extend(file.before.object());
                    turn.changes.remove(&path);
                    if let Some(after) = file.after {
                        self.last.insert(path.clone(), after);
                    }
                    turn.undone.insert(path, ());
                }
            }
            Record::Redone { turn, at, files } => {
                self.undone.pop();
                let turn = self.turns.entry(turn).or_default();
                for file in files {
                    let path = file.path.path();
                    if let Some(after) = &file.after {
                        self.last.insert(path.clone(), after.clone());
                    }
                    turn.merge(path, file.before, file.after, (at, at), ChangedBy::Edit);
                }
            }
        }
    }

    /// The last turn before which nothing was asked yet; with `retry`, the last
    /// with anything left.
    pub fn last_turn(&self, retry: bool) -> Option<u64> {
        let open = |turn: &Turn| !turn.changes.is_empty() && (retry || !turn.attempted);
        self.turns.iter().rev().find(|(_, turn)| open(turn)).map(|(number, _)| *number)
    }

    /// The first later turn that changed this path and still stands.
    pub fn changed_later(&self, turn: u64, path: &PathBuf) -> Option<u64> {
        let mut later = self.turns.range(turn.saturating_add(1)..);
        later.find(|(_, turn)| turn.changes.contains_key(path)).map(|(number, _)| *number)
    }

    /// Paths that were not there before the session and are as it left them,
    /// as far as the records say.
    pub fn made(&self) -> BTreeMap<PathBuf, &State> {
        let mut first: BTreeMap<&PathBuf, bool> = BTreeMap::new();
        for turn in self.turns.values() {
            for (path, change) in &turn.changes {
                first.entry(path).or_insert_with(|| change.before.is_absent());
            }
        }
        let made = first.into_iter().filter(|(_, was_absent)| *was_absent);
        made.filter_map(|(path, _)| Some((path.clone(), self.last.get(path)?)))
            .filter(|(_, last)| !last.is_absent())
            .collect()
    }
}

impl Turn {
    fn merge(
        &mut self,
        path: PathBuf,
        before: State,
        after: Option<State>,
        (began, ended): (i64, i64),
        by: ChangedBy,
    ) {
        use std::collections::btree_map::Entry;
        self.undone.remove(&path);
        self.attempted = false;
        match self.changes.entry(path) {
            Entry::Vacant(vacant) => {
                let unchanged = after.as_ref().is_some_and(|after| before.is_same(after));
                if !unchanged {
                    vacant.insert(Change { before, after, by, began, ended });
                }
            }
            Entry::Occupied(mut occupied) => {
                let change = occupied.get_mut();
                if began < change.began {
                    change.began = began;
                    change.before = before;
                }
                if after.is_some() && (change.after.is_none() || ended >= change.ended) {
                    change.after = after;
                    change.ended = ended;
                    change.by = by;
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
    use super::super::journal::FileRecord;
    use super::super::state::{Content, PathText, Stamp};
    use super::*;

    fn file(content: u8) -> State {
        let stamp = Stamp { size: 1, mode: 0o644, inode: 1, modified: 0, changed: 0 };
        State::File { content: Content::Kept(ObjectId([content; 32])), stamp }
    }

    fn changed(turn: u64, times: (i64, i64), before: State, after: State) -> Record {
        let files =
            vec![FileRecord { path: PathText::Text("/x".into()), before, after: Some(after) }];
        Record::Changed { turn, began: times.0, ended: times.1, by: ChangedBy::Command, files }
    }

    #[test]
    fn of_overlapping_changes_the_first_before_and_the_last_after_count() {
        let mut history = History::default();
        history.take(changed(1, (20, 30), file(1), file(2)));
        history.take(changed(1, (10, 40), file(0), file(3)));
        let change = history.turns[&1].changes[&PathBuf::from("/x")].clone();
        assert_eq!((change.before, change.after), (file(0), Some(file(3))));
        // Back to where it began: no change at all.
        history.take(changed(1, (50, 60), file(3), file(0)));
        assert!(history.turns[&1].changes.is_empty() && history.last_turn(true).is_none());
    }
}
