//! Tests of commands that destroy, close, move, and replace files and directories.

use super::*;

#[test]
fn command_that_deletes_everything_is_undone() {
    let fixture = Fixture::repository(&[
        ("clean.txt", "clean"),
        ("dirty.txt", "committed"),
        ("sub/moved.txt", "moved"),
        (".gitignore", ".env\ntarget/\n"),
    ]);
    fixture.write("dirty.txt", "dirty");
    fixture.write(".env", "SECRET=1");
    fixture.write("target/big.o", "object");
    fixture.write("tool.sh", "#!/bin/sh");
    set_mode(&fixture.path("tool.sh"), 0o755);
    symlink("clean.txt", fixture.path("link")).expect("link");
    let odd = fixture.work.join(OsStr::from_bytes(b"odd\xff\n\"name"));
    fs::write(&odd, [0, 1, 255]).expect("odd");
    fs::create_dir(fixture.path("empty")).expect("empty");
    set_mode(&fixture.path("empty"), 0o750);

    let checkpoints = fixture.checkpoints();
    let mark = checkpoints.begin_command(1).expect("begin");
    assert_eq!(
        mark.irreversible_changes(),
        ["files in ignored directories (target) are not saved"]
    );
    assert!(mark.protected().contains(&fixture.path(".git/config")));
    // clean.txt, moved.txt, and .gitignore are already git objects.
    let hooks = fs::read_dir(fixture.path(".git/hooks")).map_or(0, Iterator::count);
    let kept = fixture.objects();
    assert!(kept <= 4 + hooks + 4, "{kept} objects");
    for name in ["clean.txt", "dirty.txt", ".env", "tool.sh", "link"] {
        fs::remove_file(fixture.path(name)).expect("removed");
    }
    fs::remove_file(&odd).expect("removed");
    fs::remove_dir(fixture.path("empty")).expect("removed");
    fs::rename(fixture.path("sub"), fixture.path("other")).expect("renamed");
    fixture.write("dirty.txt/now/a/folder", "x");
    symlink("/etc/passwd", fixture.path("tool.sh")).expect("link");
    let changes = checkpoints.end_command(mark, &WriteScope::default()).expect("end");
    assert!(changes.changed.contains(&fixture.path("tool.sh")));
    assert!(changes.deleted.contains(&fixture.path("sub/moved.txt")));
    assert!(changes.created.contains(&fixture.path("other/moved.txt")));
    assert!(changes.protected.is_empty());

    let listed = checkpoints.list().expect("list");
    assert!(listed[0].files.iter().all(|file| file.not_undoable.is_none()), "{listed:#?}");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.skipped, []);
    assert_eq!(fixture.read("clean.txt").as_deref(), Some("clean"));
    assert_eq!(fixture.read("dirty.txt").as_deref(), Some("dirty"));
    assert_eq!(fixture.read("sub/moved.txt").as_deref(), Some("moved"));
    assert_eq!(fixture.read(".env").as_deref(), Some("SECRET=1"));
    assert_eq!(fixture.read("tool.sh").as_deref(), Some("#!/bin/sh"));
    assert_eq!(mode(&fixture.path("tool.sh")), 0o755);
    assert_eq!(fs::read_link(fixture.path("link")).expect("link"), Path::new("clean.txt"));
    assert_eq!(fs::read(&odd).expect("odd"), [0, 1, 255]);
    assert_eq!(mode(&fixture.path("empty")), 0o750);
    assert!(!fixture.path("other").exists());
    assert_eq!(fixture.read("target/big.o").as_deref(), Some("object"));
    let status = git_output(&fixture.work, &["status", "--porcelain", "-z"]);
    let status = String::from_utf8_lossy(&status).replace('\0', "\n");
    assert!(status.starts_with(" M dirty.txt\n?? link\n"), "{status}");
}

#[test]
fn inaccessible_directory_is_made_accessible_on_undo() {
    let fixture = Fixture::new();
    fixture.write("folder/a", "a");
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || {
        fixture.write("folder/a", "changed");
        set_mode(&fixture.path("folder"), 0o311);
    });
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.skipped, []);
    assert_eq!(fixture.read("folder/a").as_deref(), Some("a"));
    assert_eq!(mode(&fixture.path("folder")), 0o755);
}

/// Creates a tree with a directory `a`, and another next to it.
fn tree(fixture: &Fixture) {
    for (name, text) in [("a/b/f", "1"), ("a/g", "2"), ("c/h", "3"), ("k", "4")] {
        fixture.write(name, text);
    }
}

fn assert_unchanged(fixture: &Fixture) {
    for (name, text) in [("a/b/f", "1"), ("a/g", "2"), ("c/h", "3"), ("k", "4")] {
        assert_eq!(fixture.read(name).as_deref(), Some(text), "{name}");
    }
    assert!(fixture.path("a").symlink_metadata().expect("a").is_dir());
    assert!(!fixture.path("a0").exists());
}

