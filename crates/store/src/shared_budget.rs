//! The cost budget of a batch, which the processes of its tasks share: a file that is locked while
//! it is changed.
//!
//! A process that is killed cannot release what it reserved. Where its end is known, that is
//! counted as spent at once. Elsewhere (another machine, another PID namespace), others notice that
//! the process stopped renewing its entry. They measure the time themselves, so the clocks of the
//! machines need not agree.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parallax_protocol::budget::{ProcessSpending, SharedBudget, SharedSpending};
use serde::{Deserialize, Serialize};

/// The variable that names the file.
const FILE: &str = "PARALLAX_BATCH_BUDGET";
/// The variable that names the task that a process belongs to.
const TASK: &str = "PARALLAX_BATCH_BUDGET_TASK";
/// Maximum number of bytes read from the file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// After this time without a change, the process of an entry is gone. Processes renew theirs every
/// ten seconds while they reserve something.
const LEASE: Duration = Duration::from_secs(60);
/// Tolerance for rounding errors in sums of US dollars.
const ROUNDING: f64 = 1e-9;

/// The budget file, for the process that starts tasks.
#[derive(Debug, Clone)]
pub struct SharedBudgetFile {
    file: PathBuf,
}

/// What may have been paid for requests of killed processes, in US dollars, by process.
pub type LostRequests = BTreeMap<String, f64>;

/// What the processes of a task did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskBudget {
    /// Whether the budget did not cover a request.
    pub is_refused: bool,
    /// Their requests that they did not count.
    pub lost: LostRequests,
    /// How long they waited for requests of other processes.
    pub waited: Duration,
}

/// The budget file, for a process that sends requests.
#[derive(Debug)]
struct BudgetMember {
    file: PathBuf,
    task: String,
    /// Distinguishes the processes of a task.
    process: String,
    /// After this time without a change, another process is gone.
    lease: Duration,
    renewals: Mutex<Renewals>,
}

/// When entries were renewed.
#[derive(Debug, Default)]
pub struct Renewals {
    /// Of this process.
    own: u64,
    /// The number of the last renewal of other processes, and when it was seen first.
    others: BTreeMap<String, (u64, Instant)>,
}

impl Renewals {
    /// Whether an entry was not renewed for this time.
    fn has_expired(&mut self, id: &str, renewal: u64, lease: Duration) -> bool {
        let now = Instant::now();
        let seen = self.others.entry(id.to_owned()).or_insert((renewal, now));
        if seen.0 != renewal {
            *seen = (renewal, now);
        }
        now.duration_since(seen.1) > lease
    }
}

/// The contents of the file, in US dollars.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct BudgetState {
    /// `None`: only the tasks have limits of their own.
    limit: Option<f64>,
    /// Spent by tasks that ended, and by earlier attempts of running ones.
    spent: f64,
    /// The processes of running tasks.
    #[serde(default)]
    processes: BTreeMap<String, ProcessEntry>,
    /// Running tasks that asked whether they may start.
    #[serde(default)]
    tasks: BTreeMap<String, RunningTask>,
    /// The most that a task has cost, with all attempts.
    #[serde(default)]
    largest: f64,
    /// Whether a task has ended.
    #[serde(default)]
    has_ended: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct RunningTask {
    /// What it is expected to cost.
    expected: f64,
    /// Counts up while its process lives.
    renewal: u64,
}

/// Whether a task may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStart {
    /// It may start. End it with [`SharedBudgetFile::finish_task`].
    Started,
    /// It must wait until another task ends.
    Wait,
    /// The rest of the budget is too small.
    Refused,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct ProcessEntry {
    task: String,
    spent: f64,
    reserved: f64,
    /// What uncounted requests may have cost.
    lost: f64,
    /// Seconds.
    waited: f64,
    is_refused: bool,
    /// Counts up while the process lives.
    renewal: u64,
}

impl ProcessEntry {
    /// Handles the end of the process: what it reserved may be spent.
    fn count_reservations_as_spent(&mut self) {
        self.lost += std::mem::take(&mut self.reserved);
    }
}

