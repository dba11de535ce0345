//! Tests of undo and redo by turn and by single change.

use super::*;

#[test]
fn edits_are_undone_turn_by_turn_across_processes() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "zero");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "a.txt", "one");
    fixture.edit(&checkpoints, 1, "a.txt", "one and a half");
    fixture.edit(&checkpoints, 1, "new/deep/b.txt", "b");
    fixture.edit(&checkpoints, 2, "a.txt", "two");
    assert!(checkpoints.created_paths().contains(&fixture.path("new/deep/b.txt")));

    let store = fixture.folder.path().join("checkpoints");
    assert_eq!(latest_session(&store, "work-12345678"), Some("s1".into()));
    let checkpoints = fixture.checkpoints();
    let skipped = checkpoints.undo(Some(1), false).expect("undo").skipped;
    assert_eq!(skipped, [(fixture.path("a.txt"), "a later prompt changed it again".to_owned())]);
    assert!(!fixture.path("new").exists(), "the rest of turn 1 is undone, with its folders");
    assert_eq!(fixture.read("a.txt").as_deref(), Some("two"));
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!((undone.turn, undone.restored), (2, vec![fixture.path("a.txt")]));
    assert_eq!(fixture.read("a.txt").as_deref(), Some("one and a half"));
    let undone = checkpoints.undo(Some(1), false).expect("undo");
    assert_eq!(undone.restored, [fixture.path("a.txt")]);
    assert_eq!(fixture.read("a.txt").as_deref(), Some("zero"));
    assert!(matches!(checkpoints.undo(None, false), Err(CheckpointError::NothingToUndo)));
    let gone = checkpoints.undo(Some(2), false);
    assert!(matches!(gone, Err(CheckpointError::UnknownTurn { turn: 2 })));
    assert_eq!(checkpoints.list().expect("list").len(), 2, "what was undone stays listed");
    assert!(checkpoints.created_paths().is_empty());
}

#[test]
fn latest_session_is_the_one_that_changed_files_last() {
    let fixture = Fixture::new();
    let store = fixture.folder.path().join("checkpoints");
    let latest = || {
        let project = "work-12345678";
        (latest_session(&store, project), latest_undo_session(&store, project))
    };
    assert_eq!(latest(), (None, None));
    let (first, second) = (fixture.checkpoints_of("s1"), fixture.checkpoints_of("s2"));
    fixture.edit(&first, 1, "a.txt", "one");
    fixture.edit(&second, 1, "b.txt", "two");
    assert_eq!(latest(), (Some("s2".into()), Some("s2".into())));
    first.undo(None, false).expect("undo");
    assert_eq!(latest(), (Some("s2".into()), Some("s1".into())));
    fixture.edit(&first, 2, "a.txt", "three");
    assert_eq!(latest(), (Some("s1".into()), Some("s1".into())));
}

#[test]
fn user_changes_are_kept_unless_forced() {
    let fixture = Fixture::new();
    fixture.write("a", "old");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "a", "agent");
    fixture.edit(&checkpoints, 1, "made", "agent");
    fixture.write("a", "user!");
    fixture.write("made", "user!");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert!(undone.restored.is_empty());
    assert_eq!(undone.skipped.len(), 2);
    assert!(undone.skipped.iter().all(|(_, reason)| reason == "it was changed since"));
    assert_eq!(fixture.read("a").as_deref(), Some("user!"));
    assert!(matches!(checkpoints.undo(None, false), Err(CheckpointError::NothingToUndo)));
    let undone = checkpoints.undo(None, true).expect("undo");
    assert_eq!(undone.restored.len(), 2);
    assert_eq!(fixture.read("a").as_deref(), Some("old"));
    assert_eq!(fixture.read("made"), None);
}

