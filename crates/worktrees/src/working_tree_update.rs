//! Changes files of a working tree, either all of them or none.
//!
//! New files are complete before the first file of the user is touched, and replaced and deleted
//! ones are kept until the end. If the process is killed in between, the next update first undoes
//! what the interrupted one did. Files that have changed since are left alone.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use parallax_protocol::event::Failure;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::failure;

/// Name of the directory with new and replaced files, in the git directory or the working tree.
const DIRECTORY: &str = "parallax-apply";
/// Its file that lists the changes. While it exists, the update is incomplete.
const JOURNAL: &str = "journal";
const NEW: &str = "new";
const BACKUP: &str = "backup";
/// Extension of a directory that is being removed.
const DISCARDED: &str = "discarded";

/// Identifies a version of a file, also after it was moved or copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    size: u64,
    modified: (i64, i64),
}

impl FileVersion {
    /// Returns the version of a file or link; `None` if it does not exist.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().map(|data| Self::from_metadata(&data))
    }

    fn from_metadata(data: &Metadata) -> Self {
        Self { size: data.size(), modified: (data.mtime(), data.mtime_nsec()) }
    }
}

/// The change of one path, relative to the top of the working tree.
#[derive(Debug, Clone)]
pub(crate) struct PathChange {
    pub(crate) path: PathBuf,
    /// The version that the change is for; `None`: the file must not exist.
    pub(crate) before: Option<FileVersion>,
    pub(crate) is_deleted: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct UpdateJournal {
    /// The commit that was checked out.
    head: String,
    entries: Vec<JournalEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct JournalEntry {
    /// The bytes of the path.
    path: Vec<u8>,
    before: Option<FileVersion>,
    after: Option<FileVersion>,
}

impl JournalEntry {
    /// Returns the path, unless it is outside of the working tree.
    fn path(&self) -> Option<PathBuf> {
        let path = PathBuf::from(std::ffi::OsString::from_vec(self.path.clone()));
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        is_inside.then_some(path)
    }
}

/// An update of a working tree. No other process updates it meanwhile.
#[derive(Debug)]
pub(crate) struct WorkingTreeUpdate {
    top: PathBuf,
    directory: PathBuf,
    head: String,
    _lock: File,
}

impl WorkingTreeUpdate {
    /// Waits for other processes that update the working tree, and undoes an update that was
    /// interrupted, unless another commit than then is checked out. `head` is the current one.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if files cannot be written, or an interrupted update cannot be undone.
    pub(crate) fn begin(top: &Path, git_directory: &Path, head: String) -> Result<Self, Failure> {
        let lock = git_directory.join(format!("{DIRECTORY}.lock"));
        let locked = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let locked = locked.and_then(|file| {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        let lock = locked.map_err(|error| cannot("lock", &lock, &error))?;
        // Files of a repository cannot pass for a journal there.
        let directory = git_directory.join(DIRECTORY);
        let update = Self { top: top.to_owned(), directory, head, _lock: lock };
        update.undo()?;
        for name in [NEW, BACKUP] {
            let path = update.directory.join(name);
            fs::create_dir_all(&path).map_err(|error| cannot("create", &path, &error))?;
        }
        Ok(update)
    }

    /// Returns a path for a temporary file.
    pub(crate) fn scratch_file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the directory for the new contents of changed files.
    pub(crate) fn new_files(&self) -> PathBuf {
        self.directory.join(NEW)
    }

    /// Makes the changes. If one of them fails, none remains. Blocking.
    ///
    /// # Errors
    /// Returns an error if a file is not in the expected version, or cannot be moved.
    pub(crate) fn finish(self, changes: &[PathChange]) -> Result<(), Failure> {
        let deleted: HashSet<&Path> =
            changes.iter().filter(|it| it.is_deleted).map(|it| it.path.as_path()).collect();
        for change in changes {
            self.check(change, &deleted)?;
        }
        let entries = changes.iter().map(|change| self.entry(change));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let journal = self.directory.join(JOURNAL);
        let record = UpdateJournal { head: self.head.clone(), entries };
        write_journal(&journal, &record).map_err(|error| cannot("write", &journal, &error))?;
        // A file can also be saved while others are moved.
        let changed = self.change_all(changes).and_then(|()| self.check_backups(changes));
        if let Err(error) = changed {
            self.undo()?;
            return Err(error);
        }
        // From here on, the update is complete.
        fs::remove_file(&journal).map_err(|error| cannot("remove", &journal, &error))
    }

    /// Checks that no replaced file was saved after it was moved away.
    fn check_backups(&self, changes: &[PathChange]) -> Result<(), Failure> {
        let saved = changes.iter().find(|change| {
            let backup = self.directory.join(BACKUP).join(&change.path);
            change.before.is_some() && FileVersion::of(&backup) != change.before
        });
        saved.map_or(Ok(()), |change| Err(saved_meanwhile(&change.path)))
    }

    /// Checks that a change is possible, before the first one is made.
    fn check(&self, change: &PathChange, deleted: &HashSet<&Path>) -> Result<(), Failure> {
        let path = self.top.join(&change.path);
        if path.symlink_metadata().is_ok_and(|data| !data.is_dir())
            && FileVersion::of(&path) != change.before
        {
            return Err(match change.before {
                None => failure(format!("`{}` exists already", change.path.display())),
                Some(_) => saved_meanwhile(&change.path),
            });
        }
        for parent in change.path.ancestors().skip(1) {
            let is_link_or_file = || {
                let data = self.top.join(parent).symlink_metadata();
                data.is_ok_and(|data| !data.is_dir())
            };
            if !parent.as_os_str().is_empty() && is_link_or_file() && !deleted.contains(parent) {
                return Err(failure(format!("`{}` is not a directory", parent.display())));
            }
        }
        Ok(())
    }

    fn entry(&self, change: &PathChange) -> Result<JournalEntry, Failure> {
        let new = self.new_files().join(&change.path);
        let after = match change.is_deleted {
            true => None,
            false => Some(FileVersion::of(&new).ok_or_else(|| {
                failure(format!("git did not write `{}`", change.path.display()))
            })?),
        };
        let path = change.path.as_os_str().as_bytes().to_owned();
        Ok(JournalEntry { path, before: change.before, after })
    }

    fn change_all(&self, changes: &[PathChange]) -> Result<(), Failure> {
        let attempt = |change: &PathChange, done: io::Result<()>| {
            done.map_err(|error| cannot("replace", &change.path, &error))
        };
        // A deleted file can be in the place of a directory.
        for change in changes.iter().filter(|change| change.is_deleted) {
            attempt(change, self.delete(change))?;
        }
        for change in changes.iter().filter(|change| !change.is_deleted) {
            attempt(change, self.place(change))?;
        }
        Ok(())
    }

    fn delete(&self, change: &PathChange) -> io::Result<()> {
        let path = self.top.join(&change.path);
        if change.before.is_none() {
            return Ok(());
        }
        move_file(&path, &self.directory.join(BACKUP).join(&change.path))?;
        remove_empty_parents(&path, &self.top);
        Ok(())
    }

    fn place(&self, change: &PathChange) -> io::Result<()> {
        let path = self.top.join(&change.path);
        let new = self.new_files().join(&change.path);
        if change.before.is_none() {
            return match path.symlink_metadata() {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => move_file(&new, &path),
            };
        }
        let backup = self.directory.join(BACKUP).join(&change.path);
        // The file is never missing, and what is replaced is what is kept, even if it was saved
        // just now.
        if exchange(&new, &path).is_ok() {
            return move_file(&new, &backup);
        }
        create_parent(&backup)?;
        fs::hard_link(&path, &backup).or_else(|_| copy(&path, &backup))?;
        move_file(&new, &path)
    }

    /// Undoes an incomplete update, and removes its files.
    fn undo(&self) -> Result<(), Failure> {
        let journal = self.directory.join(JOURNAL);
        let mut unrestored = Vec::new();
        if let Ok(text) = fs::read(&journal) {
            // If it is incomplete, no file was changed.
            let journal: UpdateJournal = serde_json::from_slice(&text).unwrap_or_default();
            if journal.head != self.head && !journal.entries.is_empty() {
                // The user has continued with the files as they are.
                return self.keep().map(drop);
            }
            for entry in journal.entries.iter().rev() {
                let Some(path) = entry.path() else { continue };
                if self.restore(&path, entry).is_err() {
                    unrestored.push(path);
                }
            }
        }
        if let Some(first) = unrestored.first() {
            let saved_copy = self.keep()?;
            return Err(failure(format!(
                "An update of the working tree was interrupted, and `{}` has other changes since. \
                 Its earlier contents are in `{}`. Run the command again to continue",
                first.display(),
                saved_copy.join(BACKUP).display()
            )));
        }
        self.discard()
    }

    /// Moves the files of an interrupted update to where they stay. Returns that directory.
    fn keep(&self) -> Result<PathBuf, Failure> {
        let saved_copy = self.directory.with_extension(format!("kept-{}", uuid::Uuid::new_v4()));
        fs::rename(&self.directory, &saved_copy)
            .map_err(|error| cannot("move", &self.directory, &error))?;
        Ok(saved_copy)
    }

    /// Removes the files of this update and of earlier ones.
    fn discard(&self) -> Result<(), Failure> {
        // A git process of a killed update may still write into it.
        let discarded = format!("{DISCARDED}-{}", uuid::Uuid::new_v4());
        match fs::rename(&self.directory, self.directory.with_extension(discarded)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot("move", &self.directory, &error));
            }
            _ => {}
        }
        let prefix = self.directory.with_extension(DISCARDED);
        let prefix = prefix.as_os_str().as_bytes();
        let parent = self.directory.parent().unwrap_or(&self.top);
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.as_os_str().as_bytes().starts_with(prefix) {
                // The next update tries again.
                let _ = fs::remove_dir_all(path);
            }
        }
        Ok(())
    }

    /// Restores one file, unless it has other contents than the update gave it.
    fn restore(&self, relative: &Path, entry: &JournalEntry) -> io::Result<()> {
        let path = self.top.join(relative);
        let mut backup = self.directory.join(BACKUP).join(relative);
        let exchanged = self.new_files().join(relative);
        if backup.symlink_metadata().is_err()
            && entry.before.is_some()
            && FileVersion::of(&exchanged) == entry.before
        {
            backup = exchanged;
        }
        let has_backup = backup.symlink_metadata().is_ok();
        match FileVersion::of(&path) {
            // It was not touched yet; its directory may have been created.
            current if current == entry.before => {
                if current.is_none() {
                    remove_empty_parents(&path, &self.top);
                }
                Ok(())
            }
            current if current == entry.after => {
                if has_backup {
                    return move_file(&backup, &path);
                }
                if entry.before.is_none() && current.is_some() {
                    fs::remove_file(&path)?;
                    remove_empty_parents(&path, &self.top);
                }
                Ok(())
            }
            None if has_backup => move_file(&backup, &path),
            _ if has_backup => Err(io::ErrorKind::AlreadyExists.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for WorkingTreeUpdate {
    fn drop(&mut self) {
        if self.directory.join(JOURNAL).symlink_metadata().is_err() {
            // Leftovers are removed by the next update.
            let _ = self.discard();
        }
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    failure(format!("Failed to {what} `{}`: {error}", path.display()))
}

fn write_journal(file: &Path, journal: &UpdateJournal) -> io::Result<()> {
    let mut created = File::create_new(file)?;
    created.write_all(&serde_json::to_vec(journal)?)?;
    created.sync_all()
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn saved_meanwhile(path: &Path) -> Failure {
    failure(format!("`{}` was changed while the patch was applied", path.display()))
}

/// Moves a file, also to another file system: the git directory can be on its own.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    create_parent(to)?;
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let mut name = to.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}", uuid::Uuid::new_v4().simple()));
            let copied = to.with_file_name(name);
            let moved = copy(from, &copied).and_then(|()| fs::rename(&copied, to));
            if moved.is_err() {
                let _ = fs::remove_file(&copied);
            }
            moved?;
            fs::remove_file(from)
        }
        moved => moved,
    }
}

/// Exchanges two files in one step, where the kernel and the file system can.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Copies a file, or a link itself, with its time.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    let data = from.symlink_metadata()?;
    match data.is_symlink() {
        true => std::os::unix::fs::symlink(fs::read_link(from)?, to)?,
        false => drop(fs::copy(from, to)?),
    }
    let time = Timespec { tv_sec: data.mtime(), tv_nsec: data.mtime_nsec() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Removes the directories above a removed file that are empty now.
fn remove_empty_parents(path: &Path, top: &Path) {
    for parent in path.ancestors().skip(1).take_while(|parent| *parent != top) {
        if fs::remove_dir(parent).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl WorkingTreeUpdate {
        fn record(&self, changes: &[PathChange]) {
            let entries = changes.iter().map(|change| self.entry(change).expect("an entry"));
            let journal = UpdateJournal { head: self.head.clone(), entries: entries.collect() };
            write_journal(&self.directory.join(JOURNAL), &journal).expect("written");
        }
    }

    struct TestTree {
        directory: tempfile::TempDir,
    }

    impl TestTree {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            for name in ["top", "git"] {
                fs::create_dir(directory.path().join(name)).expect("a directory");
            }
            let tree = Self { directory };
            fs::create_dir(tree.path("dir")).expect("a directory");
            fs::write(tree.path("replaced"), "old").expect("a file");
            fs::write(tree.path("dir/deleted"), "gone").expect("a file");
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join("top").join(name)
        }

        fn begin(&self) -> WorkingTreeUpdate {
            let (top, git) = (self.directory.path().join("top"), self.directory.path().join("git"));
            WorkingTreeUpdate::begin(&top, &git, "head".into()).expect("begun")
        }

        fn change(&self, name: &str, is_deleted: bool) -> PathChange {
            let before = FileVersion::of(&self.path(name));
            PathChange { path: name.into(), before, is_deleted }
        }

        fn changes(&self, update: &WorkingTreeUpdate) -> Vec<PathChange> {
            for (name, text) in [("replaced", "new"), ("dir/a/added", "more")] {
                let file = update.new_files().join(name);
                create_parent(&file).expect("a directory");
                fs::write(file, text).expect("a file");
            }
            vec![
                self.change("dir/deleted", true),
                self.change("replaced", false),
                self.change("dir/a/added", false),
            ]
        }

        fn read(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.path(name)).ok()
        }

        #[track_caller]
        fn assert_unchanged(&self) {
            assert_eq!(self.read("replaced").as_deref(), Some("old"));
            assert_eq!(self.read("dir/deleted").as_deref(), Some("gone"));
            assert!(!self.path("dir/a").exists());
        }
    }

    #[test]
    fn complete_update_leaves_nothing_behind() {
        let tree = TestTree::new();
        let update = tree.begin();
        let changes = tree.changes(&update);
        update.finish(&changes).expect("finished");
        assert_eq!(tree.read("replaced").as_deref(), Some("new"));
        assert_eq!(tree.read("dir/a/added").as_deref(), Some("more"));
        assert!(!tree.path("dir/deleted").exists());
        assert!(!tree.directory.path().join("git").join(DIRECTORY).exists());
    }

    #[test]
    fn update_that_fails_halfway_changes_nothing() {
        let tree = TestTree::new();
        let update = tree.begin();
        let changes = tree.changes(&update);
        // The last change fails: its new file is gone after it was recorded.
        update.record(&changes);
        fs::remove_file(update.new_files().join("dir/a/added")).expect("removed");
        assert!(update.change_all(&changes).is_err());
        assert_eq!(tree.read("replaced").as_deref(), Some("new"));
        update.undo().expect("undone");
        tree.assert_unchanged();
    }

    #[test]
    fn killed_update_is_undone_by_the_next_one() {
        for steps in 0..=3 {
            let tree = TestTree::new();
            let update = tree.begin();
            let changes = tree.changes(&update);
            update.record(&changes);
            update.change_all(&changes[..steps]).expect("changed");
            drop(update);
            drop(tree.begin());
            tree.assert_unchanged();
        }
    }

    #[test]
    fn file_that_was_changed_after_a_killed_update_is_kept() {
        let tree = TestTree::new();
        let update = tree.begin();
        let changes = tree.changes(&update);
        update.record(&changes);
        update.change_all(&changes).expect("changed");
        drop(update);
        fs::write(tree.path("replaced"), "by the user").expect("written");
        let (top, git) = (tree.directory.path().join("top"), tree.directory.path().join("git"));
        let error = WorkingTreeUpdate::begin(&top, &git, "head".into()).expect_err("reported");
        assert!(error.message.contains("`replaced` has other changes"), "{}", error.message);
        assert_eq!(tree.read("replaced").as_deref(), Some("by the user"));
        assert_eq!(tree.read("dir/deleted").as_deref(), Some("gone"));
        drop(tree.begin());
    }

    #[test]
    fn changed_or_unexpected_files_are_not_replaced() {
        let tree = TestTree::new();
        let update = tree.begin();
        let changes = tree.changes(&update);
        fs::write(tree.path("replaced"), "saved meanwhile").expect("written");
        let error = update.finish(&changes).expect_err("refused");
        assert!(error.message.contains("was changed"), "{}", error.message);
        assert_eq!(tree.read("replaced").as_deref(), Some("saved meanwhile"));

        let tree = TestTree::new();
        let update = tree.begin();
        let changes = tree.changes(&update);
        fs::create_dir(tree.path("dir/a")).expect("created");
        fs::write(tree.path("dir/a/added"), "mine").expect("written");
        let error = update.finish(&changes).expect_err("refused");
        assert!(error.message.contains("exists already"), "{}", error.message);
        assert_eq!(tree.read("dir/a/added").as_deref(), Some("mine"));
        assert_eq!(tree.read("replaced").as_deref(), Some("old"));
    }

    #[test]
    fn file_saved_after_it_was_replaced_is_restored_with_what_was_saved() {
        let tree = TestTree::new();
        let update = tree.begin();
        let changes = tree.changes(&update);
        update.record(&changes);
        // An editor that had opened the file before writes to what is a backup by now.
        let mut opened = OpenOptions::new().append(true).open(tree.path("replaced")).expect("open");
        update.change_all(&changes).expect("changed");
        opened.write_all(b" and saved").expect("written");
        assert!(update.check_backups(&changes).is_err());
        update.undo().expect("undone");
        assert_eq!(tree.read("replaced").as_deref(), Some("old and saved"));
        assert_eq!(tree.read("dir/deleted").as_deref(), Some("gone"));
    }

    #[test]
    fn interrupted_update_that_was_committed_is_not_undone() {
        let tree = TestTree::new();
        let update = tree.begin();
        let changes = tree.changes(&update);
        update.record(&changes);
        update.change_all(&changes).expect("changed");
        drop(update);
        let (top, git) = (tree.directory.path().join("top"), tree.directory.path().join("git"));
        drop(WorkingTreeUpdate::begin(&top, &git, "another commit".into()).expect("begun"));
        assert_eq!(tree.read("replaced").as_deref(), Some("new"));
    }

    #[test]
    fn journal_cannot_name_files_outside_of_the_working_tree() {
        let entry = |path: &str| {
            let path = path.as_bytes().to_owned();
            JournalEntry { path, before: None, after: None }.path().is_some()
        };
        assert!(entry("a/b") && !entry("../a") && !entry("/a") && !entry("a/../../b"));
    }
}
