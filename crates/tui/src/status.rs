//! The status row above the composer: what the agent is doing, for how long, and how to stop it.

use parallax_protocol::ids::ItemId;
use parallax_screen::{Line, Span, text_width};

use parallax_sdk::settings::LoadingPhrases;

use crate::layout::truncate_with_mark;
use crate::phrases::phrase;
use crate::sanitize::one_row;
use crate::status_line;
use crate::theme::Theme;
use crate::tokens::{SEPARATOR, SPINNER, SPINNER_MS, STATIC_MARKER};

/// Minimum columns for the current activity next to facts and keys that may be left out.
const SUBJECT: usize = 30;
/// The ends of the keys that are shown together, in a shorter form if necessary.
const MAIN_KEYS: [&str; 2] = [" to steer", " to queue"];
/// Estimated bytes of streamed text per token; the exact number arrives only at the end.
const BYTES_PER_TOKEN: u64 = 4;

/// A running tool call. Its row in the transcript shows what it does and for how long.
#[derive(Debug, Clone)]
pub(crate) struct RunningTool {
    pub(crate) item: ItemId,
    pub(crate) title: String,
    /// Whether it runs a command.
    pub(crate) is_command: bool,
}

/// The current work of the agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentActivity {
    /// When the turn began, in milliseconds of the app's clock.
    pub(crate) since_ms: u64,
    /// How long it had been running before, in milliseconds.
    pub(crate) earlier_ms: u64,
    /// The activity, if neither a tool call nor the model describes it.
    pub(crate) subject: String,
    /// The subject of the model's current thought.
    pub(crate) thought: String,
    /// Whether the model is writing its answer.
    pub(crate) writes: bool,
    /// The pending retry: until when it waits, and why.
    pub(crate) retry: Option<(u64, String)>,
    /// The names of the running hooks.
    pub(crate) hooks: Vec<String>,
    /// Whether the agent waits for the user; the spinner stops.
    pub(crate) is_waiting: bool,
    /// When the wait began, in milliseconds of the app's clock.
    pub(crate) waiting_since_ms: u64,
    /// The running tool calls and their titles.
    pub(crate) running: Vec<RunningTool>,
    /// Tokens received by finished requests of the turn.
    pub(crate) received: u64,
    /// Bytes of text streamed by the running request.
    pub(crate) streamed_bytes: u64,
    /// The second of the last update and the token count shown since then.
    pub(crate) last_shown: (u64, u64),
}

/// Display options of the row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusOptions<'a> {
    /// Whether to show a spinner.
    pub(crate) spinner: bool,
    /// Which phrases to show while no thought and no tool call provides a subject.
    pub(crate) phrases: LoadingPhrases,
    /// The user's own phrases.
    pub(crate) own_phrases: &'a [String],
    /// Whether Escape cancels the work.
    pub(crate) stops: bool,
    /// Hints for other keys. Those that do not fit are omitted.
    pub(crate) keys: &'a [String],
}

impl AgentActivity {
    /// Records that a tool call is running.
    pub(crate) fn runs(&mut self, item: &ItemId, title: &str, is_command: bool) {
        self.running.retain(|running| running.item != *item);
        let title = title.to_owned();
        self.running.push(RunningTool { item: item.clone(), title, is_command });
        self.thought.clear();
        self.writes = false;
    }

    /// Records that a tool call ended.
    pub(crate) fn record_tool_end(&mut self, item: &ItemId) {
        self.running.retain(|running| running.item != *item);
    }

    /// Records that the model starts to write text, which ends the wait before a retry.
    pub(crate) fn start_text(&mut self, is_answer: bool) {
        (self.writes, self.retry) = (is_answer, None);
        if is_answer {
            self.thought.clear();
        }
    }

    /// Records the end of a request and its received tokens.
    pub(crate) fn record_request_end(&mut self, received: u64) {
        self.received += received;
        (self.streamed_bytes, self.writes, self.retry) = (0, false, None);
    }

    /// Updates the displayed token count once per second.
    pub(crate) fn count(&mut self, now_ms: u64) {
        let second = (now_ms.saturating_sub(self.since_ms) + self.earlier_ms) / 1000;
        if second != self.last_shown.0 {
            self.last_shown = (second, self.received + self.streamed_bytes / BYTES_PER_TOKEN);
        }
    }

    /// Returns the current activity for the window title.
    pub(crate) fn activity(&self) -> String {
        match self.running.as_slice() {
            _ if !self.subject.is_empty() => self.subject.clone(),
            [] => self.thought.clone(),
            [only] => only.title.clone(),
            several => format!("Running {} tools", several.len()),
        }
    }

    /// Sets whether the agent waits for the user. Waiting time is not counted.
    pub(crate) fn wait(&mut self, waiting: bool, now_ms: u64) {
        match (std::mem::replace(&mut self.is_waiting, waiting), waiting) {
            (false, true) => self.waiting_since_ms = now_ms,
            (true, false) => self.since_ms += now_ms.saturating_sub(self.waiting_since_ms),
            _ => {}
        }
    }