#[test]
fn undo_can_be_redone() {
    let fixture = Fixture::new();
    fixture.write("a", "old");
    fixture.write("b", "old");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("a", "agent");
        fs::remove_file(fixture.path("b")).expect("removed");
        fixture.write("new/c", "agent");
    });
    assert_eq!(changes.created.len(), 2);
    fixture.write("a", "user");
    for _ in 0..2 {
        checkpoints.undo(None, true).expect("undo");
        assert_eq!(fixture.read("a").as_deref(), Some("old"));
        assert!(fixture.path("b").exists() && !fixture.path("new").exists());
        let redone = checkpoints.redo(false).expect("redo");
        assert_eq!((redone.restored.len(), redone.skipped.len()), (4, 0), "{redone:?}");
        assert_eq!(fixture.read("a").as_deref(), Some("user"), "the forced undo kept it");
        assert!(!fixture.path("b").exists());
        assert_eq!(fixture.read("new/c").as_deref(), Some("agent"));
    }
    assert!(matches!(checkpoints.redo(false), Err(CheckpointError::NothingToUndo)));
}

#[test]
fn mode_changes_are_undone_and_touches_ignored() {
    let fixture = Fixture::repository(&[("a", "a"), ("b", "b"), ("c", "c")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        set_mode(&fixture.path("a"), 0o755);
        fixture.write("b", "b");
        set_mode(&fixture.path("c"), 0o600);
        set_mode(&fixture.path("c"), 0o644);
    });
    assert_eq!(changes.changed, [fixture.path("a")], "the same bytes are not a change");
    let before = mode(&fixture.path("b"));
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_eq!(mode(&fixture.path("a")), before);
    assert!(command(&checkpoints, 2, || {}).is_empty());
}

#[test]
fn overlapping_commands_are_undone_as_one() {
    let fixture = Fixture::new();
    fixture.write("x", "0");
    let checkpoints = fixture.checkpoints();
    let first = checkpoints.begin_command(1).expect("begin");
    fixture.write("x", "first");
    let second = checkpoints.begin_command(1).expect("begin");
    fixture.write("x", "second");
    checkpoints.end_command(second, &WriteScope::default()).expect("end");
    fixture.write("y", "y");
    checkpoints.end_command(first, &WriteScope::default()).expect("end");
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_eq!(fixture.read("x").as_deref(), Some("0"));
    assert_eq!(fixture.read("y"), None);
}

#[test]
fn single_changes_are_previewed_reverted_and_redone() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "zero\n");
    fixture.write("mine.txt", "mine\n");
    let checkpoints = fixture.checkpoints();
    for (turn, name, text) in [
        (1, "a.txt", "one\n"),
        (1, "new.txt", "n\n"),
        (2, "a.txt", "two\n"),
        (2, "a.txt", "three\n"),
    ] {
        fixture.edit(&checkpoints, turn, name, text);
    }
    command(&checkpoints, 2, || {
        fixture.write("made.txt", "m\n");
        for folder in ["shared", "shared/deep", "own"] {
            fs::create_dir(fixture.path(folder)).expect("made");
        }
        fixture.write("own/file", "f");
    });
    fixture.write("mine.txt", "mine too\n");
    fixture.write("shared/deep/mine.txt", "mine too\n");
    let edits = checkpoints.edits().expect("edits");
    assert_eq!(edits.iter().map(|edit| edit.turn).collect::<Vec<_>>(), [1, 1, 2, 2]);

    let foreseen = checkpoints.preview_restore(2).expect("foreseen");
    let of = |name: &str| foreseen.iter().find(|one| one.path == fixture.path(name));
    let a = of("a.txt").expect("a change");
    assert_eq!(
        (a.current_text.as_deref(), a.restored_text.as_deref()),
        (Some("three\n"), Some("one\n"))
    );
    assert_eq!((a.kind, a.skip_reason.as_deref()), (ChangeKind::Changed, None));
    assert_eq!(of("made.txt").map(|preview| preview.kind), Some(ChangeKind::Deleted));
    let skip_reason = |name: &str| of(name).and_then(|one| one.skip_reason.as_deref());
    for folder in ["shared", "shared/deep"] {
        assert_eq!(skip_reason(folder), Some("it contains other files"), "{folder}");
    }
    assert_eq!((skip_reason("own"), skip_reason("own/file")), (None, None));
    assert_eq!(foreseen.len(), 6, "nobody else's files: {foreseen:?}");
    assert_eq!(fixture.read("a.txt").as_deref(), Some("three\n"), "nothing was done");

    // Restore to between the two edits of the second turn.
    let restored = checkpoints.restore_before(edits[3].change_time, 3, false).expect("restored");
    assert_eq!(restored.restored.len(), 4, "{restored:?}");
    let mut skipped: Vec<_> = restored.skipped.iter().map(|(path, _)| path.clone()).collect();
    skipped.sort();
    assert_eq!(skipped, ["shared", "shared/deep"].map(|name| fixture.path(name)));
    let now = |name: &str| fixture.read(name);
    assert_eq!((now("a.txt").as_deref(), now("made.txt")), (Some("two\n"), None));
    // The restoration is itself a change.
    checkpoints.undo(Some(3), false).expect("undone");
    assert_eq!(now("a.txt").as_deref(), Some("three\n"));
    assert_eq!(now("made.txt").as_deref(), Some("m\n"));
    // Files that others changed stay, unless forced.
    fixture.write("a.txt", "by another\n");
    fs::remove_dir_all(fixture.path("shared")).expect("removed");
    let restored = checkpoints.restore_before(edits[0].change_time, 4, false).expect("restored");
    assert_eq!(restored.skipped.len(), 1, "{restored:?}");
    assert_eq!((now("a.txt").as_deref(), now("new.txt")), (Some("by another\n"), None));
    checkpoints.restore_before(edits[0].change_time, 5, true).expect("restored");
    assert_eq!(now("a.txt").as_deref(), Some("zero\n"));
    assert_eq!(now("mine.txt").as_deref(), Some("mine too\n"));
}

