//! Rows of the command that a tool call or the user ran.

use parallax_screen::{Line, Span, Style, text_width, wrap};

use super::draw::ItemRenderer;
use crate::highlight;
use crate::layout::{truncate_row, truncate_text, truncate_with_mark, with_prefix};
use crate::sanitize;
use crate::tokens::SEPARATOR;

/// Maximum number of command rows unless expanded.
const COMMAND_ROWS: usize = 3;

/// What is shown around a command.
pub(super) struct CommandRowContext<'t> {
    /// The prefix of the first row; the other rows are indented to its end.
    pub(super) before: Line,
    /// Notes after the command or on their own row.
    pub(super) notes: [&'t str; 2],
}

/// Returns the rows of a command. Long lines wrap.
pub(super) fn rows(
    command: &str,
    style: Style,
    context: CommandRowContext<'_>,
    columns: usize,
    renderer: &ItemRenderer<'_>,
) -> Vec<Line> {
    let limit = if renderer.options.expanded { usize::MAX } else { COMMAND_ROWS };
    let indent = context.before.width();
    let room = columns.saturating_sub(indent).max(8);
    let mut rows = Vec::new();
    let mut highlighter = highlight::shell();
    for line in command.trim_matches('\n').lines() {
        let line = sanitize::line_in_full(line);
        let line = sanitize::expand_tabs(&line, &mut 0);
        let line = highlight::shell_line(&mut highlighter, &line, style, renderer.theme);
        rows.extend(wrap(&line, room, &[]));
        if rows.len() > limit {
            break;
        }
    }
    if rows.len() > limit {
        rows.truncate(limit);
        if let Some(last) = rows.last_mut() {
            *last = truncate_row(std::mem::take(last), room.saturating_sub(2))
                .with_span(" …", renderer.theme.secondary);
        }
    }
    if rows.is_empty() {
        rows.push(Line::EMPTY);
    }
    let hang = vec![Span::raw(" ".repeat(indent))];
    let mut rows: Vec<Line> = rows
        .into_iter()
        .enumerate()
        .map(|(at, row)| with_prefix(if at == 0 { &context.before.spans } else { &hang }, row))
        .collect();
    let [about, note] = context.notes.map(sanitize::one_row);
    // The state matters more than the description.
    let about = match (about.is_empty(), note.is_empty()) {
        (_, true) => about.into_owned(),
        (true, _) => String::new(),
        _ => {
            let room = room.saturating_sub(text_width(&note) + text_width(SEPARATOR));
            format!("{}{SEPARATOR}", truncate_text(&about, room))
        }
    };
    let text = format!("{about}{note}");
    if !text.is_empty() {
        // The separator tells it from the command, also without colors.
        let behind = format!("{SEPARATOR}{text}");
        let fits = rows.last().is_some_and(|row| row.width() + text_width(&behind) <= columns);
        match rows.last_mut() {
            Some(last) if fits => last.push(Span::styled(behind, renderer.theme.secondary)),
            _ => {
                let text = truncate_text(&text, room);
                let text = Line::styled(text, renderer.theme.secondary);
                rows.push(with_prefix(&hang, text));
            }
        }
    }
    rows.into_iter().map(|row| truncate_with_mark(row, columns)).collect()
}
