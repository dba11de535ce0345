//! Commands about the work recorded in a session's journal: the todo list, and which model
//! answered.

use parallax_protocol::content::Role;
use parallax_protocol::routing::{Route, RouteSource};
use parallax_protocol::store::Record;
use parallax_protocol::tool::{Display, Todo, TodoStatus};
use serde_json::json;

use super::{Told, joined, or_none};
use crate::open::OpenSession;

impl OpenSession {
    /// Shows the latest todo list.
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
            text: or_none(rows.collect(), "The agent has no to-do list at the moment."),
            data: json!({"todos": todos}),
        }
    }

    /// Returns the model of the last answer before the session was opened.
    fn answered_before(&self) -> Option<String> {
        self.past().iter().rev().find_map(|record| match record {
            Record::Content(content) if content.wire.role() == Role::Model => content.model.clone(),
            _ => None,
        })
    }

    /// Returns the routing decision for the last answer before the session was opened.
    pub fn route_before(&self) -> Option<Route> {
        let past = self.past();
        let route = past.iter().rev().find_map(|record| match record {
            Record::Route(chosen) => Some(&chosen.route),
            _ => None,
        });
        // A later prompt may have selected its model explicitly.
        let last = self.answered_before();
        route.filter(|route| last.is_none_or(|last| last == route.model)).cloned()
    }

    /// Shows the configured model, the model that answered last, and why it was chosen.
    pub(super) fn tell_why(&self) -> Told {
        let (last, route) = (self.answered_before(), self.route_before());
        let mut lines = vec![match last.is_some() {
            true => format!("`{}` is set.", self.model),
            false => format!("`{}` is selected; the next prompt is routed to a model.", self.model),
        }];
        lines.extend(last.as_ref().map(|model| format!("The latest response is from `{model}`.")));
        if let Some(route) = &route {
            lines.push(format!("Requested: `{}`.", route.asked));
            lines.push(format!("It was chosen by {}: {}.", by(route.source), route.reason));
            lines.extend(route.error.as_ref().map(|error| format!("A problem: {error}.")));
        }
        Told {
            text: joined(lines),
            data: json!({"model": self.model, "answered": last, "route": route}),
        }
    }
}

/// Describes how a model was chosen.
fn by(source: RouteSource) -> &'static str {
    match source {
        RouteSource::Fallback => "availability",
        RouteSource::Override => "you",
        RouteSource::ApprovalMode => "the approval mode",
        RouteSource::Rules => "rules about the prompt",
        RouteSource::Classifier | RouteSource::NumericalClassifier => "a small model",
        RouteSource::Default => "default",
    }
}

fn todos(display: &serde_json::Value) -> Option<Vec<Todo>> {
    // Cheap check, because most displays are large and of another kind.
    display.get("todos")?;
    match serde_json::from_value(display.clone()).ok()? {
        Display::Todos { todos } => Some(todos),
        _ => None,
    }
}
