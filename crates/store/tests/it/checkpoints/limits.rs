//! Tests of size limits, removal of old sessions, and damaged stores.

use super::*;

#[test]
fn oversized_file_is_reported_and_unchanged() {
    let fixture = Fixture::new();
    for name in ["a.bin", "b.bin", "c.bin", "d.bin", "e.bin"] {
        fixture.write(name, &"x".repeat(2000));
    }
    fixture.write("small", "small");
    let options = CheckpointOptions { file_bytes: 1000, ..fixture.options() };
    let checkpoints = Checkpoints::open(options);
    let mark = checkpoints.begin_command(1).expect("begin");
    let output = mark.irreversible_changes();
    assert_eq!(output.len(), 4, "{output:?}");
    assert_eq!(output[0], "a.bin (2.0 kB) is not saved");
    assert_eq!(output[3], "2 more files (4.0 kB) are not saved");
    fixture.write("a.bin", "gone");
    fixture.write("small", "gone");
    checkpoints.end_command(mark, &WriteScope::default()).expect("end");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.restored, [fixture.path("small")]);
    assert_eq!(undone.skipped[0].1, "its previous content was not saved (2.0 kB)");
    assert_eq!(fixture.read("a.bin").as_deref(), Some("gone"));

    let options = CheckpointOptions { command_bytes: 5000, ..fixture.options() };
    let mark = Checkpoints::open(options).begin_command(2).expect("begin");
    assert_eq!(mark.irreversible_changes().len(), 2, "{:?}", mark.irreversible_changes());
}

#[test]
fn oversized_directories_do_not_delay_checkpoints() {
    let fixture = Fixture::new();
    let added = fixture.folder.path().canonicalize().expect("real").join("added");
    fs::create_dir(&added).expect("added");
    fs::write(added.join("far"), "old").expect("written");
    fixture.write("near", "old");
    let roots = vec![fixture.work.clone(), added.clone()];
    let time = std::time::Duration::ZERO;
    let checkpoints =
        Checkpoints::open(CheckpointOptions { command_time: time, roots, ..fixture.options() });
    for turn in 1..3 {
        let mark = checkpoints.begin_command(turn).expect("begin");
        let output = mark.irreversible_changes().join("; ");
        assert!(output.contains("near (") && output.contains("bytes) is not saved"), "{output}");
        assert!(output.contains("added is too large"), "{output}");
        fixture.write("near", &format!("new {turn}"));
        fs::write(added.join("far"), "new").expect("written");
        fs::write(added.join(format!("more {turn}")), "new").expect("written");
        let changes = checkpoints.end_command(mark, &WriteScope::default()).expect("end");
        assert_eq!(changes.changed, [fixture.path("near")], "{changes:?}");
        assert!(changes.created.is_empty());
    }
}

#[test]
fn filesystem_root_is_not_walked() {
    let fixture = Fixture::new();
    let roots = vec![PathBuf::from("/")];
    let checkpoints = Checkpoints::open(CheckpointOptions { roots, ..fixture.options() });
    let started_at = std::time::Instant::now();
    let mark = checkpoints.begin_command(1).expect("begin");
    assert!(
        started_at.elapsed() < std::time::Duration::from_secs(20),
        "{:?}",
        started_at.elapsed()
    );
    assert!(
        mark.irreversible_changes()[0].starts_with("/ is too large"),
        "{:?}",
        mark.irreversible_changes()
    );
}

#[test]
fn repeated_checkpoints_copy_nothing_twice() {
    let fixture = Fixture::new();
    (0..20).for_each(|number| fixture.write(&format!("f{number}"), "the same"));
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || fixture.write("f1", "other"));
    command(&checkpoints, 1, || fixture.write("f2", "other"));
    assert_eq!(fixture.objects(), 2);
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_eq!(fixture.read("f2").as_deref(), Some("the same"));
}

#[test]
fn torn_records_and_damaged_objects_are_noticed() {
    let fixture = Fixture::new();
    fixture.write("a", "old a");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "a", "new");
    let journal = fixture.folder.path().join("checkpoints/work-12345678/s1.jsonl");
    assert_eq!(mode(&journal), 0o600);
    let mut text = fs::read_to_string(&journal).expect("journal");
    text.push_str("{\"kind\":\"changed\",\"turn\":9,\"fi");
    fs::write(&journal, text).expect("torn");
    fixture.write("b", "old b");
    fixture.edit(&checkpoints, 2, "b", "new");
    let turns = fixture.checkpoints().list().expect("list");
    assert_eq!(turns.iter().map(|turn| turn.turn).collect::<Vec<_>>(), [1, 2]);

    let objects = fixture.folder.path().join("checkpoints/objects");
    for head in fs::read_dir(objects).expect("objects").flatten() {
        for object in fs::read_dir(head.path()).expect("head").flatten() {
            assert_eq!(mode(&object.path()), 0o600);
            fs::write(object.path(), "old X").expect("damage");
        }
    }
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.skipped[0].1, "its previous content in the store is damaged");
    assert_eq!(fixture.read("b").as_deref(), Some("new"));
}

