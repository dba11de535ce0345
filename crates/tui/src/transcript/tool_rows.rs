//! Rows of a tool call: one row if that is enough, otherwise a box.

use parallax_protocol::event::ToolStatus;
use parallax_protocol::tool::{Todo, TodoStatus, ToolKind};
use parallax_screen::{Attributes, Line, Span, Style, text_width, wrap};

use super::call_arguments::CallArguments;
use super::describe;
use super::descriptions::seconds;
use super::draw::{ItemRenderer, ItemSpacing, truncate_row};
use super::tool::{ActiveCall, CallBody, CallProgress, FinishedCall, Stage, Tool};
use super::{ViewOptions, agent_rows, command_rows, progress_row, topic_rows};
use crate::diff_view::{self, DiffOptions};
use crate::layout::{count, truncate_text};
use crate::sanitize;
use crate::tokens::{ASKS, BLOCKED, CANCELLED, CURRENT, DONE, FAILED, IDLE, SEPARATOR};

/// Maximum number of result rows unless expanded.
const RESULT_ROWS: usize = 15;
/// Maximum number of diff rows unless expanded.
const DIFF_ROWS: usize = 40;
/// Maximum number of rows of an error message.
const ERROR_ROWS: usize = 8;
/// Minimum number of columns reserved for a note.
const SHORT_NOTE: usize = 10;

/// Returns the rows of a call and their shape.
pub(super) fn rows(tool: &Tool, renderer: &ItemRenderer<'_>) -> (Vec<Line>, ItemSpacing) {
    let (rows, border) = match &tool.state {
        CallProgress::Open(open) => {
            return (open_rows(tool, open, renderer), shape(tool, renderer.options));
        }
        CallProgress::Abandoned => {
            let marker =
                Span::styled(renderer.marker(CANCELLED, "cancelled:"), renderer.theme.secondary);
            return (head(tool, marker, "", true, renderer.width, renderer), ItemSpacing::Compact);
        }
        CallProgress::Done(FinishedCall { body: CallBody::Topic(topic), .. }) => {
            return (topic_rows::rows(topic, renderer), shape(tool, renderer.options));
        }
        CallProgress::Done(done) if shape(tool, renderer.options) == ItemSpacing::Compact => {
            let mut rows = compact(tool, done, renderer);
            rows.extend(instruction_rows(done, renderer.width, renderer));
            return (rows, ItemSpacing::Compact);
        }
        CallProgress::Done(done) => done_rows(tool, done, renderer),
    };
    (renderer.draw_box(rows, border), shape(tool, renderer.options))
}

/// Returns the shape without rendering rows.
pub(super) fn shape(tool: &Tool, options: ViewOptions) -> ItemSpacing {
    let whole = options.boxes_results;
    let CallProgress::Done(done) = &tool.state else {
        return match &tool.state {
            CallProgress::Open(open) if open.has_details() => ItemSpacing::Block,
            _ => ItemSpacing::Compact,
        };
    };
    let body = match &done.body {
        CallBody::None => whole && done.status == ToolStatus::Success,
        CallBody::Text(text) => {
            let text = text.trim();
            let long = text.contains('\n') || (whole && !text.is_empty());
            done.status == ToolStatus::Success && long
        }
        CallBody::Output(_) | CallBody::Diff(_) | CallBody::Todos(_) | CallBody::Agent(_) => true,
        CallBody::Topic(topic) => !topic.title.is_empty(),
    };
    let failed =
        done.status == ToolStatus::Error && (done.error.is_some() || done.denied.is_some());
    let command = done.kind == Some(ToolKind::Execute) && done.exit_code.is_some();
    let keeps = matches!(done.body, CallBody::Output(_) | CallBody::Agent(_));
    if done.status == ToolStatus::Cancelled && !keeps {
        return ItemSpacing::Compact;
    }
    if done.unannounced_lines.is_some() {
        return ItemSpacing::Attached;
    }
    if body || failed || command { ItemSpacing::Block } else { ItemSpacing::Compact }
}

