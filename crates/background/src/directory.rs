//! The directories of background sessions.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use parallax_protocol::ids::SessionId;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::BackgroundError;
use crate::record::{SessionRecord, SessionState};

/// Maximum number of bytes read from a record.
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;
/// How long a killed process may take to end.
const KILL_TIME: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
/// Sessions that ended longer ago are forgotten; their journals are kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The directory of all background sessions.
#[derive(Debug, Clone)]
pub struct BackgroundDirectory {
    root: PathBuf,
}

/// The directory of one background session.
#[derive(Debug, Clone)]
pub struct BackgroundSession {
    root: PathBuf,
}

/// Held while a process of a session starts: no other process starts the same session.
#[derive(Debug)]
pub struct StartLock {
    file: File,
}

pub(crate) fn file_error(file: &Path) -> impl Fn(std::io::Error) -> BackgroundError + use<'_> {
    move |source| BackgroundError::File { file: file.to_owned(), source }
}

impl BackgroundDirectory {
    /// Returns the directory in `~/.parallax`.
    pub fn below(parallax: &Path) -> Self {
        Self { root: parallax.join("background") }
    }

    /// Creates the directory of a session, and forgets old ones. The ID must be valid as a file
    /// name. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written, or the session is already running or
    /// being started. Keep the lock until the session has a record.
    pub fn create(&self, id: &str) -> Result<(BackgroundSession, StartLock), BackgroundError> {
        self.remove_old_records();
        let session = BackgroundSession { root: self.root.join(id) };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&session.root)
            .map_err(file_error(&session.root))?;
        let path = session.file("start.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let start = StartLock { file: file.map_err(file_error(&path))? };
        let is_first = flock(&start.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !is_first || session.is_alive() {
            return Err(BackgroundError::Rejected(format!("{id} is already running")));
        }
        // Remove the files of an earlier run of the session.
        for name in ["state.json", "events.jsonl", "log.txt", "socket"] {
            let _ = fs::remove_file(session.file(name));
        }
        Ok((session, start))
    }

    fn remove_old_records(&self) {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for entry in entries {
            let session = BackgroundSession { root: entry.path() };
            let age = session.file("state.json").metadata().and_then(|data| data.modified());
            let age = age.ok().and_then(|time| SystemTime::now().duration_since(time).ok());
            if age.is_some_and(|age| age > KEPT) && !session.is_alive() {
                // The directory contains only files written by this crate.
                let _ = fs::remove_dir_all(&session.root);
            }
        }
    }

    /// Returns all sessions with their records, newest first. Blocking.
    pub fn list(&self) -> Vec<(BackgroundSession, SessionRecord)> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let sessions = entries.map(|entry| BackgroundSession { root: entry.path() });
        let mut list: Vec<_> =
            sessions.filter_map(|session| Some((session.clone(), session.record()?))).collect();
        list.sort_by(|(_, one), (_, other)| other.started.cmp(&one.started));
        list
    }

    /// Returns the session whose ID starts with `id`. Blocking.
    ///
    /// # Errors
    /// Returns an error if no session or more than one matches.
    pub fn find(&self, id: &str) -> Result<(BackgroundSession, SessionRecord), BackgroundError> {
        let mut found = self.list();
        // Every ID starts with an empty one.
        found.retain(|(_, record)| !id.is_empty() && record.id.starts_with(id));
        if let Some(exact) = found.iter().position(|(_, record)| record.id == id) {
            return Ok(found.swap_remove(exact));
        }
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(one), _) => {
                found.push(one);
                let ids: Vec<String> = found.into_iter().map(|(_, record)| record.id).collect();
                Err(BackgroundError::Ambiguous(id.to_owned(), ids.join(", ")))
            }
            (None, _) => Err(BackgroundError::Unknown(id.to_owned())),
        }
    }
}

impl BackgroundSession {
    /// Returns the session with this directory.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Reads the record. If the process is gone, the session is marked as dead. Blocking.
    pub fn record(&self) -> Option<SessionRecord> {
        // The id is printed and names files.
        let name = self.root.file_name().and_then(|name| name.to_str());
        let name = name.filter(|name| SessionId::is_valid(name))?;
        let is_alive = self.is_alive();
        let mut text = String::new();
        let read = File::open(self.file("state.json"))
            .and_then(|file| file.take(MAX_RECORD_BYTES).read_to_string(&mut text));
        if read.is_err() && !is_alive {
            return None;
        }
        let record = serde_json::from_str::<SessionRecord>(&text).ok();
        let mut record = record
            .filter(|record| record.id == name)
            .unwrap_or_else(|| self.unreadable_record(name));
        if record.state.is_running() && !is_alive {
            record.state = SessionState::Dead;
            record.pending_approvals.clear();
        }
        Some(record)
    }

    /// Returns a record for a session whose own record is damaged, for example after a power loss.
    fn unreadable_record(&self, id: &str) -> SessionRecord {
        let mut record = SessionRecord::new(id, "");
        let pid = fs::read_to_string(self.file("lock")).ok();
        record.pid = pid.and_then(|pid| pid.trim().parse().ok()).unwrap_or_default();
        let modified = self.file("state.json").metadata().and_then(|data| data.modified());
        if let Some(time) = modified.ok().and_then(|time| jiff::Timestamp::try_from(time).ok()) {
            record.started = crate::record::format_time(time);
        }
        record.last_line = "The record of this session is damaged".to_owned();
        record
    }

    /// Whether the process of the session is alive.
    pub fn is_alive(&self) -> bool {
        let Ok(file) = File::open(self.file("lock")) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Acquires the lock of the process that runs the session.
    pub(crate) fn lock(&self) -> Result<File, BackgroundError> {
        let path = self.file("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(file_error(&path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| file_error(&path)(error.into()))?;
        // Only needed if the record is damaged.
        let pid = std::process::id().to_string();
        let _ = file.set_len(0).and_then(|()| (&file).write_all(pid.as_bytes()));
        Ok(file)
    }

    /// Writes the record atomically; with `syncs`, it also survives a power loss.
    pub(crate) fn write(&self, record: &SessionRecord, syncs: bool) -> Result<(), BackgroundError> {
        let (path, new) = (self.file("state.json"), self.file("state.json.new"));
        let text = serde_json::to_vec(record).unwrap_or_default();
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(&text)?;
            // Otherwise the file may be empty after a power loss.
            if syncs {
                file.sync_data()?;
            }
            fs::rename(&new, &path)
        });
        written.map_err(file_error(&path))
    }

    /// Sends a signal to the process of the session, if it is alive.
    pub fn signal(&self, record: &SessionRecord, signal: Signal) {
        let pid = i32::try_from(record.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.is_alive()) {
            // The process may have just ended.
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills the process of the session, which did not react to a request to end, and records that
    /// the session was stopped. Blocking.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub fn kill(&self, record: &SessionRecord) -> Result<(), BackgroundError> {
        self.signal(record, Signal::KILL);
        let end = Instant::now() + KILL_TIME;
        while self.is_alive() && Instant::now() < end {
            std::thread::sleep(POLL);
        }
        match self.record() {
            // Otherwise it ended by itself just before.
            Some(mut record) if record.state == SessionState::Dead => {
                record.state = SessionState::Stopped;
                self.write(&record, true)
            }
            _ => Ok(()),
        }
    }
}
