//! Tracks the hidden files of a workspace when commands move them: a parent directory may be
//! renamed to a path that no rule names.

use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::file_handles::{FileHandles, FileLocation};
use crate::file_identity::FileIdentity;

/// Limits of searching a workspace for a missing file: entries and time.
const MAX_ENTRIES: usize = 2_000_000;
const TIME_LIMIT: Duration = Duration::from_secs(8);
/// Limits of the record: bytes and files.
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;
const MAX_TRACKED: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
struct TrackedFile {
    id: FileIdentity,
    path: PathBuf,
    /// Whether it is no longer at the path where it was first hidden.
    is_moved: bool,
}

/// The hidden files of a workspace seen so far. Clones share them; a file stores them for later
/// sessions.
#[derive(Debug, Clone, Default)]
pub struct HiddenFileTracker {
    record: Option<PathBuf>,
    memory: Arc<Mutex<SessionMemory>>,
    record_cache: Arc<Mutex<RecordCache>>,
    /// Where hidden links pointed in this session.
    targets: Arc<Mutex<Vec<PathBuf>>>,
}

/// What this session knows itself.
#[derive(Debug, Default)]
struct SessionMemory {
    files: Vec<TrackedFile>,
    handles: FileHandles,
}

/// Paths to hide in addition to those that a view found itself.
#[derive(Debug, Default)]
pub struct TrackedPaths {
    /// Current paths of tracked files.
    pub hidden: Vec<PathBuf>,
    /// Paths of files that a command of this session moved or deleted and whose search was not
    /// completed.
    pub unlocated: Vec<PathBuf>,
}

/// Looks up whether single files are hidden ones that were moved, according to a snapshot of
/// the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct MovedFiles(Arc<HashMap<u64, Vec<TrackedFile>>>);

/// The record as last read, by inode.
#[derive(Debug, Default)]
struct RecordCache {
    stamp: Option<RecordStamp>,
    moved_files: MovedFiles,
}

/// Size, modification time, and inode of the record.
type RecordStamp = (u64, i64, i64, u64);

impl MovedFiles {
    /// Whether a file with this inode needs a lookup; a walker knows the inode.
    pub(crate) fn may_contain(&self, inode: Option<u64>) -> bool {
        inode.map_or(!self.0.is_empty(), |inode| self.0.contains_key(&inode))
    }

    /// Returns the former path of a file or directory, if it is hidden and was moved.
    pub(crate) fn former_path(&self, path: &Path) -> Option<&Path> {
        if self.0.is_empty() {
            return None;
        }
        let id = FileIdentity::of(path)?;
        let known = self.0.get(&id.inode)?.iter().find(|known| known.id == id)?;
        (known.is_moved || known.path != path).then_some(&known.path)
    }

    /// Like [`former_path`](Self::former_path), for a path without links and including its parent
    /// directories.
    pub(crate) fn former_path_with_parents(&self, path: &Path) -> Option<&Path> {
        path.ancestors().find_map(|part| self.former_path(part))
    }
}

impl HiddenFileTracker {
    /// Stores the record in this file, which need not exist yet.
    pub fn with_record(record: PathBuf) -> Self {
        Self { record: Some(record), ..Self::default() }
    }

