//! Session statistics as rows: counts, times, and a plot of tokens per turn.

use std::time::Duration;

use parallax_screen::{Line, Span, wrap};
use parallax_sessions::session_stats::SessionStats;
use parallax_sessions::stats::Decisions;

use crate::layout::{count as noun, truncate_text, with_prefix};
use crate::status::time;
use crate::status_line::{count, dollars, percent};
use crate::theme::Theme;

/// Width in columns of a label and the space after it.
const LABEL: usize = 14;
/// The same in narrow windows: a session id still fits in its row.
const NARROW_LABEL: usize = 11;
/// Windows with fewer columns have no column of values.
const NARROW: usize = 56;
/// The parts of a bar differ without colors, too.
const CACHED: &str = "█";
const NEW: &str = "▒";
const ANSWER: &str = "░";
/// Number of turns plotted, counted from the end.
pub(crate) const PLOTTED: usize = 12;

/// The part of the statistics to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatsPart {
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
pub(crate) fn rows(stats: &SessionStats, part: StatsPart, options: StatsOptions<'_>) -> Vec<Line> {
    let mut rows = match part {
        StatsPart::Session => wrap_rows(session(stats, options), options.width),
        StatsPart::Models => models(stats, options),
        StatsPart::Tools => tools(stats, options),
    };
    if part == StatsPart::Session && !stats.totals.models.is_empty() {
        rows.push(Line::EMPTY);
        rows.extend(models(stats, options));
    }
    let hang = [Span::raw("    ")];
    rows.iter().flat_map(|row| wrap(row, options.width, &hang)).collect()
}

fn row(label: &str, value: String, options: StatsOptions<'_>) -> Line {
    let columns = if options.width < NARROW { NARROW_LABEL } else { LABEL };
    let theme = options.theme;
    Line::styled(format!("  {label:<columns$}"), theme.secondary).with_span(value, theme.text)
}

/// Returns the heading of a model or tool in a narrow window.
fn name_row(name: String, options: StatsOptions<'_>) -> Line {
    Line::styled(truncate_text(&name, options.width), options.theme.accent.bold())
}

/// Wraps rows; the rest of a value is below its beginning.
fn wrap_rows(rows: Vec<Line>, width: usize) -> Vec<Line> {
    let hang = " ".repeat(if width < NARROW { 4 } else { LABEL + 2 });
    rows.iter().flat_map(|row| wrap(row, width, &[Span::raw(hang.clone())])).collect()
}

/// Formats a duration: tenths of a second only below ten seconds.
fn seconds(duration: Duration) -> String {
    // Rounded first, so that 9.96 seconds are `10s`, not `10.0s`.
    let tenths = (duration.as_millis() + 50) / 100;
    match tenths {
        0..100 => format!("{}.{}s", tenths / 10, tenths % 10),
        _ => time(duration.as_secs().max(10)),
    }
}

fn milliseconds(duration: u64) -> String {
    seconds(Duration::from_millis(duration))
}

/// Formats a number of things, such as `1 call`.
fn format_count(number: u64, what: &str) -> String {
    noun(usize::try_from(number).unwrap_or(usize::MAX), what)
}

/// Formats a number of tokens.
fn tokens(number: u64) -> String {
    match number {
        1 => "1 token".to_owned(),
        _ => format!("{} tokens", count(number)),
    }
}

