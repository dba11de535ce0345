//! Undo without git: saves the contents of files before the agent changes them and restores them on
//! request.
//!
//! For an edit, the caller names the paths; for a command, the whole workspace is compared before
//! and after. A record contains the state before and after a change, so a file that was changed
//! again later is recognized and left alone. Nothing outside the workspace directories is read or
//! written, and symbolic links in paths are not followed.

mod command;
mod command_snapshot;
mod compare;
mod confined_root;
mod content_store;
mod copy_budget;
mod crash_recovery;
mod edit;
mod error;
mod fixed_files;
mod git;
mod git_index;
mod history;
mod journal;
mod latest_session;
mod listing;
mod missing;
mod moved_folders;
mod objects;
mod own_directories;
mod pending_restore;
mod protected;
mod quarantine;
mod record;
mod repositories;
mod reserve;
mod retention;
mod set_id;
mod single_change;
mod state;
mod undo;
mod walk;
mod work_queue;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use parallax_files::{Workspace, WorkspaceOptions};
use parallax_protocol::ids::SessionId;
use parallax_protocol::protected_links::FindLinkTargets;
use serde::{Deserialize, Serialize};

pub use command::{Changes, IGNORED_DIRECTORIES};
pub use command_snapshot::CommandSnapshot;
pub use crash_recovery::UnfinishedCommandGuard;
pub use edit::EditSnapshot;
pub use error::CheckpointError;
pub use latest_session::{latest_session, latest_undo_session};
pub use pending_restore::{AbandonedChanges, PendingRestore};
pub use protected::is_in_broken_repository;
pub use quarantine::QuarantinedFiles;
pub use repositories::MovedRepository;
pub use retention::CleanupResult;
pub use single_change::{Edit, RestorePreview};

use confined_root::Roots;
use content_store::ContentStore;
use journal::Journal;
use record::Record;
use state::{EncodedPath, ObjectId, PathState, Stamp};

/// Reads a git blob, given the root of a working tree and the name of the blob.
#[derive(Clone)]
pub struct BlobReader(Arc<ReadBlob>);

type ReadBlob = dyn Fn(&Path, &str) -> io::Result<Vec<u8>> + Send + Sync;

impl BlobReader {
    /// Wraps the function that reads blobs.
    pub fn new(read: impl Fn(&Path, &str) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl std::fmt::Debug for BlobReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlobReader")
    }
}

/// The configuration of checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointOptions {
    /// The checkpoint directory, `~/.parallax/checkpoints`.
    pub folder: PathBuf,
    /// The directory name of the project ([`crate::project_folder`]).
    pub project: String,
    /// The session whose changes are saved.
    pub session: SessionId,
    /// The workspace directories.
    pub roots: Vec<PathBuf>,
    /// Finds what protected links point to.
    pub links: Option<Arc<dyn FindLinkTargets>>,
    /// The reader for git blobs. Without it, clean tracked files are copied as well.
    pub blobs: Option<BlobReader>,
    /// Size limit of the whole store in bytes.
    pub total_bytes: u64,
    /// Size limit of a saved file in bytes.
    pub file_bytes: u64,
    /// Limit for the bytes copied before one command.
    pub command_bytes: u64,
    /// Time limit for reading and copying files before one command. After a command that exceeded
    /// it, the limit is a quarter of this. Added directories that take more than half of it to scan
    /// are skipped from then on.
    pub command_time: Duration,
    /// Number of files to read and copy before one command above which the time limit is a quarter,
    /// because they cannot all be saved in time.
    pub command_files: usize,
    /// Maximum number of files and directories of the workspace that are scanned.
    pub entries: usize,
}

impl CheckpointOptions {
    /// Returns options with the default limits: 1 GiB in total, 20 MiB per file, 200 MiB and three
    /// seconds per command.
    pub fn new(
        directory: PathBuf,
        project: String,
        session: SessionId,
        roots: Vec<PathBuf>,
    ) -> Self {
        const MEBIBYTE: u64 = 1024 * 1024;
        Self {
            folder: directory,
            project,
            session,
            roots,
            links: None,
            blobs: None,
            total_bytes: 1024 * MEBIBYTE,
            file_bytes: 20 * MEBIBYTE,
            command_bytes: 200 * MEBIBYTE,
            command_time: Duration::from_secs(3),
            command_files: 25_000,
            entries: 200_000,
        }
    }
}

/// What changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOrigin {
    /// A tool that edits files.
    Edit,
    /// A command.
    Command,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The path did not exist before.
    Created,
    /// The path existed with different contents or type.
    Changed,
    /// The path no longer exists.
    Deleted,
}

/// A path that a turn changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// The path.
    #[serde(serialize_with = "parallax_protocol::path_text::one::serialize")]
    pub path: PathBuf,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// What changed the path last.
    #[serde(rename = "by")]
    pub changed_by: ChangeOrigin,
    /// Why the change cannot be undone, if it cannot.
    pub not_undoable: Option<String>,
}

