//! Tests of protected files, and of links that point elsewhere.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

#[test]
fn protected_files_are_restored_and_others_kept() {
    let fixture = Fixture::repository(&[("a", "a"), (".vscode/tasks.json", "{}")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("a", "wanted");
        fixture.write(".vscode/tasks.json", "evil");
        fixture.write(".git/hooks/pre-commit", "evil");
        fixture.write(".envrc", "evil");
        fixture.write(".git/refs/heads/other", "fine");
    });
    assert_eq!(changes.protected.len(), 3, "{changes:?}");
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!((undone.restored.len(), undone.skipped.len()), (3, 0));
    assert_eq!(fixture.read(".vscode/tasks.json").as_deref(), Some("{}"));
    assert!(!fixture.path(".git/hooks/pre-commit").exists() && !fixture.path(".envrc").exists());
    let listed = checkpoints.list().expect("list");
    assert_eq!(listed[0].files.len(), 1);
    assert_eq!(listed[0].files[0].kind, ChangeKind::Changed);
    assert_eq!(checkpoints.undo(None, false).expect("undo").restored, [fixture.path("a")]);
}

#[test]
fn links_swapped_during_restore_are_not_followed() {
    let fixture = Fixture::new();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).expect("outside");
    fs::write(outside.join("a"), "theirs").expect("theirs");
    fixture.write("dir/a", "old");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "dir/a", "new");
    fs::rename(fixture.path("dir"), fixture.path("away")).expect("away");
    symlink(&outside, fixture.path("dir")).expect("link");
    for force in [false, true] {
        let undone = checkpoints.undo(Some(1), force).expect("undo");
        assert_eq!((undone.restored.len(), undone.skipped.len()), (0, 1), "{undone:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("a")).expect("theirs"), "theirs");

    // Paths outside the workspace in a record are not touched either.
    let journal = fixture.folder.path().join("checkpoints/work-12345678/s1.jsonl");
    let text = fs::read_to_string(&journal).expect("journal");
    let foreign = text.replace(
        &fixture.path("dir/a").display().to_string(),
        &outside.join("a").display().to_string(),
    );
    fs::write(&journal, foreign).expect("journal");
    let undone = fixture.checkpoints().undo(Some(1), true).expect("undo");
    assert_eq!(undone.skipped[0].1, "it is outside the workspace");
}

#[test]
fn restore_never_escapes_a_swapped_directory() {
    let fixture = Fixture::new();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).expect("outside");
    fixture.write("dir/a", "old");
    let checkpoints = fixture.checkpoints();
    let file = [fixture.path("dir/a")];
    let changes = command(&checkpoints, 1, || fixture.write("dir/a", "new"));
    let stop = AtomicBool::new(false);
    let swaps = AtomicUsize::new(0);
    let mut restored = 0;
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (dir, link) = (fixture.path("dir"), fixture.path("link"));
            symlink(&outside, &link).expect("link");
            let swap = || renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE);
            while !stop.load(Ordering::Relaxed) {
                swap().expect("swapped");
                // The real directory now has the name of the link.
                if swaps.load(Ordering::Relaxed).is_multiple_of(16) {
                    let _ = fs::write(link.join("a"), "new");
                }
                swap().expect("swapped");
                swaps.fetch_add(2, Ordering::Relaxed);
            }
        });
        let start = std::time::Instant::now();
        // Longer on a busy machine.
        let has_enough = |restored| swaps.load(Ordering::Relaxed) > 1000 && restored > 0;
        while start.elapsed().as_secs() < 1
            || (!has_enough(restored) && start.elapsed().as_secs() < 30)
        {
            restored += checkpoints.restore(&changes, &file).map_or(0, |done| done.restored.len());
        }
        stop.store(true, Ordering::Relaxed);
        swapper.join().expect("swapper");
    });
    let swaps = swaps.into_inner();
    assert!(swaps > 1000 && restored > 0, "{swaps} swaps, {restored} restored");
    assert_eq!(fs::read_dir(&outside).expect("outside").count(), 0);
}

#[test]
fn protected_directory_replaced_by_a_link_is_restored() {
    let fixture = Fixture::new();
    fixture.write(".vscode/tasks.json", "{}");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("e/tasks.json", "evil");
        fs::remove_dir_all(fixture.path(".vscode")).expect("removed");
        symlink("e", fixture.path(".vscode")).expect("link");
    });
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!(undone.skipped, []);
    assert_eq!(fixture.read(".vscode/tasks.json").as_deref(), Some("{}"));
    assert!(!fixture.path(".vscode").is_symlink());
}

