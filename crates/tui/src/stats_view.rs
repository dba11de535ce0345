//! Session statistics as rows: counts, times, and a plot of tokens per turn.

use std::time::Duration;

use parallax_screen::{Line, Span, truncate, wrap};
use parallax_sessions::session_stats::SessionStats;
use parallax_sessions::stats::Decisions;

use crate::layout::count as noun;
use crate::status::time;
use crate::status_line::{count, dollars, percent};
use crate::theme::Theme;

/// Columns of a label and the space after it.
const LABEL: usize = 14;
/// Windows with fewer columns have no column of values.
const NARROW: usize = 56;
/// Number of turns plotted, counted from the end.
pub(crate) const PLOTTED: usize = 12;

/// The part of the statistics to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Session,
    Models,
    Tools,
}

/// Display options of the statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatsOptions<'a> {
    /// The width in columns.
    pub(crate) width: usize,
    pub(crate) theme: &'a Theme,
    /// Whether to omit bars and tables, for screen readers.
    pub(crate) plain: bool,
    /// Maximum number of turns plotted; 0 for no plot.
    pub(crate) plotted: usize,
    /// The session id and the authentication method; empty to omit them.
    pub(crate) session: &'a str,
    pub(crate) auth: &'a str,
}

impl StatsOptions<'_> {
    /// Whether a table of this width fits.
    fn fits_width(self, columns: usize) -> bool {
        !self.plain && self.width >= columns
    }
}

/// Returns the rows. Content that does not fit wraps; nothing is truncated.
pub(crate) fn rows(stats: &SessionStats, part: Part, look: StatsOptions<'_>) -> Vec<Line> {
    let mut rows = match part {
        Part::Session => wrapped(session(stats, look), look.width),
        Part::Models => models(stats, look),
        Part::Tools => tools(stats, look),
    };
    if part == Part::Session && !stats.totals.models.is_empty() {
        rows.push(Line::EMPTY);
        rows.extend(models(stats, look));
    }
    let hang = [Span::raw("    ")];
    rows.iter().flat_map(|row| wrap(row, look.width, &hang)).collect()
}

fn row(label: &str, value: String, theme: &Theme) -> Line {
    Line::styled(format!("  {label:<LABEL$}"), theme.secondary).with_span(value, theme.text)
}

/// Wraps rows; the rest of a value is below its beginning.
fn wrapped(rows: Vec<Line>, width: usize) -> Vec<Line> {
    let hang = " ".repeat(if width < NARROW { 4 } else { LABEL + 2 });
    rows.iter().flat_map(|row| wrap(row, width, &[Span::raw(hang.clone())])).collect()
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        whole => time(whole),
    }
}

fn session(stats: &SessionStats, look: StatsOptions<'_>) -> Vec<Line> {
    let theme = look.theme;
    let tools = &stats.totals.tools;
    let mut rows = vec![Line::styled("Session", theme.accent.bold())];
    for (label, value) in [("id", look.session), ("sign-in", look.auth)] {
        if !value.is_empty() {
            rows.push(row(label, value.to_owned(), theme));
        }
    }
    let mut calls = tools.total_calls.to_string();
    if let Some(rate) = stats.success_rate() {
        calls.push_str(&format!(
            " · {} succeeded, {} failed · {:.0}% successful",
            tools.total_success,
            tools.total_fail,
            rate * 100.0
        ));
    }
    rows.push(row("tool calls", calls, theme));
    if let Some(agreement) = stats.agreement() {
        let decisions = &tools.total_decisions;
        let report = format!(
            "{:.0}% ({} of {} calls)",
            agreement * 100.0,
            decisions.accept + decisions.auto_accept,
            decisions.accept + decisions.auto_accept + decisions.reject
        );
        rows.push(row("allowed", report, theme));
    }
    let files = &stats.totals.files;
    let lines = [('+', files.total_lines_added), ('−', files.total_lines_removed)];
    let lines: Vec<String> = lines
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(sign, count)| format!("{sign}{count}"))
        .collect();
    if !lines.is_empty() {
        rows.push(row("lines", lines.join(" "), theme));
    }
    rows.push(row(
        "time",
        format!(
            "{} {}, agent {}, model {}, tools {}",
            seconds(stats.wall()),
            if stats.before.tokens.total == 0 { "in total" } else { "since it was resumed" },
            seconds(stats.agent()),
            seconds(stats.api()),
            seconds(stats.tools())
        ),
        theme,
    ));
    let before = stats.before.tokens;
    if before.total > 0 {
        let all = stats.tokens();
        let report = format!(
            "{}↑ {}↓ {} since the session was resumed",
            count(all.prompt - before.prompt),
            count(output(&all) - output(&before)),
            dollars(stats.totals.cost.usd - stats.before.cost),
        );
        rows.push(row("this run", report, theme));
    }
    rows.extend(cost(stats, theme));
    rows.extend(render_bars(stats, look));
    rows
}

