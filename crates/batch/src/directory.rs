//! The directory of a batch: its results, and the locks that make a second run safe.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parallax_store::{LostRequests, SharedBudgetFile};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::BatchError;
use crate::events::EventReader;
use crate::plan::{PlannedTask, is_valid_id};
use crate::result::{Attempt, AttemptUsage, TaskResult, TaskState};

/// Maximum size in bytes of a JSON file.
pub(crate) const MAX_JSON_BYTES: u64 = 64 * 1024 * 1024;
/// How long agents of a process that crashed may take to end.
const ORPHAN_TIME: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(20);

/// The directory of a batch.
#[derive(Debug, Clone)]
pub struct BatchDirectory {
    root: PathBuf,
}

/// Held while a process runs the batch. Agents end when it is released, including by a crash.
#[derive(Debug)]
pub struct BatchLock {
    /// The file that the agents lock.
    pub(crate) file: PathBuf,
    /// The lock that every agent of this batch holds for its lifetime.
    pub(crate) agents: PathBuf,
    /// The pace of requests that the agents share.
    pub(crate) pace_file: PathBuf,
    /// The budget that they share.
    pub(crate) budget: SharedBudgetFile,
    /// The lock for changes of repositories.
    pub serial: PathBuf,
    _batch: Option<File>,
    _own: File,
}

/// The files of one task.
#[derive(Debug, Clone)]
pub struct TaskDirectory {
    root: PathBuf,
}

impl BatchDirectory {
    /// Creates it if it does not exist. Blocking.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn create(root: &Path) -> Result<Self, BatchError> {
        let write_error = |file: &Path| {
            let file = file.to_owned();
            move |source| BatchError::Write { file, source }
        };
        fs::create_dir_all(root.join("results")).map_err(write_error(root))?;
        let root = root.canonicalize().map_err(write_error(root))?;
        // It is often in a repository, where its files should not be offered for a commit.
        let ignore = root.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(write_error(&ignore))?;
        }
        Ok(Self { root })
    }

    /// Opens an existing directory.
    ///
    /// # Errors
    /// Returns an error if it is not the directory of a batch.
    pub fn open(root: &Path) -> Result<Self, BatchError> {
        if !root.join("results").is_dir() {
            return Err(BatchError::Input(format!(
                "`{}` contains no batch results; run `parallax batch PLAN --out {0}` first",
                root.display()
            )));
        }
        let root = root
            .canonicalize()
            .map_err(|source| BatchError::Read { file: root.to_owned(), source })?;
        Ok(Self { root })
    }

    /// Returns the directory itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the directory of a task's results.
    pub fn task(&self, id: &str) -> TaskDirectory {
        TaskDirectory { root: self.root.join("results").join(id) }
    }

    /// Returns the existing result of a task that need not run again. Blocking.
    pub fn earlier_result(&self, task: &PlannedTask, retry_failed: bool) -> Option<TaskResult> {
        let result = self.task(&task.id).result_of(task)?;
        let is_final = match result.state {
            TaskState::Succeeded => true,
            TaskState::Cancelled => false,
            TaskState::Failed | TaskState::Timeout | TaskState::OverBudget => !retry_failed,
        };
        is_final.then_some(result)
    }

    /// Removes the budget of an earlier run. What its killed processes may have spent is added to
    /// the attempts of their tasks. Call it when no task runs. Blocking.
    ///
    /// # Errors
    /// Returns an error if attempts cannot be written, or the budget cannot be removed.
    pub(crate) fn reset_budget(&self, budget: &SharedBudgetFile) -> Result<(), BatchError> {
        // Without it, the results and attempts say what was spent.
        for (id, left) in budget.tasks().unwrap_or_default() {
            if is_valid_id(&id) {
                self.task(&id).add_lost(left.lost)?;
            }
        }
        budget
            .reset()
            .map_err(|source| BatchError::Write { file: self.file("locks/budget"), source })
    }

    /// Locks it for this process, and waits until the agents of one that crashed have ended.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if another process runs the batch.
    pub fn lock(&self) -> Result<BatchLock, BatchError> {
        let locks = self.file("locks");
        let write_error = |source| BatchError::Write { file: locks.clone(), source };
        fs::create_dir_all(&locks).map_err(write_error)?;
        let batch = open_lock(&locks.join("batch")).map_err(write_error)?;
        flock(&batch, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| BatchError::Busy(self.root.clone()))?;
        let agents = locks.join("agents");
        let all = open_lock(&agents).map_err(write_error)?;
        let end = Instant::now() + ORPHAN_TIME;
        while flock(&all, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() > end {
                return Err(BatchError::Input(format!(
                    "Agents of an earlier run are still using `{}`; stop them first",
                    self.root.display()
                )));
            }
            std::thread::sleep(POLL);
        }
        drop(all);
        // The pace of an earlier run does not apply to this one.
        let _ = fs::remove_file(locks.join("pace"));
        // A separate name: an agent that waits for an earlier process must not mistake this
        // one for it.
        for entry in fs::read_dir(&locks).map_err(write_error)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("run-") {
                // It is empty, and no agent waits for it anymore.
                let _ = fs::remove_file(entry.path());
            }
        }
        self.run_lock("run", Some(batch))
    }

    /// Locks the batch for a process that runs one task next to others of the same batch. Blocking.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn lock_shared(&self) -> Result<BatchLock, BatchError> {
        self.run_lock("task", None)
    }

    fn run_lock(&self, kind: &str, batch: Option<File>) -> Result<BatchLock, BatchError> {
        let locks = self.file("locks");
        let write_error = |source| BatchError::Write { file: locks.clone(), source };
        fs::create_dir_all(&locks).map_err(write_error)?;
        let file = locks.join(format!("{kind}-{}", uuid::Uuid::new_v4().simple()));
        let lock = open_lock(&file).map_err(write_error)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| write_error(error.into()))?;
        let agents = locks.join("agents");
        drop(open_lock(&agents).map_err(write_error)?);
        let (pace_file, serial) = (locks.join("pace"), locks.join("git"));
        let budget = SharedBudgetFile::new(locks.join("budget"));
        Ok(BatchLock { file, agents, pace_file, budget, serial, _batch: batch, _own: lock })
    }
}

