//! The steps of a subagent, as a tree below the call that started it.

use std::borrow::Cow;

use parallax_protocol::Object;
use parallax_protocol::agent::{AgentEnd, AgentProgress, AgentStep};
use parallax_protocol::event::ToolStatus;
use parallax_screen::{Line, Span};
use serde_json::Value;

use super::describe;
use super::draw::{ItemRenderer, truncate_row};
use crate::layout::count;
use crate::sanitize;
use crate::tokens::{CANCELLED, DONE, FAILED};

/// Maximum number of recent tool calls shown while the subagent runs.
const LIVE: usize = 5;
/// Maximum number of result rows shown when it is done.
const RESULT: usize = 3;

/// Returns the rows below the call while the subagent runs.
pub(super) fn live_rows(progress: &AgentProgress, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let columns = renderer.inner_width();
    let mut rows = Vec::new();
    let thought = sanitize::one_row(&progress.thought);
    if !thought.is_empty() {
        let marker = renderer.marker("∴", "thinks:");
        let line = Line::styled(format!("{marker} "), renderer.theme.secondary)
            .with_span(thought.into_owned(), renderer.theme.comment);
        rows.push(truncate_row(&line, columns));
    }
    let limit = if renderer.options.expanded { usize::MAX } else { LIVE };
    rows.extend(steps(progress, limit, columns, renderer));
    let mut details = progress_counts(progress);
    if progress.is_waiting {
        details.push_str(" · waiting for approval");
    }
    rows.push(truncate_row(&Line::styled(details, renderer.theme.secondary), columns));
    rows
}

/// Returns the rows below the call when the subagent is done: folded unless expanded.
pub(super) fn finished_rows(progress: &AgentProgress, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let columns = renderer.inner_width();
    let mut rows = Vec::new();
    if renderer.options.expanded {
        rows.extend(steps(progress, usize::MAX, columns, renderer));
    }
    let (text, style) = match progress.end {
        Some(AgentEnd::Goal) | None => (progress_counts(progress), renderer.theme.secondary),
        Some(end) => {
            (format!("{} · {}", end_label(end), progress_counts(progress)), renderer.theme.error)
        }
    };
    rows.push(truncate_row(&Line::styled(text, style), columns));
    let result = format_result(progress.result.trim());
    let result = sanitize::lines(&result);
    let lines: Vec<&str> = result.lines().collect();
    let limit = if renderer.options.expanded { usize::MAX } else { RESULT };
    for line in lines.iter().take(limit) {
        let line =
            Line::styled(sanitize::expand_tabs(line, &mut 0).into_owned(), renderer.theme.text);
        if renderer.options.expanded {
            rows.extend(parallax_screen::wrap(&line, columns, &[]));
        } else {
            rows.push(truncate_row(&line, columns));
        }
    }
    if lines.len() > limit {
        let more = format!("… {} (ctrl+o)", count(lines.len() - limit, "more line"));
        rows.push(truncate_row(&Line::styled(more, renderer.theme.secondary), columns));
    }
    rows
}

/// Formats a JSON object field by field, which is easier to read; returns any other result
/// unchanged.
fn format_result(result: &str) -> Cow<'_, str> {
    let Ok(fields) = serde_json::from_str::<Object>(result) else { return result.into() };
    let mut text = String::new();
    for (name, value) in &fields {
        let value = match value {
            Value::String(value) => value.trim().to_owned(),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" · ")
            }
            Value::Array(items) => {
                items.iter().map(|item| format!("\n  {}", format_value(item))).collect()
            }
            other => format_value(other),
        };
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.into()
}

/// Formats a value as one line, the fields of an object without braces.
fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => fields
            .values()
            .map(format_value)
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(" · "),
        Value::Array(items) => items.iter().map(format_value).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn steps(
    progress: &AgentProgress,
    limit: usize,
    columns: usize,
    renderer: &ItemRenderer<'_>,
) -> Vec<Line> {
    let left_out = progress.steps.len().saturating_sub(limit);
    let shown = progress.steps.get(left_out..).unwrap_or_default();
    let last = shown.len().saturating_sub(1);
    let row = |(index, step): (usize, &AgentStep)| {
        let branch = if index == last { "└ " } else { "├ " };
        let branch = if renderer.options.screen_reader { "" } else { branch };
        truncate_row(&step_row(step, branch, renderer), columns)
    };
    shown.iter().enumerate().map(row).collect()
}

fn step_row(step: &AgentStep, branch: &'static str, renderer: &ItemRenderer<'_>) -> Line {
    let theme = renderer.theme;
    let marker = match step.status {
        None => Span::styled(renderer.spinner(), theme.accent),
        Some(ToolStatus::Success) => Span::styled(renderer.marker(DONE, "done:"), theme.success),
        Some(ToolStatus::Error) => Span::styled(renderer.marker(FAILED, "failed:"), theme.error),
        Some(ToolStatus::Cancelled) => {
            Span::styled(renderer.marker(CANCELLED, "cancelled:"), theme.secondary)
        }
    };
    let name = sanitize::one_row(describe::display_name(&step.name)).into_owned();
    let title = sanitize::one_row(describe::without_verb(&step.name, &step.title)).into_owned();
    let mut line = Line::styled(branch, theme.border);
    line.push(marker);
    let mut line = line.with_span(format!(" {name}"), theme.text);
    if !title.is_empty() && title != name {
        line = line.with_span(format!("  {title}"), theme.secondary);
    }
    if !step.error.is_empty() {
        line = line.with_span(format!("  → {}", sanitize::one_row(&step.error)), theme.error);
    }
    line
}

/// Returns the counts in one row.
fn progress_counts(progress: &AgentProgress) -> String {
    let calls = usize::try_from(progress.calls).unwrap_or(usize::MAX);
    let turns = usize::try_from(progress.turns).unwrap_or(usize::MAX);
    let mut details = vec![count(calls, "call"), count(turns, "turn")];
    if progress.tokens > 0 {
        details.push(tokens(progress.tokens));
    }
    if progress.resumed {
        details.insert(0, "resumed".to_owned());
    }
    details.join(" · ")
}

fn tokens(tokens: u64) -> String {
    match tokens {
        0..1_000 => format!("{tokens} tokens"),
        _ => format!("{}k tokens", tokens / 1_000),
    }
}

fn end_label(end: AgentEnd) -> &'static str {
    match end {
        AgentEnd::Goal => "done",
        AgentEnd::Error => "failed",
        AgentEnd::Timeout => "timed out",
        AgentEnd::MaxTurns => "reached its turn limit",
        AgentEnd::Aborted => "interrupted",
        AgentEnd::ErrorNoCompleteTaskCall => "returned no result",
    }
}
