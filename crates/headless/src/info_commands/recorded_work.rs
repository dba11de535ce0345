//! Commands about the work recorded in a session's journal: the todo list, and which model
//! answered.

use parallax_protocol::routing::RouteSource;
use parallax_protocol::store::Record;
use parallax_protocol::tool::{Display, Todo, TodoStatus};
use parallax_sdk::OpenSession;
use serde_json::json;

use super::{CommandOutput, join_lines, lines_or_none};

/// Shows the latest todo list.
pub(super) fn todos_command(session: &OpenSession) -> CommandOutput {
    let past = session.initial_records();
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
    CommandOutput {
        text: lines_or_none(rows.collect(), "The agent has no to-do list at the moment."),
        data: json!({"todos": todos}),
    }
}

/// Shows the configured model, the model that answered last, and why it was chosen.
pub(super) fn model_reason(session: &OpenSession) -> CommandOutput {
    let (last, route) = (session.answered_before(), session.route_before());
    let mut lines = vec![match last.is_some() {
        true => format!("`{}` is set.", session.model),
        false => format!("`{}` is selected; the next prompt is routed to a model.", session.model),
    }];
    lines.extend(last.as_ref().map(|model| format!("The latest response is from `{model}`.")));
    if let Some(route) = &route {
        lines.push(format!("Requested: `{}`.", route.requested));
        lines.push(format!("It was chosen by {}: {}.", source_text(route.source), route.reason));
        lines.extend(route.error.as_ref().map(|error| format!("Error: {error}.")));
    }
    CommandOutput {
        text: join_lines(lines),
        data: json!({"model": session.model, "answered": last, "route": route}),
    }
}

/// Describes how a model was chosen.
fn source_text(source: RouteSource) -> &'static str {
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