fn session(stats: &SessionStats, options: StatsOptions<'_>) -> Vec<Line> {
    let theme = options.theme;
    let tools = &stats.totals.tools;
    let mut rows = vec![Line::styled("Session", theme.accent.bold())];
    for (label, value) in [("id", options.session), ("sign-in", options.auth)] {
        if !value.is_empty() {
            rows.push(row(label, value.to_owned(), options));
        }
    }
    let calls = match stats.success_rate() {
        Some(rate) => format!(
            "{} succeeded, {} failed ({:.0}%)",
            tools.total_success,
            tools.total_fail,
            rate * 100.0
        ),
        None => tools.total_calls.to_string(),
    };
    rows.push(row("tool calls", calls, options));
    if let Some(agreement) = stats.approval_rate() {
        let decisions = &tools.total_decisions;
        let allowed = decisions.accept + decisions.auto_accept;
        let decided = format_count(allowed + decisions.reject, "call");
        rows.push(row(
            "allowed",
            format!("{allowed} of {decided} ({:.0}%)", agreement * 100.0),
            options,
        ));
    }
    let files = &stats.totals.files;
    let lines = [('+', files.total_lines_added), ('−', files.total_lines_removed)];
    let lines: Vec<String> = lines
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(sign, count)| format!("{sign}{count}"))
        .collect();
    if !lines.is_empty() {
        rows.push(row("lines", lines.join(" "), options));
    }
    rows.push(row(
        "time",
        format!(
            "{} {}, agent {}, model {}, tools {}",
            seconds(stats.wall_time()),
            if stats.before.tokens.total == 0 { "in total" } else { "since it was resumed" },
            seconds(stats.agent()),
            seconds(stats.api()),
            seconds(stats.tools())
        ),
        options,
    ));
    let before = stats.before.tokens;
    if before.total > 0 {
        let all = stats.tokens();
        let difference = format!(
            "{}↑ {}↓ {} since the session was resumed",
            count(all.prompt - before.prompt),
            count(output(&all) - output(&before)),
            dollars(stats.totals.cost.usd - stats.before.cost),
        );
        rows.push(row("this run", difference, options));
    }
    rows.extend(cost(stats, options));
    rows.extend(render_bars(stats, options));
    rows
}

/// Returns the rows with the cost and the cached share of the prompts.
fn cost(stats: &SessionStats, options: StatsOptions<'_>) -> Vec<Line> {
    let cost = &stats.totals.cost;
    let mut rows = Vec::new();
    if cost.usd > 0.0 {
        let value = format!(
            "{} (new {}, cached {}, output {})",
            dollars(cost.usd),
            dollars(cost.input_usd),
            dollars(cost.cached_usd),
            dollars(cost.output_usd),
        );
        rows.push(row("cost", value, options));
        let tokens = stats.tokens();
        let share = format!("{}% of the input", percent(tokens.cached, tokens.prompt));
        rows.push(row("cached", share, options));
    }
    if !cost.unpriced.is_empty() {
        let value = format!(
            "unknown for {}: see `modelConfigs.prices`",
            cost.unpriced.iter().map(|name| truncate_text(name, 40)).collect::<Vec<_>>().join(", ")
        );
        rows.push(row("price", value, options));
    }
    rows
}

/// Returns a bar per turn: cached input, new input, output.
fn render_bars(stats: &SessionStats, options: StatsOptions<'_>) -> Vec<Line> {
    let StatsOptions { width, theme, plain, plotted, .. } = options;
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
    let head = Line::styled(format!("Tokens by turn{which}"), theme.accent.bold());
    let legend = Line::raw("  ")
        .with_span(CACHED, theme.success)
        .with_span(" cached  ", theme.secondary)
        .with_span(NEW, theme.warning)
        .with_span(" new  ", theme.secondary)
        .with_span(ANSWER, theme.link)
        .with_span(" answer", theme.secondary);
    let mut rows = match head.width() + legend.width() <= width {
        true => vec![Line::EMPTY, with_prefix(&head.spans, legend)],
        false => vec![Line::EMPTY, head, legend],
    };
    for turn in turns {
        let tokens = &turn.tokens;
        let cells = |part: u64| (part * room).div_ceil(maximum);
        let bar = |symbol: &str, part| symbol.repeat(usize::try_from(cells(part)).unwrap_or(0));
        let mut line = Line::styled(format!("  {:>4} ", turn.turn), theme.secondary);
        line.push(Span::styled(bar(CACHED, tokens.cached), theme.success));
        let new = tokens.prompt.saturating_sub(tokens.cached);
        line.push(Span::styled(bar(NEW, new), theme.warning));
        line.push(Span::styled(bar(ANSWER, output(tokens)), theme.link));
        let token_text = format!(" {}↑ {}↓", count(tokens.prompt), count(output(tokens)));
        line.push(Span::styled(token_text, theme.secondary));
        rows.push(line);
    }
    rows
}

