//! The to-do list of the agent, above the composer.

use parallax_protocol::tool::{Todo, TodoStatus};
use parallax_screen::{Line, Span, wrap};

use crate::layout::{count, truncate_text, truncate_with_mark};
use crate::sanitize::one_row;
use crate::theme::Theme;
use crate::transcript::format_done;

/// Windows with fewer rows do not show the list.
const LOW: usize = crate::tokens::LOW;

/// The to-do list and whether it is shown.
#[derive(Debug)]
pub(crate) struct TodoTray {
    todos: Vec<Todo>,
    /// Whether the user asked to see the whole list.
    is_shown: bool,
    /// Whether the list belongs to the current work.
    is_current: bool,
}

impl Default for TodoTray {
    fn default() -> Self {
        Self { todos: Vec::new(), is_shown: false, is_current: true }
    }
}

impl TodoTray {
    /// Takes over the list that a tool call wrote.
    pub(crate) fn update(&mut self, todos: &[Todo]) {
        todos.clone_into(&mut self.todos);
        self.is_current = true;
    }

    /// Takes over the last list of a resumed session. It counts only if its turn can be continued.
    pub(crate) fn resume(&mut self, todos: Vec<Todo>, is_current: bool) {
        self.todos = todos;
        self.is_current = is_current;
    }

    /// Records the end of a turn: after a completed turn, remaining tasks are obsolete.
    pub(crate) fn turn_ended(&mut self, is_done: bool) {
        self.is_current &= !is_done;
    }

    /// Removes the list, because another session begins.
    pub(crate) fn clear(&mut self) {
        self.todos.clear();
    }

    /// Shows or hides the whole list.
    pub(crate) fn toggle(&mut self) {
        self.is_shown = !self.is_shown;
    }

    /// Returns the list above the composer: the current task, or all tasks. `key` shows all.
    pub(crate) fn tray(&self, width: usize, height: usize, key: &str, theme: &Theme) -> Vec<Line> {
        // Cancelled tasks are not open.
        let is_over =
            |todo: &&Todo| matches!(todo.status, TodoStatus::Completed | TodoStatus::Cancelled);
        let done = self.todos.iter().filter(is_over).count();
        let is_visible = (done < self.todos.len() && self.is_current) || self.is_shown;
        if self.todos.is_empty() || !is_visible || height < LOW {
            return Vec::new();
        }
        let head = format!("To-do list {} ({key})", format_done(&self.todos));
        if !self.is_shown {
            let current = self.todos.iter().find(|todo| todo.status == TodoStatus::InProgress);
            let mut line = Line::styled(head, theme.secondary);
            if let Some(todo) = current {
                let text = format!("  » {}", one_row(&todo.description));
                line = line.with_span(text, theme.text);
            }
            return vec![truncate_with_mark(line, width)];
        }
        let mut rows = vec![Line::styled(head, theme.secondary)];
        rows.extend(self.todos.iter().flat_map(|todo| row(todo, width, theme)));
        let limit = height / 3;
        if rows.len() > limit {
            let hidden = rows.len() - (limit - 1);
            rows.truncate(limit - 1);
            let text = format!("  … {}", count(hidden, "more row"));
            rows.push(Line::styled(truncate_text(&text, width), theme.secondary));
        }
        rows
    }

    /// Returns the list for the command that prints it.
    pub(crate) fn rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        match self.todos.is_empty() {
            true => {
                vec![Line::styled("The agent has no to-do list at the moment.", theme.secondary)]
            }
            false => self.todos.iter().flat_map(|todo| row(todo, width, theme)).collect(),
        }
    }
}

fn row(todo: &Todo, width: usize, theme: &Theme) -> Vec<Line> {
    let (marker, style) = match todo.status {
        TodoStatus::Completed => ("✓ ", theme.success),
        TodoStatus::InProgress => ("» ", theme.accent),
        TodoStatus::Cancelled => ("- ", theme.secondary),
        TodoStatus::Blocked => ("! ", theme.warning),
        TodoStatus::Pending => ("○ ", theme.text),
    };
    let text = one_row(&todo.description).into_owned();
    let text_style = match todo.status {
        TodoStatus::Completed | TodoStatus::Cancelled => theme.secondary,
        _ => theme.text,
    };
    let line = Line::styled(format!("  {marker}"), style).with_span(text, text_style);
    wrap(&line, width, &[Span::raw("    ")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_todo_list_is_hidden_until_requested() {
        let theme = Theme::default();
        let mut tray = TodoTray::default();
        let todo = |status| Todo { description: "a".to_owned(), status };
        tray.update(&[todo(TodoStatus::Completed), todo(TodoStatus::Pending)]);
        assert_eq!(tray.tray(80, 24, "ctrl+t", &theme).len(), 1);
        tray.turn_ended(true);
        assert!(tray.tray(80, 24, "ctrl+t", &theme).is_empty());
        tray.toggle();
        assert_eq!(tray.tray(80, 24, "ctrl+t", &theme).len(), 3);
        assert!(tray.tray(80, LOW - 1, "ctrl+t", &theme).is_empty());
    }
}
