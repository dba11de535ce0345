//! What the journal of a session tells of its work: the list of what is to be
//! done, and which model answered.

use parallax_protocol::content::Role;
use parallax_protocol::store::Record;
use parallax_protocol::tool::{Display, Todo, TodoStatus};
use serde_json::json;

use super::{Told, joined, or_none};
use crate::open::OpenSession;

impl OpenSession {
    /// The newest list.
    pub(super) fn tell_todos(&self) -> Told {
        let past = self.past();
        let todos = past.iter().rev().find_map(|record| match record {
            Record::Result(result) => todos(result.display.as_ref()?),
            _ => None,
        });
        let todos = todos.unwrap_or_default();
        let rows = todos.iter().map(|todo| {
            let mark = match todo.status {
                TodoStatus::Pending => "[ ]",
                TodoStatus::InProgress => "[>]",
                TodoStatus::Completed => "[x]",
                TodoStatus::Cancelled => "[-]",
                TodoStatus::Blocked => "[!]",
            };
            format!("{mark} {}", todo.description)
        });
        Told {
            text: or_none(rows.collect(), "The agent keeps no list now."),
            data: json!({"todos": todos}),
        }
    }

    /// Which model is set, and which answered last. Why one was chosen for a prompt
    /// is told with that prompt.
    pub(super) fn tell_why(&self) -> Told {
        let past = self.past();
        let last = past.iter().rev().find_map(|record| match record {
            Record::Content(content) if content.wire.role() == Role::Model => content.model.clone(),
            _ => None,
        });
        let mut lines =
            vec![format!("`{}` is set; a model is chosen with the next prompt.", self.model)];
        lines.extend(last.as_ref().map(|model| format!("The newest answer is from `{model}`.")));
        Told { text: joined(lines), data: json!({"model": self.model, "answered": last}) }
    }
}

fn todos(display: &serde_json::Value) -> Option<Vec<Todo>> {
    // Most displays are large and something else.
    display.get("todos")?;
    match serde_json::from_value(display.clone()).ok()? {
        Display::Todos { todos } => Some(todos),
        _ => None,
    }
}