    /// Records what a view hides (`found`) and returns what else must be hidden: files that were
    /// moved below `roots`, and files that are in place but were not found this time, if `still`
    /// accepts their path. Blocking: if the location of a file is unknown, it searches the whole
    /// workspace.
    pub fn track(
        &self,
        roots: &[PathBuf],
        found: &[PathBuf],
        still: impl Fn(&Path) -> bool,
    ) -> TrackedPaths {
        let all: HashSet<&PathBuf> = found.iter().collect();
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.before(&memory);
        let (mut known, mut gone) = (Vec::new(), Vec::new());
        for mut entry in before.iter().cloned() {
            if FileIdentity::of(&entry.path) != Some(entry.id) {
                match memory.handles.locate(entry.id) {
                    FileLocation::At(path) => {
                        if roots.iter().any(|root| path.starts_with(root)) {
                            known.push(TrackedFile { path, is_moved: true, ..entry });
                        }
                    }
                    FileLocation::Deleted => {}
                    FileLocation::Unknown => gone.push(entry),
                }
                continue;
            }
            let is_found = all.contains(&entry.path);
            entry.is_moved &= !is_found;
            if is_found || entry.is_moved || still(&entry.path) {
                known.push(entry);
            }
        }
        let mut followed = TrackedPaths::default();
        if !gone.is_empty() {
            let search = SearchLimits { entries: MAX_ENTRIES, end: Instant::now() + TIME_LIMIT };
            let complete = search.run(roots, &mut gone, &mut known);
            if !complete {
                // What an earlier session left in place was not moved by a command.
                gone.retain(|entry| memory.files.iter().any(|file| file.id == entry.id));
                followed.unlocated = gone.iter().map(|entry| entry.path.clone()).collect();
                known.append(&mut gone);
            }
        }
        add(&mut known, found);
        let lost: HashSet<&PathBuf> = followed.unlocated.iter().collect();
        followed.hidden = known
            .iter()
            .map(|entry| &entry.path)
            .filter(|path| !all.contains(path) && !lost.contains(path))
            .cloned()
            .collect();
        self.save(&before, known, &mut memory);
        followed
    }

    /// Updates the record after a command: later sessions do not know where the command moved
    /// files. Files of unknown location stay recorded.
    pub fn update_record(&self) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.before(&memory);
        let known = before.iter().filter_map(|entry| {
            if FileIdentity::of(&entry.path) == Some(entry.id) {
                return Some(entry.clone());
            }
            match memory.handles.locate(entry.id) {
                FileLocation::At(path) => {
                    Some(TrackedFile { path, is_moved: true, ..entry.clone() })
                }
                FileLocation::Deleted => None,
                FileLocation::Unknown => Some(entry.clone()),
            }
        });
        let known = known.collect();
        self.save(&before, known, &mut memory);
    }

    /// Records where hidden links point, and returns where else hidden links pointed earlier in
    /// this session: a command may have removed or replaced such a link to read its target.
    pub fn previous_targets(&self, targets: &[PathBuf]) -> Vec<PathBuf> {
        let mut known = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = known.iter().filter(|path| !targets.contains(path)).cloned().collect();
        for target in targets {
            if known.len() < MAX_TRACKED && !known.contains(target) {
                known.push(target.clone());
            }
        }
        earlier
    }

    /// Records more hidden paths.
    pub fn record(&self, paths: &[PathBuf]) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let before = memory.files.clone();
        let mut known = before.clone();
        add(&mut known, paths);
        self.save(&before, known, &mut memory);
    }

    /// Returns the moved files according to the current record; empty without a record.
    pub(crate) fn moved_files(&self) -> MovedFiles {
        let Some(record) = &self.record else { return MovedFiles::default() };
        let stamp = record
            .symlink_metadata()
            .ok()
            .map(|data| (data.len(), data.mtime(), data.mtime_nsec(), data.ino()));
        let mut looked_up = self.record_cache.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_up.stamp != stamp {
            let mut by_inode: HashMap<u64, Vec<TrackedFile>> = HashMap::new();
            for known in self.read().unwrap_or_default() {
                by_inode.entry(known.id.inode).or_default().push(known);
            }
            *looked_up = RecordCache { stamp, moved_files: MovedFiles(Arc::new(by_inode)) };
        }
        looked_up.moved_files.clone()
    }

    /// Returns what this session knows, and what other processes recorded as well.
    fn before(&self, memory: &SessionMemory) -> Vec<TrackedFile> {
        let Some(mut files) = self.read() else { return memory.files.clone() };
        let ids: HashSet<FileIdentity> = files.iter().map(|entry| entry.id).collect();
        files.extend(memory.files.iter().filter(|entry| !ids.contains(&entry.id)).cloned());
        files.truncate(MAX_TRACKED);
        files
    }

    fn save(&self, before: &[TrackedFile], known: Vec<TrackedFile>, memory: &mut SessionMemory) {
        if known != before
            && let Some(record) = &self.record
            && let Err(error) = write(record, &known)
        {
            tracing::warn!(
                "failed to store the list of hidden files in {}: {error}",
                record.display()
            );
        }
        memory.handles.track(known.iter().map(|entry| (entry.id, entry.path.as_path())));
        memory.files = known;
    }

    /// Returns the entries that other processes recorded as well, or `None` without a record.
    fn read(&self) -> Option<Vec<TrackedFile>> {
        let record = self.record.as_ref()?;
        let data = record.symlink_metadata().ok()?;
        if !data.is_file() || data.len() > MAX_RECORD_BYTES {
            return None;
        }
        let bytes = std::fs::read(record).ok()?;
        Some(bytes.split(|byte| *byte == 0).filter_map(parse).take(MAX_TRACKED).collect())
    }
}