/// Returns the marker, name, title, and note: in one row, except for commands and unless expanded.
fn head(
    tool: &Tool,
    marker: Span,
    note: &str,
    struck: bool,
    columns: usize,
    renderer: &ItemRenderer<'_>,
) -> Vec<Line> {
    let theme = renderer.theme;
    let strike = |style: Style| if struck { style.with(Attributes::STRIKE) } else { style };
    let name = truncate_text(&sanitize::one_row(describe::display_name(&tool.name)), columns / 2);
    let title =
        sanitize::one_row_of_lines(describe::without_verb(&tool.name, &tool.title)).into_owned();
    let is_list =
        matches!(&tool.state, CallProgress::Done(done) if matches!(done.body, CallBody::Todos(_)));
    // The list below marks the current task.
    let title = if title == tool.name || is_list { String::new() } else { title };
    let (name, title) = match describe::split_mcp_title(&title) {
        Some((tool, rest)) => (truncate_text(&tool, columns / 2), rest),
        None => (name, title),
    };
    let mut line = Line::from(vec![marker]);
    line.push(Span::raw(" "));
    line.push(Span::styled(name, strike(theme.text.bold())));
    if describe::kind(&tool.name) == Some(ToolKind::Execute) && !title.is_empty() {
        let (command, about) = match &tool.command {
            Some((command, about)) => (command.as_str(), about.as_str()),
            None => (tool.title.as_str(), ""),
        };
        line.push(Span::raw("  "));
        let context = command_rows::CommandRowContext { before: line, notes: [about, note] };
        return command_rows::rows(command, strike(theme.text), context, columns, renderer);
    }
    let note = sanitize::one_row(note);
    if let Some(arguments) = tool.all_arguments.as_ref().filter(|_| renderer.options.expanded) {
        let server = describe::mcp_title_parts(&tool.title).map_or("", |(_, server, _)| server);
        let server = sanitize::one_row(server);
        let styles = (strike(theme.secondary), strike(theme.text));
        return with_all_arguments(line, &server, arguments, &note, styles, columns);
    }
    if renderer.options.expanded {
        for (text, style) in [(&*title, strike(theme.secondary)), (&*note, theme.secondary)] {
            if !text.is_empty() {
                line.push(Span::raw("  "));
                line.push(Span::styled(text.to_owned(), style));
            }
        }
        return wrap(&line, columns, &[Span::raw("    ")]);
    }
    // The title comes first; the note gets the rest of the row, but at least half of it, if it
    // needs that much.
    let half = columns.saturating_sub(line.width()) / 2;
    let reserved = match text_width(&note) {
        0 => 0,
        width => width.min(half.saturating_sub(2).max(SHORT_NOTE)) + 2,
    };
    for (text, reserved, style) in
        [(title.as_str(), reserved, strike(theme.secondary)), (&*note, 0, theme.secondary)]
    {
        let room = columns.saturating_sub(line.width() + reserved + 2);
        if room >= 2 && !text.is_empty() {
            line.push(Span::raw("  "));
            line.push(Span::styled(truncate_text(text, room), style));
        }
    }
    vec![truncate_row(&line, columns)]
}

/// Returns a call with all arguments, which have their own rows unless one row shows everything.
fn with_all_arguments(
    head: Line,
    server: &str,
    arguments: &CallArguments,
    note: &str,
    (secondary, text): (Style, Style),
    columns: usize,
) -> Vec<Line> {
    let part = |text: &str| match text.is_empty() {
        true => String::new(),
        false => format!("  {text}"),
    };
    if let Some(all) = arguments.one_row() {
        let separator = if server.is_empty() { "" } else { SEPARATOR };
        let call = part(&format!("{server}{separator}{}", sanitize::one_row_of_lines(&all)));
        let row = head.clone().with_span(call, secondary).with_span(part(note), secondary);
        if row.width() <= columns {
            return vec![row];
        }
    }
    let hang = [Span::raw("    ")];
    let mut rows = wrap(&head.with_span(part(server), secondary), columns, &hang);
    rows.extend(arguments.rows(columns, secondary, text));
    if !note.is_empty() {
        let note = Line::from(hang.to_vec()).with_span(note.to_owned(), secondary);
        rows.extend(wrap(&note, columns, &hang));
    }
    rows
}

