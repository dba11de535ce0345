//! Stores the tasks as JSON files, one per task, which are replaced atomically.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use parallax_protocol::Object;
use serde_json::{Value, json};

/// Maximum number of tasks of one session.
const MAX_COUNT: usize = 2_000;
/// Maximum size of one file in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Open,
    InProgress,
    Blocked,
    Closed,
}

pub(super) const STATUSES: [(&str, Status); 4] = [
    ("open", Status::Open),
    ("in_progress", Status::InProgress),
    ("blocked", Status::Blocked),
    ("closed", Status::Closed),
];

pub(super) const TYPES: [&str; 3] = ["epic", "task", "bug"];

impl Status {
    pub(super) fn parse(word: &str) -> Option<Self> {
        STATUSES.iter().find(|(known, _)| *known == word).map(|(_, status)| *status)
    }

    pub(super) fn as_str(self) -> &'static str {
        STATUSES.iter().find(|(_, status)| *status == self).map_or("open", |(word, _)| word)
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    /// The ID: six hexadecimal digits.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) description: String,
    /// `epic`, `task` or `bug`.
    pub(super) kind: String,
    pub(super) status: Status,
    pub(super) parent: Option<String>,
    pub(super) dependencies: Vec<String>,
    /// Unknown fields of its file.
    pub(super) other_fields: Object,
}

/// The changes to a task; `None` keeps a field.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskChanges {
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) status: Option<Status>,
    pub(super) dependencies: Option<Vec<String>>,
}

pub(super) type Tasks = BTreeMap<String, Task>;

/// The tasks of a session.
#[derive(Debug)]
pub struct Tracker {
    directory: PathBuf,
    /// `None` until they are loaded.
    tasks: Mutex<Option<Tasks>>,
}

impl Tracker {
    /// Creates a tracker that stores its files in the directory; it need not exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, tasks: Mutex::new(None) }
    }

    /// Returns all current tasks. Blocking.
    pub(super) fn all(&self) -> Tasks {
        let mut tasks = self.lock();
        self.read(&mut tasks).clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Tasks>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<'t>(&self, tasks: &'t mut Option<Tasks>) -> &'t mut Tasks {
        tasks.get_or_insert_with(|| {
            let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
            let files = entries.map(|entry| entry.path()).take(MAX_COUNT);
            let tasks = files.filter_map(|file| {
                let small = std::fs::metadata(&file)
                    .is_ok_and(|facts| facts.is_file() && facts.len() <= MAX_BYTES);
                let text = std::fs::read_to_string(&file).ok().filter(|_| small)?;
                task_of(serde_json::from_str(&text).ok()?)
            });
            tasks.map(|task| (task.id.clone(), task)).collect()
        })
    }

    /// Creates a task. Blocking.
    pub(super) fn create(
        &self,
        title: String,
        description: String,
        kind: String,
        parent: Option<String>,
        dependencies: Vec<String>,
    ) -> Result<Task, String> {
        let mut held = self.lock();
        let tasks = self.read(&mut held);
        if tasks.len() >= MAX_COUNT {
            return Err(format!("the tracker already has {MAX_COUNT} tasks, the maximum"));
        }
        if let Some(parent) = &parent {
            find_task(tasks, parent)?;
        }
        for dependency in &dependencies {
            find_task(tasks, dependency)?;
        }
        let id = std::iter::repeat_with(new_id)
            .find(|id| !tasks.contains_key(id))
            .ok_or("no id is available")?;
        let other_fields = Object::new();
        let status = Status::Open;
        let task =
            Task { id, title, description, kind, status, parent, dependencies, other_fields };
        self.save_task(tasks, task.clone())?;
        Ok(task)
    }

    /// Changes a task. Blocking.
    pub(super) fn update(&self, id: &str, changes: TaskChanges) -> Result<Task, String> {
        let mut held = self.lock();
        let tasks = self.read(&mut held);
        let mut task = find_task(tasks, id)?.clone();
        if let Some(dependencies) = changes.dependencies {
            task.dependencies.clear();
            for dependency in dependencies {
                link(tasks, &mut task, &dependency)?;
            }
        }
        task.title = changes.title.unwrap_or(task.title);
        task.description = changes.description.unwrap_or(task.description);
        if let Some(status) = changes.status {
            let is_open =
                |id: &&String| tasks.get(*id).is_some_and(|task| task.status != Status::Closed);
            if status == Status::Closed
                && let Some(open) = task.dependencies.iter().find(is_open)
            {
                return Err(format!("it cannot be closed before `{open}`, on which it depends"));
            }
            task.status = status;
        }
        self.save_task(tasks, task.clone())?;
        Ok(task)
    }

    /// Makes a task depend on another. Blocking.
    pub(super) fn add_dependency(&self, id: &str, dependency: &str) -> Result<(), String> {
        let mut held = self.lock();
        let tasks = self.read(&mut held);
        let mut task = find_task(tasks, id)?.clone();
        link(tasks, &mut task, dependency)?;
        self.save_task(tasks, task)
    }

    /// Writes a task, then adds it to the loaded tasks.
    fn save_task(&self, tasks: &mut Tasks, task: Task) -> Result<(), String> {
        self.write(&task).map_err(|error| format!("failed to save the task: {error}"))?;
        tasks.insert(task.id.clone(), task);
        Ok(())
    }

    fn write(&self, task: &Task) -> io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let fresh = self.directory.join(format!("{}.new", task.id));
        std::fs::write(&fresh, serde_json::to_string_pretty(&json_of(task))?)?;
        std::fs::rename(fresh, self.directory.join(format!("{}.json", task.id)))
    }
}