impl BudgetState {
    /// Whether another task may start, and what it is expected to cost.
    fn decide_start(&self, max_cost: Option<f64>) -> (TaskStart, f64) {
        let Some(limit) = self.limit else { return (TaskStart::Started, 0.0) };
        let used_by = |task: &str| -> f64 {
            let entries = self.processes.values().filter(|entry| entry.task == task);
            entries.map(|entry| entry.spent + entry.lost).sum()
        };
        let used: f64 = self.processes.values().map(|entry| entry.spent + entry.lost).sum();
        let expected_rest =
            |(id, running): (&String, &RunningTask)| (running.expected - used_by(id)).max(0.0);
        let rest: f64 = self.tasks.iter().map(expected_rest).sum();
        let remaining = limit - self.spent - used - rest;
        let expected = max_cost.unwrap_or(self.largest);
        let is_alone = self.tasks.is_empty();
        let is_too_little = remaining <= ROUNDING || remaining < expected - ROUNDING;
        let is_unknown = expected == 0.0 && !self.has_ended;
        match (is_too_little, is_alone) {
            (true, true) => (TaskStart::Refused, 0.0),
            (true, false) => (TaskStart::Wait, 0.0),
            (false, false) if is_unknown => (TaskStart::Wait, 0.0),
            (false, _) if expected == 0.0 => (TaskStart::Started, remaining),
            (false, _) => (TaskStart::Started, expected),
        }
    }
}

impl SharedBudgetFile {
    /// Refers to the file at a path. It is created when the limit is set.
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Returns the variables of a process that works on a task.
    pub fn variables(&self, task: &str) -> [(&'static str, std::ffi::OsString); 2] {
        [(FILE, self.file.clone().into_os_string()), (TASK, task.into())]
    }

    /// Removes the file. Call it when no process uses it; results say what was spent. Blocking.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    pub fn reset(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates the file where it is missing. Sets the limit, and what ended tasks and earlier
    /// attempts of running ones have cost, unless the file has more. Without a limit, the file only
    /// records the requests of tasks that have limits of their own. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn set_limit(&self, limit: Option<f64>, spent: f64) -> io::Result<()> {
        change(&self.file, true, |state| {
            (state.limit, state.spent) = (limit, state.spent.max(spent));
        })
    }

    /// Returns the usage of each task that has an entry, summed over its processes. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn tasks(&self) -> io::Result<BTreeMap<String, TaskBudget>> {
        let mut file = match File::open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            opened => opened?,
        };
        file.lock_shared()?;
        let Some((state, _)) = read(&mut file)? else { return Ok(BTreeMap::new()) };
        let mut tasks: BTreeMap<String, TaskBudget> = BTreeMap::new();
        for (process, mut entry) in state.processes {
            entry.count_reservations_as_spent();
            let task = tasks.entry(entry.task).or_default();
            task.is_refused |= entry.is_refused;
            task.waited += Duration::try_from_secs_f64(entry.waited).unwrap_or_default();
            if entry.lost > 0.0 {
                task.lost.insert(process, entry.lost);
            }
        }
        Ok(tasks)
    }

    /// Starts a task next to those of other processes if the rest of the budget covers what it is
    /// expected to cost: what it may (`max_cost`), or what the most expensive one has cost. While
    /// that is unknown, one runs alone. Give the same `renewals` while the task waits. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn start_task(
        &self,
        task: &str,
        max_cost: Option<f64>,
        renewals: &mut Renewals,
    ) -> io::Result<TaskStart> {
        change(&self.file, false, |state| {
            state.tasks.retain(|id, running| {
                id != task && !renewals.has_expired(id, running.renewal, LEASE)
            });
            let start = state.decide_start(max_cost);
            if let (TaskStart::Started, expected) = start {
                let running = RunningTask { expected, ..RunningTask::default() };
                state.tasks.insert(task.to_owned(), running);
            }
            start.0
        })
    }

    /// Shows other processes that this one works on the task. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn renew_task(&self, task: &str) -> io::Result<()> {
        change(&self.file, false, |state| {
            if let Some(running) = state.tasks.get_mut(task) {
                running.renewal += 1;
            }
        })
    }

    /// Ends a task that was started, and cost this much with all attempts. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn finish_task(&self, task: &str, cost: f64) -> io::Result<()> {
        change(&self.file, false, |state| {
            state.tasks.remove(task);
            state.has_ended = true;
            state.largest = state.largest.max(cost);
        })
    }

    /// Removes the processes of a task, which have ended. What they reserved is spent. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn end_task(&self, task: &str) -> io::Result<()> {
        change(&self.file, false, |state| {
            let BudgetState { spent, processes, .. } = state;
            processes.retain(|_, entry| {
                if entry.task != task {
                    return true;
                }
                *spent += entry.spent + entry.lost + entry.reserved;
                false
            });
        })
    }
}

/// Returns the budget of the batch that this process belongs to, if it belongs to one that has a
/// budget.
pub fn shared_budget(env: &dyn Fn(&str) -> Option<String>) -> Option<impl SharedBudget + use<>> {
    member(env, LEASE)
}

