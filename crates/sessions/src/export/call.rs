//! A tool call on an exported page, collapsed to a one-line summary.

use std::fmt::Write as _;
use std::path::Path;

use parallax_protocol::Object;
use parallax_protocol::event::ToolStatus;
use parallax_protocol::tool::{Display, FileDiff, Todo, TodoStatus};
use serde_json::Value;

use super::diff::write_diff;
use super::escaped::EscapedText;
use super::prose::write_prose;

/// Arguments that describe a tool call best, most significant first.
const DESCRIPTIVE_ARGUMENTS: [&str; 10] = [
    "command",
    "file_path",
    "absolute_path",
    "path",
    "dir_path",
    "pattern",
    "query",
    "url",
    "agent_name",
    "name",
];
/// Maximum number of diff lines shown without expanding.
const SHOWN_LINES: usize = 60;

/// A tool call and its result.
pub(super) struct ExportedCall<'a> {
    pub(super) name: &'a str,
    pub(super) args: &'a Object,
    /// `None` if the session ends before the result.
    pub(super) status: Option<&'a str>,
    /// The exit code of a command.
    pub(super) exit_code: Option<i64>,
    pub(super) display: Option<Display>,
    pub(super) output: &'a str,
    /// The project directory. Paths below it are shortened.
    pub(super) project: &'a str,
}

impl ExportedCall<'_> {
    /// Writes the tool call.
    pub(super) fn write(&self, page: &mut String) {
        if let Some(Display::Topic { title, summary, intent }) = &self.display {
            return write_topic(page, title, summary, intent);
        }
        let open = match &self.display {
            Some(Display::Diff(change)) if change.diff.lines().count() <= SHOWN_LINES => " open",
            Some(Display::Todos { .. }) => " open",
            _ => "",
        };
        let shown = |status| ToolStatus::from_record(status).for_exit_code(self.exit_code);
        let (class, marker) = match self.status.map(shown) {
            Some(ToolStatus::Success) => ("done", "✓"),
            Some(ToolStatus::Cancelled) => ("failed", "–"),
            Some(ToolStatus::Error) => ("failed", "✕"),
            None => ("failed", "?"),
        };
        let _ = write!(
            page,
            "<details class=\"tool {class}\"{open}><summary><b>{marker}</b> <code>{}</code> <span>{}\
             </span>",
            EscapedText(self.name),
            EscapedText(&self.summary())
        );
        if let Some(Display::Diff(change)) = &self.display {
            let _ = write!(
                page,
                " <i class=\"add\">+{}</i> <i class=\"del\">−{}</i>",
                change.lines_added, change.lines_removed
            );
        }
        if class == "failed" {
            let status = match (self.status, self.exit_code) {
                (Some("success"), Some(code)) => format!("exit code {code}"),
                (status, _) => status.unwrap_or("no result").to_owned(),
            };
            let _ = write!(page, " <i>{}</i>", EscapedText(&status));
        }
        page.push_str("</summary>\n");
        self.write_body(page);
        page.push_str("</details>\n");
    }

    fn write_body(&self, page: &mut String) {
        match &self.display {
            Some(Display::Diff(FileDiff { diff, .. })) if self.status == Some("success") => {
                return write_diff(page, diff);
            }
            Some(Display::Todos { todos }) => return write_todos(page, todos),
            Some(Display::Agent(_)) => {
                self.write_arguments(page);
                page.push_str("<div class=\"prose\">");
                write_prose(page, self.output, None);
                page.push_str("</div>\n");
                return;
            }
            _ => {}
        }
        match self.args.get("command").and_then(Value::as_str) {
            Some(command) => {
                let _ = writeln!(page, "<pre class=\"command\">{}</pre>", EscapedText(command));
            }
            None => self.write_arguments(page),
        }
        if !self.output.trim().is_empty() {
            let _ = writeln!(page, "<pre>{}</pre>", EscapedText(self.output.trim_end()));
        }
    }

    /// Writes the arguments that the line above the result does not show already.
    fn write_arguments(&self, page: &mut String) {
        let is_shown = self.args.len() == 1
            && self
                .args
                .values()
                .all(|value| value.as_str().is_some_and(|text| !text.contains('\n')));
        if self.args.is_empty() || is_shown {
            return;
        }
        page.push_str("<dl>");
        for (name, value) in self.args {
            let text = match value {
                Value::String(text) => text.clone(),
                other => format!("{other:#}"),
            };
            let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", EscapedText(name), EscapedText(&text));
        }
        page.push_str("</dl>\n");
    }

    /// Returns a one-line description of the tool call.
    fn summary(&self) -> String {
        let summary = DESCRIPTIVE_ARGUMENTS.iter().find_map(|name| self.args.get(*name)?.as_str());
        let text =
            summary.or_else(|| self.args.values().find_map(Value::as_str)).unwrap_or_default();
        let text =
            Path::new(text).strip_prefix(self.project).ok().and_then(Path::to_str).unwrap_or(text);
        super::first_line(text).chars().take(160).collect()
    }
}

fn write_topic(page: &mut String, title: &str, summary: &str, intent: &str) {
    page.push_str("<section class=\"topic\">");
    if !title.is_empty() {
        let _ = write!(page, "<h3>{}</h3>", EscapedText(title));
    }
    for text in [summary, intent].into_iter().filter(|text| !text.is_empty()) {
        let _ = write!(page, "<p>{}</p>", EscapedText(text));
    }
    page.push_str("</section>\n");
}

fn write_todos(page: &mut String, todos: &[Todo]) {
    page.push_str("<ul class=\"todos\">");
    for todo in todos {
        let (class, marker) = match todo.status {
            TodoStatus::Completed => ("completed", "☑"),
            TodoStatus::InProgress => ("now", "▸"),
            TodoStatus::Cancelled => ("completed", "☒"),
            TodoStatus::Blocked => ("pending", "⧖"),
            TodoStatus::Pending => ("pending", "☐"),
        };
        let _ =
            write!(page, "<li class=\"{class}\">{marker} {}</li>", EscapedText(&todo.description));
    }
    page.push_str("</ul>\n");
}
