//! Old bytes kept and given back, in real folders and real repositories.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use parallax_store::{
    BlobReader, ChangeKind, Changes, CheckpointError, CheckpointOptions, Checkpoints,
    latest_session,
};

pub struct Fixture {
    pub work: PathBuf,
    pub folder: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "a test runs the real git")]
fn git_output(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = std::process::Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Fixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let work = folder.path().canonicalize().expect("real").join("work");
        fs::create_dir(&work).expect("work");
        Self { work, folder }
    }

    /// A repository with these files committed, old enough not to be racy.
    fn repository(files: &[(&str, &str)]) -> Self {
        let fixture = Self::new();
        files.iter().for_each(|(name, text)| fixture.write(name, text));
        fixture.git(&["init", "-q"]);
        fixture.commit();
        fixture
    }

    fn commit(&self) {
        // The index must be younger than the files for them to be clean.
        std::thread::sleep(std::time::Duration::from_millis(30));
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "x"]);
        std::thread::sleep(std::time::Duration::from_millis(30));
    }

    fn git(&self, arguments: &[&str]) {
        git_output(&self.work, arguments);
    }

    pub fn options(&self) -> CheckpointOptions {
        let store = self.folder.path().join("checkpoints");
        let roots = vec![self.work.clone()];
        let mut options = CheckpointOptions::new(store, "work-12345678".into(), "s1".into(), roots);
        options.blobs =
            Some(BlobReader::new(|top, blob| Ok(git_output(top, &["cat-file", "blob", blob]))));
        options
    }

    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::open(self.options())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        fs::write(path, text).expect("write");
    }

    pub fn read(&self, name: &str) -> Option<String> {
        fs::read(self.path(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn edit(&self, checkpoints: &Checkpoints, turn: u64, name: &str, text: &str) {
        let mark = checkpoints.begin_edit(turn, &[self.path(name)]).expect("begin");
        self.write(name, text);
        checkpoints.end_edit(mark).expect("end");
    }

    /// The objects of the store: how many files.
    fn objects(&self) -> usize {
        let objects = self.folder.path().join("checkpoints/objects");
        let heads = fs::read_dir(objects).into_iter().flatten().flatten();
        heads.map(|head| fs::read_dir(head.path()).into_iter().flatten().count()).sum()
    }
}

fn command(checkpoints: &Checkpoints, turn: u64, run: impl FnOnce()) -> Changes {
    let mark = checkpoints.begin_command(turn).expect("begin");
    run();
    checkpoints.end_command(mark).expect("end")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("facts").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}

#[test]
fn edits_are_undone_turn_by_turn_in_a_new_process_too() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "zero");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "a.txt", "one");
    fixture.edit(&checkpoints, 1, "a.txt", "one and a half");
    fixture.edit(&checkpoints, 1, "new/deep/b.txt", "b");
    fixture.edit(&checkpoints, 2, "a.txt", "two");
    assert!(checkpoints.made().contains(&fixture.path("new/deep/b.txt")));

    let store = fixture.folder.path().join("checkpoints");
    assert_eq!(latest_session(&store, "work-12345678"), Some("s1".into()));
    let checkpoints = fixture.checkpoints();
    let kept = checkpoints.undo(Some(1), false).expect("undo").kept;
    assert_eq!(kept, [(fixture.path("a.txt"), "turn 2 changed it again".to_owned())]);
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
    assert!(checkpoints.made().is_empty());
}

#[test]
fn what_the_user_changed_since_is_left_alone_unless_forced() {
    let fixture = Fixture::new();
    fixture.write("a", "old");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "a", "agent");
    fixture.edit(&checkpoints, 1, "made", "agent");
    fixture.write("a", "user!");
    fixture.write("made", "user!");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert!(undone.restored.is_empty());
    assert_eq!(undone.kept.len(), 2);
    assert!(undone.kept.iter().all(|(_, why)| why == "somebody changed it since"));
    assert_eq!(fixture.read("a").as_deref(), Some("user!"));
    assert!(matches!(checkpoints.undo(None, false), Err(CheckpointError::NothingToUndo)));
    let undone = checkpoints.undo(None, true).expect("undo");
    assert_eq!(undone.restored.len(), 2);
    assert_eq!(fixture.read("a").as_deref(), Some("old"));
    assert_eq!(fixture.read("made"), None);
}

