//! `parallax stats`: shows usage statistics of all sessions.

use std::fmt::Write as _;

use clap::Args;
use parallax_headless::{json_document, one_line};
use parallax_protocol::event::Failure;
use parallax_sdk::{Launch, LaunchOptions};
use parallax_sessions::usage_report::{NamedUsage, UsageReport, UsageSum, parse_since};

use crate::invocation::Settings;
use crate::start;

/// Width of a bar in cells.
const BAR: usize = 24;
/// Maximum number of rows of a table.
const ROWS: usize = 12;
/// Number of days shown.
const DAYS: usize = 31;

/// `parallax stats`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct StatsArguments {
    /// Only usage since then: `30d`, `2w`, `12h`, or a date
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print a line of comma-separated values for each day, model, project, and tool
    #[arg(long)]
    csv: bool,
}

/// Returns the output.
///
/// # Errors
/// Returns an error if `--since` is invalid or the settings cannot be used.
pub(crate) fn run(typed: &StatsArguments) -> Result<String, Failure> {
    let since = typed.since.as_deref().map(parse_since).transpose()?;
    let options = LaunchOptions { look_only: true, ..start::options(&Settings::default())? };
    let report = Launch::prepare(options)?.session_library().usage_report(since);
    Ok(match (typed.json, typed.csv) {
        (true, _) => json_document(&report),
        (_, true) => csv(&report),
        _ => text(&report),
    })
}

fn text(report: &UsageReport) -> String {
    if report.sessions == 0 {
        let since = report.since.as_ref().map(|since| format!(" since {since}"));
        return format!("No session used a model{}.\n", since.unwrap_or_default());
    }
    let total = &report.total;
    let mut text = format!(
        "{} sessions{}: {} requests, {} input tokens ({:.0} % cached), {} output tokens, {}\n",
        report.sessions,
        report.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default(),
        total.requests,
        tokens(total.input_tokens),
        total.cached_share() * 100.0,
        tokens(total.output_tokens),
        dollars(total.cost)
    );
    if report.unreadable > 0 {
        let _ = writeln!(text, "{} sessions could not be read.", report.unreadable);
    }
    let skipped = report.days.len().saturating_sub(DAYS);
    let days: Vec<&NamedUsage> = report.days.iter().skip(skipped).collect();
    table(&mut text, "Days", &days);
    table(&mut text, "Models", &report.models.iter().take(ROWS).collect::<Vec<_>>());
    table(&mut text, "Projects", &report.projects.iter().take(ROWS).collect::<Vec<_>>());
    if !report.tools.is_empty() {
        let most = report.tools.iter().map(|tool| tool.calls).max().unwrap_or(1);
        let width = report.tools.iter().take(ROWS).map(|it| it.name.chars().count()).max();
        let width = width.unwrap_or(0).min(40);
        text.push_str("\nTools\n");
        for tool in report.tools.iter().take(ROWS) {
            let _ = writeln!(
                text,
                "  {:<width$}  {}  {:>6} calls  {:>5} failed  {:>8}",
                cut(&tool.name, width),
                bar(to_float(tool.calls), to_float(most)),
                tool.calls,
                tool.failed,
                duration(tool.duration_ms)
            );
        }
    }
    text
}

fn table(text: &mut String, title: &str, rows: &[&NamedUsage]) {
    let _ = writeln!(text, "\n{title}");
    // Without prices, compares tokens.
    let has_cost = rows.iter().any(|row| row.sum.cost > 0.0);
    let value = |sum: &UsageSum| match has_cost {
        true => sum.cost,
        false => to_float(sum.input_tokens + sum.output_tokens),
    };
    let most = rows.iter().map(|row| value(&row.sum)).fold(0.0, f64::max);
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(40);
    for row in rows {
        let sum = &row.sum;
        let _ = writeln!(
            text,
            "  {:<width$}  {}  {:>9}  {:>7} in  {:>7} out  {:>3.0} % cached",
            cut(&row.name, width),
            bar(value(sum), most),
            dollars(sum.cost),
            tokens(sum.input_tokens),
            tokens(sum.output_tokens),
            sum.cached_share() * 100.0
        );
    }
}

/// Returns a name on one line; a name that is too long is reduced to its end.
fn cut(name: &str, width: usize) -> String {
    let name = one_line(name);
    let count = name.chars().count();
    if count <= width {
        return name;
    }
    let end: String = name.chars().skip(count + 1 - width.max(1)).collect();
    format!("…{end}")
}

fn bar(value: f64, most: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    let filled = match most > 0.0 {
        true => {
            (value / most * to_float(BAR as u64)).round().clamp(0.0, to_float(BAR as u64)) as usize
        }
        false => 0,
    };
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}

fn tokens(count: u64) -> String {
    match count {
        0..=9_999 => count.to_string(),
        10_000..=9_999_999 => format!("{:.1}k", to_float(count) / 1e3),
        _ => format!("{:.1}M", to_float(count) / 1e6),
    }
}

fn dollars(cost: f64) -> String {
    if cost > 0.0 && cost < 0.01 { format!("${cost:.4}") } else { format!("${cost:.2}") }
}

fn duration(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown rounded")]
fn to_float(count: u64) -> f64 {
    count as f64
}

fn csv(report: &UsageReport) -> String {
    let mut text = "kind,name,sessions,requests,failed,input_tokens,cached_tokens,output_tokens,\
                    cost_usd,duration_ms\n"
        .to_owned();
    let groups = [("day", &report.days), ("model", &report.models), ("project", &report.projects)];
    for (kind, rows) in groups {
        for NamedUsage { name, sessions, sum } in rows {
            let _ = writeln!(
                text,
                "{kind},{},{sessions},{},{},{},{},{},{:.6},{}",
                field(name),
                sum.requests,
                sum.failed,
                sum.input_tokens,
                sum.cached_tokens,
                sum.output_tokens,
                sum.cost,
                sum.model_ms
            );
        }
    }
    for tool in &report.tools {
        let (name, calls, failed) = (field(&tool.name), tool.calls, tool.failed);
        let _ = writeln!(text, "tool,{name},,{calls},{failed},,,,,{}", tool.duration_ms);
    }
    text
}

/// Quotes a value as in RFC 4180; also keeps spreadsheets from parsing it as a formula.
fn field(name: &str) -> String {
    let name = one_line(name);
    let name = if name.starts_with(['=', '+', '-', '@']) { format!("'{name}") } else { name };
    match name.contains([',', '"', '\n']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_never_formulas() {
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=1+1"), "'=1+1");
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        assert_eq!(bar(1.0, 1.0), "█".repeat(BAR));
        assert_eq!(bar(0.0, 0.0), "░".repeat(BAR));
        assert_eq!(bar(1.0, 2.0).matches('█').count(), BAR / 2);
    }
}