fn add(known: &mut Vec<TrackedFile>, paths: &[PathBuf]) {
    let mut ids: HashSet<FileIdentity> = known.iter().map(|entry| entry.id).collect();
    for path in paths {
        if known.len() < MAX_TRACKED
            && let Some(id) = FileIdentity::of(path)
            && ids.insert(id)
        {
            known.push(TrackedFile { id, path: path.clone(), is_moved: false });
        }
    }
}

/// Parses a line `INODE BORN MOVED PATH`; a path may contain any byte except NUL.
fn parse(line: &[u8]) -> Option<TrackedFile> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<u128>().ok();
    let (inode, created, moved) = (number()?, number()?, number()?);
    let path = PathBuf::from(std::ffi::OsString::from_vec(fields.next()?.to_vec()));
    let id = FileIdentity { inode: u64::try_from(inode).ok()?, created };
    path.is_absolute().then_some(TrackedFile { id, path, is_moved: moved != 0 })
}

fn write(record: &Path, known: &[TrackedFile]) -> io::Result<()> {
    let directory = record.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut bytes = Vec::new();
    for TrackedFile { id, path, is_moved } in known {
        bytes.extend(format!("{} {} {} ", id.inode, id.created, u8::from(*is_moved)).bytes());
        bytes.extend(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    // Other processes read either the old record or the new one.
    let new = record.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, bytes)?;
    std::fs::rename(&new, record)
}

/// The limits of one search through a workspace.
struct SearchLimits {
    entries: usize,
    end: Instant,
}

impl SearchLimits {
    /// Moves entries that are found from `gone` to `known`, without following links. Returns
    /// whether the whole workspace was searched, or nothing was left to find.
    fn run(
        mut self,
        roots: &[PathBuf],
        missing: &mut Vec<TrackedFile>,
        known: &mut Vec<TrackedFile>,
    ) -> bool {
        let mut directories = roots.to_vec();
        let mut complete = true;
        while let Some(folder) = directories.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    complete &= is_inaccessible(&folder, &error);
                    continue;
                }
            };
            for entry in entries {
                if self.entries == 0 || Instant::now() > self.end {
                    return false;
                }
                self.entries -= 1;
                let Ok(entry) = entry else {
                    complete = false;
                    break;
                };
                let Ok(data) = entry.metadata() else {
                    complete &= entry.path().symlink_metadata().is_ok();
                    continue;
                };
                let id = FileIdentity::from(&data);
                if let Some(index) = missing.iter().position(|lost| lost.id == id) {
                    missing.swap_remove(index);
                    known.push(TrackedFile { id, path: entry.path(), is_moved: true });
                    if missing.is_empty() {
                        return true;
                    }
                }
                if data.is_dir() {
                    directories.push(entry.path());
                }
            }
        }
        complete
    }
}

