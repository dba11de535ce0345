//! The cost budget of a batch, which the processes of its tasks share: a file that is locked while
//! it is changed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use parallax_protocol::budget::{ProcessSpending, SharedBudget, SharedSpending};
use serde::{Deserialize, Serialize};

/// The variable that names the file.
const FILE: &str = "PARALLAX_BATCH_BUDGET";
/// The variable that names the task that a process belongs to.
const TASK: &str = "PARALLAX_BATCH_BUDGET_TASK";
/// Bytes of the file that are read.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The file, for the process that starts tasks.
#[derive(Debug, Clone)]
pub struct SharedBudgetFile {
    file: PathBuf,
}

/// What the processes of a task left in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskBudget {
    /// Whether the budget did not cover a request.
    pub is_refused: bool,
}

/// The file, for a process that sends requests.
#[derive(Debug)]
struct BudgetMember {
    file: PathBuf,
    task: String,
    /// Distinguishes the processes of a task.
    process: String,
}

/// The contents of the file, in US dollars.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct BudgetState {
    limit: f64,
    /// By tasks that ended, and by earlier attempts of those that run.
    spent: f64,
    /// The processes of running tasks.
    #[serde(default)]
    processes: BTreeMap<String, ProcessEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ProcessEntry {
    task: String,
    spent: f64,
    reserved: f64,
    #[serde(default)]
    is_refused: bool,
}

impl SharedBudgetFile {
    /// The file at a path. It is created when the limit is set.
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// The variables of a process that works on a task.
    pub fn variables(&self, task: &str) -> [(&'static str, std::ffi::OsString); 2] {
        [(FILE, self.file.clone().into_os_string()), (TASK, task.into())]
    }

    /// Removes the file. Call it when no process uses it; results say what was spent. Blocking.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn reset(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Sets the limit, and what ended tasks and earlier attempts of running ones have cost, unless
    /// the file has more. Blocking.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn set_limit(&self, limit: f64, spent: f64) -> io::Result<()> {
        change(&self.file, true, |state| {
            (state.limit, state.spent) = (limit, state.spent.max(spent));
        })
    }

    /// Removes the processes of a task, which have ended, and releases what they reserved.
    /// Blocking.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn end_task(&self, task: &str) -> io::Result<TaskBudget> {
        change(&self.file, false, |state| {
            let mut left = TaskBudget::default();
            let BudgetState { spent, processes, .. } = state;
            processes.retain(|_, entry| {
                if entry.task != task {
                    return true;
                }
                left.is_refused |= entry.is_refused;
                *spent += entry.spent;
                false
            });
            left
        })
    }
}

/// Returns the budget of the batch that this process belongs to, if it belongs to one that has a
/// budget.
pub fn shared_budget(env: &dyn Fn(&str) -> Option<String>) -> Option<impl SharedBudget + use<>> {
    let file = env(FILE).filter(|value| !value.is_empty())?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let process = format!("{}-{}", std::process::id(), since.as_nanos());
    Some(BudgetMember { file: file.into(), task: env(TASK).unwrap_or_default(), process })
}

impl SharedBudget for BudgetMember {
    fn update(&self, update: &mut dyn FnMut(&SharedSpending) -> ProcessSpending) -> io::Result<()> {
        change(&self.file, false, |state| {
            let others = || state.processes.iter().filter(|(id, _)| **id != self.process);
            let sum = |part: fn(&ProcessEntry) -> f64| -> f64 {
                others().map(|(_, entry)| part(entry)).sum()
            };
            let ProcessSpending { spent, reserved, is_refused } = update(&SharedSpending {
                limit: state.limit,
                spent: state.spent + sum(|entry| entry.spent),
                reserved: sum(|entry| entry.reserved),
            });
            let entry = ProcessEntry { task: self.task.clone(), spent, reserved, is_refused };
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
    let (mut state, length) = read(&mut opened)?;
    let result = change(&mut state);
    write(&opened, &state, length)?;
    Ok(result)
}

fn read(file: &mut File) -> io::Result<(BudgetState, usize)> {
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    match text.is_empty() {
        true => Ok((BudgetState::default(), 0)),
        false => Ok((serde_json::from_str(&text)?, text.len())),
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

    fn member(file: &Path, task: &str) -> impl SharedBudget + use<> {
        let (file, task) = (file.display().to_string(), task.to_owned());
        let env = move |name: &str| Some(if name == FILE { file.clone() } else { task.clone() });
        shared_budget(&env).expect("a budget")
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

    #[test]
    fn processes_see_what_others_spent_and_reserved_until_their_task_ends() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("budget");
        let budget = SharedBudgetFile::new(path.clone());
        let spending =
            |spent, reserved, is_refused| ProcessSpending { spent, reserved, is_refused };
        let (one, other) = (member(&path, "a"), member(&path, "b"));
        let unchanged = |_: &SharedSpending| ProcessSpending::default();
        assert!(one.update(&mut { unchanged }).is_err(), "without the file, nothing is allowed");
        budget.set_limit(2.0, 0.5).expect("set");
        let seen = others(&one, spending(0.25, 0.125, true));
        assert_eq!(seen, SharedSpending { limit: 2.0, spent: 0.5, reserved: 0.0 });
        let seen = others(&other, spending(1.0, 0.0, false));
        assert_eq!(seen, SharedSpending { limit: 2.0, spent: 0.75, reserved: 0.125 });
        assert!(budget.end_task("a").expect("ended").is_refused);
        assert!(!budget.end_task("a").expect("ended").is_refused);
        let seen = others(&other, spending(1.0, 0.0, false));
        assert_eq!(seen, SharedSpending { limit: 2.0, spent: 0.75, reserved: 0.0 });
        // What is known of the results is exact, but may be late.
        budget.set_limit(2.0, 0.5).expect("set");
        assert_eq!(others(&one, spending(0.0, 0.0, false)).spent, 1.75);
    }

    #[test]
    fn damaged_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("budget");
        std::fs::write(&path, "{\"limit\": 5").expect("written");
        let unchanged = |_: &SharedSpending| ProcessSpending::default();
        assert!(member(&path, "a").update(&mut { unchanged }).is_err());
    }
}
