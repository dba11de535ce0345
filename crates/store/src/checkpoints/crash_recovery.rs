//! Recovery of commands that did not finish because the program was killed. The state before a
//! command is written to a file while it runs, and the next process compares the workspace with it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parallax_protocol::ids::SessionId;
use serde::{Deserialize, Serialize};

use super::command_snapshot::CommandSnapshot;
use super::confined_root::{ConfinedPath, EntryHandle};
use super::content_store::ContentHandling;
use super::listing::EntryKind;
use super::record::{FileRecord, Record};
use super::state::{EncodedPath, PathState, Stamp, StoredContent};
use super::{ChangeOrigin, CheckpointError, Checkpoints};
use crate::locked_file::LockedFile;
use crate::private_files::create_private_dir;

/// Commands that finish within this time leave no file.
const AT_ONCE: Duration = Duration::from_millis(200);
/// How often the file is touched to show that the program is running.
const BEAT: Duration = Duration::from_secs(1);

/// The state before a command, as written to the file.
#[derive(Serialize, Deserialize)]
struct CommandSnapshotFile {
    turn: u64,
    #[serde(rename = "began")]
    started_at: i64,
    files: Vec<(EncodedPath, PathState)>,
    /// Directories that the walk did not reach.
    #[serde(rename = "unseen")]
    unvisited: Vec<EncodedPath>,
    #[serde(rename = "cut")]
    is_truncated: bool,
}

