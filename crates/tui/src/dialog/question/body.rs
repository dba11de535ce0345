//! The body of an approval dialog: the command, change, address, or arguments, and what must be in
//! view of it.

use parallax_protocol::tool::Preview;
use parallax_screen::{Line, Span, Style, text_width, with_visible_characters};

use super::danger::{danger_ranges, highlight};
use super::{QuestionDialog, RenderedBody};
use crate::dialog::url_warning;
use crate::diff_view::{self, DiffOptions};
use crate::highlight::{self, is_loaded, shell_line};
use crate::layout::with_prefix;
use crate::markdown::{RenderOptions, render};
use crate::sanitize::lines_in_full;
use crate::theme::Theme;
use crate::tokens::PART;

/// Maximum number of commands that a command in one row shows by itself.
const SHOWN_RUNS: usize = 2;
/// Number of columns before a command.
const MARKS: usize = 4;
/// The indentation of continuation rows.
const HANG: &str = "    ";

/// The rows of a body.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) rows: Vec<Line>,
    /// The rows that must be in view, in ascending order.
    pub(super) important: Vec<usize>,
}

impl Body {
    /// Adds a line, wrapped.
    fn push(&mut self, line: &Line, width: usize) {
        self.rows.extend(wrap(line, width, &[Span::raw(HANG)]));
    }

    /// Adds a line that must be in view.
    fn push_important(&mut self, line: &Line, width: usize) {
        let first = self.rows.len();
        self.push(line, width);
        self.important.extend(first..self.rows.len());
    }

    /// Adds a line; its rows with these ranges must be in view.
    fn push_marked(&mut self, line: &Line, marked: &[std::ops::Range<usize>], width: usize) {
        let first = self.rows.len();
        self.push(line, width);
        // Wrapped in the same way; only the places are bold.
        let marks = highlight(Line::raw(line.text()), marked, Style::PLAIN.bold());
        for (index, row) in wrap(&marks, width, &[Span::raw(HANG)]).iter().enumerate() {
            if row.spans.iter().any(|span| span.style == Style::PLAIN.bold()) {
                self.important.push(first + index);
            }
        }
    }
}

impl QuestionDialog {
    pub(super) fn body(&self, width: usize, theme: &Theme) -> Body {
        let mut body = Body::default();
        match &self.request.preview {
            Some(Preview::Command { command, directory }) => {
                self.push_command(&mut body, command, width, theme);
                let directory_line = format!("  in {}", directory.display());
                body.push(&Line::styled(directory_line, theme.secondary), width);
                self.push_parts(&mut body, width, theme);
            }
            Some(Preview::Diff(diff)) => {
                let options = DiffOptions { plain: self.plain, ..DiffOptions::new(theme, width) };
                body.rows = self.cached_rows(width, theme, || diff_view::rows(diff, &options));
            }
            Some(Preview::Urls { prompt, urls }) => {
                for url in urls {
                    let warning = url_warning::warning(url);
                    let style = if warning.is_some() { theme.error.bold() } else { theme.link };
                    let line = Line::styled("  ", theme.text).with_span(url.clone(), style);
                    match warning {
                        Some(_) => body.push_important(&line, width),
                        None => body.push(&line, width),
                    }
                }
                let line = Line::styled(format!("  {}", tabs(prompt)), theme.secondary);
                body.push(&line, width);
            }
            Some(Preview::Mcp { server, tool, description, arguments }) => {
                let of = Line::styled(format!("  {}", tabs(tool)), theme.text.bold())
                    .with_span(format!(" of the MCP server {}", tabs(server)), theme.secondary);
                body.push(&of, width);
                for (name, value) in arguments {
                    push_argument(&mut body, name, value, width, theme);
                }
                for line in description.lines() {
                    body.push(&Line::styled(format!("  {}", tabs(line)), theme.secondary), width);
                }
            }
            Some(Preview::Skill { description, folder, files }) => {
                for line in description.lines() {
                    body.push(&Line::styled(format!("  {}", tabs(line)), theme.text), width);
                }
                let directory_line = format!("  files in {}:", folder.display());
                body.push(&Line::styled(directory_line, theme.secondary), width);
                for file in files {
                    body.push(&Line::styled(format!("    {}", tabs(file)), theme.text), width);
                }
            }
            Some(Preview::Plan { text, .. }) => {
                body.rows = self.cached_rows(width, theme, || {
                    render(&lines_in_full(text), &RenderOptions::new(theme, width))
                });
            }
            // These have their own dialogs.
            Some(Preview::Questions { .. } | Preview::Budget(_)) | None => {}
        }
        if let Some(hunks) = &self.hunks {
            body = Body { rows: hunks.rows(width, theme), ..Body::default() };
        }
        let permissions = self.request.permissions.describe();
        if !permissions.is_empty() {
            let line = Line::styled("  requires ", theme.warning)
                .with_span(permissions, theme.warning.bold());
            body.push_important(&line, width);
        }
        for what in &self.request.not_undoable {
            let line = Line::styled(format!("  cannot be undone: {what}"), theme.error);
            body.push_important(&line, width);
        }
        body
    }