#[test]
fn an_undo_can_be_taken_back() {
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
        assert_eq!((redone.restored.len(), redone.kept.len()), (4, 0), "{redone:?}");
        assert_eq!(fixture.read("a").as_deref(), Some("user"), "the forced undo kept it");
        assert!(!fixture.path("b").exists());
        assert_eq!(fixture.read("new/c").as_deref(), Some("agent"));
    }
    assert!(matches!(checkpoints.redo(false), Err(CheckpointError::NothingToUndo)));
}

#[test]
fn a_command_that_wrecks_everything_is_undone() {
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
    assert_eq!(mark.not_undoable(), ["files inside ignored folders (target) are not kept"]);
    assert!(mark.protected().contains(&fixture.path(".git/config")));
    // clean.txt, moved.txt and .gitignore are git's objects already.
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
    let changes = checkpoints.end_command(mark).expect("end");
    assert!(changes.changed.contains(&fixture.path("tool.sh")));
    assert!(changes.deleted.contains(&fixture.path("sub/moved.txt")));
    assert!(changes.created.contains(&fixture.path("other/moved.txt")));
    assert!(changes.protected.is_empty());

    let listed = checkpoints.list().expect("list");
    assert!(listed[0].files.iter().all(|file| file.not_undoable.is_none()), "{listed:#?}");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.kept, []);
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
fn only_modes_and_touches() {
    let fixture = Fixture::repository(&[("a", "a"), ("b", "b"), ("c", "c")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        set_mode(&fixture.path("a"), 0o755);
        fixture.write("b", "b");
        set_mode(&fixture.path("c"), 0o600);
        set_mode(&fixture.path("c"), 0o644);
    });
    assert_eq!(changes.changed, [fixture.path("a")], "same bytes are no change");
    let before = mode(&fixture.path("b"));
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
    assert_eq!(mode(&fixture.path("a")), before);
    assert!(command(&checkpoints, 2, || {}).is_empty());
}

#[test]
fn a_folder_that_was_closed_is_opened_again() {
    let fixture = Fixture::new();
    fixture.write("folder/a", "a");
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || {
        fixture.write("folder/a", "changed");
        set_mode(&fixture.path("folder"), 0o311);
    });
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.kept, []);
    assert_eq!(fixture.read("folder/a").as_deref(), Some("a"));
    assert_eq!(mode(&fixture.path("folder")), 0o755);
}

#[test]
fn where_git_converts_the_real_bytes_are_kept() {
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
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
    assert_eq!(fixture.read("a.txt").as_deref(), Some("one\r\ntwo\r\n"));
    assert_eq!(fixture.read("b.txt").as_deref(), Some("one\ntwo\n"));

    // By configuration, and switched off afterwards: git's blob is another text.
    let fixture = Fixture::new();
    fixture.write("a.txt", "one\r\n");
    fixture.git(&["init", "-q"]);
    fixture.git(&["config", "core.autocrlf", "true"]);
    fixture.commit();
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || fs::remove_file(fixture.path("a.txt")).expect("removed"));
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
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
            undone.kept
                == [(fixture.path("a.txt"), "git gave other bytes than the old ones".to_owned())]
        }
    };
    assert!(is_honest, "{undone:?}");
}

#[test]
fn linked_working_trees_and_index_versions_are_understood() {
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
        checkpoints.end_command(mark).expect("end");
        assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
        assert_eq!(fixture.read("linked/dir/abc").as_deref(), Some("abc"));
        assert_eq!(fixture.read("dir/abc").as_deref(), Some("abc"));
    }
}

#[test]
fn what_is_too_large_is_said_before_and_kept_as_it_is() {
    let fixture = Fixture::new();
    for name in ["a.bin", "b.bin", "c.bin", "d.bin", "e.bin"] {
        fixture.write(name, &"x".repeat(2000));
    }
    fixture.write("small", "small");
    let options = CheckpointOptions { file_bytes: 1000, ..fixture.options() };
    let checkpoints = Checkpoints::open(options);
    let mark = checkpoints.begin_command(1).expect("begin");
    let said = mark.not_undoable();
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[0], "a.bin (2.0 kB) is not kept");
    assert_eq!(said[3], "2 more files (4.0 kB) are not kept");
    fixture.write("a.bin", "gone");
    fixture.write("small", "gone");
    checkpoints.end_command(mark).expect("end");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert_eq!(undone.restored, [fixture.path("small")]);
    assert_eq!(undone.kept[0].1, "its old bytes were not kept (2.0 kB)");
    assert_eq!(fixture.read("a.bin").as_deref(), Some("gone"));

    let options = CheckpointOptions { command_bytes: 5000, ..fixture.options() };
    let mark = Checkpoints::open(options).begin_command(2).expect("begin");
    assert_eq!(mark.not_undoable().len(), 2, "{:?}", mark.not_undoable());
}