fn open_lock(file: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(file)
}

impl Drop for BatchLock {
    fn drop(&mut self) {
        // The agents have ended.
        let _ = fs::remove_file(&self.file);
    }
}

impl TaskDirectory {
    /// Creates it, and locks it for this process. Blocking.
    pub(crate) fn lock(&self) -> Result<File, BatchError> {
        let write_error = |source| BatchError::Write { file: self.root.clone(), source };
        fs::create_dir_all(&self.root).map_err(write_error)?;
        let lock = open_lock(&self.file(".lock")).map_err(write_error)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| BatchError::TaskBusy(self.root.clone()))?;
        Ok(lock)
    }

    /// Returns the directory itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the result, if the task has ended. Blocking.
    pub fn result(&self) -> Option<TaskResult> {
        read_json(&self.file("result.json"))
    }

    /// Returns the result of exactly this task.
    pub(crate) fn result_of(&self, task: &PlannedTask) -> Option<TaskResult> {
        self.result().filter(|result| result.input_hash == task.input_hash())
    }

    pub(crate) fn attempt(&self) -> Option<Attempt> {
        read_json(&self.file("attempt.json"))
    }

    /// Returns what the attempts of exactly this task have used so far, including those without a
    /// result because their process was killed; `None` without an attempt. Blocking.
    pub(crate) fn usage_of(&self, task: &PlannedTask) -> Option<AttemptUsage> {
        let hash = task.input_hash();
        let result = self.result_of(task);
        let result = result.map(|result| AttemptUsage { tokens: result.tokens, cost: result.cost });
        let attempt = self.attempt().filter(|attempt| attempt.input_hash == hash);
        let attempt = attempt.map(|attempt| {
            let mut events = EventReader::new(&self.file("events.jsonl"));
            // Use what can be read.
            let _ = events.read_new();
            attempt.usage(events.summary.usage())
        });
        // The attempt contains those before it; its own events may be deleted already.
        match (result, attempt) {
            (Some(result), Some(attempt)) if attempt.cost < result.cost => Some(result),
            (result, attempt) => attempt.or(result),
        }
    }

    /// Adds requests of killed processes to what the attempt cost. Blocking.
    pub(crate) fn add_lost(&self, lost: LostRequests) -> Result<(), BatchError> {
        if lost.is_empty() {
            return Ok(());
        }
        // Without an attempt, the task has a result, which contains them.
        let Some(mut attempt) = self.attempt() else { return Ok(()) };
        attempt.lost.extend(lost);
        self.write_attempt(&attempt)
    }

    pub(crate) fn write_attempt(&self, attempt: &Attempt) -> Result<(), BatchError> {
        write_json(&self.file("attempt.json"), attempt)
    }

    pub(crate) fn write_result(&self, result: &TaskResult) -> Result<(), BatchError> {
        let file = self.file("result.json");
        write_json(&file, result)?;
        // It records that the task need not run again, even after a crash of the machine.
        let write_error = |source| BatchError::Write { file: file.clone(), source };
        File::open(&file).and_then(|file| file.sync_all()).map_err(write_error)
    }

    /// Removes a file of it, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), BatchError> {
        let file = self.file(name);
        match fs::remove_file(&file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(BatchError::Write { file, source })
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn read_json<T: DeserializeOwned>(file: &Path) -> Option<T> {
    let mut text = String::new();
    File::open(file).ok()?.take(MAX_JSON_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Writes a file so that a reader sees either the old or the new text, never a part.
pub(crate) fn write_atomically(file: &Path, text: &[u8]) -> Result<(), BatchError> {
    let write_error = |source| BatchError::Write { file: file.to_owned(), source };
    let mut name = file.file_name().unwrap_or_default().to_owned();
    // Tasks in other processes may write the same file.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    name.push(format!(".{}-{}", std::process::id(), time.as_nanos()));
    let new = file.with_file_name(name);
    let written = File::create_new(&new)
        .and_then(|mut created| created.write_all(text))
        .and_then(|()| fs::rename(&new, file));
    written.map_err(|error| {
        let _ = fs::remove_file(&new);
        write_error(error)
    })
}

pub(crate) fn write_json(file: &Path, value: &impl Serialize) -> Result<(), BatchError> {
    let write_error = |error: serde_json::Error| BatchError::Write {
        file: file.to_owned(),
        source: error.into(),
    };
    let mut text = serde_json::to_vec_pretty(value).map_err(write_error)?;
    text.push(b'\n');
    write_atomically(file, &text)
}