fn member(env: &dyn Fn(&str) -> Option<String>, lease: Duration) -> Option<BudgetMember> {
    let file = env(FILE).filter(|value| !value.is_empty())?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let process = format!("{}-{}", std::process::id(), since.as_nanos());
    let (task, renewals) = (env(TASK).unwrap_or_default(), Mutex::default());
    Some(BudgetMember { file: file.into(), task, process, lease, renewals })
}

impl BudgetMember {
    /// Counts reservations that were not renewed for too long as spent. Returns the number of this
    /// process's own renewal.
    fn renew(&self, processes: &mut BTreeMap<String, ProcessEntry>) -> u64 {
        let mut renewals = self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
        renewals.others.retain(|process, _| processes.contains_key(process));
        for (process, entry) in processes.iter_mut().filter(|(id, _)| **id != self.process) {
            if renewals.has_expired(process, entry.renewal, self.lease) {
                // If it lives after all, its next renewal corrects this.
                entry.count_reservations_as_spent();
            }
        }
        renewals.own += 1;
        renewals.own
    }
}

impl SharedBudget for BudgetMember {
    fn update(&self, update: &mut dyn FnMut(&SharedSpending) -> ProcessSpending) -> io::Result<()> {
        change(&self.file, false, |state| {
            let renewal = self.renew(&mut state.processes);
            let others = || state.processes.iter().filter(|(id, _)| **id != self.process);
            let sum = |part: fn(&ProcessEntry) -> f64| -> f64 {
                others().map(|(_, entry)| part(entry)).sum()
            };
            let ProcessSpending { spent, reserved, lost, waited, is_refused } =
                update(&SharedSpending {
                    limit: state.limit.unwrap_or(f64::INFINITY),
                    spent: state.spent + sum(|entry| entry.spent + entry.lost),
                    reserved: sum(|entry| entry.reserved),
                });
            let task = self.task.clone();
            let entry = ProcessEntry { task, spent, reserved, lost, waited, is_refused, renewal };
            state.processes.insert(self.process.clone(), entry);
        })
    }
}

