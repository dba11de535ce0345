//! The six tools of the tracker.

use std::sync::Arc;

use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use super::store::{STATUSES, Status, TYPES, TaskChanges, Tracker, json_of};
use super::tree::{render_graph, todos};
use crate::arguments::Arguments;
use crate::failure::invalid_params;

/// Maximum number of characters of a title.
const TITLE: usize = 300;
/// Maximum number of characters of a description.
const DESCRIPTION: usize = 10_000;

/// The action of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Create,
    Update,
    Get,
    List,
    AddDependency,
    Visualize,
}

/// Returns the tools for a tracker.
pub fn tracker_tools(tracker: &Arc<Tracker>) -> Vec<Arc<dyn Tool>> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let ids = json!({"type": "array", "items": {"type": "string"}, "description": "Ids."});
    let statuses: Vec<&str> = STATUSES.iter().map(|(word, _)| *word).collect();
    let status = json!({"type": "string", "enum": statuses});
    let kind = json!({"type": "string", "enum": TYPES});
    let specs = [
        (
            Action::Create,
            "tracker_create_task",
            "Creates a task in the tracker. The tracker contains the plan of large work: tasks, \
             their parents, and their dependencies.",
            json!({
                "title": text("A few words."), "description": text("What to do."),
                "type": kind, "parentId": text("The parent task."),
                "dependencies": ids,
            }),
            vec!["title", "description", "type"],
        ),
        (
            Action::Update,
            "tracker_update_task",
            "Changes a task. It can be closed when all its dependencies are closed.",
            json!({
                "id": text("The task."), "title": text("A few words."),
                "description": text("What to do."), "status": status,
                "dependencies": ids,
            }),
            vec!["id"],
        ),
        (
            Action::Get,
            "tracker_get_task",
            "Returns one task with all details.",
            json!({"id": text("The task.")}),
            vec!["id"],
        ),
        (
            Action::List,
            "tracker_list_tasks",
            "Lists tasks, optionally filtered.",
            json!({"status": status, "type": kind, "parentId": text("Their parent task.")}),
            Vec::new(),
        ),
        (
            Action::AddDependency,
            "tracker_add_dependency",
            "Adds a dependency between two tasks.",
            json!({
                "taskId": text("The dependent task."),
                "dependencyId": text("The task that must be done first."),
            }),
            vec!["taskId", "dependencyId"],
        ),
        (Action::Visualize, "tracker_visualize", "Draws all tasks as a tree.", json!({}), vec![]),
    ];
    let tool = |(action, name, description, properties, required): (
        Action,
        &str,
        &str,
        Value,
        Vec<&str>,
    )|
     -> Arc<dyn Tool> {
        let mut parameters = json!({"type": "object", "properties": properties});
        if let (Value::Object(schema), false) = (&mut parameters, required.is_empty()) {
            schema.insert("required".to_owned(), required.into());
        }
        let spec = ToolSpec {
            name: name.to_owned(),
            display_name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            kind: ToolKind::Other,
            // A later call needs the task IDs that an earlier one returns.
            concurrency: Concurrency::Exclusive,
            aliases: Vec::new(),
        };
        Arc::new(TrackerTool { spec, action, tracker: Arc::clone(tracker) })
    };
    specs.into_iter().map(tool).collect()
}

struct TrackerTool {
    spec: ToolSpec,
    action: Action,
    tracker: Arc<Tracker>,
}

impl Tool for TrackerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        for (name, limit) in [("title", TITLE), ("description", DESCRIPTION)] {
            if args.text(name).chars().nth(limit).is_some() {
                return Err(invalid_params(format!(
                    "params/{name} must NOT have more than {limit} characters"
                )));
            }
        }
        if args.optional_text("title").is_some_and(|title| title.trim().is_empty()) {
            return Err(invalid_params("params/title must not be empty".to_owned()));
        }
        Ok(Box::new(TrackerCall {
            args,
            action: self.action,
            tracker: Arc::clone(&self.tracker),
            effects: Effects::default(),
        }))
    }
}

struct TrackerCall {
    args: Arguments,
    action: Action,
    tracker: Arc<Tracker>,
    effects: Effects,
}

impl Invocation for TrackerCall {
    fn title(&self) -> String {
        let args = &self.args;
        let what = match self.action {
            Action::Create => format!("Create the task \"{}\"", args.text("title")),
            Action::Update => format!("Update the task {}", args.text("id")),
            Action::Get => format!("Show the task {}", args.text("id")),
            Action::List => "List the tasks".to_owned(),
            Action::AddDependency => {
                format!("Make {} depend on {}", args.text("taskId"), args.text("dependencyId"))
            }
            Action::Visualize => "Draw the tasks".to_owned(),
        };
        what.replace('\n', " ")
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let store_task = tokio::task::spawn_blocking(move || {
                let done = self.execute();
                (done, todos(&self.tracker.all()))
            });
            match store_task.await {
                Ok((Ok(text), todos)) => {
                    ToolResult::text(text).with_display(Display::Todos { todos })
                }
                Ok((Err(reason), _)) => error_result(reason),
                Err(error) => error_result(error.to_string()),
            }
        })
    }
}

