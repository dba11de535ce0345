//! Undo without git: the old bytes of what the agent changes, kept before it
//! changes them, and given back on demand.
//!
//! Around an edit the caller names the paths; around a command the whole
//! workspace is compared. What stands in a record is a state before and a
//! state after, so that a file that somebody changed since is told apart and
//! left alone. Nothing outside the workspace folders is read or written, and
//! no link on the way is followed.

mod beneath;
mod command;
mod compare;
mod edit;
mod error;
mod git;
mod git_index;
mod history;
mod journal;
mod missing;
mod moved_folders;
mod objects;
mod observe;
mod pending_restore;
mod protected;
mod repositories;
mod retention;
mod shared_work;
mod single;
mod state;
mod undo;
mod unfinished;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parallax_files::{Workspace, WorkspaceOptions};
use parallax_protocol::ids::SessionId;
use serde::{Deserialize, Serialize};

pub use command::{Changes, CommandMark};
pub use edit::EditMark;
pub use error::CheckpointError;
pub use pending_restore::{AbandonedChanges, PendingRestore};
pub use protected::is_of_lost_repository;
pub use repositories::MovedRepository;
pub use retention::Cleaned;
pub use single::{Edit, Foreseen};
pub use unfinished::Unfinished;

use beneath::Roots;
use journal::{Journal, Record};
use objects::Objects;
use state::{ObjectId, PathText, Stamp, State};

/// Reads a blob of git: the top folder of a working tree, the blob's name.
#[derive(Clone)]
pub struct BlobReader(Arc<ReadBlob>);

type ReadBlob = dyn Fn(&Path, &str) -> io::Result<Vec<u8>> + Send + Sync;

impl BlobReader {
    /// Wraps the function that reads.
    pub fn new(read: impl Fn(&Path, &str) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl std::fmt::Debug for BlobReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlobReader")
    }
}

/// What checkpoints are made of.
#[derive(Debug, Clone)]
pub struct CheckpointOptions {
    /// `~/.parallax/checkpoints`.
    pub folder: PathBuf,
    /// The project's folder name ([`crate::project_folder`]).
    pub project: String,
    /// The session whose changes are kept.
    pub session: SessionId,
    /// The workspace folders.
    pub roots: Vec<PathBuf>,
    /// How git's blobs are read. Without it, clean tracked files are copied too.
    pub blobs: Option<BlobReader>,
    /// What the whole store may hold, in bytes.
    pub total_bytes: u64,
    /// Larger files are not kept.
    pub file_bytes: u64,
    /// What may be copied before one command, in bytes.
    pub command_bytes: u64,
    /// For how long files are read and copied before one command; when that was
    /// too short once, for a quarter of it. Added folders that take more than half as
    /// long to be looked through are left out from then on.
    pub command_time: Duration,
    /// How many files and folders of the workspace are looked at.
    pub entries: usize,
}

impl CheckpointOptions {
    /// The usual limits: 1 GiB in all, 20 MiB a file, 200 MiB and three seconds a
    /// command.
    pub fn new(folder: PathBuf, project: String, session: SessionId, roots: Vec<PathBuf>) -> Self {
        const MEBIBYTE: u64 = 1024 * 1024;
        Self {
            folder,
            project,
            session,
            roots,
            blobs: None,
            total_bytes: 1024 * MEBIBYTE,
            file_bytes: 20 * MEBIBYTE,
            command_bytes: 200 * MEBIBYTE,
            command_time: Duration::from_secs(3),
            entries: 200_000,
        }
    }
}

/// Who changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedBy {
    /// A tool that edits files.
    Edit,
    /// A command.
    Command,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there before.
    Created,
    /// It was something else before.
    Changed,
    /// It is not there any more.
    Deleted,
}

/// One path that a turn changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// The path.
    #[serde(serialize_with = "parallax_protocol::path_text::one::serialize")]
    pub path: PathBuf,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Who did it last.
    pub by: ChangedBy,
    /// Why it cannot be undone, if it cannot.
    pub not_undoable: Option<String>,
}

/// What one turn changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnChanges {
    /// The turn.
    pub turn: u64,
    /// When its first change began: RFC 3339, UTC.
    pub time: String,
    /// What is changed and not undone.
    pub files: Vec<FileChange>,
    /// What was undone.
    #[serde(serialize_with = "parallax_protocol::path_text::list::serialize")]
    pub undone: Vec<PathBuf>,
}

/// Files up to this size find room in the store when others do not any more.
const SMALL_BYTES: u64 = 1024 * 1024;