#[test]
fn repeated_checkpoints_copy_nothing_twice() {
    let fixture = Fixture::new();
    (0..20).for_each(|number| fixture.write(&format!("f{number}"), "the same"));
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || fixture.write("f1", "other"));
    command(&checkpoints, 1, || fixture.write("f2", "other"));
    assert_eq!(fixture.objects(), 2);
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
    assert_eq!(fixture.read("f2").as_deref(), Some("the same"));
}

#[test]
fn files_that_are_no_longer_ignored_were_not_created() {
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
fn protected_files_are_put_back_and_the_rest_stays() {
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
    assert_eq!((undone.restored.len(), undone.kept.len()), (3, 0));
    assert_eq!(fixture.read(".vscode/tasks.json").as_deref(), Some("{}"));
    assert!(!fixture.path(".git/hooks/pre-commit").exists() && !fixture.path(".envrc").exists());
    let listed = checkpoints.list().expect("list");
    assert_eq!(listed[0].files.len(), 1);
    assert_eq!(listed[0].files[0].kind, ChangeKind::Changed);
    assert_eq!(checkpoints.undo(None, false).expect("undo").restored, [fixture.path("a")]);
}

#[test]
fn the_workspace_does_not_become_a_repository_of_another_kind() {
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
    // A file of that name alone is like any other.
    let changes = command(&checkpoints, 2, || {
        fs::remove_file(fixture.path("HEAD")).expect("removed");
        fixture.write("config", "mine");
    });
    assert!(changes.protected.is_empty());
}

#[test]
fn a_new_repository_is_not_broken_by_an_undo() {
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
fn overlapping_commands_are_undone_as_one() {
    let fixture = Fixture::new();
    fixture.write("x", "0");
    let checkpoints = fixture.checkpoints();
    let first = checkpoints.begin_command(1).expect("begin");
    fixture.write("x", "first");
    let second = checkpoints.begin_command(1).expect("begin");
    fixture.write("x", "second");
    checkpoints.end_command(second).expect("end");
    fixture.write("y", "y");
    checkpoints.end_command(first).expect("end");
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
    assert_eq!(fixture.read("x").as_deref(), Some("0"));
    assert_eq!(fixture.read("y"), None);
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
    assert_eq!(undone.kept[0].1, "its old bytes in the store are damaged");
    assert_eq!(fixture.read("b").as_deref(), Some("new"));
}

#[test]
fn links_exchanged_meanwhile_lead_nowhere() {
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
        assert_eq!((undone.restored.len(), undone.kept.len()), (0, 1), "{undone:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("a")).expect("theirs"), "theirs");

    // What a record names outside of the workspace is not touched either.
    let journal = fixture.folder.path().join("checkpoints/work-12345678/s1.jsonl");
    let text = fs::read_to_string(&journal).expect("journal");
    let foreign = text.replace(
        &fixture.path("dir/a").display().to_string(),
        &outside.join("a").display().to_string(),
    );
    fs::write(&journal, foreign).expect("journal");
    let undone = fixture.checkpoints().undo(Some(1), true).expect("undo");
    assert_eq!(undone.kept[0].1, "it is outside of the workspace folders");
}

#[test]
fn a_folder_swapped_all_the_time_is_never_left() {
    let fixture = Fixture::new();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).expect("outside");
    fixture.write("dir/a", "old");
    let checkpoints = fixture.checkpoints();
    let file = [fixture.path("dir/a")];
    let changes = command(&checkpoints, 1, || fixture.write("dir/a", "new"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut restored = 0;
    let swaps = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (dir, link) = (fixture.path("dir"), fixture.path("link"));
            symlink(&outside, &link).expect("link");
            let swap = || renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE);
            let mut swaps = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                swap().expect("swapped");
                // The real folder has the link's name now.
                if swaps % 16 == 0 {
                    let _ = fs::write(link.join("a"), "new");
                }
                swap().expect("swapped");
                swaps += 2;
            }
            swaps
        });
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 1000 {
            restored += checkpoints.restore(&changes, &file).map_or(0, |done| done.restored.len());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        swapper.join().expect("swapper")
    });
    assert!(swaps > 1000 && restored > 0, "{swaps} swaps, {restored} restored");
    assert_eq!(fs::read_dir(&outside).expect("outside").count(), 0);
}

