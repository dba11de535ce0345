//! Tests of protected files on a disk that a command fills.

use std::io::Write as _;

use super::*;

/// A small file system, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns `None` if this user may not mount.
    #[expect(clippy::disallowed_methods, reason = "a test runs the real mount")]
    fn mount(at: PathBuf) -> Option<Self> {
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(&at);
        let output = command.stderr(std::process::Stdio::null()).output().ok()?;
        output.status.success().then_some(Self(at))
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("work/filler")).expect("a file");
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    #[expect(clippy::disallowed_methods, reason = "a test runs the real umount")]
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn protected_files_on_a_full_disk_are_restored_from_the_reserve() {
    const TASKS: &str = ".vscode/tasks.json";
    for (stores_on_disk, reserves) in [(false, false), (false, true), (true, true)] {
        let mut fixture = Fixture::new();
        let top = fixture.folder.path().canonicalize().expect("real").join("disk");
        fs::create_dir(&top).expect("a directory");
        let Some(disk) = SmallDisk::mount(top.clone()) else { return };
        fixture.work = top.join("work");
        let original = "x".repeat(40_000);
        fixture.write(TASKS, &original);
        fixture.write(".envrc", "mine");
        set_mode(&fixture.path(".envrc"), 0o640);
        let mut options = fixture.options();
        if stores_on_disk {
            options.folder = top.join("checkpoints");
        }
        let checkpoints = Checkpoints::open(options);
        let mark = checkpoints.begin_command(1).expect("begin");
        if reserves {
            checkpoints.reserve_protected(&mark).expect("reserved");
        }
        // Writing in place needs no space, and removing frees what is filled then.
        fixture.write(TASKS, "evil");
        fs::remove_file(fixture.path(".envrc")).expect("removed");
        disk.fill();
        let ended = checkpoints.end_command(mark.clone(), &WriteScope::default());
        let changes =
            ended.unwrap_or_else(|_| checkpoints.end_program(&mark, &WriteScope::default()));
        assert_eq!(changes.protected.len(), 2, "{changes:?}");
        let undone = checkpoints.restore(&changes, &changes.protected).expect("restored");
        let restored = fixture.read(TASKS).as_deref() == Some(&original);
        assert_eq!(restored, reserves, "{undone:?}");
        if reserves {
            assert_eq!(undone.skipped, []);
            assert_eq!(fixture.read(".envrc").as_deref(), Some("mine"));
            assert_eq!(mode(&fixture.path(".envrc")), 0o640);
        }
    }
}

#[test]
fn reserve_needs_space_before_the_command_runs() {
    let mut fixture = Fixture::new();
    let top = fixture.folder.path().canonicalize().expect("real").join("disk");
    fs::create_dir(&top).expect("a directory");
    let Some(disk) = SmallDisk::mount(top.clone()) else { return };
    fixture.work = top.join("work");
    fixture.write(".vscode/tasks.json", &"x".repeat(40_000));
    disk.fill();
    let checkpoints = fixture.checkpoints();
    let mark = checkpoints.begin_command(1).expect("begin");
    let error = checkpoints.reserve_protected(&mark).expect_err("full");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