/// The most paths that [`Checkpoints::made`] gives.
const MAX_MADE: usize = 10_000;

/// The old bytes of one session's workspace. Making one touches no disk; it is
/// shared by `Arc`. All functions block on the disk.
#[derive(Debug)]
pub struct Checkpoints {
    options: CheckpointOptions,
    objects: Objects,
    places: Mutex<Places>,
    journal: Mutex<Journal>,
    caches: Mutex<Caches>,
    /// The last moment that was given out: moments only grow.
    moment: AtomicI64,
    /// Bytes in the store when it was last counted, `u64::MAX` before.
    counted: AtomicU64,
    /// When the store was cleaned up last, in nanoseconds since 1970.
    cleaned: AtomicI64,
    /// Whether it was said that ignored folders are not kept.
    said_ignored: AtomicBool,
    /// Whether commands that were cut short were looked for.
    recovered: AtomicBool,
    /// The time before the last command was too short for all there is.
    kept_late: AtomicBool,
}

/// The workspace folders, resolved at the first use.
#[derive(Debug, Default)]
struct Places {
    given: Vec<PathBuf>,
    resolved: Option<(Arc<Roots>, Arc<Workspace>)>,
}

/// What spares reading a file again.
#[derive(Debug, Default)]
struct Caches {
    indexes: git::Indexes,
    contents: HashMap<beneath::Place, (Stamp, command::Old)>,
    /// Added folders that are not looked at, since that takes too long.
    too_large: BTreeSet<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpoints {
    /// Checkpoints of a session, new or resumed.
    pub fn open(options: CheckpointOptions) -> Self {
        let id = options.session.as_str();
        // An invalid id is refused before anything is written under it.
        let name = if SessionId::is_valid(id) { id } else { "invalid" };
        let path = options.folder.join(&options.project).join(format!("{name}.jsonl"));
        Self {
            objects: Objects::new(options.folder.join("objects")),
            places: Mutex::new(Places { given: options.roots.clone(), resolved: None }),
            journal: Mutex::new(Journal::new(path)),
            caches: Mutex::default(),
            moment: AtomicI64::new(0),
            counted: AtomicU64::new(u64::MAX),
            cleaned: AtomicI64::new(0),
            said_ignored: AtomicBool::new(false),
            recovered: AtomicBool::new(false),
            kept_late: AtomicBool::new(false),
            options,
        }
    }

    /// Adds a workspace folder.
    pub fn add_root(&self, folder: PathBuf) {
        let mut places = lock(&self.places);
        places.given.push(folder);
        places.resolved = None;
    }

    /// Takes the folders into the workspace that it had when the session changed files: for
    /// whoever undoes and knows no others.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn add_recorded_roots(&self) -> Result<(), CheckpointError> {
        let roots = self.refreshed()?.history.roots.clone();
        let mut places = lock(&self.places);
        for root in roots {
            if !places.given.contains(&root) {
                places.given.push(root);
                places.resolved = None;
            }
        }
        Ok(())
    }

    /// What the agent made in this session and is still there as it left it,
    /// at most ten thousand paths. A folder counts by its name alone: what else
    /// is in it must be asked for by its own path.
    pub fn made(&self) -> Vec<PathBuf> {
        let roots = match self.places() {
            Some((roots, _)) => roots,
            None => return Vec::new(),
        };
        let mut journal = lock(&self.journal);
        if journal.refresh().is_err() {
            return Vec::new();
        }
        let is_there = |(path, last): &(PathBuf, &State)| {
            let Some(Ok(now)) = roots.place(path).map(|place| beneath::look(&place)) else {
                return false;
            };
            match (&now, *last) {
                (State::File { stamp: now, .. }, State::File { stamp, .. }) => now == stamp,
                (State::Folder { .. }, State::Folder { .. }) => true,
                (now, last) => now == last,
            }
        };
        let made = journal.history.made().into_iter();
        made.filter(is_there).map(|(path, _)| path).take(MAX_MADE).collect()
    }