#[test]
fn restored_changes_can_be_redone_and_inaccessible_files_stay() {
    let fixture = Fixture::new();
    fixture.write(".vscode/settings.json", "old");
    let checkpoints = fixture.checkpoints();
    let mark = checkpoints.begin_command(1).expect("begin");
    fixture.write(".vscode/settings.json", "user");
    fixture.write(".vscode/tasks.json", "user");
    fixture.write("AGENTS.md", "user");
    fixture.write("a", "agent");
    let write_scope = WriteScope { read_only: vec![fixture.path(".vscode")], open: vec![] };
    let changes = checkpoints.end_command(mark, &write_scope).expect("end");
    assert_eq!(changes.protected, [fixture.path("AGENTS.md")]);
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!(undone.restored, [fixture.path("AGENTS.md")]);
    assert_eq!(fixture.read("AGENTS.md"), None);
    let turn_changes = checkpoints.list().expect("list");
    assert_eq!(turn_changes[0].files.len(), 1, "{turn_changes:?}");

    // A redone file counts as a change by the user, so no undo reverts it.
    assert_eq!(checkpoints.redo(false).expect("redo").restored, [fixture.path("AGENTS.md")]);
    assert_eq!(checkpoints.undo(None, false).expect("undo").restored, [fixture.path("a")]);
    for name in ["AGENTS.md", ".vscode/settings.json", ".vscode/tasks.json"] {
        assert_eq!(fixture.read(name).as_deref(), Some("user"), "{name}");
    }
}

/// Runs a test of this file again as an ordinary user, from whom a mode can hide a directory.
/// Returns whether this is that run.
#[expect(clippy::disallowed_methods, reason = "a test runs itself as another user")]
fn as_ordinary_user(test: &str) -> bool {
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o777);
    let copy = folder.path().join("tests");
    fs::copy(std::env::current_exe().expect("the test"), &copy).expect("a copy");
    set_mode(&copy, 0o755);
    let mut command = std::process::Command::new(&copy);
    command.args(["--exact", test]).current_dir("/").env("TMPDIR", folder.path());
    command.env("HOME", folder.path()).uid(65534).gid(65534);
    // A child of another test may still hold the copy open for writing.
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            output => break output.expect("the test"),
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// What a command may create and what must not stay.
const PLANTED: [&str; 4] = [".envrc", ".git/hooks/pre-commit", ".vscode/tasks.json", ".git/config"];

#[test]
fn protected_files_in_an_inaccessible_directory_are_found() {
    if !as_ordinary_user(
        "checkpoints::guarded::protected_files_in_an_inaccessible_directory_are_found",
    ) {
        return;
    }
    for closed in [0o111, 0o311, 0o000, 0o600, 0o400, 0o555, 0o100] {
        let fixture = Fixture::new();
        fixture.write("mine/a", "a");
        fixture.git(&["init", "-q"]);
        let checkpoints = fixture.checkpoints();
        let changes = command(&checkpoints, 1, || {
            for folder in ["one/two", "mine"] {
                for name in PLANTED {
                    fixture.write(&format!("{folder}/{name}"), "evil");
                }
                set_mode(&fixture.path(folder), closed);
            }
            set_mode(&fixture.path("one"), closed);
            for name in [".nvim.lua", ".zed/tasks.json"] {
                fixture.write(name, "evil");
            }
            set_mode(&fixture.work, closed);
        });
        assert_eq!(
            (&changes.unsearched, &changes.moved_repositories),
            (&vec![], &vec![]),
            "{closed:o}"
        );
        let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
        assert_eq!(undone.skipped, [], "{closed:o}");
        for name in ["one/two", "mine"].map(|top| PLANTED.map(|name| format!("{top}/{name}"))) {
            for name in name {
                assert!(!fixture.path(&name).exists(), "{closed:o} {name}");
            }
        }
        for name in [".nvim.lua", ".zed/tasks.json"] {
            assert!(!fixture.path(name).exists(), "{closed:o} {name}");
        }
        assert_eq!(fixture.read("mine/a").as_deref(), Some("a"), "{closed:o}");
    }
}