    /// Returns how often the row changes by itself, in milliseconds.
    pub(crate) fn tick_ms(spinner: bool) -> u64 {
        if spinner { SPINNER_MS } else { 1000 }
    }

    /// Returns the phase and its description.
    fn phase(&self, options: StatusOptions<'_>, now_ms: u64, theme: &Theme) -> Line {
        // When the time has come, the request is running again.
        if let Some((until, reason)) = self.retry.as_ref().filter(|(until, _)| *until > now_ms) {
            let remaining = until.saturating_sub(now_ms).div_ceil(1000);
            return Line::styled(format!("{reason} in {remaining}s"), theme.warning);
        }
        if !self.hooks.is_empty() {
            let first =
                |name: &String| one_row(name.lines().next().unwrap_or_default()).into_owned();
            let names: Vec<String> = self.hooks.iter().map(first).collect();
            return Line::styled(format!("Running hook: {}", names.join(", ")), theme.text);
        }
        let what = self.activity();
        if !self.thought.is_empty() && what == self.thought {
            return Line::styled("Thinking", theme.text)
                .with_span(format!("{SEPARATOR}{what}"), theme.secondary);
        }
        if let ([only], true) = (self.running.as_slice(), self.subject.is_empty())
            && only.is_command
        {
            return Line::styled("Running a command", theme.text);
        }
        if !what.is_empty() {
            return Line::styled(what, theme.text);
        }
        if self.writes {
            return Line::styled("Writing…", theme.text);
        }
        let output = phrase(options.phrases, options.own_phrases, now_ms);
        Line::styled(output.unwrap_or_else(|| "Thinking…".to_owned()), theme.text)
    }
}

/// Returns the spinner frame for a time.
pub(crate) fn spinner(now_ms: u64) -> &'static str {
    let index = usize::try_from(now_ms / SPINNER_MS).unwrap_or(0) % SPINNER.len();
    SPINNER.get(index).copied().unwrap_or("·")
}

/// Returns the status row.
pub(crate) fn row(
    working: &AgentActivity,
    options: StatusOptions<'_>,
    now_ms: u64,
    width: usize,
    theme: &Theme,
) -> Line {
    let seconds = now_ms.saturating_sub(working.since_ms) / 1000;
    if working.is_waiting {
        return Line::styled("? Waiting for approval", theme.warning);
    }
    let phase = working.phase(options, now_ms, theme);
    let marker_width = if options.spinner { 2 } else { 0 };
    let least = marker_width + SUBJECT.min(phase.width());
    // The rows of running tools have their own spinners.
    let turns = options.spinner && (working.running.is_empty() || !working.subject.is_empty());
    let tail = tail(working, options, seconds, width.saturating_sub(least));
    let room = width.saturating_sub(marker_width + text_width(&tail));
    let mut line = match options.spinner {
        true if turns => Line::styled(spinner(now_ms), theme.accent).with_span(" ", theme.text),
        true => Line::styled(STATIC_MARKER, theme.accent).with_span(" ", theme.text),
        false => Line::EMPTY,
    };
    if room > 0 {
        line.spans.extend(truncate_with_mark(phase, room).spans);
        line.push(Span::styled(tail, theme.secondary));
    }
    line
}

/// Returns as many of time, tokens, and keys as fit; the time and the cancel key always stay.
fn tail(working: &AgentActivity, options: StatusOptions<'_>, seconds: u64, room: usize) -> String {
    let tokens = match working.last_shown.1 {
        0 => String::new(),
        1 => "1 token".to_owned(),
        tokens => format!("{} tokens", status_line::count(tokens)),
    };
    let time = time(seconds);
    // Programs wait for `(esc to cancel,`.
    let first = if options.stops { format!("esc to cancel, {time}") } else { time };
    let is_main = |key: &&String| MAIN_KEYS.iter().any(|what| key.ends_with(what));
    let (main, others): (Vec<&String>, Vec<&String>) = options.keys.iter().partition(is_main);
    let short = |key: &&String| key.replacen(" to ", " ", 1);
    let joined = |keys: Vec<String>, tokens: &str| {
        let parts = [first.clone(), tokens.to_owned()].into_iter().chain(keys);
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        format!(" ({}", parts.join(SEPARATOR))
    };
    let brief: Vec<String> = main.iter().map(short).collect();
    let one: Vec<String> = brief.iter().take(1).cloned().collect();
    // The keys matter more than the number of tokens.
    let forms = [
        joined(main.iter().map(|key| (*key).clone()).collect(), &tokens),
        joined(brief.clone(), &tokens),
        joined(brief, ""),
        joined(one, ""),
        joined(Vec::new(), &tokens),
    ];
    let fitting = forms.into_iter().find(|form| text_width(form) < room);
    let mut details = fitting.unwrap_or_else(|| joined(Vec::new(), ""));
    for key in others {
        if text_width(&details) + text_width(SEPARATOR) + text_width(key) < room {
            details.push_str(SEPARATOR);
            details.push_str(key);
        }
    }
    details.push(')');
    details
}