/// Returns the rows with the cost and the cached share of the prompts.
fn cost(stats: &SessionStats, theme: &Theme) -> Vec<Line> {
    let cost = &stats.totals.cost;
    let mut rows = Vec::new();
    if cost.usd > 0.0 {
        let report = format!(
            "{} (new input {}, cached input {}, output {})",
            dollars(cost.usd),
            dollars(cost.input_usd),
            dollars(cost.cached_usd),
            dollars(cost.output_usd),
        );
        rows.push(row("cost", report, theme));
        let tokens = stats.tokens();
        let share = format!("{}% of the input", percent(tokens.cached, tokens.prompt));
        rows.push(row("cached", share, theme));
    }
    if !cost.unpriced.is_empty() {
        let report = format!(
            "unknown for {}: see `modelConfigs.prices`",
            cost.unpriced.iter().map(|name| truncate(name, 40)).collect::<Vec<_>>().join(", ")
        );
        rows.push(row("price", report, theme));
    }
    rows
}

/// Returns a bar per turn: cached input, new input, output.
fn render_bars(stats: &SessionStats, look: StatsOptions<'_>) -> Vec<Line> {
    let StatsOptions { width, theme, plain, plotted, .. } = look;
    let skipped = stats.turns.len().saturating_sub(plotted);
    let turns = stats.turns.get(skipped..).unwrap_or_default();
    let maximum =
        turns.iter().map(|turn| turn.tokens.prompt + output(&turn.tokens)).max().unwrap_or(0);
    if maximum == 0 {
        return Vec::new();
    }
    let which = match skipped {
        0 => String::new(),
        _ => format!(" (the last {} of {})", turns.len(), stats.turns.len()),
    };
    if plain {
        let mut rows = vec![Line::raw(format!("Tokens by turn{which}"))];
        rows.extend(turns.iter().map(|turn| {
            let tokens = &turn.tokens;
            Line::raw(format!(
                "  turn {}: {} sent, {} of them cached, {} received",
                turn.turn,
                count(tokens.prompt),
                count(tokens.cached),
                count(output(tokens)),
            ))
        }));
        return rows;
    }
    let room = width.saturating_sub(34).clamp(8, 60) as u64;
    let mut rows = vec![
        Line::EMPTY,
        Line::styled(format!("Tokens by turn{which}  "), theme.accent.bold())
            .with_span("█", theme.success)
            .with_span(" cached  ", theme.secondary)
            .with_span("█", theme.warning)
            .with_span(" new  ", theme.secondary)
            .with_span("█", theme.link)
            .with_span(" answer", theme.secondary),
    ];
    for turn in turns {
        let tokens = &turn.tokens;
        let cells = |part: u64| (part * room).div_ceil(maximum);
        let bar = |part: u64| "█".repeat(usize::try_from(cells(part)).unwrap_or(0));
        let mut line = Line::styled(format!("  {:>4} ", turn.turn), theme.secondary);
        line.push(Span::styled(bar(tokens.cached), theme.success));
        line.push(Span::styled(bar(tokens.prompt.saturating_sub(tokens.cached)), theme.warning));
        line.push(Span::styled(bar(output(tokens)), theme.link));
        let report = format!(" {}↑ {}↓", count(tokens.prompt), count(output(tokens)));
        line.push(Span::styled(report, theme.secondary));
        rows.push(line);
    }
    rows
}