#[test]
fn directory_that_was_already_inaccessible_is_unchanged() {
    if !as_ordinary_user(
        "checkpoints::guarded::directory_that_was_already_inaccessible_is_unchanged",
    ) {
        return;
    }
    for closed in [0o000, 0o600, 0o111] {
        let fixture = Fixture::new();
        fixture.write("mine/.envrc", "mine");
        set_mode(&fixture.path("mine"), closed);
        let checkpoints = fixture.checkpoints();
        let changes = command(&checkpoints, 1, || fixture.write("b", "b"));
        assert_eq!((changes.unsearched, changes.protected), (vec![], vec![]), "{closed:o}");
        assert_eq!(mode(&fixture.path("mine")), closed);
        // Opened by a command, its files are not taken for new ones.
        let changes = command(&checkpoints, 1, || set_mode(&fixture.path("mine"), 0o700));
        assert_eq!(changes.protected, [""; 0].map(PathBuf::from), "{closed:o}");
        assert_eq!(fixture.read("mine/.envrc").as_deref(), Some("mine"));
    }
}

#[test]
fn protected_files_are_found_at_every_depth_that_a_path_reaches() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    let depths = [20, 127, 128, 129, 130, 400, 1000];
    let changes = command(&checkpoints, 1, || {
        for depth in depths {
            // Every level has another directory that waits to be read.
            let mut folder = fixture.path(&format!("d{depth}"));
            for _ in 0..depth {
                folder.push("a");
                fs::create_dir_all(folder.with_file_name("b")).expect("a folder");
                fs::create_dir_all(&folder).expect("a folder");
            }
            fs::write(folder.join(".envrc"), "evil").expect("a file");
        }
    });
    assert_eq!(changes.unsearched, []);
    assert_eq!(changes.protected.len(), depths.len());
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!((undone.restored.len(), undone.skipped.len()), (depths.len(), 0));
    assert!(changes.protected.iter().all(|path| !path.exists()));
}

#[test]
fn stopped_protected_file_search_is_reported_quickly() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    let mut started_at = std::time::Instant::now();
    let changes = command(&checkpoints, 1, || {
        let mut folder =
            rustix::fs::open(&fixture.work, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
                .expect("the workspace");
        for _ in 0..10_000 {
            rustix::fs::mkdirat(&folder, "a", rustix::fs::Mode::RWXU).expect("a folder");
            let flags = rustix::fs::OFlags::PATH;
            folder = rustix::fs::openat(&folder, "a", flags, rustix::fs::Mode::empty())
                .expect("a folder");
        }
        started_at = std::time::Instant::now();
    });
    let (path, reason) = changes.unsearched.first().expect("a report");
    assert!(path.starts_with(&fixture.work) && reason.contains("too long"), "{reason}");
    let next = command(&checkpoints, 1, || fixture.write("b/.envrc", "evil"));
    assert_eq!((next.protected.len(), next.unsearched.len()), (1, 0));
    assert!(
        started_at.elapsed() < std::time::Duration::from_secs(20),
        "{:?}",
        started_at.elapsed()
    );
    // The test's own directory is removed level by level.
    parallax_files::remove_tree(&fixture.work).expect("removed");
}

#[test]
fn protected_files_are_found_after_too_many_others() {
    let fixture = Fixture::new();
    let options = CheckpointOptions { entries: 50, ..fixture.options() };
    let checkpoints = Checkpoints::open(options);
    for turn in 1..4 {
        let changes = command(&checkpoints, turn, || {
            (0..100).for_each(|number| fixture.write(&format!("a{turn}/{number}"), ""));
            for name in PLANTED {
                fixture.write(&format!("z{turn}/{name}"), "evil");
            }
        });
        assert_eq!(changes.unsearched, [], "{turn}");
        checkpoints.restore(&changes, &changes.protected).expect("restore");
        for name in PLANTED {
            assert!(!fixture.path(&format!("z{turn}/{name}")).exists(), "{turn} {name}");
        }
    }
    // One directory with more names than are read at once.
    let changes = command(&checkpoints, 4, || {
        (0..300).for_each(|number| fixture.write(&format!("many/{number}"), ""));
    });
    assert_eq!(changes.unsearched.len(), 1);
    let mark = checkpoints.begin_command(5).expect("begin");
    let output = mark.irreversible_changes().join("; ");
    assert!(output.contains("many: it has too many files"), "{output}");
}

#[test]
fn changed_program_loses_its_set_id_bits() {
    let fixture = Fixture::new();
    for name in ["same", "mapped", "moved"] {
        fixture.write(name, "#!/bin/sh\n");
        set_mode(&fixture.path(name), 0o6755);
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        // A write through a memory mapping changes the file and keeps its bits and its size.
        fixture.write("mapped", "#!/bin/rm\n");
        set_mode(&fixture.path("mapped"), 0o6755);
        fs::rename(fixture.path("moved"), fixture.path("elsewhere")).expect("moved");
        fixture.write("new", "");
        set_mode(&fixture.path("new"), 0o4755);
    });
    let expected = ["elsewhere", "mapped", "new"].map(|name| fixture.path(name));
    assert_eq!(changes.set_id, expected);
    let (done, lost) = checkpoints.remove_set_id(&changes.set_id);
    assert_eq!((done, lost), (expected.to_vec(), vec![]));
    for path in expected {
        assert_eq!(mode(&path), 0o755, "{path:?}");
    }
    assert_eq!(mode(&fixture.path("same")), 0o6755);
    let changes = command(&checkpoints, 2, || fixture.write("other", ""));
    assert_eq!(changes.set_id, [""; 0].map(PathBuf::from));
}