    /// What the turns of the session changed, the first turn first.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn list(&self) -> Result<Vec<TurnChanges>, CheckpointError> {
        self.recover();
        let mut journal = self.refreshed()?;
        let turns = journal.history.turns.iter_mut();
        let listed = turns.map(|(number, turn)| TurnChanges {
            turn: *number,
            time: time_text(turn.began),
            files: turn
                .changes
                .iter()
                .map(|(path, change)| FileChange {
                    path: path.clone(),
                    kind: kind_of(&change.before, change.after.as_ref()),
                    by: change.by,
                    not_undoable: change.before.lost().map(str::to_owned),
                })
                .collect(),
            undone: turn.undone.keys().cloned().collect(),
        });
        Ok(listed.filter(|turn| !turn.files.is_empty() || !turn.undone.is_empty()).collect())
    }

    /// The roots and their ignore rules; `None` when no root is there.
    /// The workspace folders, real and absolute.
    fn root_paths(&self) -> Vec<PathBuf> {
        let Some((roots, _)) = self.places() else { return Vec::new() };
        roots.folders().iter().map(|root| root.to_path_buf()).collect()
    }

    fn places(&self) -> Option<(Arc<Roots>, Arc<Workspace>)> {
        let mut places = lock(&self.places);
        if places.resolved.is_none() {
            let roots = Roots::new(&places.given);
            let (root, additional) = roots.folders().split_first()?;
            let options = WorkspaceOptions {
                root: root.to_path_buf(),
                additional: additional.iter().map(|root| root.to_path_buf()).collect(),
                ..WorkspaceOptions::default()
            };
            let workspace = Workspace::new(options).ok()?;
            places.resolved = Some((Arc::new(roots), Arc::new(workspace)));
        }
        places.resolved.clone()
    }

    fn refreshed(&self) -> Result<MutexGuard<'_, Journal>, CheckpointError> {
        let mut journal = lock(&self.journal);
        let path = journal.path().to_path_buf();
        journal.refresh().map_err(CheckpointError::io("read", &path))?;
        Ok(journal)
    }

    fn append(&self, record: &Record) -> Result<(), CheckpointError> {
        if !SessionId::is_valid(self.options.session.as_str()) {
            let session = self.options.session.to_string();
            return Err(CheckpointError::InvalidSession { session });
        }
        let given = lock(&self.places).given.clone();
        let mut journal = lock(&self.journal);
        let path = journal.path().to_path_buf();
        if !given.iter().all(|root| journal.history.roots.contains(root)) {
            let roots = given.iter().map(|root| PathText::of(root)).collect();
            let record = Record::Roots { roots };
            journal.append(&record).map_err(CheckpointError::io("write", &path))?;
        }
        journal.append(record).map_err(CheckpointError::io("write", &path))
    }

    /// Now, in nanoseconds since 1970, later than every moment before.
    fn moment(&self) -> i64 {
        let now = state::now();
        let last = self.moment.fetch_max(now, Ordering::Relaxed);
        if last < now { now } else { self.moment.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// How full the store may be with this many bytes more. The last tenth is for small
    /// files.
    fn limit_with(&self, bytes: u64) -> u64 {
        match bytes > SMALL_BYTES {
            true => self.options.total_bytes / 10 * 9,
            false => self.options.total_bytes,
        }
    }

    /// Whether the store may take this many bytes more.
    fn has_room(&self, bytes: u64) -> bool {
        let counted = self.counted.load(Ordering::Relaxed);
        let counted = if counted == u64::MAX { 0 } else { counted };
        let used = counted.saturating_add(self.objects.added.load(Ordering::Relaxed));
        used.saturating_add(bytes) <= self.limit_with(bytes)
    }

    /// Notes that the session needs these objects, so that no other session's
    /// clean-up takes them.
    fn hold(&self, objects: impl Iterator<Item = ObjectId>) -> Result<(), CheckpointError> {
        let new: Vec<ObjectId> = {
            let journal = lock(&self.journal);
            let mut new: Vec<ObjectId> =
                objects.filter(|id| !journal.history.held.contains(id)).collect();
            new.sort_unstable();
            new.dedup();
            new
        };
        if new.is_empty() { Ok(()) } else { self.append(&Record::Held { objects: new }) }
    }
}

fn kind_of(before: &State, after: Option<&State>) -> ChangeKind {
    match (before.is_absent(), after.is_some_and(State::is_absent)) {
        (true, _) => ChangeKind::Created,
        (false, true) => ChangeKind::Deleted,
        (false, false) => ChangeKind::Changed,
    }
}

fn time_text(nanoseconds: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or_default();
    format!("{time:.3}")
}

/// The session of a project that changed something last.
pub fn latest_session(folder: &Path, project: &str) -> Option<SessionId> {
    let files = std::fs::read_dir(folder.join(project)).ok()?.flatten();
    let sessions = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let id = name.strip_suffix(".jsonl").filter(|id| SessionId::is_valid(id));
        let id = id.map(SessionId::from).or_else(|| unfinished::cut_short(&file.path()))?;
        let facts = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((facts.modified().ok()?, id))
    });
    sessions.max_by_key(|(modified, _)| *modified).map(|(_, id)| id)
}