#[test]
fn oldest_checkpoints_are_evicted_and_sessions_in_use_kept() {
    let fixture = Fixture::new();
    let session = |id: &str| {
        let options =
            CheckpointOptions { session: id.into(), total_bytes: 10_000, ..fixture.options() };
        Checkpoints::open(options)
    };
    for (number, id) in ["old", "older"].into_iter().enumerate() {
        let checkpoints = session(id);
        fixture.write("a", &id.repeat(1000));
        fixture.edit(&checkpoints, 1, "a", "new");
        drop(checkpoints);
        let journal = fixture.folder.path().join(format!("checkpoints/work-12345678/{id}.jsonl"));
        let time =
            std::time::SystemTime::now() - std::time::Duration::from_secs(1000 + number as u64);
        let file = fs::File::options().append(true).open(&journal).expect("journal");
        file.set_modified(time).expect("time");
    }
    let mine = session("mine");
    fixture.write("a", &"mine".repeat(1000));
    fixture.edit(&mine, 1, "a", "new");
    for head in
        fs::read_dir(fixture.folder.path().join("checkpoints/objects")).expect("objects").flatten()
    {
        for object in fs::read_dir(head.path()).expect("head").flatten() {
            let file = fs::File::options().append(true).open(object.path()).expect("object");
            file.set_modified(std::time::UNIX_EPOCH).expect("time");
        }
    }
    // A killed process leaves such files.
    let left = fixture.folder.path().join("checkpoints/objects/.parallax-0123.tmp");
    let young = left.with_file_name(".parallax-4567.tmp");
    fs::write(&young, "in the making").expect("written");
    fs::write(&left, "half").expect("written");
    let hours = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 60 * 60);
    let file = fs::File::options().append(true).open(&left).expect("file");
    file.set_modified(hours).expect("time");
    let cleaned = mine.clean_up().expect("clean");
    assert_eq!((cleaned.sessions, cleaned.bytes), (1, 5000));
    assert_eq!((left.exists(), young.exists()), (false, true));
    fs::remove_file(young).expect("removed");
    assert_eq!(fixture.objects(), 2);
    assert!(matches!(session("older").undo(None, true), Err(CheckpointError::NothingToUndo)));
    assert_eq!(mine.undo(None, false).expect("undo").skipped, []);

    // No space at all: this is reported, and nothing is lost silently.
    let full = Checkpoints::open(CheckpointOptions { total_bytes: 10, ..fixture.options() });
    let mark = full.begin_command(1).expect("begin");
    assert_eq!(mark.irreversible_changes(), ["a (4.0 kB) is not saved"]);
}

#[test]
fn oversized_workspace_is_truncated_with_a_note() {
    let fixture = Fixture::new();
    (0..30).for_each(|number| fixture.write(&format!("f{number:02}"), "x"));
    let checkpoints = Checkpoints::open(CheckpointOptions { entries: 10, ..fixture.options() });
    let mark = checkpoints.begin_command(1).expect("begin");
    assert_eq!(
        mark.irreversible_changes(),
        ["the workspace has more than 10 files and directories; the rest is not saved"]
    );
    fs::remove_file(fixture.path("f00")).expect("removed");
    fs::remove_file(fixture.path("f29")).expect("removed");
    let changes = checkpoints.end_command(mark, &WriteScope::default()).expect("end");
    assert_eq!(changes.deleted, [fixture.path("f00")]);
    assert!(changes.created.is_empty(), "{changes:?}");
}

#[test]
fn new_checkpoint_over_the_limit_evicts_the_oldest_session() {
    assert_evicts_oldest(10_000, 4_000);
    // It would fit without the part of the store that is reserved for small files.
    assert_evicts_oldest(10_000_000, 3_200_000);
}

fn assert_evicts_oldest(total_bytes: u64, size: usize) {
    let fixture = Fixture::new();
    let session = |id: &str| {
        let options = CheckpointOptions { session: id.into(), total_bytes, ..fixture.options() };
        Checkpoints::open(options)
    };
    let store = fixture.folder.path().join("checkpoints");
    let age = |path: &Path| {
        let file = fs::File::options().append(true).open(path).expect("open");
        let past = std::time::Duration::from_secs(5000);
        file.set_modified(std::time::SystemTime::now() - past).expect("time");
    };
    for id in ["one", "two", "three"] {
        fixture.write("big", &id.chars().cycle().take(size).collect::<String>());
        fixture.write("small", id);
        let checkpoints = session(id);
        let mark = checkpoints.begin_command(1).expect("begin");
        assert_eq!(mark.irreversible_changes(), [] as [&str; 0], "{id}");
        fixture.write("big", "new");
        fixture.write("small", "new");
        checkpoints.end_command(mark, &WriteScope::default()).expect("end");
        drop(checkpoints);
        age(&store.join(format!("work-12345678/{id}.jsonl")));
        for head in fs::read_dir(store.join("objects")).expect("objects").flatten() {
            fs::read_dir(head.path()).expect("head").flatten().for_each(|at| age(&at.path()));
        }
    }
    assert!(matches!(session("one").undo(None, true), Err(CheckpointError::NothingToUndo)));
    assert_eq!(session("three").undo(None, true).expect("undo").skipped, []);
    assert_eq!(fixture.read("small").as_deref(), Some("three"));
}