/// The changes of one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnChanges {
    /// The number of the turn.
    pub turn: u64,
    /// The start of the first change: RFC 3339, UTC.
    pub time: String,
    /// Changes that are not undone.
    pub files: Vec<FileChange>,
    /// Paths whose changes were undone.
    #[serde(serialize_with = "parallax_protocol::path_text::list::serialize")]
    pub undone: Vec<PathBuf>,
}

/// Maximum number of paths returned by [`Checkpoints::created_paths`].
const MAX_MADE: usize = 10_000;

/// Saved file contents of the workspace for one session. Creating a value does not access the disk;
/// it is shared through `Arc`. All functions block on disk I/O.
#[derive(Debug)]
pub struct Checkpoints {
    options: CheckpointOptions,
    contents: ContentStore,
    roots: Mutex<WorkspaceRoots>,
    journal: Mutex<Journal>,
    caches: Mutex<Caches>,
    reserved_copies: reserve::ReservedCopies,
    /// The latest timestamp assigned; timestamps increase strictly.
    last_timestamp: AtomicI64,
    /// Whether interrupted commands were checked for.
    has_recovered: AtomicBool,
    /// Whether the time limit was exceeded before the last command.
    exceeded_time_limit: AtomicBool,
}

/// The workspace directories, resolved on first use.
#[derive(Debug, Default)]
struct WorkspaceRoots {
    requested: Vec<PathBuf>,
    resolved: Option<(Arc<Roots>, Arc<Workspace>)>,
}

/// Caches that avoid reading files again.
#[derive(Debug, Default)]
struct Caches {
    indexes: git::Indexes,
    contents: HashMap<confined_root::ConfinedPath, (Stamp, command_snapshot::PreviousContent)>,
    /// Added directories that are skipped because scanning them takes too long.
    too_large: BTreeSet<PathBuf>,
    /// Directories with files that were moved out of protected places.
    quarantine: HashSet<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpoints {
    /// Opens the checkpoints of a new or resumed session.
    pub fn open(options: CheckpointOptions) -> Self {
        let id = options.session.as_str();
        // An invalid ID is rejected before anything is written under it.
        let name = if SessionId::is_valid(id) { id } else { "invalid" };
        let path = options.folder.join(&options.project).join(format!("{name}.jsonl"));
        Self {
            contents: ContentStore::new(&options, path.clone()),
            roots: Mutex::new(WorkspaceRoots { requested: options.roots.clone(), resolved: None }),
            journal: Mutex::new(Journal::new(path)),
            caches: Mutex::default(),
            reserved_copies: reserve::ReservedCopies::default(),
            last_timestamp: AtomicI64::new(0),
            has_recovered: AtomicBool::new(false),
            exceeded_time_limit: AtomicBool::new(false),
            options,
        }
    }

    /// Copies protected files so that they can be restored when the disk is full.
    ///
    /// # Errors
    /// Returns an error if the disk is too full for the copies.
    pub fn reserve_protected(&self, mark: &CommandSnapshot) -> io::Result<()> {
        let Some((roots, _)) = self.roots_and_workspace() else { return Ok(()) };
        self.reserved_copies.fill(mark, &roots, &self.contents)
    }

    /// Removes the set-user-ID and set-group-ID bits and the capabilities of these programs.
    /// Returns those that lost them, and those that could not be changed, with the reasons.
    pub fn remove_set_id(&self, programs: &[PathBuf]) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
        match self.roots_and_workspace() {
            Some((roots, _)) => set_id::remove_set_id(&roots, programs),
            None => (Vec::new(), Vec::new()),
        }
    }

    /// Adds a workspace directory.
    pub fn add_root(&self, directory: PathBuf) {
        let mut locked_roots = lock(&self.roots);
        locked_roots.requested.push(directory);
        locked_roots.resolved = None;
    }

    /// Adds the directories that the workspace had when the session changed files. For callers that
    /// undo changes and do not know the directories.
    ///
    /// # Errors
    /// Returns an error if the records cannot be read.
    pub fn add_recorded_roots(&self) -> Result<(), CheckpointError> {
        let roots = self.lock_refreshed()?.history.roots.clone();
        let mut locked_roots = lock(&self.roots);
        for root in roots {
            if !locked_roots.requested.contains(&root) {
                locked_roots.requested.push(root);
                locked_roots.resolved = None;
            }
        }
        Ok(())
    }

