//! `tasks.json`: the tasks of the newest plan. Only their results count.

use std::fs;
use std::io::{self, Read as _};

use parallax_worktrees::open_regular;
use serde::{Deserialize, Serialize};

use crate::directory::{BatchDirectory, MAX_JSON_BYTES, write_json};
use crate::error::BatchError;
use crate::plan::{PlannedTask, is_valid_id};
use crate::result::TaskResult;

const TASKS_FILE: &str = "tasks.json";

/// A task of the newest plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestTask {
    /// The id.
    pub id: String,
    /// See `PlannedTask::input_hash`; `None`: unknown, because the task is in no list.
    pub(crate) input_hash: Option<String>,
}

impl NewestTask {
    fn from_planned(task: &PlannedTask) -> Self {
        Self { id: task.id.clone(), input_hash: Some(task.input_hash()) }
    }

    /// A task whose result counts whatever its plan said.
    pub(crate) fn with_unknown_plan(id: String) -> Self {
        Self { id, input_hash: None }
    }
}

impl BatchDirectory {
    /// Records the tasks of the plan that runs, as its executor runs them, so that the results of
    /// an earlier plan no longer count. Blocking.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn set_plan(&self, tasks: &[PlannedTask]) -> Result<(), BatchError> {
        let tasks: Vec<NewestTask> = tasks.iter().map(NewestTask::from_planned).collect();
        match self.recorded_tasks() {
            Ok(Some(recorded)) if recorded == tasks => Ok(()),
            // A damaged file is replaced, too.
            _ => write_json(&self.file(TASKS_FILE), &tasks),
        }
    }

    /// Returns the newest plan's tasks that have a directory, in the order of the plan. Blocking.
    ///
    /// # Errors
    /// Returns an error if the list of tasks is damaged.
    pub fn newest_tasks(&self) -> Result<Vec<NewestTask>, BatchError> {
        if let Some(mut tasks) = self.recorded_tasks()? {
            tasks.retain(|task| self.has_task(&task.id));
            return Ok(tasks);
        }
        // A version without this file wrote the results.
        let entries = fs::read_dir(self.file("results")).into_iter().flatten();
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<String> = names.filter(|name| is_valid_id(name)).collect();
        ids.sort();
        Ok(ids.into_iter().map(NewestTask::with_unknown_plan).collect())
    }

    /// Returns the result of a task, unless it is the result of an earlier plan, in which the task
    /// was another one. Blocking.
    pub fn newest_result(&self, task: &NewestTask) -> Option<TaskResult> {
        let result = self.task(&task.id).result()?;
        let is_newest = task.input_hash.as_ref().is_none_or(|hash| *hash == result.input_hash);
        is_newest.then_some(result)
    }

    /// Whether a task has a directory, also one that the plan no longer has. Blocking.
    pub fn has_task(&self, id: &str) -> bool {
        is_valid_id(id) && self.task(id).path().is_dir()
    }

    /// Returns the tasks in the file, which may be missing. Links are not followed.
    fn recorded_tasks(&self) -> Result<Option<Vec<NewestTask>>, BatchError> {
        let file = self.file(TASKS_FILE);
        let mut text = String::new();
        let read = match open_regular(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.and_then(|file| file.take(MAX_JSON_BYTES).read_to_string(&mut text)),
        };
        let tasks = read.and_then(|_| Ok(serde_json::from_str(&text)?));
        tasks.map(Some).map_err(|error| {
            BatchError::Input(format!(
                "Failed to read the tasks of the plan from `{}`: {error}; to write the file again, \
                 run `parallax batch PLAN --out {}`",
                file.display(),
                self.path().display()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::ModelComparison;
    use crate::plan::Plan;
    use crate::result::TaskState;
    use crate::summary::Summary;

    fn directory(folder: &tempfile::TempDir, ids: &[&str]) -> BatchDirectory {
        let directory = BatchDirectory::create(&folder.path().join("out")).expect("created");
        for id in ids {
            fs::create_dir_all(directory.task(id).path()).expect("a task");
        }
        directory
    }

    fn plan(directory: &tempfile::TempDir, tasks: &[(&str, &str)]) -> Plan {
        let lines: Vec<String> = tasks
            .iter()
            .map(|(id, prompt)| format!(r#"{{"id": "{id}", "prompt": "{prompt}"}}"#))
            .collect();
        Plan::parse(&directory.path().join("plan.jsonl"), &lines.join("\n")).expect("valid")
    }

    fn ids(directory: &BatchDirectory) -> Vec<String> {
        let tasks = directory.newest_tasks().expect("a list");
        tasks.into_iter().map(|task| task.id).collect()
    }

    #[test]
    fn tasks_that_left_the_plan_are_not_listed() {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = directory(&folder, &["a", "b", "c"]);
        assert_eq!(ids(&directory), ["a", "b", "c"], "without a record");
        let plan = plan(&folder, &[("c", "p"), ("d", "p"), ("a", "p")]);
        directory.set_plan(&plan.tasks).expect("recorded");
        assert_eq!(ids(&directory), ["c", "a"], "in the order of the plan");
        assert!(directory.has_task("b") && !directory.has_task("../out"));
    }

    #[test]
    fn result_is_ignored_when_the_task_changed_in_the_plan() {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = directory(&folder, &["a", "b"]);
        let old = plan(&folder, &[("a", "old"), ("b", "same")]);
        for task in &old.tasks {
            let mut result = TaskResult::unfinished_result(task);
            result.state = TaskState::Succeeded;
            directory.task(&task.id).write_result(&result).expect("written");
        }
        let succeeded = || {
            let summary = Summary::read(&directory).expect("a summary");
            let compared = ModelComparison::read(&directory).expect("a comparison");
            (summary.tasks, compared.tasks.len())
        };
        assert_eq!(succeeded(), (2, 2), "without a record");
        directory.set_plan(&old.tasks).expect("recorded");
        assert_eq!(succeeded(), (2, 2));
        let new = plan(&folder, &[("a", "new"), ("b", "same")]);
        directory.set_plan(&new.tasks).expect("recorded");
        assert_eq!(succeeded(), (1, 1));
    }

    #[test]
    fn damaged_list_is_an_error_until_the_next_run() {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = directory(&folder, &["a"]);
        let (plan, file) = (plan(&folder, &[("a", "p")]), directory.file(TASKS_FILE));
        for text in ["", "{", "[1]", r#"["a"]"#, r#"{"a": 1}"#] {
            fs::write(&file, text).expect("written");
            let error = directory.newest_tasks().expect_err("damaged").to_string();
            assert!(error.contains("/tasks.json") && error.contains("batch PLAN"), "{error}");
        }
        let other = folder.path().join("other.json");
        fs::write(&other, "[]").expect("written");
        fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink(&other, &file).expect("a link");
        assert!(directory.newest_tasks().is_err(), "a link is not followed");
        directory.set_plan(&plan.tasks).expect("recorded");
        assert_eq!(ids(&directory), ["a"]);
        assert_eq!(fs::read_to_string(&other).expect("a file"), "[]");
    }
}