#[test]
fn the_oldest_sessions_make_room_and_a_session_in_use_stays() {
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
    let cleaned = mine.clean().expect("clean");
    assert_eq!((cleaned.sessions, cleaned.bytes), (1, 5000));
    assert_eq!(fixture.objects(), 2);
    assert!(matches!(session("older").undo(None, true), Err(CheckpointError::NothingToUndo)));
    assert_eq!(mine.undo(None, false).expect("undo").kept, []);

    // No room at all: it is said, and nothing is lost silently.
    let full = Checkpoints::open(CheckpointOptions { total_bytes: 10, ..fixture.options() });
    let mark = full.begin_command(1).expect("begin");
    assert_eq!(mark.not_undoable(), ["a (4.0 kB) is not kept"]);
}

#[test]
fn a_workspace_without_end_is_cut_and_said() {
    let fixture = Fixture::new();
    (0..30).for_each(|number| fixture.write(&format!("f{number:02}"), "x"));
    let checkpoints = Checkpoints::open(CheckpointOptions { entries: 10, ..fixture.options() });
    let mark = checkpoints.begin_command(1).expect("begin");
    assert_eq!(
        mark.not_undoable(),
        ["the workspace has more than 10 files and folders; what is beyond is not kept"]
    );
    fs::remove_file(fixture.path("f00")).expect("removed");
    fs::remove_file(fixture.path("f29")).expect("removed");
    let changes = checkpoints.end_command(mark).expect("end");
    assert_eq!(changes.deleted, [fixture.path("f00")]);
    assert!(changes.created.is_empty(), "{changes:?}");
}

#[test]
fn single_changes_are_foreseen_gone_back_to_and_taken_up_again() {
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
    command(&checkpoints, 2, || fixture.write("made.txt", "m\n"));
    fixture.write("mine.txt", "mine too\n");
    let edits = checkpoints.edits().expect("edits");
    assert_eq!(edits.iter().map(|edit| edit.turn).collect::<Vec<_>>(), [1, 1, 2, 2]);

    let foreseen = checkpoints.foresee(2).expect("foreseen");
    let of = |name: &str| foreseen.iter().find(|one| one.path == fixture.path(name));
    let a = of("a.txt").expect("a change");
    assert_eq!((a.now.as_deref(), a.then.as_deref()), (Some("three\n"), Some("one\n")));
    assert_eq!((a.kind, a.kept.as_deref()), (ChangeKind::Changed, None));
    assert_eq!(of("made.txt").map(|made| made.kind), Some(ChangeKind::Deleted));
    assert_eq!(foreseen.len(), 2, "nobody else's files: {foreseen:?}");
    assert_eq!(fixture.read("a.txt").as_deref(), Some("three\n"), "nothing was done");

    // To between the two edits of the second turn.
    let restored = checkpoints.restore_before(edits[3].moment, 3, false).expect("restored");
    assert_eq!(restored.restored.len(), 2, "{restored:?}");
    let now = |name: &str| fixture.read(name);
    assert_eq!((now("a.txt").as_deref(), now("made.txt")), (Some("two\n"), None));
    // It is a change itself.
    checkpoints.undo(Some(3), false).expect("undone");
    assert_eq!(now("a.txt").as_deref(), Some("three\n"));
    assert_eq!(now("made.txt").as_deref(), Some("m\n"));
    // What somebody changed since stays, unless it is forced.
    fixture.write("a.txt", "somebody\n");
    let restored = checkpoints.restore_before(edits[0].moment, 4, false).expect("restored");
    assert_eq!(restored.kept.len(), 1, "{restored:?}");
    assert_eq!((now("a.txt").as_deref(), now("new.txt")), (Some("somebody\n"), None));
    checkpoints.restore_before(edits[0].moment, 5, true).expect("restored");
    assert_eq!(now("a.txt").as_deref(), Some("zero\n"));
    assert_eq!(now("mine.txt").as_deref(), Some("mine too\n"));
}