fn output(tokens: &parallax_sessions::stats::Tokens) -> u64 {
    tokens.candidates + tokens.thoughts
}

/// Width of the model table in columns.
const MODEL_COLUMNS: usize = 96;
/// Width in columns of the tool table with short names and bars.
const TOOL_COLUMNS: usize = 77;
/// Width in columns of its numbers and the space around them.
const TOOL_NUMBERS: usize = 50;

fn models(stats: &SessionStats, options: StatsOptions<'_>) -> Vec<Line> {
    let theme = options.theme;
    if stats.totals.models.is_empty() {
        return vec![Line::styled("No model calls yet.", theme.secondary)];
    }
    if !options.fits_width(MODEL_COLUMNS) {
        return model_lines(stats, options);
    }
    let table = |cells: [&str; 9]| {
        let [name, requests, failed, mean, input, cached, output, thoughts, cost] = cells;
        format!(
            "{name:<26} {requests:>8} {failed:>6} {mean:>9} {input:>8} {cached:>6} {output:>8} \
             {thoughts:>8} {cost:>9}"
        )
    };
    let heads = [
        "Model",
        "requests",
        "failed",
        "mean time",
        "input",
        "cached",
        "output",
        "thoughts",
        "cost",
    ];
    let mut rows = vec![Line::styled(table(heads), theme.accent.bold())];
    for (name, model) in &stats.totals.models {
        rows.push(Line::styled(
            table([
                &truncate_text(name, 26),
                &model.api.total_requests.to_string(),
                &model.api.failures().to_string(),
                &milliseconds(model.api.mean_ms()),
                &count(model.tokens.prompt),
                &format!("{}%", percent(model.tokens.cached, model.tokens.prompt)),
                &count(model.tokens.candidates),
                &count(model.tokens.thoughts),
                &dollars(model.cost),
            ]),
            theme.text,
        ));
    }
    rows
}

/// Returns the model statistics as text, for narrow windows.
fn model_lines(stats: &SessionStats, options: StatsOptions<'_>) -> Vec<Line> {
    let mut rows = Vec::new();
    for (name, model) in &stats.totals.models {
        let api = &model.api;
        let share = percent(model.tokens.cached, model.tokens.prompt);
        let requests = format!(
            "{} · {} failed · {} on average",
            api.total_requests,
            api.failures(),
            milliseconds(api.mean_ms())
        );
        let input = format!("{} · {share}% cached", tokens(model.tokens.prompt));
        rows.push(name_row(format!("Model {name}"), options));
        rows.push(row("requests", requests, options));
        rows.push(row("input", input, options));
        rows.push(row("output", tokens(model.tokens.candidates), options));
        rows.push(row("thoughts", tokens(model.tokens.thoughts), options));
        rows.push(row("cost", dollars(model.cost), options));
    }
    rows
}

/// Returns how often a call was allowed and denied, by a rule or the user; `None` if it was never
/// decided.
fn allowed_and_denied(decisions: &Decisions) -> Option<(u64, u64)> {
    let allowed = decisions.accept + decisions.auto_accept;
    (allowed + decisions.reject > 0).then_some((allowed, decisions.reject))
}

