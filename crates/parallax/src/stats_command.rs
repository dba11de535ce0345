//! `parallax stats`: shows usage statistics of all sessions.

use std::fmt::Write as _;

use clap::Args;
use parallax_headless::{json_document, one_line};
use parallax_protocol::event::Failure;
use parallax_sdk::{LaunchOptions, SessionConfig};
use parallax_sessions::usage_report::{NamedUsage, UsageReport, UsageStart};
use parallax_sessions::usage_text;

use crate::session_flags::SessionFlags;
use crate::start;

/// Width of the report in columns.
const COLUMNS: usize = 80;

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
/// Returns an error if `--since` is invalid or the flags cannot be used.
pub(crate) fn run(arguments: &StatsArguments) -> Result<String, Failure> {
    let since = arguments.since.as_deref().map(UsageStart::parse).transpose()?;
    let options = LaunchOptions { is_read_only: true, ..start::options(&SessionFlags::default())? };
    let report = SessionConfig::prepare(options)?.session_library().usage_report(since.as_ref());
    Ok(match (arguments.json, arguments.csv) {
        (true, _) => json_document(&report),
        (_, true) => csv(&report),
        _ => usage_text::format_report(&report, COLUMNS),
    })
}

fn csv(report: &UsageReport) -> String {
    let mut text = "kind,name,sessions,requests,failed,input_tokens,cached_tokens,output_tokens,\
                    cost_usd,duration_ms,cost_is_complete\n"
        .to_owned();
    let groups = [("day", &report.days), ("model", &report.models), ("project", &report.projects)];
    for (kind, rows) in groups {
        for NamedUsage { name, sessions, sum } in rows {
            let _ = writeln!(
                text,
                "{kind},{},{sessions},{},{},{},{},{},{},{},{}",
                field(name),
                sum.requests,
                sum.failed,
                sum.input_tokens,
                sum.cached_tokens,
                sum.output_tokens,
                sum.cost.map(|cost| format!("{cost:.6}")).unwrap_or_default(),
                sum.model_ms,
                !sum.unpriced
            );
        }
    }
    for tool in &report.tools {
        let (name, calls, failed) = (field(&tool.name), tool.calls, tool.failed);
        let _ = writeln!(text, "tool,{name},,{calls},{failed},,,,,{},", tool.duration_ms);
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
    fn csv_fields_are_quoted_and_never_formulas() {
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=1+1"), "'=1+1");
    }
}