fn output(tokens: &parallax_sessions::stats::Tokens) -> u64 {
    tokens.candidates + tokens.thoughts
}

/// Columns of the model table.
const MODEL_COLUMNS: usize = 92;
/// Columns of the tool table without its bars.
const TOOL_COLUMNS: usize = 70;

fn models(stats: &SessionStats, look: StatsOptions<'_>) -> Vec<Line> {
    let theme = look.theme;
    if stats.totals.models.is_empty() {
        return vec![Line::styled("No model calls yet.", theme.secondary)];
    }
    if !look.fits_width(MODEL_COLUMNS) {
        return model_lines(stats, theme);
    }
    let mut rows = vec![Line::styled(
        format!(
            "{:<28} {:>4} {:>4} {:>8} {:>8} {:>7} {:>8} {:>8} {:>9}",
            "Model", "reqs", "errs", "time", "in", "cached", "out", "thought", "cost"
        ),
        theme.accent.bold(),
    )];
    for (name, model) in &stats.totals.models {
        let api = &model.api;
        let mean = api.mean_ms();
        let share = percent(model.tokens.cached, model.tokens.prompt);
        rows.push(Line::styled(
            format!(
                "{:<28} {:>4} {:>4} {:>7.1}s {:>8} {:>6}% {:>8} {:>8} {:>9}",
                truncate(name, 28),
                api.total_requests,
                api.failures(),
                Duration::from_millis(mean).as_secs_f64(),
                count(model.tokens.prompt),
                share,
                count(model.tokens.candidates),
                count(model.tokens.thoughts),
                dollars(model.cost),
            ),
            theme.text,
        ));
    }
    rows
}

/// Returns the model statistics as text, for narrow windows.
fn model_lines(stats: &SessionStats, theme: &Theme) -> Vec<Line> {
    let mut rows = Vec::new();
    for (name, model) in &stats.totals.models {
        let api = &model.api;
        let mean = api.mean_ms();
        let share = percent(model.tokens.cached, model.tokens.prompt);
        rows.push(Line::styled(format!("Model {}", truncate(name, 60)), theme.accent.bold()));
        let report = format!(
            "  {}, {} failed, {:.1}s each; {} in, {share}% cached, {} out, {} thoughts; \
             {}",
            noun(usize::try_from(api.total_requests).unwrap_or(usize::MAX), "request"),
            api.failures(),
            Duration::from_millis(mean).as_secs_f64(),
            count(model.tokens.prompt),
            count(model.tokens.candidates),
            count(model.tokens.thoughts),
            dollars(model.cost),
        );
        rows.push(Line::styled(report, theme.text));
    }
    rows
}

/// How often a call was allowed and denied, by a rule or the user; empty if it was never
/// decided.
fn describe_decisions(decisions: &Decisions) -> String {
    let allowed = decisions.accept + decisions.auto_accept;
    match allowed + decisions.reject {
        0 => String::new(),
        _ => format!("{allowed}/{}", decisions.reject),
    }
}