#[test]
fn undo_skips_files_changed_by_later_turns() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || fixture.write("n1", "x"));
    command(&checkpoints, 2, || {
        fs::rename(fixture.path("n1"), fixture.path("n2")).expect("moved");
    });
    for force in [false, true] {
        let early = checkpoints.undo(Some(1), force).expect("undo");
        assert_eq!((early.restored.len(), early.skipped.len()), (0, usize::from(!force)));
    }
    checkpoints.undo(Some(2), false).expect("undo");
    assert_eq!(fixture.read("n1").as_deref(), Some("x"));
    let undone = checkpoints.undo(Some(1), false).expect("undo");
    assert_eq!(undone.restored, [fixture.path("n1")]);
    assert!(!fixture.path("n1").exists() && !fixture.path("n2").exists());
}

#[test]
fn user_change_between_two_agent_changes_is_kept() {
    let fixture = Fixture::new();
    fixture.write("a", "old");
    fixture.write("quiet", "old");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "a", "agent 1");
    fixture.edit(&checkpoints, 1, "quiet", "agent 1");
    fixture.write("a", "user");
    command(&checkpoints, 1, || {
        fixture.write("a", "agent 2");
        fixture.write("quiet", "agent 2");
    });
    let all = checkpoints.preview_restore(1).expect("foreseen");
    assert!(
        all[0].skip_reason.is_some() && all[0].restored_text.as_deref() == Some("user"),
        "{all:?}"
    );

    let undone = checkpoints.undo(None, false).expect("undo");
    assert!(undone.force_helps && undone.skipped.len() == 1, "{undone:?}");
    assert_eq!(undone.skipped[0].0, fixture.path("a"));
    assert_eq!(fixture.read("a").as_deref(), Some("user"));
    assert_eq!(fixture.read("quiet").as_deref(), Some("old"));
    // After a redo, undoing asks again, also in another process.
    fixture.checkpoints().redo(false).expect("redo");
    assert_eq!(fixture.read("a").as_deref(), Some("agent 2"));
    let again = fixture.checkpoints().undo(None, false).expect("undo");
    assert!(again.force_helps, "{again:?}");
    assert_eq!(fixture.read("a").as_deref(), Some("user"));
    let forced = checkpoints.undo(None, true).expect("undo");
    assert_eq!((forced.restored, forced.skipped), (vec![fixture.path("a")], vec![]));
    assert_eq!(fixture.read("a").as_deref(), Some("old"));
    checkpoints.redo(false).expect("redo");
    assert_eq!(fixture.read("a").as_deref(), Some("user"));
    assert!(checkpoints.undo(None, false).expect("undo").force_helps);

    // Undoing several turns does not remove it either.
    let fixture = Fixture::new();
    fixture.write("a", "old");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "a", "agent 1");
    fixture.write("a", "user");
    fixture.edit(&checkpoints, 2, "a", "agent 2");
    let first = checkpoints.edits().expect("edits")[0].change_time;
    assert!(checkpoints.restore_before(first, 3, false).expect("restored").force_helps);
    assert_eq!(fixture.read("a").as_deref(), Some("user"));
}