#[test]
fn directories_replaced_by_links_are_restored() {
    let outside = tempfile::tempdir().expect("folder");
    for target in [Path::new("c"), outside.path(), Path::new("nowhere")] {
        for tracked in [false, true] {
            let fixture = Fixture::new();
            tree(&fixture);
            if tracked {
                fixture.git(&["init", "-q"]);
                fixture.commit();
            }
            let checkpoints = fixture.checkpoints();
            let changes = command(&checkpoints, 1, || {
                fs::remove_dir_all(fixture.path("a")).expect("removed");
                symlink(target, fixture.path("a")).expect("link");
            });
            assert_eq!((changes.changed.len(), changes.deleted.len()), (1, 3));
            let undone = checkpoints.undo(None, false).expect("undo");
            assert_eq!(
                (undone.restored.len(), undone.skipped),
                (4, vec![]),
                "{}",
                target.display()
            );
            assert_unchanged(&fixture);
            // Once more in both directions.
            assert_eq!(checkpoints.redo(false).expect("redo").skipped, []);
            assert_eq!(fs::read_link(fixture.path("a")).expect("link"), target);
            assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
            assert_unchanged(&fixture);
        }
    }
}

#[test]
fn undo_does_not_lose_a_moved_directory() {
    let fixture = Fixture::new();
    tree(&fixture);
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || {
        fs::rename(fixture.path("a"), fixture.path("a0")).expect("moved");
        symlink("a0", fixture.path("a")).expect("link");
    });
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_unchanged(&fixture);
}

#[test]
fn renamed_file_without_saved_content_is_renamed_back() {
    let fixture = Fixture::new();
    tree(&fixture);
    fixture.write("a/large", "more than sixteen bytes");
    let mut options = fixture.options();
    options.file_bytes = 16;
    let checkpoints = Checkpoints::open(options);
    let moved = || {
        fs::rename(fixture.path("a"), fixture.path("a0")).expect("moved");
        symlink("a0", fixture.path("a")).expect("link");
    };
    command(&checkpoints, 1, moved);
    let large = || fixture.read("a/large").expect("large").len();
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_unchanged(&fixture);
    assert_eq!(large(), 23);
    assert_eq!(checkpoints.redo(false).expect("redo").skipped, []);
    assert_eq!((large(), fixture.path("a0/large").exists()), (23, true));
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_eq!(large(), 23);
    // If the old name is taken, the file keeps the new name.
    command(&checkpoints, 2, moved);
    fs::remove_file(fixture.path("a")).expect("removed");
    fixture.write("a", "mine");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert!(!undone.skipped.is_empty());
    assert_eq!(fixture.read("a0/large").map(|text| text.len()), Some(23));
    assert_eq!(fixture.read("a0/g").as_deref(), Some("2"));
    assert_eq!(fixture.read("a").as_deref(), Some("mine"));
}

#[test]
fn command_killed_with_the_program_is_undone() {
    let fixture = Fixture::new();
    for name in ["changed", "deleted", "quiet", "later"] {
        fixture.write(name, "old");
    }
    let checkpoints = fixture.checkpoints();
    let mark = checkpoints.begin_command(1).expect("begin");
    let running = checkpoints.protect_command(&mark);
    fixture.write("changed", "new");
    fixture.write("later", "new");
    fixture.write("made/file", "new");
    fs::remove_file(fixture.path("deleted")).expect("removed");
    let folder = fixture.folder.path().join("checkpoints/work-12345678");
    let marks = || {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.path());
        files.filter(|path| path.extension().is_some_and(|end| end == "mark")).collect::<Vec<_>>()
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while marks().is_empty() || fs::metadata(&marks()[0]).expect("facts").len() == 0 {
        assert!(std::time::Instant::now() < until, "nothing was written");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    // While the program runs, no other process considers it dead.
    assert!(fixture.checkpoints().list().expect("list").is_empty());
    let (path, text) = (marks()[0].clone(), fs::read(&marks()[0]).expect("mark"));
    drop((running, checkpoints));
    assert!(marks().is_empty(), "one that ended leaves nothing");
    fs::write(&path, text).expect("left behind");
    std::thread::sleep(std::time::Duration::from_millis(1300));
    let died = std::time::SystemTime::now() - std::time::Duration::from_millis(1250);
    let file = fs::File::options().append(true).open(&path).expect("mark");
    file.set_modified(died).expect("time");
    fixture.write("later", "user");

    assert_eq!(
        latest_session(&fixture.folder.path().join("checkpoints"), "work-12345678"),
        Some("s1".into())
    );
    let next = fixture.checkpoints();
    assert_eq!(next.list().expect("list")[0].files.len(), 5);
    let undone = next.undo(None, false).expect("undo");
    assert_eq!(undone.skipped.len(), 1, "{undone:?}");
    assert_eq!(fixture.read("later").as_deref(), Some("user"));
    for name in ["changed", "deleted", "quiet"] {
        assert_eq!(fixture.read(name).as_deref(), Some("old"), "{name}");
    }
    assert!(!fixture.path("made").exists() && marks().is_empty());
}
