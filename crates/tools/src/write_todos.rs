//! `write_todos`: the model's todo list, shown above the prompt. Each call replaces the whole list,
//! which is stored only in the session's events.

use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Todo, TodoStatus, Tool,
    ToolError, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::failure::invalid_params;

/// Maximum number of items.
const MAX_TODOS: usize = 200;
/// Maximum number of characters of a description.
const MAX_DESCRIPTION: usize = 2_000;
const STATUSES: [(&str, TodoStatus); 5] = [
    ("pending", TodoStatus::Pending),
    ("in_progress", TodoStatus::InProgress),
    ("completed", TodoStatus::Completed),
    ("cancelled", TodoStatus::Cancelled),
    ("blocked", TodoStatus::Blocked),
];

/// The tool. It has no state: the list is in the [`Display`] of each call.
#[derive(Debug)]
pub struct WriteTodos {
    spec: ToolSpec,
}

impl Default for WriteTodos {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteTodos {
    /// Creates the tool.
    pub fn new() -> Self {
        let statuses: Vec<&str> = STATUSES.iter().map(|(word, _)| *word).collect();
        Self {
            spec: ToolSpec {
                name: "write_todos".into(),
                display_name: "WriteTodos".into(),
                description: include_str!("write_todos/description.md").trim_end().into(),
                parameters: json!({
                    "type": "object",
                    "properties": {
                        "todos": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "description": {"type": "string"},
                                    "status": {"type": "string", "enum": statuses}
                                },
                                "required": ["description", "status"],
                                "additionalProperties": false
                            }
                        }
                    },
                    "required": ["todos"],
                    "additionalProperties": false
                }),
                kind: ToolKind::Other,
                concurrency: Concurrency::Shared,
                aliases: vec!["WriteTodosTool".into()],
            },
        }
    }
}

impl Tool for WriteTodos {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        Ok(Box::new(WriteTodosCall { todos: read(&args)?, effects: Effects::default() }))
    }
}

struct WriteTodosCall {
    todos: Vec<Todo>,
    effects: Effects,
}

impl Invocation for WriteTodosCall {
    fn title(&self) -> String {
        match self.todos.iter().find(|todo| todo.status == TodoStatus::InProgress) {
            _ if self.todos.is_empty() => "Clear the todo list".to_owned(),
            Some(current) => format!("Todos: {}", first_line(&current.description)),
            None => format!("Set {} todo(s)", self.todos.len()),
        }
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        let output = if self.todos.is_empty() {
            "Successfully cleared the todo list.".to_owned()
        } else {
            let lines: Vec<String> = self
                .todos
                .iter()
                .enumerate()
                .map(|(index, todo)| {
                    format!("{}. [{}] {}", index + 1, word(todo.status), todo.description)
                })
                .collect();
            format!(
                "Successfully updated the todo list. The current list is now:\n{}",
                lines.join("\n")
            )
        };
        let outcome = ToolResult::text(output).with_display(Display::Todos { todos: self.todos });
        Box::pin(std::future::ready(outcome))
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

fn word(status: TodoStatus) -> &'static str {
    STATUSES.iter().find(|(_, known)| *known == status).map_or("pending", |(word, _)| word)
}

/// Reads the list from arguments that match the schema.
fn read(args: &Arguments) -> Result<Vec<Todo>, ToolError> {
    let items = args.value("todos").and_then(Value::as_array);
    let items = items.map(Vec::as_slice).unwrap_or_default();
    if items.len() > MAX_TODOS {
        return Err(invalid_params(format!(
            "params/todos must NOT have more than {MAX_TODOS} items"
        )));
    }
    let mut todos = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        todos.push(read_item(item, &format!("params/todos/{index}")).map_err(invalid_params)?);
    }
    let current = todos.iter().filter(|todo| todo.status == TodoStatus::InProgress).count();
    if current > 1 {
        return Err(invalid_params(format!(
            "Only one todo can be `in_progress` at a time; {current} are. Leave the others `pending`."
        )));
    }
    Ok(todos)
}

/// Reads one item; `at` is its path in validation messages.
fn read_item(item: &Value, at: &str) -> Result<Todo, String> {
    let keys = item.as_object().into_iter().flat_map(Object::keys);
    if keys.into_iter().any(|key| key != "description" && key != "status") {
        return Err(format!("{at} must NOT have additional properties"));
    }
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or("");
    let description = text("description").trim();
    if description.is_empty() {
        return Err(format!("{at}/description must not be empty"));
    }
    if description.chars().nth(MAX_DESCRIPTION).is_some() {
        return Err(format!(
            "{at}/description must NOT have more than {MAX_DESCRIPTION} characters"
        ));
    }
    let status = STATUSES.iter().find(|(word, _)| *word == text("status"));
    let (_, status) = status.ok_or_else(|| format!("{at}/status is unknown"))?;
    Ok(Todo { description: description.to_owned(), status: *status })
}

#[cfg(test)]
mod tests {
    use parallax_protocol::tool::ToolErrorKind;

    use super::*;
    use crate::test_support::{object, run, scope};

    fn refusal(args: Value) -> String {
        let error = WriteTodos::new().prepare(object(args), &scope("write_todos")).err();
        let error = error.expect("a refusal");
        assert_eq!(error.kind, ToolErrorKind::InvalidToolParams);
        error.message
    }

    #[tokio::test]
    async fn list_is_confirmed_and_shown() {
        let outcome = run(
            &WriteTodos::new(),
            json!({"todos": [
                {"description": "read", "status": "completed"},
                {"description": "write", "status": "in_progress"}]}),
        )
        .await;
        assert!(
            outcome.for_model.output.ends_with("\n1. [completed] read\n2. [in_progress] write")
        );
        let Some(Display::Todos { todos }) = outcome.for_user else { panic!("no list") };
        assert_eq!(todos[1].status, TodoStatus::InProgress);

        let cleared = run(&WriteTodos::new(), json!({"todos": []})).await;
        assert!(cleared.for_model.output.contains("cleared"));
    }

    #[test]
    fn invalid_todo_lists_are_rejected() {
        let item = |status: &str| json!({"description": "d", "status": status});
        assert!(
            refusal(json!({"todos": [item("in_progress"), item("in_progress")]}))
                .starts_with("Only one todo can be `in_progress`")
        );
        for (args, message) in [
            (json!({}), "params must have required property 'todos'"),
            (json!({"todos": "x"}), "params/todos must be array"),
            (
                json!({"todos": [item("done")]}),
                "params/todos/0/status must be equal to one of the allowed values: \
                 \"pending\", \"in_progress\", \"completed\", \"cancelled\", \"blocked\"",
            ),
            (
                json!({"todos": [{"description": " ", "status": "pending"}]}),
                "params/todos/0/description must not be empty",
            ),
            (
                json!({"todos": [{"description": "d", "status": "pending", "id": 1}]}),
                "params/todos/0 must NOT have additional properties",
            ),
        ] {
            assert_eq!(refusal(args), message);
        }
    }
}