#[test]
fn forced_undo_of_user_changes_can_be_redone() {
    let fixture = Fixture::new();
    fixture.write("changed", "old");
    fixture.write("dir/deleted", "old");
    fixture.write("agent", "old");
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || {
        fixture.write("agent", "new");
        // These changes cannot be recognized as those of the user.
        fixture.write("changed", "user");
        fixture.write("made/user", "user");
        fs::remove_dir_all(fixture.path("dir")).expect("removed");
    });
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert!(!fixture.path("made").exists());
    // One file was changed since: the others are restored, and this one by force.
    fixture.write("changed", "later");
    let redone = checkpoints.redo(false).expect("redo");
    assert_eq!(redone.skipped.len(), 1, "{redone:?}");
    assert_eq!(fixture.read("made/user").as_deref(), Some("user"));
    assert!(!fixture.path("dir").exists());
    checkpoints.redo(true).expect("redo");
    assert_eq!(fixture.read("changed").as_deref(), Some("user"));
    assert!(matches!(checkpoints.redo(true), Err(CheckpointError::NothingToUndo)));
}

#[test]
fn undo_removes_agent_pipes_and_restores_hard_links() {
    let fixture = Fixture::new();
    fixture.write("b", "old b");
    fixture.write("one", "old");
    let checkpoints = fixture.checkpoints();
    let pipe = |name: &str| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, fixture.path(name), kind, mode, 0).expect("pipe");
    };
    command(&checkpoints, 1, || {
        pipe("p");
        fs::remove_file(fixture.path("b")).expect("removed");
        pipe("b");
        fs::hard_link(fixture.path("one"), fixture.path("two")).expect("link");
        fixture.write("two", "both");
    });
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.skipped, []);
    assert_eq!(fixture.read("b").as_deref(), Some("old b"));
    assert_eq!(fixture.read("one").as_deref(), Some("old"));
    assert!(!fixture.path("p").exists() && !fixture.path("two").exists());
}

#[test]
fn forced_undo_restores_files_below_a_replaced_directory() {
    let fixture = Fixture::new();
    fixture.write("src/deep/x", "old");
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || fixture.write("src/deep/x", "new"));
    fs::remove_dir_all(fixture.path("src")).expect("removed");
    fixture.write("src", "user");
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped.len(), 1);
    assert_eq!(fixture.read("src").as_deref(), Some("user"));
    assert_eq!(checkpoints.undo(None, true).expect("undo").skipped, []);
    assert_eq!(fixture.read("src/deep/x").as_deref(), Some("old"));
    checkpoints.redo(false).expect("redo");
    assert_eq!(fixture.read("src").as_deref(), Some("user"));
}

#[test]
fn directory_with_files_of_the_user_is_not_the_agents_own() {
    let fixture = Fixture::new();
    fixture.write(".gitignore", "ignored/\n");
    for name in ["data/a", "ignored/a", "old/a"] {
        fixture.write(name, "user");
    }
    // Their times are older than the session, as always.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let checkpoints = fixture.checkpoints();
    let path = |name: &str| fixture.path(name);
    command(&checkpoints, 1, || {
        for name in ["made/x/y", "moved/x", "hidden/x", "shared/x", "built/ignored/x"] {
            fixture.write(name, "agent");
        }
    });
    command(&checkpoints, 2, || {
        fs::rename(path("data"), path("moved/data")).expect("moved");
        fs::rename(path("ignored"), path("hidden/ignored")).expect("moved");
        fs::rename(path("old"), path("new")).expect("moved");
    });
    // The user, meanwhile.
    fixture.write("shared/mine", "user");
    let created = checkpoints.created_paths();
    let is_own = |name: &str| created.contains(&path(name));
    for name in ["made", "made/x", "built"] {
        assert!(is_own(name), "{name}: {created:?}");
    }
    for name in ["moved", "moved/data", "hidden", "new", "shared"] {
        assert!(!is_own(name), "{name}: {created:?}");
    }
}