#[test]
fn protected_files_in_newly_ignored_directories_are_restored() {
    let fixture = Fixture::repository(&[(".gitignore", "build/"), ("old/.envrc", "mine")]);
    fixture.write("build/.envrc", "mine");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("new/.vscode/tasks.json", "evil");
        fixture.write("new/.git/hooks/pre-commit", "evil");
        fixture.write("new/notes", "fine");
        fixture.write("old/.envrc", "evil");
        fixture.write("own/.gitignore", "*");
        fixture.write("own/deep/.envrc", "evil");
        fixture.write("build/out", "fine");
        fixture.write("build/.envrc", "not covered: the user ignores it");
        fixture.write(".gitignore", "build/\nnew/\nold/");
    });
    checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!(fixture.read("old/.envrc").as_deref(), Some("mine"));
    for gone in ["new/.vscode/tasks.json", "new/.git/hooks/pre-commit", "own/deep/.envrc"] {
        assert!(!fixture.path(gone).exists(), "{gone}: {changes:?}");
    }
    assert!(fixture.path("new/notes").exists() && fixture.path("build/out").exists());
    assert!(!changes.created.contains(&fixture.path("build/out")), "{changes:?}");
}

#[test]
fn targets_of_protected_links_are_restored() {
    let fixture = Fixture::repository(&[
        ("real/tasks.json", "mine"),
        ("deep/rc", "mine"),
        ("hook.sh", "mine"),
        ("whole/file", "mine"),
    ]);
    let link = |target: &str, name: &str| symlink(target, fixture.path(name)).expect("link");
    link("real", ".vscode");
    link("between/rc", ".envrc");
    link("deep", "between");
    link("../../hook.sh", ".git/hooks/pre-commit");
    link("later", ".zed");
    // It would protect the whole workspace.
    link(".", ".claude");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("real/tasks.json", "evil");
        fixture.write("real/new.json", "evil");
        fixture.write("deep/rc", "evil");
        fixture.write("hook.sh", "evil");
        fixture.write("later/tasks.json", "evil");
        fixture.write("whole/file", "wanted");
    });
    checkpoints.restore(&changes, &changes.protected).expect("restore");
    for kept in ["real/tasks.json", "deep/rc", "hook.sh"] {
        assert_eq!(fixture.read(kept).as_deref(), Some("mine"), "{kept}: {changes:?}");
    }
    assert!(!fixture.path("real/new.json").exists());
    assert!(!fixture.path("later/tasks.json").exists());
    assert_eq!(fixture.read("whole/file").as_deref(), Some("wanted"));
}

#[test]
fn hard_link_of_a_protected_file_does_not_open_it() {
    let fixture = Fixture::repository(&[("other", "mine")]);
    fs::hard_link(fixture.path("other"), fixture.path(".envrc")).expect("link");
    let checkpoints = fixture.checkpoints();
    let mark = checkpoints.begin_command(1).expect("begin");
    fs::write(fixture.path("other"), "evil").expect("written");
    fs::remove_file(fixture.path("other")).expect("removed");
    // The sandbox denies to write the protected name itself.
    let write_scope = WriteScope { open: vec![], read_only: vec![fixture.path(".envrc")] };
    let changes = checkpoints.end_command(mark, &write_scope).expect("end");
    checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!(fixture.read(".envrc").as_deref(), Some("mine"), "{changes:?}");
}

#[test]
fn deeply_nested_directories_in_a_protected_one_are_removed_completely() {
    let fixture = Fixture::repository(&[("a", "a")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        let mut folder = fixture.path(".vscode");
        for _ in 0..400 {
            folder.push("d");
        }
        fs::create_dir_all(&folder).expect("folders");
        fs::write(folder.join("tasks.json"), "evil").expect("written");
    });
    assert!(changes.protected.len() < 100, "{}", changes.protected.len());
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert!(undone.skipped.is_empty(), "{undone:?}");
    assert!(!fixture.path(".vscode").exists());
}