/// A tree with a folder `a`, and another beside it.
fn tree(fixture: &Fixture) {
    for (name, text) in [("a/b/f", "1"), ("a/g", "2"), ("c/h", "3"), ("k", "4")] {
        fixture.write(name, text);
    }
}

fn is_as_it_was(fixture: &Fixture) {
    for (name, text) in [("a/b/f", "1"), ("a/g", "2"), ("c/h", "3"), ("k", "4")] {
        assert_eq!(fixture.read(name).as_deref(), Some(text), "{name}");
    }
    assert!(fixture.path("a").symlink_metadata().expect("a").is_dir());
    assert!(!fixture.path("a0").exists());
}

#[test]
fn folders_in_whose_place_a_link_stands_come_back_whole() {
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
            assert_eq!((undone.restored.len(), undone.kept), (4, vec![]), "{}", target.display());
            is_as_it_was(&fixture);
            // And once more in both directions.
            assert_eq!(checkpoints.redo(false).expect("redo").kept, []);
            assert_eq!(fs::read_link(fixture.path("a")).expect("link"), target);
            assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
            is_as_it_was(&fixture);
        }
    }
}

#[test]
fn a_folder_that_only_moved_is_not_lost_by_its_undo() {
    let fixture = Fixture::new();
    tree(&fixture);
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || {
        fs::rename(fixture.path("a"), fixture.path("a0")).expect("moved");
        symlink("a0", fixture.path("a")).expect("link");
    });
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
    is_as_it_was(&fixture);
}

#[test]
fn bytes_that_were_not_kept_get_their_old_name_back() {
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
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
    is_as_it_was(&fixture);
    assert_eq!(large(), 23);
    assert_eq!(checkpoints.redo(false).expect("redo").kept, []);
    assert_eq!((large(), fixture.path("a0/large").exists()), (23, true));
    assert_eq!(checkpoints.undo(None, false).expect("undo").kept, []);
    assert_eq!(large(), 23);
    // Where the old name is taken, the new one stays.
    command(&checkpoints, 2, moved);
    fs::remove_file(fixture.path("a")).expect("removed");
    fixture.write("a", "mine");
    let undone = checkpoints.undo(None, false).expect("undo");
    assert!(!undone.kept.is_empty());
    assert_eq!(fixture.read("a0/large").map(|text| text.len()), Some(23));
    assert_eq!(fixture.read("a0/g").as_deref(), Some("2"));
    assert_eq!(fixture.read("a").as_deref(), Some("mine"));
}

#[test]
fn a_turn_is_not_undone_by_what_a_later_one_did() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    command(&checkpoints, 1, || fixture.write("n1", "x"));
    command(&checkpoints, 2, || {
        fs::rename(fixture.path("n1"), fixture.path("n2")).expect("moved");
    });
    for force in [false, true] {
        let early = checkpoints.undo(Some(1), force).expect("undo");
        assert_eq!((early.restored.len(), early.kept.len()), (0, usize::from(!force)));
    }
    checkpoints.undo(Some(2), false).expect("undo");
    assert_eq!(fixture.read("n1").as_deref(), Some("x"));
    let undone = checkpoints.undo(Some(1), false).expect("undo");
    assert_eq!(undone.restored, [fixture.path("n1")]);
    assert!(!fixture.path("n1").exists() && !fixture.path("n2").exists());
}

#[test]
fn a_repository_that_was_moved_is_brought_back() {
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
        assert_eq!(moved.now, Some(fixture.path(".g9")));
        checkpoints.bring_back(moved).expect("back");
        fixture.git(&["status"]);
        assert!(fixture.path(".git").is_dir() && !fixture.path(".g9").exists());
    }
    // A folder that is moved takes its repository with it.
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
    assert_eq!(moved.now, None);
    assert!(checkpoints.bring_back(moved).is_err());
}

#[test]
fn a_protected_folder_behind_a_link_is_put_back_whole() {
    let fixture = Fixture::new();
    fixture.write(".vscode/tasks.json", "{}");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("e/tasks.json", "evil");
        fs::remove_dir_all(fixture.path(".vscode")).expect("removed");
        symlink("e", fixture.path(".vscode")).expect("link");
    });
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!(undone.kept, []);
    assert_eq!(fixture.read(".vscode/tasks.json").as_deref(), Some("{}"));
    assert!(!fixture.path(".vscode").is_symlink());
}