fn tools(stats: &SessionStats, options: StatsOptions<'_>) -> Vec<Line> {
    let StatsOptions { width, theme, .. } = options;
    let by_name = &stats.totals.tools.by_name.0;
    if by_name.is_empty() {
        return vec![Line::styled("No tool calls yet.", theme.secondary)];
    }
    if !options.fits_width(TOOL_COLUMNS) {
        return tool_lines(stats, options);
    }
    let columns = if width < MODEL_COLUMNS { 22 } else { 40 };
    let table = |cells: [&str; 7]| {
        let [name, calls, succeeded, failed, allowed, denied, mean] = cells;
        format!(
            "{name:<columns$} {calls:>5} {succeeded:>9} {failed:>6} {allowed:>7} {denied:>6} \
             {mean:>9}  "
        )
    };
    let heads = ["Tool", "calls", "succeeded", "failed", "allowed", "denied", "mean time"];
    let mut rows = vec![Line::styled(table(heads) + "total", theme.accent.bold())];
    let longest = by_name.iter().map(|(_, tool)| tool.duration_ms).max().unwrap_or(0).max(1);
    let room = width.saturating_sub(columns + TOOL_NUMBERS).clamp(4, 40) as u64;
    for (name, tool) in by_name {
        let cells = (tool.duration_ms * room).div_ceil(longest);
        let (allowed, denied) = match allowed_and_denied(&tool.decisions) {
            Some((allowed, denied)) => (allowed.to_string(), denied.to_string()),
            None => (String::new(), String::new()),
        };
        let numbers = table([
            &truncate_text(name, columns),
            &tool.count.to_string(),
            &tool.success.to_string(),
            &tool.fail.to_string(),
            &allowed,
            &denied,
            &milliseconds(tool.mean_ms()),
        ]);
        let bar = "█".repeat(usize::try_from(cells).unwrap_or(0));
        rows.push(Line::styled(numbers, theme.text).with_span(bar, theme.link));
    }
    rows
}

