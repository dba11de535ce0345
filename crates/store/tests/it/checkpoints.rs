//! Tests of saved and restored file contents, in real directories and repositories.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::SensitivePathIndex;
use parallax_protocol::checkpoint::WriteScope;
use parallax_store::{
    BlobReader, ChangeKind, Changes, CheckpointError, CheckpointOptions, Checkpoints,
    latest_session, latest_undo_session,
};

mod abandoned;
mod damaged_directories;
mod full_disk;
mod guarded;
mod limits;
mod quarantine;
mod repositories;
mod undoing;

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

    /// Creates a repository with these committed files, old enough not to be racy.
    fn repository(files: &[(&str, &str)]) -> Self {
        let fixture = Self::new();
        files.iter().for_each(|(name, text)| fixture.write(name, text));
        fixture.git(&["init", "-q"]);
        fixture.commit();
        fixture
    }

    fn commit(&self) {
        // For files to be clean, the index must be newer than they are.
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
        options.links = Some(Arc::new(SensitivePathIndex::default()));
        options
    }

    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::open(self.options())
    }

    /// Returns the checkpoints of another session.
    fn checkpoints_of(&self, session: &str) -> Checkpoints {
        let mut options = self.options();
        options.session = session.into();
        Checkpoints::open(options)
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

    /// Returns the number of objects in the store.
    fn objects(&self) -> usize {
        let objects = self.folder.path().join("checkpoints/objects");
        let heads = fs::read_dir(objects).into_iter().flatten().flatten();
        heads.map(|head| fs::read_dir(head.path()).into_iter().flatten().count()).sum()
    }
}

fn command(checkpoints: &Checkpoints, turn: u64, run: impl FnOnce()) -> Changes {
    let mark = checkpoints.begin_command(turn).expect("begin");
    run();
    checkpoints.end_command(mark, &WriteScope::default()).expect("end")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("facts").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}
