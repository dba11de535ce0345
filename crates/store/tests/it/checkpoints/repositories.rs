//! Tests of git repositories in the workspace: changes that git makes to its own data are not
//! touched.

use super::*;

#[test]
fn real_bytes_are_saved_when_git_converts_files() {
    let fixture = Fixture::repository(&[
        (".gitattributes", "*.txt text\n"),
        ("a.txt", "one\r\ntwo\r\n"),
        ("b.txt", "one\ntwo\n"),
    ]);
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || {
        fs::remove_file(fixture.path("a.txt")).expect("removed");
        fs::remove_file(fixture.path("b.txt")).expect("removed");
    });
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_eq!(fixture.read("a.txt").as_deref(), Some("one\r\ntwo\r\n"));
    assert_eq!(fixture.read("b.txt").as_deref(), Some("one\ntwo\n"));

    // Converted by a configuration that is disabled afterwards: the git blob has a different text.
    let fixture = Fixture::new();
    fixture.write("a.txt", "one\r\n");
    fixture.git(&["init", "-q"]);
    fixture.git(&["config", "core.autocrlf", "true"]);
    fixture.commit();
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || fs::remove_file(fixture.path("a.txt")).expect("removed"));
    assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
    assert_eq!(fixture.read("a.txt").as_deref(), Some("one\r\n"));
    fixture.git(&["update-index", "--refresh", "-q"]);
    fixture.git(&["config", "core.autocrlf", "false"]);
    std::thread::sleep(std::time::Duration::from_millis(30));
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 2, || fs::remove_file(fixture.path("a.txt")).expect("removed"));
    let undone = checkpoints.undo(None, false).expect("undo");
    let is_honest = match fixture.read("a.txt") {
        Some(text) => text == "one\r\n",
        None => {
            undone.skipped == [(fixture.path("a.txt"), "git returned different content".to_owned())]
        }
    };
    assert!(is_honest, "{undone:?}");
}

#[test]
fn linked_worktrees_and_index_versions_are_supported() {
    for version in ["2", "3", "4"] {
        let fixture = Fixture::repository(&[("dir/a", "a"), ("dir/abc", "abc"), ("z", "z")]);
        fixture.git(&["update-index", "--index-version", version]);
        fixture.git(&["worktree", "add", "-q", "linked"]);
        fixture.git(&["-C", "linked", "update-index", "--index-version", version]);
        std::thread::sleep(std::time::Duration::from_millis(30));
        let checkpoints = fixture.checkpoints();
        let mark = checkpoints.begin_command(1).expect("begin");
        let hooks = fs::read_dir(fixture.path(".git/hooks")).map_or(0, Iterator::count);
        let kept = fixture.objects();
        assert!(kept <= hooks + 6, "version {version}: {kept} objects");
        fs::remove_dir_all(fixture.path("linked/dir")).expect("removed");
        fs::remove_file(fixture.path("dir/abc")).expect("removed");
        checkpoints.end_command(mark, &WriteScope::default()).expect("end");
        assert_eq!(checkpoints.undo(None, false).expect("undo").skipped, []);
        assert_eq!(fixture.read("linked/dir/abc").as_deref(), Some("abc"));
        assert_eq!(fixture.read("dir/abc").as_deref(), Some("abc"));
    }
}

#[test]
fn no_longer_ignored_files_do_not_count_as_created() {
    let fixture = Fixture::repository(&[(".gitignore", "node_modules/\n*.log\n")]);
    fixture.write("node_modules/a/b.js", "precious");
    fixture.write("x.log", "log");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fs::remove_file(fixture.path(".gitignore")).expect("removed");
    });
    assert_eq!(changes.created, Vec::<PathBuf>::new());
    let changes = command(&checkpoints, 1, || fixture.write(".gitignore", "*.log\n*.js\n"));
    assert_eq!(changes.deleted, Vec::<PathBuf>::new());
    checkpoints.undo(None, true).expect("undo");
    assert_eq!(fixture.read("node_modules/a/b.js").as_deref(), Some("precious"));
    assert_eq!(fixture.read("x.log").as_deref(), Some("log"));
}

#[test]
fn undo_does_not_change_the_repository_kind() {
    let fixture = Fixture::repository(&[("a", "a")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("HEAD", "ref: refs/heads/main");
        fixture.write("objects/x", "");
        fixture.write("refs/x", "");
        fixture.write("config", "[core]\n\tfsmonitor = evil\n");
        fixture.write("sub/config", "mine");
    });
    assert_eq!(changes.protected, [fixture.path("config")]);
    // A file of that name alone is an ordinary file.
    let changes = command(&checkpoints, 2, || {
        fs::remove_file(fixture.path("HEAD")).expect("removed");
        fixture.write("config", "mine");
    });
    assert!(changes.protected.is_empty());
}

#[test]
fn undo_keeps_a_new_repository_valid() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || {
        fixture.git(&["init", "-q"]);
        fixture.write("a", "a");
    });
    checkpoints.undo(None, false).expect("undo");
    assert!(!fixture.path("a").exists());
    fixture.git(&["status"]);
}

#[test]
fn moved_repository_is_moved_back() {
    let moves: [fn(&Fixture); 3] = [
        |_| {},
        |fixture| symlink(".g9", fixture.path(".git")).expect("link"),
        |fixture| fixture.write(".git", "gitdir: .g9"),
    ];
    for then in moves {
        let fixture = Fixture::repository(&[("a", "a"), ("sub/b", "b")]);
        let checkpoints = fixture.checkpoints();
        let changes = command(&checkpoints, 1, || {
            fs::rename(fixture.path(".git"), fixture.path(".g9")).expect("moved");
            then(&fixture);
        });
        let [moved] = &changes.moved_repositories[..] else { panic!("{changes:?}") };
        assert_eq!(moved.moved_to, Some(fixture.path(".g9")));
        moved.move_back().expect("back");
        fixture.git(&["status"]);
        assert!(fixture.path(".git").is_dir() && !fixture.path(".g9").exists());
    }
    // A directory that is moved takes its repository with it.
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("x")).expect("folder");
    git_output(&fixture.path("x"), &["init", "-q"]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fs::rename(fixture.path("x"), fixture.path("y")).expect("moved");
    });
    assert_eq!(changes.moved_repositories, []);
    assert_eq!(changes.new_repositories, [fixture.path("y/.git")]);
    let changes = command(&checkpoints, 2, || {
        fs::remove_dir_all(fixture.path("y/.git")).expect("removed");
    });
    let [moved] = &changes.moved_repositories[..] else { panic!("{changes:?}") };
    assert_eq!(moved.moved_to, None);
    assert!(moved.move_back().is_err());
}
