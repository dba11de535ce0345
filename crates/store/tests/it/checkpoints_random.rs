//! Random changes by the agent and the user: undo reverts exactly the changes by the agent, or
//! reports what it left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use parallax_protocol::checkpoint::WriteScope;
use parallax_store::Checkpoints;
use proptest::prelude::*;

use crate::checkpoints::Fixture;

const NAMES: [&str; 6] = ["a", "b", "d/a", "d/b", "d/e/a", "f"];

#[derive(Debug, Clone)]
enum Step {
    Write(usize, u8),
    Remove(usize),
    Rename(usize, usize),
    /// Removes a whole directory and may create a file in its place.
    Wreck(bool),
    Mode(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => (name.clone(), any::<u8>()).prop_map(|(name, byte)| Step::Write(name, byte)),
        2 => name.clone().prop_map(Step::Remove),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => any::<bool>().prop_map(Step::Wreck),
        1 => (name, any::<bool>()).prop_map(|(name, on)| Step::Mode(name, on)),
    ]
}

fn run(fixture: &Fixture, step: &Step) {
    let path = |at: &usize| fixture.path(NAMES[*at]);
    match step {
        Step::Write(at, byte) => {
            let parent = path(at).parent().map(PathBuf::from).unwrap_or_default();
            let _ = fs::create_dir_all(parent);
            let _ = fs::write(path(at), [*byte; 3]);
        }
        Step::Remove(at) => {
            let _ = fs::remove_file(path(at));
        }
        Step::Rename(from, to) => {
            let _ = fs::rename(path(from), path(to));
        }
        Step::Wreck(file) => {
            let _ = fs::remove_dir_all(fixture.path("d"));
            if *file {
                let _ = fs::write(fixture.path("d"), "a file now");
            }
        }
        Step::Mode(at, on) => {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = if *on { 0o755 } else { 0o644 };
            let _ = fs::set_permissions(path(at), fs::Permissions::from_mode(mode));
        }
    }
}

/// Every path with its mode and contents; directories by name only.
type FileTree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn tree(fixture: &Fixture) -> FileTree {
    use std::os::unix::fs::PermissionsExt as _;
    let mut tree = FileTree::new();
    let mut open = vec![fixture.work.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("list").flatten() {
            let path = entry.path();
            if path.is_dir() {
                tree.insert(path.clone(), (0, Vec::new()));
                open.push(path);
            } else {
                let mode = path.metadata().expect("facts").permissions().mode();
                let bytes = fs::read(&path).expect("read");
                tree.insert(path, (mode, bytes));
            }
        }
    }
    tree
}

fn differing(one: &FileTree, two: &FileTree) -> BTreeSet<PathBuf> {
    let paths = one.keys().chain(two.keys());
    paths.filter(|path| one.get(*path) != two.get(*path)).cloned().collect()
}

fn change_by_command(checkpoints: &Checkpoints, fixture: &Fixture, turn: u64, steps: &[Step]) {
    let mark = checkpoints.begin_command(turn).expect("begin");
    steps.iter().for_each(|step| run(fixture, step));
    checkpoints.end_command(mark, &WriteScope::default()).expect("end");
}

fn change_by_edits(checkpoints: &Checkpoints, fixture: &Fixture, turn: u64, steps: &[Step]) {
    for step in steps {
        let touched = match step {
            Step::Wreck(_) => continue,
            Step::Write(at, _) | Step::Remove(at) | Step::Mode(at, _) => vec![*at],
            Step::Rename(from, to) => vec![*from, *to],
        };
        let paths: Vec<PathBuf> = touched.iter().map(|at| fixture.path(NAMES[*at])).collect();
        // The file system rejects a path through a file, also for edits.
        let Ok(mark) = checkpoints.begin_edit(turn, &paths) else { continue };
        run(fixture, step);
        checkpoints.end_edit(mark).expect("end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn undo_reverts_only_agent_changes(
        start in proptest::collection::vec(step(), 0..8),
        turns in proptest::collection::vec(
            (proptest::collection::vec(step(), 1..6), any::<bool>()), 1..4),
        user in proptest::collection::vec(step(), 0..3),
    ) {
        let fixture = Fixture::new();
        start.iter().for_each(|step| run(&fixture, step));
        let checkpoints = fixture.checkpoints();
        let mut trees = vec![tree(&fixture)];
        for (number, (steps, edits)) in turns.iter().enumerate() {
            let turn = number as u64 + 1;
            if *edits {
                change_by_edits(&checkpoints, &fixture, turn, steps);
            } else {
                change_by_command(&checkpoints, &fixture, turn, steps);
            }
            trees.push(tree(&fixture));
        }
        user.iter().for_each(|step| run(&fixture, step));
        let before_undo = tree(&fixture);
        let user_changed = differing(trees.last().expect("tree"), &before_undo);
        let mut kept = BTreeSet::new();
        while let Ok(undone) = checkpoints.undo(None, false) {
            kept.extend(undone.skipped.into_iter().map(|(path, _)| path));
        }
        let now = tree(&fixture);
        // Changes by the user are untouched, unless they restored a state that the agent had left.
        for path in &user_changed {
            let users = before_undo.get(path);
            let is_file = users.is_some_and(|(mode, _)| *mode != 0);
            if is_file && trees.iter().all(|tree| tree.get(path) != users) {
                prop_assert_eq!(now.get(path), users, "{:?}", path);
            }
        }
        // Everything else is as at the beginning, or is reported.
        let first = &trees[0];
        for path in differing(first, &now) {
            let named = path.ancestors().any(|above| kept.contains(above) || user_changed.contains(above))
                || kept.iter().chain(&user_changed).any(|below| below.starts_with(&path));
            prop_assert!(named, "{path:?} is neither restored nor named: kept {kept:?}, user {user_changed:?}");
        }
        if user.is_empty() {
            prop_assert_eq!(&now, first);
            prop_assert!(kept.is_empty(), "{:?}", kept);
        }
    }
}
