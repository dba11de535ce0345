//! Size limit of the store: removes the oldest sessions first, then objects that no record refers
//! to.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::CheckpointError;
use super::content_store::ContentStore;
use super::crash_recovery::marks_of;
use super::journal::lock_path;
use super::state::{ObjectId, now};

/// Objects younger than this may belong to a record that is not written yet; saving files before a
/// command takes a few seconds at most.
const GRACE: Duration = Duration::from_secs(20);
/// Temporary files last written longer ago than this were left by a process that was killed while
/// copying.
const LEFT_BEHIND: Duration = Duration::from_secs(60 * 60);

/// Minimum time between two automatic cleanups, in nanoseconds.
const INTERVAL: i64 = 10 * 60 * 1_000_000_000;

/// What a cleanup removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanupResult {
    /// Number of sessions that can no longer be undone.
    pub sessions: usize,
    /// Number of bytes freed.
    pub bytes: u64,
}

struct StoredObject {
    id: ObjectId,
    path: PathBuf,
    size: u64,
}

struct StoredSession {
    path: PathBuf,
    modified: SystemTime,
    objects: HashSet<ObjectId>,
}

impl ContentStore {
    /// Reduces the store below its limit if necessary, with space for this many more bytes. Removes
    /// the oldest sessions first, except this one and sessions that another process has open.
    pub fn clean_up_for(&self, more: u64) -> Result<CleanupResult, CheckpointError> {
        let failed = |error| CheckpointError::io("clean up", &self.folder)(error);
        let mut cleaned = CleanupResult::default();
        let mut objects = list_objects(self.objects.folder()).map_err(failed)?;
        let mut total: u64 = objects.iter().map(|object| object.size).sum();
        if total.saturating_add(more) > self.limit_with(more) {
            let mut sessions = self.other_sessions();
            sessions.sort_by_key(|session| session.modified);
            // The number of sessions that need each object. Objects of this session are never
            // removed.
            let mut needed: HashMap<ObjectId, usize> = HashMap::new();
            let own = objects_of(&self.journal);
            let all = sessions.iter().flat_map(|session| &session.objects).chain(&own);
            all.for_each(|id| *needed.entry(*id).or_default() += 1);
            let sizes: HashMap<ObjectId, u64> =
                objects.iter().map(|object| (object.id, object.size)).collect();
            let size_of = |id: &ObjectId| sizes.get(id).copied().unwrap_or(0);
            let mut remaining: u64 = needed.keys().map(size_of).sum();
            // Reduce to nine tenths, so that the next cleanup is not needed immediately.
            let goal = (self.total_bytes / 10 * 9).saturating_sub(more);
            for session in &sessions {
                if remaining <= goal {
                    break;
                }
                // A session that a process has open is skipped, and so are recently used ones.
                if !is_older(&session.path, GRACE) || !remove_session(&session.path) {
                    continue;
                }
                cleaned.sessions += 1;
                for id in &session.objects {
                    let Some(count) = needed.get_mut(id) else { continue };
                    *count -= 1;
                    if *count == 0 {
                        needed.remove(id);
                        remaining = remaining.saturating_sub(size_of(id));
                    }
                }
            }
            objects.retain(|object| {
                if needed.contains_key(&object.id) || !is_older(&object.path, GRACE) {
                    return true;
                }
                let removed = fs::remove_file(&object.path).is_ok();
                if removed {
                    cleaned.bytes += object.size;
                }
                !removed
            });
            total = objects.iter().map(|object| object.size).sum();
        }
        self.objects.added.store(0, Ordering::Relaxed);
        self.measured_size.store(total, Ordering::Relaxed);
        Ok(cleaned)
    }