/// Whether commands cannot access an unreadable directory either, because it is gone or belongs to
/// another user. The owner could make a directory readable again.
fn is_inaccessible(directory: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::PermissionDenied => directory
            .symlink_metadata()
            .is_ok_and(|data| data.uid() != rustix::process::geteuid().as_raw()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_file_is_recognized_after_a_move() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let root = top.join("w");
        let (sub, deep) = (root.join("sub"), root.join("node_modules/.git/c/d/e/f"));
        std::fs::create_dir_all(&sub).unwrap();
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(sub.join(".env"), "s").unwrap();
        let roots = std::slice::from_ref(&root);
        let record = top.join("state/w");
        let never = |_: &Path| false;
        let tracker = HiddenFileTracker::with_record(record.clone());
        let first = tracker.track(roots, &[sub.join(".env")], never);
        assert!(first.hidden.is_empty() && first.unlocated.is_empty());
        std::fs::rename(&sub, deep.join("sub")).unwrap();
        let moved = deep.join("sub/.env");
        for tracker in [tracker, HiddenFileTracker::with_record(record.clone())] {
            // Another file at the old path is not the same file.
            std::fs::create_dir_all(&sub).unwrap();
            std::fs::write(sub.join(".env"), "").unwrap();
            let next = tracker.track(roots, &[sub.join(".env")], never);
            assert_eq!(next.hidden, std::slice::from_ref(&moved));
        }
        // Deleted files are forgotten.
        std::fs::remove_file(&moved).unwrap();
        let last = HiddenFileTracker::with_record(record).track(roots, &[], never);
        assert!(last.hidden.is_empty() && last.unlocated.is_empty(), "{last:?}");
    }

    #[test]
    fn file_no_longer_matched_by_a_rule_is_visible() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let path = root.join("a");
        std::fs::write(&path, "s").unwrap();
        let (tracker, roots) = (HiddenFileTracker::default(), std::slice::from_ref(&root));
        tracker.record(std::slice::from_ref(&path));
        assert_eq!(tracker.track(roots, &[], |_| true).hidden, [path]);
        assert!(tracker.track(roots, &[], |_| false).hidden.is_empty());
        assert!(tracker.track(roots, &[], |_| true).hidden.is_empty());
    }

    #[test]
    fn file_without_a_name_is_forgotten_without_a_search() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (old, new) = (root.join("a"), root.join("b"));
        std::fs::write(&old, "s").unwrap();
        let record = root.join("state");
        let tracker = HiddenFileTracker::with_record(record.clone());
        tracker.record(std::slice::from_ref(&old));
        std::fs::rename(&old, &new).unwrap();
        tracker.update_record();
        let later = HiddenFileTracker::with_record(record.clone());
        let roots = std::slice::from_ref(&root);
        assert_eq!(later.track(roots, &[], |_| false).hidden, std::slice::from_ref(&new));
        std::fs::remove_file(&new).unwrap();
        tracker.update_record();
        assert!(tracker.read().unwrap().is_empty());
    }

    #[test]
    fn only_files_of_this_session_are_reported_as_lost() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (path, record) = (root.join("a"), root.join("state"));
        std::fs::write(&path, "s").unwrap();
        let first = HiddenFileTracker::with_record(record.clone());
        first.record(std::slice::from_ref(&path));
        first.memory.lock().unwrap().handles = FileHandles::default();
        // Such a root cannot be searched, like one that is too large.
        let loop_link = root.join("loop");
        std::os::unix::fs::symlink("loop", &loop_link).unwrap();
        std::fs::remove_file(&path).unwrap();
        let track = |tracker: &HiddenFileTracker| {
            tracker.track(std::slice::from_ref(&loop_link), &[], |_| false).unlocated
        };
        assert!(track(&HiddenFileTracker::with_record(record)).is_empty());
        assert_eq!(track(&first), [path]);
    }

    #[test]
    fn truncated_search_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::write(root.join("a"), "").unwrap();
        let id = FileIdentity { inode: 0, created: 0 };
        let mut tracked = vec![TrackedFile { id, path: root.join("x"), is_moved: false }];
        let mut run = |entries| {
            let search = SearchLimits { entries, end: Instant::now() + TIME_LIMIT };
            search.run(std::slice::from_ref(&root), &mut tracked, &mut Vec::new())
        };
        assert!(run(5) && !run(0));
    }
}