    /// Adds the lines of a command, highlighting what destroys data.
    fn push_command(&self, body: &mut Body, command: &str, width: usize, theme: &Theme) {
        let mut highlighter = highlight::shell();
        let dangers = danger_ranges(command, &self.request.policy_decision.destructive);
        let mut offset = 0;
        for (index, line) in collapse_empty_lines(command).into_iter().enumerate() {
            let marker = if index == 0 { "  $ " } else { "    " };
            match line {
                Ok(line) => {
                    // Lines are parts of the command, in order.
                    offset += command.get(offset..).and_then(|rest| rest.find(line)).unwrap_or(0);
                    let end = offset + line.len();
                    let parts: Vec<String> = dangers
                        .iter()
                        .filter_map(|range| {
                            command.get(range.start.max(offset)..range.end.min(end))
                        })
                        .map(|part| tabs(part.trim()))
                        .collect();
                    offset = end;
                    let text = theme.text.bold();
                    let line = shell_line(&mut highlighter, &tabs(line), text, theme);
                    let line = with_prefix(&[Span::styled(marker, theme.accent)], line);
                    let marked = danger_ranges(&line.text(), &parts);
                    let line = highlight(line, &marked, theme.error.bold());
                    body.push_marked(&line, &marked, width);
                }
                Err(count) => {
                    let line = Line::styled(marker, theme.accent)
                        .with_span(format!("({count} empty lines)"), theme.secondary);
                    body.push(&line, width);
                }
            }
        }
    }

    /// Adds the parts of a compound command: what it runs and writes. What destroys data must be in
    /// view, here or in the command.
    fn push_parts(&self, body: &mut Body, width: usize, theme: &Theme) {
        let is_in_view = !body.important.is_empty();
        for part in self.unshown_parts(width) {
            let style = if part.starts_with("runs") { theme.secondary } else { theme.warning };
            let line = Line::styled(format!("  {PART}"), theme.border).with_span(tabs(part), style);
            let marked = danger_ranges(&line.text(), &self.request.policy_decision.destructive);
            let line = highlight(line, &marked, theme.error.bold());
            match is_in_view {
                true => body.push(&line, width),
                false => body.push_marked(&line, &marked, width),
            }
        }
    }

    /// Returns the parts that the command and the required permission do not show already.
    fn unshown_parts(&self, width: usize) -> impl Iterator<Item = &String> {
        let command = match &self.request.preview {
            Some(Preview::Command { command, .. }) => command.trim(),
            _ => "",
        };
        let parts = &self.request.policy_decision.parts;
        let runs = parts.iter().filter_map(|part| part.strip_prefix("runs "));
        let is_short = !command.contains('\n')
            && text_width(command) + MARKS <= width
            && runs.clone().count() <= SHOWN_RUNS
            && runs.clone().all(|run| command.contains(run));
        let permissions = self.request.permissions.describe();
        parts.iter().filter(move |part| match part.split_once(" to ") {
            _ if part.starts_with("runs ") => !is_short,
            Some(("writes" | "appends", file)) => {
                !permissions.contains(&format!("to write {file}"))
            }
            _ => true,
        })
    }

    /// Returns cached rows for a width and a theme.
    fn cached_rows(
        &self,
        width: usize,
        theme: &Theme,
        rows: impl FnOnce() -> Vec<Line>,
    ) -> Vec<Line> {
        let mut cache = self.rendered_body.borrow_mut();
        let is_colored = is_loaded();
        let fits = cache.width == width && cache.theme == theme.name && !cache.rows.is_empty();
        if !fits || cache.is_colored != is_colored {
            *cache = RenderedBody { width, theme: theme.name.clone(), is_colored, rows: rows() };
        }
        cache.rows.clone()
    }
}

/// Adds an argument of an MCP tool. Text of several lines is below its name, further to the right
/// than names.
fn push_argument(
    body: &mut Body,
    name: &str,
    value: &serde_json::Value,
    width: usize,
    theme: &Theme,
) {
    let name = Line::styled(format!("  {}: ", tabs(name)), theme.accent);
    match value.as_str() {
        Some(text) if text.contains('\n') => {
            body.push(&name, width);
            for line in text.lines() {
                body.push(&Line::styled(format!("    {}", tabs(line)), theme.text), width);
            }
        }
        Some(text) => body.push(&name.with_span(tabs(text), theme.text), width),
        None => body.push(&name.with_span(tabs(&value.to_string()), theme.text), width),
    }
}

/// Splits a command into lines. Runs of empty lines are replaced by their count, because they would
/// push the rest out of view.
fn collapse_empty_lines(command: &str) -> Vec<Result<&str, usize>> {
    let mut lines: Vec<Result<&str, usize>> = Vec::new();
    for line in command.split('\n') {
        let is_empty = line.trim().is_empty();
        match lines.last_mut() {
            Some(Err(count)) if is_empty => *count += 1,
            Some(last @ Ok("")) if is_empty => *last = Err(2),
            _ if is_empty => lines.push(Ok("")),
            _ => lines.push(Ok(line)),
        }
    }
    lines
}

/// Wraps a line and makes all of its characters visible.
pub(super) fn wrap(line: &Line, columns: usize, indent: &[Span]) -> Vec<Line> {
    parallax_screen::wrap(&with_visible_characters(line), columns, indent)
}

/// Replaces tabs with spaces; the screen handles other control characters.
pub(super) fn tabs(text: &str) -> String {
    text.replace('\t', "    ")
}