/// A running command; it is finished when this is dropped.
#[derive(Debug)]
pub struct UnfinishedCommandGuard {
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for UnfinishedCommandGuard {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Checkpoints {
    /// Makes sure that the command of this mark can be undone if the program is killed while it
    /// runs.
    pub fn protect_command(&self, mark: &CommandSnapshot) -> UnfinishedCommandGuard {
        let (mark, path) = (mark.clone(), self.journal_path());
        let path = path.with_extension(format!("{}.mark", mark.started_at()));
        let (end, ended) = sync_channel(0);
        let thread = std::thread::Builder::new()
            .name("unfinished".into())
            .spawn(move || run_watch(&mark, &path, &ended));
        UnfinishedCommandGuard { end: Some(end), thread: thread.ok() }
    }

    /// Runs [`recover`](Self::recover) once, and removes what earlier sessions moved away.
    pub(super) fn recover_first(&self) {
        if !self.has_recovered.swap(true, Ordering::Relaxed) {
            self.empty_quarantine();
            self.recover();
        }
    }

    /// Records the changes of commands whose program was killed. Does nothing for a session in use.
    pub(super) fn recover(&self) {
        for path in marks_of(&self.journal_path()) {
            let Some(file) = open_if_abandoned(&path) else { continue };
            let beat = file.metadata().and_then(|metadata| metadata.modified());
            let beat = beat.unwrap_or(UNIX_EPOCH);
            // An incomplete file belongs to a command that had just started.
            if let Ok(written) =
                serde_json::from_reader::<_, CommandSnapshotFile>(BufReader::new(&*file))
                && self.adopt_mark(written, beat).is_err()
            {
                continue;
            }
            let _ = fs::remove_file(&path);
        }
    }

    fn adopt_mark(
        &self,
        written: CommandSnapshotFile,
        beat: SystemTime,
    ) -> Result<(), CheckpointError> {
        let Some((roots, _)) = self.roots_and_workspace() else { return Ok(()) };
        let since = beat.duration_since(UNIX_EPOCH).unwrap_or_default() + BEAT;
        let lived_until = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        let current = self.walk(None);
        let known: HashMap<PathBuf, PathState> =
            written.files.into_iter().map(|(path, state)| (path.path(), state)).collect();
        let unseen: Vec<PathBuf> = written.unvisited.iter().map(EncodedPath::path).collect();
        let is_in_new_repository = |path: &Path| {
            let git = path.ancestors().find(|ancestor| ancestor.ends_with(".git"));
            git.is_some_and(|git| git != path && !known.contains_key(&git.join("config")))
        };
        let mut files = Vec::new();
        let mut compare = |location: &ConfinedPath, before: PathState| {
            let blob = match &before {
                PathState::File { content: StoredContent::Git { top, blob }, .. } => {
                    Some((top, *blob))
                }
                _ => None,
            };
            let Ok(after) = self.contents.snapshot(location, blob, ContentHandling::Hash) else {
                return;
            };
            if !before.is_same(&after) {
                // Later changes may have been made by others.
                let after = is_older(location, &after, lived_until).then_some(after);
                files.push(FileRecord {
                    path: EncodedPath::from_path(&location.path()),
                    before,
                    after,
                });
            }
        };
        for (path, before) in &known {
            let Some(location) = roots.locate(path) else { continue };
            let is_untouched = match (before, current.get(&location)) {
                (PathState::File { stamp, .. }, Some(entry)) => {
                    entry.stamp == *stamp && matches!(entry.kind, EntryKind::File { .. })
                }
                _ => false,
            };
            if !is_untouched && *before != PathState::Special {
                compare(&location, before.clone());
            }
        }
        for entry in &current.entries {
            let path = entry.path.path();
            let was_seen =
                !written.is_truncated && !unseen.iter().any(|unseen| path.starts_with(unseen));
            if was_seen && !known.contains_key(&path) && !is_in_new_repository(&path) {
                compare(&entry.path, PathState::Absent);
            }
        }
        if files.is_empty() {
            return Ok(());
        }
        let CommandSnapshotFile { turn, started_at, .. } = written;
        let by = ChangeOrigin::Command;
        self.append(&Record::Changed { turn, began: started_at, ended: started_at, by, files })
    }
}

/// Runs the thread that accompanies a command.
fn run_watch(mark: &CommandSnapshot, path: &Path, ended: &Receiver<()>) {
    let is_over = |after| !matches!(ended.recv_timeout(after), Err(RecvTimeoutError::Timeout));
    if is_over(AT_ONCE) {
        return;
    }
    let written = write(mark, path);
    while !is_over(BEAT) {
        if let Ok(file) = &written {
            let _ = file.set_modified(SystemTime::now());
        }
    }
    if written.is_ok() {
        let _ = fs::remove_file(path);
    }
}

/// Writes the file, which stays locked while the program is running.
fn write(mark: &CommandSnapshot, path: &Path) -> io::Result<LockedFile> {
    create_private_dir(path.parent().unwrap_or(Path::new(".")))?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.lock()?;
    let file = LockedFile(file);
    let mut out = BufWriter::new(&*file);
    let unseen =
        mark.walk_result.unvisited.iter().map(|location| EncodedPath::from_path(&location.path()));
    let written = CommandSnapshotFile {
        turn: mark.turn(),
        started_at: mark.started_at(),
        files: mark.states().collect(),
        unvisited: unseen.collect(),
        is_truncated: mark.walk_result.is_truncated,
    };
    let done = serde_json::to_writer(&mut out, &written).map_err(io::Error::from);
    let done = done.and_then(|()| out.flush());
    drop(out);
    match done {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
    }
}

/// Opens the file unless the program that wrote it is still running.
pub(super) fn open_if_abandoned(path: &Path) -> Option<LockedFile> {
    let file = File::open(path).ok()?;
    file.try_lock().ok()?;
    Some(LockedFile(file))
}

/// Returns the mark files of the session with this journal.
pub(super) fn marks_of(journal: &Path) -> Vec<PathBuf> {
    let stem = journal.file_stem().unwrap_or_default().to_string_lossy();
    let Some(Ok(files)) = journal.parent().map(fs::read_dir) else { return Vec::new() };
    let paths = files.flatten().map(|file| file.path());
    paths.filter(|path| session_of(path).is_some_and(|id| id.as_str() == stem)).collect()
}

/// Returns the session of a mark file.
fn session_of(path: &Path) -> Option<SessionId> {
    let name = path.file_name()?.to_str()?.strip_suffix(".mark")?;
    let (id, _) = name.rsplit_once('.')?;
    SessionId::is_valid(id).then(|| SessionId::from(id))
}

/// Returns the session whose command was interrupted, for a mark file.
pub(super) fn interrupted_session(path: &Path) -> Option<SessionId> {
    let session = session_of(path)?;
    open_if_abandoned(path).map(|_| session)
}

/// Whether the current state of the path, or its absence, dates from this time or earlier.
pub(super) fn is_older(location: &ConfinedPath, state: &PathState, moment: i64) -> bool {
    let changed = |location: &ConfinedPath| {
        let stat = EntryHandle::open(location, false).and_then(|leaf| leaf.stat());
        stat.ok().flatten().map(|stat| Stamp::from_stat(&stat).changed)
    };
    let existing = match state {
        PathState::Absent => location.relative.ancestors().skip(1).find_map(|ancestor| {
            match ancestor.as_os_str().is_empty() {
                true => rustix::fs::stat(&*location.root)
                    .ok()
                    .map(|stat| Stamp::from_stat(&stat).changed),
                false => changed(&ConfinedPath {
                    root: location.root.clone(),
                    relative: ancestor.to_path_buf(),
                }),
            }
        }),
        _ => changed(location),
    };
    existing.is_some_and(|changed| changed <= moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_unlocked_even_if_a_starting_process_shares_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s1.5.mark");
        fs::write(&path, "{}").expect("written");
        let file = open_if_abandoned(&path).expect("abandoned");
        assert!(open_if_abandoned(&path).is_none(), "locked");
        // Like the copy of a child process before it executes its program.
        let _copy = file.try_clone().expect("a copy");
        drop(file);
        assert!(open_if_abandoned(&path).is_some());
    }
}