fn open_rows(tool: &Tool, open: &ActiveCall, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let theme = renderer.theme;
    let (marker, style) = match open.stage {
        Stage::Pending => (renderer.marker(IDLE, "pending:"), theme.secondary),
        Stage::Asked => (renderer.marker(ASKS, "asks:"), theme.warning),
        Stage::Running => (renderer.spinner(), theme.accent),
    };
    let note = match (open.stage, open.since_ms) {
        (Stage::Running, Some(since)) => seconds(renderer.now_ms.saturating_sub(since)),
        _ => String::new(),
    };
    let marker = Span::styled(marker, style);
    if let Some(progress) = &open.agent {
        let mut rows = head(tool, marker, &note, false, renderer.inner_width(), renderer);
        rows.extend(agent_rows::live_rows(progress, renderer));
        return renderer.draw_box(rows, theme.border);
    }
    if !open.has_details() {
        return head(tool, marker, &note, false, renderer.width, renderer);
    }
    let mut rows = head(tool, marker, &note, false, renderer.inner_width(), renderer);
    rows.extend(open.advance.as_ref().map(|advance| progress_row::row(advance, renderer)));
    rows.extend(open.output.rows(renderer.inner_width(), renderer.output_rows, theme));
    renderer.draw_box(rows, theme.border)
}

fn marker_span(done: &FinishedCall, renderer: &ItemRenderer<'_>) -> Span {
    match done.status.for_exit_code(done.exit_code) {
        ToolStatus::Success => Span::styled(renderer.marker(DONE, "done:"), renderer.theme.success),
        ToolStatus::Cancelled => {
            Span::styled(renderer.marker(CANCELLED, "cancelled:"), renderer.theme.secondary)
        }
        _ => Span::styled(renderer.marker(FAILED, "failed:"), renderer.theme.error),
    }
}

/// The note of a call that was denied or cancelled. Programs wait for this text.
const CANCELLED_NOTE: &str = "Cancelled";

/// Returns the user's instruction given with a denial.
fn instruction_rows(done: &FinishedCall, columns: usize, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let Some(output) = &done.user_instruction else { return Vec::new() };
    let line = Line::styled("  you answered: ", renderer.theme.secondary)
        .with_span(sanitize::one_row(output).into_owned(), renderer.theme.text);
    wrap(&line, columns, &[Span::raw("    ")])
}

/// Returns the call and its result in one row.
fn compact(tool: &Tool, done: &FinishedCall, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let cancelled = done.status == ToolStatus::Cancelled;
    let note = match &done.body {
        _ if cancelled => CANCELLED_NOTE.to_owned(),
        CallBody::Text(text) => format!("→ {}", text.trim()),
        _ if done.duration_ms >= 1000 => seconds(done.duration_ms),
        _ => String::new(),
    };
    head(tool, marker_span(done, renderer), &note, cancelled, renderer.width, renderer)
}

/// Returns the rows inside the box, and the style of the box.
fn done_rows(tool: &Tool, done: &FinishedCall, renderer: &ItemRenderer<'_>) -> (Vec<Line>, Style) {
    let theme = renderer.theme;
    let columns = renderer.inner_width();
    let note = match &done.body {
        CallBody::Diff(diff) => describe::format_line_counts(diff),
        CallBody::Todos(todos) => describe::format_done(todos),
        _ if done.status == ToolStatus::Cancelled => CANCELLED_NOTE.to_owned(),
        _ if done.duration_ms >= 1000 => seconds(done.duration_ms),
        _ => String::new(),
    };
    let struck = done.status == ToolStatus::Cancelled;
    let mut rows = head(tool, marker_span(done, renderer), &note, struck, columns, renderer);
    if let (CallBody::Diff(_), Some(row)) = (&done.body, rows.last_mut()) {
        color_counts(row, &note, renderer);
    }
    rows.extend(instruction_rows(done, columns, renderer));
    let limited = |rows: usize| if renderer.options.expanded { usize::MAX } else { rows };
    let head_rows = rows.len();
    match &done.body {
        CallBody::None => {}
        CallBody::Text(text) => {
            // The text of an error is shown below.
            if done.error.is_none() {
                rows.extend(text_rows(
                    text,
                    columns,
                    limited(RESULT_ROWS),
                    theme.secondary,
                    renderer,
                ));
            }
        }
        CallBody::Output(output) => {
            let output = output.rows(columns, limited(renderer.output_rows), theme);
            // A screen reader announced most of it while the command was running.
            let at = if done.unannounced_lines.is_some() { 0 } else { rows.len() };
            rows.splice(at..at, output);
        }
        CallBody::Diff(diff) => {
            let options = DiffOptions {
                max_rows: limited(DIFF_ROWS),
                plain: renderer.options.screen_reader,
                ..DiffOptions::new(theme, columns)
            };
            rows.extend(diff_view::rows(diff, &options));
        }
        CallBody::Todos(todos) => {
            rows.extend(todos.iter().flat_map(|todo| todo_rows(todo, columns, renderer)))
        }
        CallBody::Agent(progress) => rows.extend(agent_rows::finished_rows(progress, renderer)),
        // Shown as a heading.
        CallBody::Topic(_) => {}
    }
    let error_rows = if renderer.options.full_errors { usize::MAX } else { limited(ERROR_ROWS) };
    match (&done.denied, &done.error) {
        (Some((rule, reason)), _) => {
            // The rule is a detail, as in approval requests.
            let text = match renderer.options.expanded {
                true => format!("Denied: {reason}\nRule: {rule}"),
                false => format!("Denied: {reason}"),
            };
            rows.extend(text_rows(&text, columns, error_rows, theme.error, renderer));
        }
        // The result of the subagent is already shown.
        (None, Some(_)) if matches!(done.body, CallBody::Agent(_)) => {}
        (None, Some((_, message))) => {
            rows.extend(text_rows(message, columns, error_rows, theme.error, renderer));
        }
        _ => {}
    }
    if !renderer.options.expanded {
        name_key(rows.get_mut(head_rows..).unwrap_or_default(), columns);
    }
    if let Some(code) = done.exit_code.filter(|code| *code != 0) {
        rows.push(Line::styled(format!("exit code {code}"), theme.error));
    }
    rows.splice(0..0, renderer.unannounced_lines(done.unannounced_lines.as_deref()));
    let failed = done.status.for_exit_code(done.exit_code) == ToolStatus::Error;
    (rows, if failed { theme.error } else { theme.border })
}

