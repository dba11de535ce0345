//! The tasks as a tree: as text for the model, as a todo list for the user.

use std::collections::HashSet;
use std::fmt::Write as _;

use parallax_protocol::tool::{Todo, TodoStatus};

use super::store::{Status, Task, Tasks};

/// Returns the tasks in tree order, each with its depth. Tasks with a missing parent, or in a
/// cycle, are at the top level.
fn tree_order(tasks: &Tasks) -> Vec<(&Task, usize)> {
    let has_parent =
        |task: &&Task| task.parent.as_ref().is_some_and(|parent| tasks.contains_key(parent));
    let mut ordered = Vec::new();
    let mut seen = HashSet::new();
    let tops = tasks.values().filter(|task| !has_parent(task));
    for top in tops.chain(tasks.values()) {
        let mut pending = vec![(top, 0)];
        while let Some((task, depth)) = pending.pop() {
            if !seen.insert(task.id.as_str()) {
                continue;
            }
            ordered.push((task, depth));
            let children =
                tasks.values().filter(|child| child.parent.as_deref() == Some(task.id.as_str()));
            let children: Vec<&Task> = children.collect();
            pending.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
        }
    }
    ordered
}

/// Returns the graph for the model.
pub(super) fn render_graph(tasks: &Tasks) -> String {
    let mut text = "Task Tracker Graph:\n".to_owned();
    for (task, depth) in tree_order(tasks) {
        let marker = match task.status {
            Status::Open => "⭕",
            Status::InProgress => "🚧",
            Status::Blocked => "⛔",
            Status::Closed => "✅",
        };
        let indent = "  ".repeat(depth);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{indent}{marker} [{}] {} ({})",
            task.kind.to_uppercase(),
            task.title,
            task.id
        );
        if !task.dependencies.is_empty() {
            let _ = writeln!(text, "{indent}  └─ Depends on: {}", task.dependencies.join(", "));
        }
    }
    text
}

/// Returns the list for the user.
pub(super) fn todos(tasks: &Tasks) -> Vec<Todo> {
    let todo = |(task, depth): (&Task, usize)| Todo {
        description: format!("{}{}", "  ".repeat(depth), task.title),
        status: match task.status {
            Status::Open => TodoStatus::Pending,
            Status::InProgress => TodoStatus::InProgress,
            Status::Blocked => TodoStatus::Blocked,
            Status::Closed => TodoStatus::Completed,
        },
    };
    tree_order(tasks).into_iter().map(todo).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, parent: Option<&str>) -> (String, Task) {
        let task = Task {
            id: id.into(),
            title: format!("title {id}"),
            description: String::new(),
            kind: "task".into(),
            status: Status::Open,
            parent: parent.map(str::to_owned),
            dependencies: Vec::new(),
            other_fields: parallax_protocol::Object::new(),
        };
        (id.to_owned(), task)
    }

    #[test]
    fn task_tree_places_children_under_parents_without_loss() {
        let tasks: Tasks = [
            task("b", None),
            task("c", Some("b")),
            task("a", Some("c")),
            task("d", Some("gone")),
            // A cycle, as a damaged file may contain.
            task("e", Some("f")),
            task("f", Some("e")),
        ]
        .into_iter()
        .collect();
        let lines: Vec<String> = todos(&tasks).into_iter().map(|todo| todo.description).collect();
        assert_eq!(
            lines,
            ["title b", "  title c", "    title a", "title d", "title e", "  title f"]
        );
        assert!(render_graph(&tasks).contains("\n  ⭕ [TASK] title c (c)\n"));
    }
}