/// Returns the tool statistics as text, for narrow windows.
fn tool_lines(stats: &SessionStats, options: StatsOptions<'_>) -> Vec<Line> {
    let mut rows = Vec::new();
    for (name, tool) in &stats.totals.tools.by_name.0 {
        let calls = format!("{} · {} succeeded · {} failed", tool.count, tool.success, tool.fail);
        rows.push(name_row(name.clone(), options));
        rows.push(row("calls", calls, options));
        if let Some((allowed, denied)) = allowed_and_denied(&tool.decisions) {
            rows.push(row("decisions", format!("{allowed} allowed · {denied} denied"), options));
        }
        rows.push(row("mean time", milliseconds(tool.mean_ms()), options));
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
            stats.count_event(&Event { seq: 0, turn: 1, body });
        }
        stats
    }

    fn rows_as_text(width: usize, plain: bool) -> Vec<String> {
        let theme = Theme::default();
        let (session, auth, plotted) = ("s-1", "a key", PLOTTED);
        let options = StatsOptions { width, theme: &theme, plain, plotted, session, auth };
        rows(&stats(), StatsPart::Session, options).iter().map(Line::text).collect()
    }

    #[test]
    fn last_turns_are_plotted_and_earlier_ones_counted() {
        let mut stats = stats();
        let turn = stats.turns[0].clone();
        stats.turns = (0..20).map(|_| turn.clone()).collect();
        let theme = Theme::default();
        for plain in [false, true] {
            let (session, auth, plotted) = ("", "", 8);
            let options = StatsOptions { width: 79, theme: &theme, plain, plotted, session, auth };
            let rows = |options| -> Vec<String> {
                rows(&stats, StatsPart::Session, options).iter().map(Line::text).collect()
            };
            let with = rows(options);
            assert!(with.iter().any(|row| row.contains("(the last 8 of 20)")), "{with:?}");
            let without = rows(StatsOptions { plotted: 0, ..options });
            assert_eq!(with.len() - without.len(), if plain { 9 } else { 10 });
        }
    }

    #[test]
    fn stats_are_complete_in_a_narrow_window() {
        for width in [20, 40, 59, 79, 99, 119] {
            let rows = rows_as_text(width, false);
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
    fn bar_segments_are_distinguishable_without_colors() {
        let rows = rows_as_text(99, false);
        let at = rows.iter().position(|row| row.contains(" cached  ")).expect("a legend");
        let characters = |row: &str| -> Vec<char> {
            let mut characters: Vec<char> =
                row.chars().filter(|character| "█▓▒░".contains(*character)).collect();
            characters.dedup();
            characters
        };
        assert_eq!(characters(&rows[at]).len(), 3, "{rows:?}");
        assert_eq!(characters(&rows[at]), characters(&rows[at + 1]), "{rows:?}");
    }

    #[test]
    fn long_model_name_ends_with_an_ellipsis() {
        let mut stats = stats();
        let model = stats.totals.models.values().next().cloned().expect("a model");
        stats.totals.models = [("m".repeat(70), model)].into_iter().collect();
        let theme = Theme::default();
        for width in [39, 99] {
            let (session, auth, plotted) = ("", "", 0);
            let options =
                StatsOptions { width, theme: &theme, plain: false, plotted, session, auth };
            let rows = rows(&stats, StatsPart::Models, options);
            let rows: Vec<String> = rows.iter().map(Line::text).collect();
            assert!(rows.iter().any(|row| row.contains("mmm…")), "{width}: {rows:?}");
        }
    }

    #[test]
    fn screen_reader_stats_have_no_bars() {
        let rows = rows_as_text(99, true).join("\n");
        assert!(![CACHED, NEW, ANSWER].iter().any(|part| rows.contains(part)), "{rows}");
        assert!(rows.contains("turn 1: 12.0k sent, 9.0k of them cached, 700 received"), "{rows}");
    }

    #[test]
    fn stats_do_not_wrap_and_have_one_spelling_of_each_quantity() {
        use parallax_sessions::stats::NamedToolStats;

        let mut stats = stats();
        let mut tool = NamedToolStats::default();
        (tool.count, tool.success, tool.duration_ms) = (1, 1, 9_980);
        tool.decisions.accept = 1;
        stats.totals.tools.by_name.0.push(("read_file".to_owned(), tool));
        let cost = &mut stats.totals.cost;
        (cost.usd, cost.input_usd, cost.cached_usd) = (0.0414, 0.0207, 0.0057);
        stats.totals.tools.total_calls = 1;
        stats.totals.tools.total_success = 1;
        stats.totals.tools.total_decisions.accept = 1;
        let theme = Theme::default();
        let id = "09b68e47-2ac7-4946-ad55-bffec58d15dd";
        for width in [49, 79, 99, 119] {
            let options = StatsOptions {
                width,
                theme: &theme,
                plain: false,
                plotted: PLOTTED,
                session: id,
                auth: "a key",
            };
            for part in [StatsPart::Session, StatsPart::Models, StatsPart::Tools] {
                let rows: Vec<String> =
                    rows(&stats, part, options).iter().map(Line::text).collect();
                let all = rows.join("\n");
                if width > 49 {
                    let hangs = |row: &&String| row.starts_with("    ") && !row.contains('█');
                    assert!(!rows.iter().any(|row| hangs(&row)), "{all}");
                }
                for wrong in ["1 calls", "$0.0000", "10.0s", "9.98s", " %", "well", "reqs"] {
                    assert!(!all.contains(wrong), "{wrong}: {all}");
                }
                match part {
                    StatsPart::Session => assert!(all.contains(id), "{all}"),
                    StatsPart::Models => assert!(all.contains("thoughts") && all.contains("$0.00")),
                    StatsPart::Tools => {
                        let words = ["calls", "succeeded", "failed", "allowed", "denied", "10s"];
                        assert!(words.iter().all(|word| all.contains(word)), "{all}");
                    }
                }
            }
        }
    }
}
