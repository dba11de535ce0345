//! The usage of all sessions as text.

use std::fmt::Write as _;

use parallax_protocol::code_text::code_text;

use crate::usage_report::{NamedUsage, UsageReport, UsageSum};

/// Width of a bar in cells.
const BAR: usize = 12;
/// Maximum width of a name.
const NAME: usize = 24;
/// Minimum width of a name.
const MIN_NAME: usize = 6;
/// Width in columns of a row without the name and the bar.
const NUMBERS: usize = 40;
/// Maximum number of rows of a table.
const ROWS: usize = 12;
/// Minimum columns of names beside numbers; with fewer, names have their own rows.
const MIN_NAME_COLUMNS: usize = 14;
/// Number of days shown.
const DAYS: usize = 31;

/// The widths of a table's name and bar, with the space after the bar.
#[derive(Debug, Clone, Copy)]
struct TableWidths {
    name: usize,
    bar: usize,
    /// Whether numbers are below the names, with labels instead of heads.
    is_narrow: bool,
}

impl TableWidths {
    /// Returns the widths with which a row has at most `columns` columns. Narrow tables have no
    /// bar.
    fn fitting(columns: usize) -> Self {
        if columns < NUMBERS + MIN_NAME_COLUMNS {
            let name = columns.saturating_sub(2).max(MIN_NAME);
            return Self { name, bar: 0, is_narrow: true };
        }
        let bar = if columns >= NUMBERS + BAR + 2 + NAME / 2 { BAR } else { 0 };
        let space = if bar > 0 { bar + 2 } else { 0 };
        let name = columns.saturating_sub(NUMBERS + space).clamp(MIN_NAME, NAME);
        Self { name, bar, is_narrow: false }
    }

    /// Returns the width of the column of these names.
    fn name_width<'a>(self, names: impl Iterator<Item = &'a str>) -> usize {
        names.map(|name| name.chars().count()).max().unwrap_or(0).min(self.name)
    }

    /// Returns the columns of the name and the bar of a row, with the indent.
    fn head(self, name: usize) -> usize {
        2 + name + if self.bar > 0 { self.bar + 2 } else { 0 }
    }

    /// Returns the bar with the space before it.
    fn drawn_bar(self, value: f64, maximum: f64) -> String {
        if self.bar > 0 { format!("  {}", bar(value, maximum)) } else { String::new() }
    }
}

/// Returns the report as text with bars: a summary, and tables of days, models, projects, and tools
/// whose rows have at most `columns` columns, if that is possible.
pub fn format_report(report: &UsageReport, columns: usize) -> String {
    let widths = TableWidths::fitting(columns);
    if report.sessions == 0 {
        let since = report.since.as_ref().map(|since| format!(" since {since}"));
        return format!("No session used a model{}.\n", since.unwrap_or_default());
    }
    let total = &report.total;
    let mut text = format!(
        "{}{}: {}, {}\n{} input tokens ({:.0}% cached), {} output tokens\n",
        count_with_noun(report.sessions, "session"),
        report.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default(),
        count_with_noun(total.requests, "request"),
        dollars(total),
        tokens(total.input_tokens),
        total.cached_share() * 100.0,
        tokens(total.output_tokens)
    );
    if total.unpriced {
        let unpriced = report.models.iter().filter(|model| model.sum.unpriced);
        let names: Vec<_> =
            unpriced.take(ROWS).map(|model| format!("`{}`", code_text(&model.name))).collect();
        let _ =
            writeln!(text, "The cost is incomplete: no price is known for {}.", names.join(", "));
    }
    if report.unreadable > 0 {
        let _ = writeln!(text, "{} sessions could not be read.", report.unreadable);
    }
    let skipped = report.days.len().saturating_sub(DAYS);
    let days: Vec<&NamedUsage> = report.days.iter().skip(skipped).collect();
    write_table(&mut text, "Days", &days, widths);
    write_table(&mut text, "Models", &report.models.iter().take(ROWS).collect::<Vec<_>>(), widths);
    write_table(
        &mut text,
        "Projects",
        &report.projects.iter().take(ROWS).collect::<Vec<_>>(),
        widths,
    );
    if widths.is_narrow && !report.tools.is_empty() {
        text.push_str("\nTools\n");
        for tool in report.tools.iter().take(ROWS) {
            let _ = writeln!(
                text,
                "  {}\n    {} · {} failed · {}",
                truncate_name(&tool.name, widths.name),
                count_with_noun(tool.calls, "call"),
                tool.failed,
                duration(tool.duration_ms)
            );
        }
    } else if !report.tools.is_empty() {
        let maximum = report.tools.iter().map(|tool| tool.calls).max().unwrap_or(1);
        let width =
            widths.name_width(report.tools.iter().take(ROWS).map(|tool| tool.name.as_str()));
        let _ = writeln!(
            text,
            "\n{:<1$}  {2:>6}  {3:>6}  {4:>8}",
            "Tools",
            widths.head(width),
            "calls",
            "failed",
            "time"
        );
        for tool in report.tools.iter().take(ROWS) {
            let _ = writeln!(
                text,
                "  {:<width$}{}  {:>6}  {:>6}  {:>8}",
                truncate_name(&tool.name, width),
                widths.drawn_bar(to_float(tool.calls), to_float(maximum)),
                tool.calls,
                tool.failed,
                duration(tool.duration_ms)
            );
        }
    }
    text
}