fn error_result(reason: String) -> ToolResult {
    ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, reason))
}

impl TrackerCall {
    /// Runs the action. Blocking.
    fn execute(&self) -> Result<String, String> {
        let args = &self.args;
        let owned = |name: &str| args.optional_text(name).map(str::to_owned);
        let texts = |name: &str| -> Vec<String> {
            args.strings(name).into_iter().map(str::to_owned).collect()
        };
        match self.action {
            Action::Create => {
                let (title, description) = (args.text("title"), args.text("description"));
                let task = self.tracker.create(
                    title.to_owned(),
                    description.to_owned(),
                    args.text("type").to_owned(),
                    owned("parentId"),
                    texts("dependencies"),
                )?;
                Ok(format!("Created task {}: {}", task.id, task.title))
            }
            Action::Update => {
                let changes = TaskChanges {
                    title: owned("title"),
                    description: owned("description"),
                    status: args.optional_text("status").and_then(Status::parse),
                    dependencies: args.value("dependencies").map(|_| texts("dependencies")),
                };
                let task = self.tracker.update(args.text("id"), changes)?;
                Ok(format!("Updated task {}. Status: {}", task.id, task.status.as_str()))
            }
            Action::Get => {
                let id = args.text("id");
                let tasks = self.tracker.all();
                let task = tasks.get(id).ok_or_else(|| format!("Task {id} not found."))?;
                serde_json::to_string_pretty(&json_of(task)).map_err(|error| error.to_string())
            }
            Action::List => {
                let fits = |wanted: Option<&str>, value: Option<&str>| {
                    wanted.is_none_or(|expected| Some(expected) == value)
                };
                let tasks = self.tracker.all();
                let lines: Vec<String> = tasks
                    .values()
                    .filter(|task| {
                        fits(args.optional_text("status"), Some(task.status.as_str()))
                            && fits(args.optional_text("type"), Some(&task.kind))
                            && fits(args.optional_text("parentId"), task.parent.as_deref())
                    })
                    .map(|task| {
                        format!("- [{}] {} ({})", task.id, task.title, task.status.as_str())
                    })
                    .collect();
                Ok(if lines.is_empty() { "No tasks found.".to_owned() } else { lines.join("\n") })
            }
            Action::AddDependency => {
                let (task, dependency) = (args.text("taskId"), args.text("dependencyId"));
                self.tracker.add_dependency(task, dependency)?;
                Ok(format!("Linked {task} -> {dependency}."))
            }
            Action::Visualize => Ok(render_graph(&self.tracker.all())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::run;

    #[tokio::test]
    async fn tasks_are_created_linked_closed_and_shown() {
        let directory = tempfile::tempdir().expect("directory");
        let tools = tracker_tools(&Arc::new(Tracker::new(directory.path().to_owned())));
        let [create, update, get, list, link, draw] = &tools[..] else { panic!("six") };
        let created =
            run(create.as_ref(), json!({"title": "Ship", "description": "all", "type": "epic"}))
                .await;
        let epic = created.for_model.output["Created task ".len()..][..6].to_owned();
        let created = run(
            create.as_ref(),
            json!({"title": "Test", "description": "it", "type": "task", "parentId": epic}),
        )
        .await;
        let Some(Display::Todos { todos }) = &created.for_user else { panic!("a list") };
        assert!(todos.iter().any(|todo| todo.description == "  Test"));
        let task = created.for_model.output["Created task ".len()..][..6].to_owned();
        let linked = run(link.as_ref(), json!({"taskId": epic, "dependencyId": task})).await;
        assert_eq!(linked.for_model.output, format!("Linked {epic} -> {task}."));
        let early = run(update.as_ref(), json!({"id": epic, "status": "closed"})).await;
        assert_eq!(early.error.expect("refused").kind, ToolErrorKind::ExecutionFailed);
        let closed = run(update.as_ref(), json!({"id": task, "status": "closed"})).await;
        assert_eq!(closed.for_model.output, format!("Updated task {task}. Status: closed"));
        let listed = run(list.as_ref(), json!({"status": "closed"})).await;
        assert_eq!(listed.for_model.output, format!("- [{task}] Test (closed)"));
        let whole = run(get.as_ref(), json!({"id": epic})).await;
        assert!(whole.for_model.output.contains(r#""type": "epic""#));
        let drawn = run(draw.as_ref(), json!({})).await;
        assert!(drawn.for_model.output.contains(&format!("Depends on: {task}")));
    }
}