/// Changes the file while no other process does.
fn change<T>(
    file: &Path,
    creates: bool,
    change: impl FnOnce(&mut BudgetState) -> T,
) -> io::Result<T> {
    let mut opened =
        OpenOptions::new().read(true).write(true).create(creates).truncate(false).open(file)?;
    opened.lock()?;
    let (mut state, length) = match read(&mut opened)? {
        Some(read) => read,
        None if creates => (BudgetState::default(), 0),
        // Its limit is unknown.
        None => {
            let reason = format!("`{}` is empty", file.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
    };
    let result = change(&mut state);
    write(&opened, &state, length)?;
    Ok(result)
}

/// Returns the state, and its length in bytes; `None`: the file is empty.
fn read(file: &mut File) -> io::Result<Option<(BudgetState, usize)>> {
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    match text.is_empty() {
        true => Ok(None),
        false => Ok(Some((serde_json::from_str(&text)?, text.len()))),
    }
}

/// Writes the file at once, padded to its length, so that a process that is killed does not leave
/// a part of it.
fn write(file: &File, state: &BudgetState, length: usize) -> io::Result<()> {
    let mut text = serde_json::to_vec(state)?;
    text.resize(text.len().max(length), b' ');
    file.write_all_at(&text, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(file: &Path, task: &str, lease: Duration) -> BudgetMember {
        let (file, task) = (file.display().to_string(), task.to_owned());
        let env = move |name: &str| Some(if name == FILE { file.clone() } else { task.clone() });
        super::member(&env, lease).expect("a budget")
    }

    fn others(member: &impl SharedBudget, own: ProcessSpending) -> SharedSpending {
        let mut others = SharedSpending::default();
        let mut update = |seen: &SharedSpending| {
            others = *seen;
            own
        };
        member.update(&mut update).expect("updated");
        others
    }

    fn spending(spent: f64, reserved: f64) -> ProcessSpending {
        ProcessSpending { spent, reserved, ..ProcessSpending::default() }
    }

    fn seen(spent: f64, reserved: f64) -> SharedSpending {
        SharedSpending { limit: 2.0, spent, reserved }
    }

    #[test]
    fn processes_see_what_others_spent_and_reserved_until_their_task_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("budget");
        let budget = SharedBudgetFile::new(path.clone());
        let (one, other) = (member(&path, "a", LEASE), member(&path, "b", LEASE));
        let unchanged = |_: &SharedSpending| ProcessSpending::default();
        assert!(one.update(&mut { unchanged }).is_err(), "without the file, nothing is allowed");
        budget.set_limit(Some(2.0), 0.5).expect("set");
        let refused = ProcessSpending { is_refused: true, waited: 1.5, ..spending(0.25, 0.125) };
        assert_eq!(others(&one, refused), seen(0.5, 0.0));
        assert_eq!(others(&other, spending(1.0, 0.0)), seen(0.75, 0.125));
        let tasks = budget.tasks().expect("read");
        let task = tasks.get("a").expect("the task");
        assert!(task.is_refused && !tasks["b"].is_refused);
        assert_eq!(task.waited, Duration::from_millis(1500));
        let lost: Vec<f64> = task.lost.values().copied().collect();
        assert_eq!(lost, [0.125]);
        budget.end_task("a").expect("ended");
        assert_eq!(budget.tasks().expect("read").get("a"), None);
        // The request of the ended process may have been paid.
        assert_eq!(others(&other, spending(1.0, 0.0)), seen(0.875, 0.0));
        // What is known of the results is exact, but may be late.
        budget.set_limit(Some(2.0), 0.5).expect("set");
        assert_eq!(others(&one, spending(0.0, 0.0)).spent, 1.875);
    }

    #[test]
    fn reservation_that_is_not_renewed_is_spent_until_its_process_renews_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("budget");
        SharedBudgetFile::new(path.clone()).set_limit(Some(2.0), 0.0).expect("set");
        let expired = member(&path, "a", LEASE);
        let waiting = member(&path, "b", Duration::from_millis(40));
        others(&expired, spending(0.5, 1.0));
        assert_eq!(others(&waiting, spending(0.0, 0.0)), seen(0.5, 1.0));
        others(&expired, spending(0.5, 1.0));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(others(&waiting, spending(0.0, 0.0)), seen(0.5, 1.0), "it was renewed");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(others(&waiting, spending(0.0, 0.0)), seen(1.5, 0.0));
        others(&expired, spending(0.75, 0.0));
        assert_eq!(others(&waiting, spending(0.0, 0.0)), seen(0.75, 0.0), "it was only stopped");
    }

    #[test]
    fn budget_without_a_limit_records_requests_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("budget");
        let budget = SharedBudgetFile::new(path.clone());
        assert_eq!(budget.tasks().expect("read"), BTreeMap::new());
        budget.set_limit(None, 0.0).expect("created");
        let one = member(&path, "a", LEASE);
        assert!(others(&one, spending(0.5, 1.0)).limit.is_infinite());
        assert_eq!(budget.tasks().expect("read")["a"].lost.len(), 1);
    }

    #[test]
    fn tasks_start_only_if_the_remaining_budget_covers_their_expected_cost() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("budget");
        let budget = SharedBudgetFile::new(path.clone());
        budget.set_limit(Some(2.0), 0.0).expect("set");
        let start = |task: &str, max_cost| {
            budget.start_task(task, max_cost, &mut Renewals::default()).expect("a decision")
        };
        assert_eq!(start("a", None), TaskStart::Started);
        assert_eq!(start("b", None), TaskStart::Wait, "the cost of the first is unknown");
        others(&member(&path, "a", LEASE), spending(0.8, 0.0));
        budget.end_task("a").expect("ended");
        budget.finish_task("a", 0.8).expect("finished");
        assert_eq!(start("b", None), TaskStart::Started);
        assert_eq!(start("c", None), TaskStart::Wait, "only 0.4 are left for it");
        assert_eq!(start("d", Some(0.3)), TaskStart::Started);
        budget.renew_task("b").expect("renewed");
        others(&member(&path, "b", LEASE), spending(0.8, 0.0));
        for task in ["b", "d"] {
            budget.end_task(task).expect("ended");
            budget.finish_task(task, 0.8).expect("finished");
        }
        assert_eq!(start("c", None), TaskStart::Refused);
    }

    #[test]
    fn damaged_or_empty_file_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("budget");
        let unchanged = |_: &SharedSpending| ProcessSpending::default();
        for text in ["{\"limit\": 5", ""] {
            std::fs::write(&path, text).expect("written");
            assert!(member(&path, "a", LEASE).update(&mut { unchanged }).is_err(), "{text}");
        }
        SharedBudgetFile::new(path.clone()).set_limit(Some(2.0), 0.5).expect("set again");
        member(&path, "a", LEASE).update(&mut { unchanged }).expect("usable");
    }
}