fn tools(stats: &SessionStats, look: StatsOptions<'_>) -> Vec<Line> {
    let StatsOptions { width, theme, .. } = look;
    let by_name = &stats.totals.tools.by_name.0;
    if by_name.is_empty() {
        return vec![Line::styled("No tool calls yet.", theme.secondary)];
    }
    if !look.fits_width(TOOL_COLUMNS) {
        let report = by_name.iter().map(|(name, tool)| {
            let mean = Duration::from_millis(tool.mean_ms()).as_secs_f64();
            let numbers = format!(
                ": {} calls, {} succeeded, {} failed, {mean:.2}s each{}",
                tool.count,
                tool.success,
                tool.fail,
                match describe_decisions(&tool.decisions).as_str() {
                    "" => String::new(),
                    decided => format!(", allowed/denied {decided}"),
                }
            );
            let name = truncate(name, 60).to_owned();
            Line::styled(name, theme.accent.bold()).with_span(numbers, theme.text)
        });
        return report.collect();
    }
    let mut rows = vec![Line::styled(
        format!(
            "{:<26} {:>5} {:>5} {:>5} {:>11} {:>8}  time",
            "Tool", "calls", "well", "not", "allowed/not", "mean"
        ),
        theme.accent.bold(),
    )];
    let longest = by_name.iter().map(|(_, tool)| tool.duration_ms).max().unwrap_or(0).max(1);
    let room = width.saturating_sub(TOOL_COLUMNS).clamp(4, 40) as u64;
    for (name, tool) in by_name {
        let mean = Duration::from_millis(tool.mean_ms()).as_secs_f64();
        let cells = (tool.duration_ms * room).div_ceil(longest);
        rows.push(
            Line::styled(
                format!(
                    "{:<26} {:>5} {:>5} {:>5} {:>11} {:>7.2}s  ",
                    truncate(name, 26),
                    tool.count,
                    tool.success,
                    tool.fail,
                    describe_decisions(&tool.decisions),
                    mean
                ),
                theme.text,
            )
            .with_span("█".repeat(usize::try_from(cells).unwrap_or(0)), theme.link),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use parallax_protocol::event::{Event, EventBody, ModelCall};
    use parallax_protocol::model::Usage;

    use super::*;

    fn stats() -> SessionStats {
        let mut stats = SessionStats::default();
        let usage = Usage { prompt: 12_000, cached: 9_000, output: 700, ..Usage::default() };
        let call = ModelCall {
            model: "gemini-3-pro".to_owned(),
            role: "main".to_owned(),
            usage,
            cost: None,
            latency_ms: 1_500,
            request_bytes: 10,
            error: None,
        };
        for body in [EventBody::TurnStarted { prompt: "hi".to_owned() }, EventBody::ModelCall(call)]
        {
            stats.event(&Event { seq: 0, turn: 1, body });
        }
        stats
    }

    fn texts(width: usize, plain: bool) -> Vec<String> {
        let theme = Theme::default();
        let (session, auth, plotted) = ("s-1", "a key", PLOTTED);
        let look = StatsOptions { width, theme: &theme, plain, plotted, session, auth };
        rows(&stats(), Part::Session, look).iter().map(Line::text).collect()
    }

    #[test]
    fn last_turns_are_plotted_and_earlier_ones_counted() {
        let mut stats = stats();
        let turn = stats.turns[0].clone();
        stats.turns = (0..20).map(|_| turn.clone()).collect();
        let theme = Theme::default();
        for plain in [false, true] {
            let (session, auth, plotted) = ("", "", 8);
            let look = StatsOptions { width: 79, theme: &theme, plain, plotted, session, auth };
            let rows = |look| -> Vec<String> {
                rows(&stats, Part::Session, look).iter().map(Line::text).collect()
            };
            let with = rows(look);
            assert!(with.iter().any(|row| row.contains("(the last 8 of 20)")), "{with:?}");
            let without = rows(StatsOptions { plotted: 0, ..look });
            assert_eq!(with.len() - without.len(), if plain { 9 } else { 10 });
        }
    }

    #[test]
    fn stats_are_complete_in_a_narrow_window() {
        for width in [20, 40, 59, 79, 99, 119] {
            let rows = texts(width, false);
            assert!(rows.iter().all(|row| parallax_screen::text_width(row) <= width), "{rows:?}");
            let words = rows.join(" ");
            let words: Vec<&str> = words.split_whitespace().collect();
            for word in ["12.0k", "700", "75%", "tools"] {
                let has = |text: &&str| text.trim_matches([',', ';']) == word;
                assert!(words.iter().any(has), "{width}: {word} in {rows:?}");
            }
        }
    }

    #[test]
    fn screen_reader_stats_have_no_bars() {
        let rows = texts(99, true).join("\n");
        assert!(!rows.contains('█'), "{rows}");
        assert!(rows.contains("turn 1: 12.0k sent, 9.0k of them cached, 700 received"), "{rows}");
    }
}