    /// Makes room before contents are saved: measures the store once, and cleans up if they do not
    /// fit, limiting how often it does so in vain. Returns whether they fit.
    pub(super) fn free_space(&self, bytes: u64) -> bool {
        if self.measured_size.load(Ordering::Relaxed) == u64::MAX {
            let objects = list_objects(self.objects.folder()).unwrap_or_default();
            let total = objects.iter().map(|object| object.size).sum();
            self.objects.added.store(0, Ordering::Relaxed);
            self.measured_size.store(total, Ordering::Relaxed);
        }
        if self.has_space_for(bytes) {
            return true;
        }
        if bytes > self.total_bytes {
            return false;
        }
        let now = now();
        let last = self.cleaned_at.load(Ordering::Relaxed);
        if now.saturating_sub(last) < INTERVAL
            || self
                .cleaned_at
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        // What still does not fit is reported before the command.
        let _ = self.clean_up_for(bytes);
        let fits = self.has_space_for(bytes);
        if fits {
            self.cleaned_at.store(0, Ordering::Relaxed);
        }
        fits
    }

    fn other_sessions(&self) -> Vec<StoredSession> {
        let mut sessions = Vec::new();
        let Ok(projects) = fs::read_dir(&self.folder) else { return sessions };
        for project in projects.flatten() {
            let Ok(files) = fs::read_dir(project.path()) else { continue };
            for file in files.flatten() {
                let path = file.path();
                let is_journal = path.extension().is_some_and(|end| end == "jsonl");
                let metadata = file.metadata().ok().filter(fs::Metadata::is_file);
                let Some(metadata) = metadata.filter(|_| is_journal && path != self.journal) else {
                    continue;
                };
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let objects = objects_of(&path);
                sessions.push(StoredSession { path, modified, objects });
            }
        }
        sessions
    }
}

/// Whether the last use of a file is longer ago than this.
fn is_older(path: &Path, age: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| {
        SystemTime::now().duration_since(modified).is_ok_and(|past| past >= age)
    })
}

/// Removes the records of a session, unless a process has them open.
fn remove_session(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if file.try_lock().is_err() {
        return false;
    }
    let removed = fs::remove_file(path).is_ok();
    if removed {
        let _ = fs::remove_file(lock_path(path));
        marks_of(path).iter().for_each(|mark| drop(fs::remove_file(mark)));
        // Succeeds only if the directory is empty.
        let _ = path.parent().map(fs::remove_dir);
    }
    let _ = file.unlock();
    removed
}

/// Returns every object that a journal refers to, regardless of the meaning of its lines.
fn objects_of(path: &Path) -> HashSet<ObjectId> {
    let mut found = HashSet::new();
    let Ok(file) = File::open(path) else { return found };
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut piece = Vec::new();
    loop {
        piece.clear();
        match reader.read_until(b'"', &mut piece) {
            Ok(0) | Err(_) => return found,
            Ok(_) => {}
        }
        let text = std::str::from_utf8(piece.strip_suffix(b"\"").unwrap_or(&piece));
        if let Ok(text) = text
            && text.len() == 64
        {
            found.extend(ObjectId::parse(text));
        }
    }
}

/// Returns all objects, and removes old temporary files.
fn list_objects(directory: &Path) -> io::Result<Vec<StoredObject>> {
    let mut objects = Vec::new();
    let heads = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(objects),
        result => result?,
    };
    for head in heads.flatten() {
        let name = head.file_name().to_string_lossy().into_owned();
        if name.len() != 2 {
            if name.ends_with(".tmp") && is_older(&head.path(), LEFT_BEHIND) {
                let _ = fs::remove_file(head.path());
            }
            continue;
        }
        let Ok(files) = fs::read_dir(head.path()) else { continue };
        for file in files.flatten() {
            let id = ObjectId::parse(&format!("{name}{}", file.file_name().to_string_lossy()));
            let (Some(id), Ok(metadata)) = (id, file.metadata()) else { continue };
            objects.push(StoredObject { id, path: file.path(), size: metadata.len() });
        }
    }
    Ok(objects)
}