/// Returns a number with its noun.
fn count_with_noun(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn write_table(text: &mut String, title: &str, rows: &[&NamedUsage], widths: TableWidths) {
    if widths.is_narrow {
        let _ = writeln!(text, "\n{title}");
        for row in rows {
            let sum = &row.sum;
            let _ = writeln!(
                text,
                "  {}\n    {} · {}↑ {}↓ · {:.0}% cached",
                truncate_name(&row.name, widths.name),
                dollars(sum),
                tokens(sum.input_tokens),
                tokens(sum.output_tokens),
                sum.cached_share() * 100.0
            );
        }
        return;
    }
    // Without prices, compares tokens.
    let cost = |sum: &UsageSum| sum.cost.unwrap_or_default();
    let has_cost = rows.iter().any(|row| cost(&row.sum) > 0.0);
    let value = |sum: &UsageSum| match has_cost {
        true => cost(sum),
        false => to_float(sum.input_tokens + sum.output_tokens),
    };
    let maximum = rows.iter().map(|row| value(&row.sum)).fold(0.0, f64::max);
    let width = widths.name_width(rows.iter().map(|row| row.name.as_str()));
    let _ = writeln!(
        text,
        "\n{title:<0$}  {1:>10}  {2:>7}  {3:>7}  {4:>6}",
        widths.head(width),
        "cost",
        "input",
        "output",
        "cached"
    );
    for row in rows {
        let sum = &row.sum;
        let _ = writeln!(
            text,
            "  {:<width$}{}  {:>10}  {:>7}  {:>7}  {:>5.0}%",
            truncate_name(&row.name, width),
            widths.drawn_bar(value(sum), maximum),
            dollars(sum),
            tokens(sum.input_tokens),
            tokens(sum.output_tokens),
            sum.cached_share() * 100.0
        );
    }
}

/// Returns a name on one line; a name that is too long is reduced to its end.
fn truncate_name(name: &str, width: usize) -> String {
    let name = code_text(name).into_owned();
    let count = name.chars().count();
    if count <= width {
        return name;
    }
    let end: String = name.chars().skip(count + 1 - width.max(1)).collect();
    format!("…{end}")
}

fn bar(value: f64, maximum: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    let filled = match maximum > 0.0 {
        true => (value / maximum * to_float(BAR as u64)).round().clamp(0.0, to_float(BAR as u64))
            as usize,
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

/// Returns the cost; `≥` if it is incomplete.
fn dollars(sum: &UsageSum) -> String {
    let Some(cost) = sum.cost else { return "–".to_owned() };
    let least = if sum.unpriced { "≥ " } else { "" };
    let digits = if cost > 0.0 && cost < 0.1 { 4 } else { 2 };
    format!("{least}${cost:.digits$}")
}

fn duration(ms: u64) -> String {
    // Rounded first, so that 9.96 seconds are `10s`, not `10.0s`.
    match (ms.saturating_add(50) / 100, ms / 1000) {
        (tenths @ 0..100, _) => format!("{}.{}s", tenths / 10, tenths % 10),
        (_, seconds @ 0..60) => format!("{}s", seconds.max(10)),
        (_, seconds @ 60..3600) => format!("{}m {}s", seconds / 60, seconds % 60),
        (_, seconds) => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown rounded")]
fn to_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_costs_are_not_zero() {
        let cost = |cost, unpriced| dollars(&UsageSum { cost, unpriced, ..UsageSum::default() });
        assert_eq!(cost(Some(0.0), false), "$0.00");
        assert_eq!(cost(Some(0.25), true), "≥ $0.25");
        assert_eq!(cost(None, true), "–");
    }

    #[test]
    fn bar_length_matches_value() {
        assert_eq!(bar(1.0, 1.0), "█".repeat(BAR));
        assert_eq!(bar(0.0, 0.0), "░".repeat(BAR));
        assert_eq!(bar(1.0, 2.0).matches('█').count(), BAR / 2);
    }

    #[test]
    fn rows_fit_in_80_columns_and_columns_have_headings() {
        let sum = UsageSum {
            requests: 1,
            input_tokens: 9_999_000,
            output_tokens: 9_999_000,
            cost: Some(1234.5),
            unpriced: true,
            ..UsageSum::default()
        };
        let named = |name: &str| NamedUsage {
            name: name.to_owned(),
            sum: sum.clone(),
            ..NamedUsage::default()
        };
        let report = UsageReport {
            sessions: 1,
            total: sum.clone(),
            days: vec![named("2026-11-29")],
            models: vec![named("gemini-3.1-pro-preview")],
            projects: vec![named(&"/directory".repeat(9))],
            ..UsageReport::default()
        };
        let text = format_report(&report, 80);
        let narrow = format_report(&report, 46);
        assert!(narrow.contains("  gemini-3.1-pro-preview\n    ≥ $1234.50 · 9999.0k↑"), "{narrow}");
        for columns in [50, 74, 80] {
            let text = format_report(&report, columns);
            let widest = text.lines().skip_while(|line| !line.is_empty());
            let widest = widest.map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{columns}: {text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() < 80, "{text}");
        }
        let heads: Vec<_> = text.lines().filter(|line| line.ends_with("cached")).collect();
        assert_eq!(heads.len(), 3, "{text}");
        assert!(!text.contains(" %"), "{text}");
    }

    #[test]
    fn durations_are_formatted_as_in_the_terminal() {
        let spelled = [40, 9_960, 10_400, 119_000, 7_260_000].map(duration);
        assert_eq!(spelled, ["0.0s", "10s", "10s", "1m 59s", "2h 1m"]);
    }
}