/// Formats a duration in seconds.
pub(crate) fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_row_names_running_calls() {
        let mut working = AgentActivity::default();
        let (one, two) = (ItemId::new("1"), ItemId::new("2"));
        working.runs(&one, "Read a", false);
        working.runs(&two, "Read b", false);
        assert_eq!(working.activity(), "Running 2 tools");
        working.record_tool_end(&two);
        assert_eq!(working.activity(), "Read a");
        working.record_tool_end(&one);
        assert_eq!(working.activity(), "");
    }

    fn status_options(keys: &[String]) -> StatusOptions<'_> {
        let phrases = LoadingPhrases::Off;
        StatusOptions { spinner: true, phrases, own_phrases: &[], stops: true, keys }
    }

    #[test]
    fn each_phase_has_its_text() {
        let text = |working: &AgentActivity| {
            row(working, status_options(&[]), 3_000, 80, &Theme::default()).text()
        };
        let mut working = AgentActivity::default();
        assert!(text(&working).contains("Thinking… (esc to cancel, 3s)"));
        "the retry".clone_into(&mut working.thought);
        assert!(text(&working).contains("Thinking · the retry (esc to cancel, 3s"));
        working.start_text(true);
        working.streamed_bytes = 4_800;
        assert!(text(&working).contains("Writing… (esc to cancel, 3s)"), "{}", text(&working));
        working.count(3_000);
        assert!(
            text(&working).contains("Writing… (esc to cancel, 3s · 1.2k tokens)"),
            "{}",
            text(&working)
        );
        // Within a second the number does not change.
        working.streamed_bytes = 8_000;
        working.count(3_900);
        assert!(text(&working).contains("1.2k tokens"));
        working.record_request_end(1_000);
        working.count(4_000);
        assert!(
            text(&working).contains("Thinking… (esc to cancel, 3s · 1.0k tokens"),
            "{}",
            text(&working)
        );
        working.is_waiting = true;
        assert_eq!(text(&working), "? Waiting for approval");
    }

    #[test]
    fn key_hints_are_shown_if_they_fit() {
        let title = "for i in $(seq 1 40); do echo $i; sleep 1; done";
        let mut working = AgentActivity::default();
        working.runs(&ItemId::new("1"), title, false);
        let text = |look, width| row(&working, look, 3_000, width, &Theme::default()).text();
        let keys = ["enter to steer".to_owned(), "tab to queue".to_owned()];
        let full = text(status_options(&keys), 100);
        assert!(full.ends_with("… (esc to cancel, 3s · enter to steer · tab to queue)"), "{full}");
        let some = text(status_options(&keys), 80);
        assert!(some.ends_with("… (esc to cancel, 3s · enter steer · tab queue)"), "{some}");
        let one = text(status_options(&keys), 68);
        assert!(one.ends_with("… (esc to cancel, 3s · enter steer)"), "{one}");
        assert!(text(status_options(&keys), 40).ends_with("… (esc to cancel, 3s)"));
        assert!(
            text(StatusOptions { stops: false, ..status_options(&[]) }, 40).ends_with("… (3s)")
        );
        for width in 1..100 {
            assert!(text_width(&text(status_options(&keys), width)) <= width.max(2), "{width}");
        }
    }

    #[test]
    fn running_command_has_the_spinner_and_is_not_repeated() {
        let mut working = AgentActivity::default();
        working.runs(&ItemId::new("1"), "sleep 4", true);
        let keys = ["enter to steer", "ctrl+b to run it in the background", "tab to queue"];
        let keys = keys.map(str::to_owned);
        let text = row(&working, status_options(&keys), 3_000, 80, &Theme::default()).text();
        // An item that does not fit is skipped in favor of the next one.
        assert_eq!(text, "» Running a command (esc to cancel, 3s · enter to steer · tab to queue)");
    }

    #[test]
    fn retry_wait_counts_down() {
        let working = AgentActivity {
            since_ms: 0,
            retry: Some((12_000, "the service is overloaded; attempt 2 of 10".to_owned())),
            ..AgentActivity::default()
        };
        let row = row(&working, status_options(&[]), 9_500, 100, &Theme::default());
        assert!(
            row.text().contains("attempt 2 of 10 in 3s")
                && row.text().contains("(esc to cancel, 9s)")
        );
    }

    #[test]
    fn retry_wait_ends_when_the_request_is_repeated_or_answered() {
        let retry = Some((12_000, "Retrying".to_owned()));
        let mut working = AgentActivity { retry, ..AgentActivity::default() };
        let text = |working: &AgentActivity, now_ms| {
            row(working, status_options(&[]), now_ms, 100, &Theme::default()).text()
        };
        assert!(text(&working, 11_999).contains("Retrying in 1s"));
        assert!(text(&working, 12_000).contains("Thinking… (esc to cancel, 12s)"));
        // The answer may come earlier than the wait seems to end here.
        working.start_text(true);
        assert!(text(&working, 11_999).contains("Writing… (esc to cancel, 11s)"));
    }
}