    /// Returns paths that the agent created in this session and that are unchanged since, at most
    /// 10,000. Directories in which something else was found are omitted, also if they are large.
    pub fn created_paths(&self) -> Vec<PathBuf> {
        let roots = match self.roots_and_workspace() {
            Some((roots, _)) => roots,
            None => return Vec::new(),
        };
        let mut journal = lock(&self.journal);
        if journal.refresh().is_err() {
            return Vec::new();
        }
        let is_there = |(path, last): &(PathBuf, &PathState)| {
            let Some(Ok(now)) =
                roots.locate(path).map(|location| confined_root::read_state(&location))
            else {
                return false;
            };
            match (&now, *last) {
                (PathState::File { stamp: now, .. }, PathState::File { stamp, .. }) => now == stamp,
                (PathState::Folder { .. }, PathState::Folder { .. }) => true,
                (now, last) => now == last,
            }
        };
        let began = journal.history.turns.values().map(|turn| turn.started_at).min();
        let began = began.and_then(|began| u64::try_from(began).ok()).unwrap_or(u64::MAX);
        let created = journal.history.created_paths().into_iter();
        let mut created: BTreeSet<PathBuf> =
            created.filter(is_there).map(|(path, _)| path).take(MAX_MADE).collect();
        drop(journal);
        own_directories::retain_own(&mut created, UNIX_EPOCH + Duration::from_nanos(began));
        created.into_iter().collect()
    }

    /// Returns what the turns of the session changed, in order of the turns.
    ///
    /// # Errors
    /// Returns an error if the records cannot be read.
    pub fn list(&self) -> Result<Vec<TurnChanges>, CheckpointError> {
        self.recover();
        let mut journal = self.lock_refreshed()?;
        let turns = journal.history.turns.iter_mut();
        let listed = turns.map(|(number, turn)| TurnChanges {
            turn: *number,
            time: time_text(turn.started_at),
            files: turn
                .changes
                .iter()
                .map(|(path, change)| FileChange {
                    path: path.clone(),
                    kind: kind_of(&change.before, change.after.as_ref()),
                    changed_by: change.changed_by,
                    not_undoable: change.before.restore_problem().map(str::to_owned),
                })
                .collect(),
            undone: turn.undone_paths.keys().cloned().collect(),
        });
        Ok(listed.filter(|turn| !turn.files.is_empty() || !turn.undone.is_empty()).collect())
    }

    /// Reduces the store below its limit if necessary. Removes the oldest sessions first, except
    /// this one and sessions that another process has open. Intended to run once in the background
    /// after the start.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn clean_up(&self) -> Result<CleanupResult, CheckpointError> {
        self.contents.clean_up_for(0)
    }

    /// Returns the absolute and resolved workspace directories.
    fn root_paths(&self) -> Vec<PathBuf> {
        let Some((roots, _)) = self.roots_and_workspace() else { return Vec::new() };
        roots.folders().iter().map(|root| root.to_path_buf()).collect()
    }

    fn roots_and_workspace(&self) -> Option<(Arc<Roots>, Arc<Workspace>)> {
        let mut locked_roots = lock(&self.roots);
        if locked_roots.resolved.is_none() {
            let roots = Roots::new(&locked_roots.requested);
            let (root, additional) = roots.folders().split_first()?;
            let options = WorkspaceOptions {
                root: root.to_path_buf(),
                additional: additional.iter().map(|root| root.to_path_buf()).collect(),
                ..WorkspaceOptions::default()
            };
            let workspace = Workspace::new(options).ok()?;
            locked_roots.resolved = Some((Arc::new(roots), Arc::new(workspace)));
        }
        locked_roots.resolved.clone()
    }

    fn journal_path(&self) -> PathBuf {
        lock(&self.journal).path().to_path_buf()
    }

    fn lock_refreshed(&self) -> Result<MutexGuard<'_, Journal>, CheckpointError> {
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
        let requested = lock(&self.roots).requested.clone();
        let mut journal = lock(&self.journal);
        let path = journal.path().to_path_buf();
        if !requested.iter().all(|root| journal.history.roots.contains(root)) {
            let roots = requested.iter().map(|root| EncodedPath::from_path(root)).collect();
            let record = Record::Roots { roots };
            journal.append(&record).map_err(CheckpointError::io("write", &path))?;
        }
        journal.append(record).map_err(CheckpointError::io("write", &path))
    }

    /// Returns the current time in nanoseconds since 1970, later than every timestamp before.
    fn next_timestamp(&self) -> i64 {
        let now = state::now();
        let last = self.last_timestamp.fetch_max(now, Ordering::Relaxed);
        if last < now { now } else { self.last_timestamp.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// Records that the session needs these objects, so that the cleanup of another session does
    /// not remove them.
    fn retain_objects(
        &self,
        objects: impl Iterator<Item = ObjectId>,
    ) -> Result<(), CheckpointError> {
        let new: Vec<ObjectId> = {
            let journal = lock(&self.journal);
            let mut new: Vec<ObjectId> =
                objects.filter(|id| !journal.history.referenced_objects.contains(id)).collect();
            new.sort_unstable();
            new.dedup();
            new
        };
        if new.is_empty() { Ok(()) } else { self.append(&Record::InUse { objects: new }) }
    }
}

fn kind_of(before: &PathState, after: Option<&PathState>) -> ChangeKind {
    match (before.is_absent(), after.is_some_and(PathState::is_absent)) {
        (true, _) => ChangeKind::Created,
        (false, true) => ChangeKind::Deleted,
        (false, false) => ChangeKind::Changed,
    }
}

fn time_text(nanoseconds: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or_default();
    format!("{time:.3}")
}
