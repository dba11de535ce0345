//! Tracks the hidden files of a workspace when commands move them: a parent directory may be
//! renamed to a path that no rule names.

use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Limits of searching a workspace for a missing file: entries and time.
const MAX_ENTRIES: usize = 2_000_000;
const TIME_LIMIT: Duration = Duration::from_secs(8);
/// Limits of the record: bytes and files.
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;
const MAX_TRACKED: usize = 4096;

/// Identifies a file or directory independently of its path. Inodes are reused; with the
/// creation time (in nanoseconds since 1970) they are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileIdentity {
    inode: u64,
    born: u128,
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        Some(Self::from(&path.symlink_metadata().ok()?))
    }
}

impl From<&std::fs::Metadata> for FileIdentity {
    fn from(data: &std::fs::Metadata) -> Self {
        // Some file systems store no creation time; a move does not change the modification time.
        let changed = || data.modified().ok().filter(|_| !data.is_dir());
        let time = data.created().ok().or_else(changed);
        let born = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self { inode: data.ino(), born: born.map_or(0, |born| born.as_nanos()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TrackedFile {
    id: FileIdentity,
    path: PathBuf,
    /// Whether it is no longer at the path where it was first hidden.
    moved: bool,
}

/// The hidden files of a workspace seen so far. Clones share them; a file stores them for later
/// sessions.
#[derive(Debug, Clone, Default)]
pub struct HiddenFileTracker {
    record: Option<PathBuf>,
    known: Arc<Mutex<Vec<TrackedFile>>>,
    looked_up: Arc<Mutex<RecordCache>>,
    /// Where hidden links led in this session.
    targets: Arc<Mutex<Vec<PathBuf>>>,
}

/// Paths to hide in addition to those that a view found itself.
#[derive(Debug, Default)]
pub struct TrackedPaths {
    /// Current paths of tracked files.
    pub hidden: Vec<PathBuf>,
    /// Paths of files that are missing and whose search was not completed.
    pub lost: Vec<PathBuf>,
}

/// Looks up whether single files are hidden ones that were moved, according to a snapshot of
/// the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct MovedFiles(Arc<HashMap<u64, Vec<TrackedFile>>>);

/// The record as last read, by inode.
#[derive(Debug, Default)]
struct RecordCache {
    stamp: Option<RecordStamp>,
    moved: MovedFiles,
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
        (known.moved || known.path != path).then_some(&known.path)
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
    /// accepts their path. Blocking: if a file is missing, it searches the whole workspace.
    pub fn track(
        &self,
        roots: &[PathBuf],
        found: &[PathBuf],
        still: impl Fn(&Path) -> bool,
    ) -> TrackedPaths {
        let all: HashSet<&PathBuf> = found.iter().collect();
        let mut memory = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.read().unwrap_or_else(|| memory.clone());
        let (mut known, mut gone) = (Vec::new(), Vec::new());
        for mut entry in before.iter().cloned() {
            if FileIdentity::of(&entry.path) != Some(entry.id) {
                gone.push(entry);
                continue;
            }
            let is_found = all.contains(&entry.path);
            entry.moved &= !is_found;
            if is_found || entry.moved || still(&entry.path) {
                known.push(entry);
            }
        }
        let mut followed = TrackedPaths::default();
        if !gone.is_empty() {
            let search = SearchLimits { entries: MAX_ENTRIES, end: Instant::now() + TIME_LIMIT };
            let complete = search.run(roots, &mut gone, &mut known);
            if !complete {
                followed.lost = gone.iter().map(|entry| entry.path.clone()).collect();
                known.append(&mut gone);
            }
        }
        add(&mut known, found);
        let lost: HashSet<&PathBuf> = followed.lost.iter().collect();
        followed.hidden = known
            .iter()
            .map(|entry| &entry.path)
            .filter(|path| !all.contains(path) && !lost.contains(path))
            .cloned()
            .collect();
        self.keep(&before, known, &mut memory);
        followed
    }

    /// Records where hidden links lead, and returns where else hidden links led earlier in this
    /// session: a command may have removed or replaced such a link to read its target.
    pub fn earlier_targets(&self, targets: &[PathBuf]) -> Vec<PathBuf> {
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
        let mut memory = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = memory.clone();
        let mut known = before.clone();
        add(&mut known, paths);
        self.keep(&before, known, &mut memory);
    }

    /// Returns the moved files according to the current record; empty without a record.
    pub(crate) fn moved(&self) -> MovedFiles {
        let Some(record) = &self.record else { return MovedFiles::default() };
        let stamp = record
            .symlink_metadata()
            .ok()
            .map(|data| (data.len(), data.mtime(), data.mtime_nsec(), data.ino()));
        let mut looked_up = self.looked_up.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_up.stamp != stamp {
            let mut by_inode: HashMap<u64, Vec<TrackedFile>> = HashMap::new();
            for known in self.read().unwrap_or_default() {
                by_inode.entry(known.id.inode).or_default().push(known);
            }
            *looked_up = RecordCache { stamp, moved: MovedFiles(Arc::new(by_inode)) };
        }
        looked_up.moved.clone()
    }

    fn keep(&self, before: &[TrackedFile], known: Vec<TrackedFile>, memory: &mut Vec<TrackedFile>) {
        if known != before
            && let Some(record) = &self.record
            && let Err(error) = write(record, &known)
        {
            tracing::warn!(
                "failed to store the list of hidden files in {}: {error}",
                record.display()
            );
        }
        *memory = known;
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
            known.push(TrackedFile { id, path: path.clone(), moved: false });
        }
    }
}

/// Parses a line `INODE BORN MOVED PATH`; a path may contain any byte except NUL.
fn parse(line: &[u8]) -> Option<TrackedFile> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<u128>().ok();
    let (inode, born, moved) = (number()?, number()?, number()?);
    let path = PathBuf::from(std::ffi::OsString::from_vec(fields.next()?.to_vec()));
    let id = FileIdentity { inode: u64::try_from(inode).ok()?, born };
    path.is_absolute().then_some(TrackedFile { id, path, moved: moved != 0 })
}

fn write(record: &Path, known: &[TrackedFile]) -> io::Result<()> {
    let folder = record.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut bytes = Vec::new();
    for TrackedFile { id, path, moved } in known {
        bytes.extend(format!("{} {} {} ", id.inode, id.born, u8::from(*moved)).bytes());
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
        gone: &mut Vec<TrackedFile>,
        known: &mut Vec<TrackedFile>,
    ) -> bool {
        let mut folders = roots.to_vec();
        let mut complete = true;
        while let Some(folder) = folders.pop() {
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
                if let Some(at) = gone.iter().position(|lost| lost.id == id) {
                    gone.swap_remove(at);
                    known.push(TrackedFile { id, path: entry.path(), moved: true });
                    if gone.is_empty() {
                        return true;
                    }
                }
                if data.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        complete
    }
}

/// Whether commands cannot access an unreadable directory either, because it is gone or belongs to
/// another user. The owner could make a directory readable again.
fn is_inaccessible(folder: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::PermissionDenied => folder
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
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let root = top.join("w");
        let (sub, deep) = (root.join("sub"), root.join("node_modules/.git/c/d/e/f"));
        std::fs::create_dir_all(&sub).unwrap();
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(sub.join(".env"), "s").unwrap();
        let roots = std::slice::from_ref(&root);
        let record = top.join("state/w");
        let never = |_: &Path| false;
        let places = HiddenFileTracker::with_record(record.clone());
        let first = places.track(roots, &[sub.join(".env")], never);
        assert!(first.hidden.is_empty() && first.lost.is_empty());
        std::fs::rename(&sub, deep.join("sub")).unwrap();
        let moved = deep.join("sub/.env");
        for places in [places, HiddenFileTracker::with_record(record.clone())] {
            // Another file at the old path is not the same file.
            std::fs::create_dir_all(&sub).unwrap();
            std::fs::write(sub.join(".env"), "").unwrap();
            let next = places.track(roots, &[sub.join(".env")], never);
            assert_eq!(next.hidden, std::slice::from_ref(&moved));
        }
        // Deleted files are forgotten.
        std::fs::remove_file(&moved).unwrap();
        let last = HiddenFileTracker::with_record(record).track(roots, &[], never);
        assert!(last.hidden.is_empty() && last.lost.is_empty(), "{last:?}");
    }

    #[test]
    fn file_no_longer_matched_by_a_rule_is_visible() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("a");
        std::fs::write(&path, "s").unwrap();
        let (places, roots) = (HiddenFileTracker::default(), std::slice::from_ref(&root));
        places.record(std::slice::from_ref(&path));
        assert_eq!(places.track(roots, &[], |_| true).hidden, [path]);
        assert!(places.track(roots, &[], |_| false).hidden.is_empty());
        assert!(places.track(roots, &[], |_| true).hidden.is_empty());
    }

    #[test]
    fn truncated_search_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join("a"), "").unwrap();
        let id = FileIdentity { inode: 0, born: 0 };
        let mut gone = vec![TrackedFile { id, path: root.join("x"), moved: false }];
        let mut run = |entries| {
            let search = SearchLimits { entries, end: Instant::now() + TIME_LIMIT };
            search.run(std::slice::from_ref(&root), &mut gone, &mut Vec::new())
        };
        assert!(run(5) && !run(0));
    }
}