/// Adds the key that shows all rows to the row, before or after the others, that counts them.
pub(super) fn name_key(rows: &mut [Line], columns: usize) {
    const KEY: &str = " (ctrl+o)";
    let last = rows.len().saturating_sub(1);
    let ends = rows.iter_mut().enumerate().filter(|(at, _)| *at == 0 || *at == last);
    for (_, row) in ends {
        let text = row.text();
        let counts = text.starts_with("… ") && text.contains(" more line");
        if let (true, Some(last)) = (counts, row.spans.last().map(|span| span.style))
            && row.width() + KEY.len() <= columns
        {
            row.push(Span::styled(KEY, last));
        }
    }
}

/// Colors the numbers of added and removed lines.
fn color_counts(row: &mut Line, note: &str, renderer: &ItemRenderer<'_>) {
    let Some(last) = row.spans.pop_if(|span| span.text == note) else { return };
    for (index, count) in last.text.split(' ').enumerate() {
        let is_added = count.starts_with('+');
        let style = if is_added { renderer.theme.success } else { renderer.theme.error };
        let gap = if index > 0 { " " } else { "" };
        row.push(Span::styled(format!("{gap}{count}"), style));
    }
}

/// Returns the first rows of a string and a note about the remaining lines.
fn text_rows(
    text: &str,
    columns: usize,
    limit: usize,
    style: Style,
    renderer: &ItemRenderer<'_>,
) -> Vec<Line> {
    let text = sanitize::lines(text.trim_end());
    let mut rows = Vec::new();
    let mut lines = text.lines();
    for line in lines.by_ref() {
        let line = Line::styled(sanitize::expand_tabs(line, &mut 0).into_owned(), style);
        rows.extend(wrap(&line, columns, &[]));
        if rows.len() > limit {
            break;
        }
    }
    if rows.len() > limit {
        let hidden = rows.len() - (limit - 1) + lines.count();
        rows.truncate(limit - 1);
        let text = format!("… {}", count(hidden, "more line"));
        rows.push(Line::styled(truncate_text(&text, columns), renderer.theme.secondary));
    }
    rows
}

fn todo_rows(todo: &Todo, columns: usize, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let theme = renderer.theme;
    let (marker, word, style) = match todo.status {
        TodoStatus::Pending => (IDLE, "pending:", theme.text),
        TodoStatus::InProgress => (CURRENT, "in progress:", theme.accent),
        TodoStatus::Completed => (DONE, "done:", theme.secondary),
        TodoStatus::Cancelled => {
            (CANCELLED, "cancelled:", theme.secondary.with(Attributes::STRIKE))
        }
        TodoStatus::Blocked => (BLOCKED, "blocked:", theme.warning),
    };
    let marker = renderer.marker(marker, word);
    let marker_style = if todo.status == TodoStatus::Completed { theme.success } else { style };
    let inside = ItemRenderer { width: columns, ..*renderer };
    inside.hanging_rows(marker, marker_style, &sanitize::one_row(&todo.description), style)
}