fn find_task<'t>(tasks: &'t Tasks, id: &str) -> Result<&'t Task, String> {
    tasks.get(id).ok_or_else(|| format!("unknown task `{id}`"))
}

fn link(tasks: &Tasks, task: &mut Task, dependency: &str) -> Result<(), String> {
    find_task(tasks, dependency)?;
    if dependency == task.id {
        return Err(format!("`{dependency}` cannot depend on itself"));
    }
    // The dependency must not depend on this task, directly or indirectly.
    let mut pending = vec![dependency];
    let mut seen = std::collections::HashSet::new();
    while let Some(id) = pending.pop() {
        if id == task.id {
            let id = &task.id;
            return Err(format!("`{dependency}` already depends on `{id}`: this would be a cycle"));
        }
        if seen.insert(id)
            && let Some(task) = tasks.get(id)
        {
            pending.extend(task.dependencies.iter().map(String::as_str));
        }
    }
    if !task.dependencies.iter().any(|known| known == dependency) {
        task.dependencies.push(dependency.to_owned());
    }
    Ok(())
}

/// Returns six random hexadecimal digits.
fn new_id() -> String {
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{:06x}", random & 0x00ff_ffff)
}

pub(super) fn json_of(task: &Task) -> Value {
    let mut json = json!({
        "id": task.id, "title": task.title, "description": task.description, "type": task.kind,
        "status": task.status.as_str(), "dependencies": task.dependencies,
    });
    if let Value::Object(fields) = &mut json {
        if let Some(parent) = &task.parent {
            fields.insert("parentId".to_owned(), parent.clone().into());
        }
        fields.extend(task.other_fields.clone());
    }
    json
}

fn task_of(json: Value) -> Option<Task> {
    let Value::Object(mut fields) = json else { return None };
    let mut text = |name: &str| match fields.shift_remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (id, title, kind) = (text("id")?, text("title")?, text("type")?);
    let is_id = id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let status = Status::parse(&text("status")?)?;
    let (description, parent) = (text("description").unwrap_or_default(), text("parentId"));
    let dependencies = match fields.shift_remove("dependencies") {
        Some(Value::Array(items)) => {
            items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    let known = is_id && TYPES.contains(&kind.as_str());
    known.then_some(Task {
        id,
        title,
        description,
        kind,
        status,
        parent,
        dependencies,
        other_fields: fields,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tracker: &Tracker, title: &str) -> String {
        let created = tracker.create(title.into(), "d".into(), "task".into(), None, Vec::new());
        created.expect("made").id
    }

    fn close(tracker: &Tracker, id: &str) -> Result<Task, String> {
        tracker.update(id, TaskChanges { status: Some(Status::Closed), ..TaskChanges::default() })
    }

    #[test]
    fn task_closes_after_its_dependencies_and_cycles_are_rejected() {
        let directory = tempfile::tempdir().expect("directory");
        let tracker = Tracker::new(directory.path().join("tracker"));
        let (a, b, c) = (task(&tracker, "a"), task(&tracker, "b"), task(&tracker, "c"));
        tracker.add_dependency(&a, &b).expect("linked");
        tracker.add_dependency(&b, &c).expect("linked");
        assert!(tracker.add_dependency(&c, &a).expect_err("a cycle").contains("cycle"));
        assert!(tracker.add_dependency(&a, &a).expect_err("itself").contains("itself"));
        assert!(tracker.add_dependency(&a, "ffffff0").is_err());
        assert!(close(&tracker, &a).expect_err("open").contains(&b));
        for id in [&c, &b, &a] {
            close(&tracker, id).expect("closed");
        }
    }

    #[test]
    fn tasks_are_reloaded_with_unknown_fields() {
        let directory = tempfile::tempdir().expect("directory");
        let tracker = Tracker::new(directory.path().to_owned());
        let id = task(&tracker, "a");
        let file = directory.path().join(format!("{id}.json"));
        let text = std::fs::read_to_string(&file).expect("file");
        std::fs::write(&file, text.replacen('{', "{\"subagentSessionId\": \"x\",", 1))
            .expect("put");
        std::fs::write(directory.path().join("broken.json"), "{").expect("put");
        let reopened = Tracker::new(directory.path().to_owned());
        let changes = TaskChanges { title: Some("b".into()), ..TaskChanges::default() };
        reopened.update(&id, changes).expect("changed");
        let all = Tracker::new(directory.path().to_owned()).all();
        assert_eq!((all.len(), all[&id].title.as_str()), (1, "b"));
        assert_eq!(all[&id].other_fields["subagentSessionId"], "x");
    }
}
