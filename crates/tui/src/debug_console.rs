//! The debug console (F12): the log, and each request with its size and duration. Both are recorded
//! while it is closed, up to a limit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::event::{EndReason, Event, EventBody, ItemDone, TurnEnded};
use parallax_screen::{Line, Span, Style, wrap};

use crate::layout::truncate_with_mark;
use crate::status_line::count;
use crate::theme::Theme;

/// Maximum number of entries kept.
const MAX_KEPT: usize = 500;

/// Maximum number of milliseconds between two presses that count as one gesture.
const TWICE_MS: u64 = 400;

/// The severity of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// A failure.
    Error,
    /// A problem that is not a failure.
    Warning,
    /// Information.
    Info,
}

/// Log entries added by any thread and shown by the console.
#[derive(Debug, Clone, Default)]
pub struct LogBook {
    entries: Arc<Mutex<VecDeque<(LogLevel, String, u32)>>>,
}

impl LogBook {
    /// Adds an entry. Repetitions of the last entry are counted.
    pub fn add(&self, level: LogLevel, text: String) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last_level, last, times)) = entries.back_mut()
            && *last_level == level
            && *last == text
        {
            *times = times.saturating_add(1);
            return;
        }
        if entries.len() == MAX_KEPT {
            entries.pop_front();
        }
        entries.push_back((level, text, 1));
    }

    fn last_entries(&self, limit: usize) -> Vec<(LogLevel, String, u32)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = entries.len().saturating_sub(limit);
        entries.iter().skip(skipped).cloned().collect()
    }
}

/// The state of the debug console.
#[derive(Debug, Default)]
pub(crate) struct DebugConsole {
    pub(crate) log: LogBook,
    requests: VecDeque<String>,
    open: bool,
    /// When the key of the console was pressed, in milliseconds of the clock.
    pressed_at: Option<u64>,
}

impl DebugConsole {
    /// Handles the key of the console: shows or hides it. Returns whether the key was pressed
    /// twice.
    pub(crate) fn press(&mut self, now_ms: u64) -> bool {
        self.toggle();
        let before = self.pressed_at.take();
        let is_second = before.is_some_and(|before| now_ms.saturating_sub(before) <= TWICE_MS);
        self.pressed_at = (!is_second).then_some(now_ms);
        is_second
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn toggle(&mut self) {
        self.open = !self.open;
    }

    /// Notes requests, and calls that failed.
    pub(crate) fn apply(&mut self, event: &Event) {
        if let EventBody::ItemDone { done: ItemDone::Tool(tool), .. } = &event.body
            && let Some((kind, message)) = &tool.error
        {
            let text = format!("{} failed ({}): {message}", tool.name, kind.as_str());
            self.log.add(LogLevel::Warning, text);
        }
        // Errors from the service, including those of retried attempts.
        match &event.body {
            EventBody::Retry(retry) => {
                let status = retry.status.map(|status| format!(" HTTP {status}"));
                let text = format!(
                    "{} failed (attempt {} of {}):{} {}: {}",
                    retry.model,
                    retry.attempt,
                    retry.max_attempts,
                    status.unwrap_or_default(),
                    retry.class,
                    retry.message
                );
                self.log.add(LogLevel::Warning, text);
            }
            EventBody::TurnEnded(TurnEnded { reason: EndReason::Failed(failure), .. }) => {
                let status = failure.status.map(|status| format!(" (HTTP {status})"));
                let text =
                    format!("turn failed{}: {}", status.unwrap_or_default(), failure.message);
                self.log.add(LogLevel::Error, text);
            }
            _ => {}
        }
        let EventBody::ModelCall(call) = &event.body else { return };
        let usage = call.usage;
        let mut text = format!(
            "turn {} {} {} {}.{:03}s {} sent · {}↑ ({} cached) {}↓ {} thoughts",
            event.turn,
            call.role,
            call.model,
            call.latency_ms / 1000,
            call.latency_ms % 1000,
            size(call.request_bytes),
            count(usage.prompt),
            count(usage.cached),
            count(usage.output),
            count(usage.thought),
        );
        if let Some(error) = &call.error {
            text.push_str(&format!(" failed: {error}"));
        }
        if self.requests.len() == MAX_KEPT {
            self.requests.pop_front();
        }
        self.requests.push_back(text);
    }

    /// Returns the latest entries in `height` rows.
    pub(crate) fn rows(&self, width: usize, height: usize, key: &str, theme: &Theme) -> Vec<Line> {
        let room = height.saturating_sub(2).max(2);
        let requests = room.div_ceil(2);
        let title = |text: &str| {
            let line = format!("── {text} ");
            let rest = "─".repeat(width.saturating_sub(line.chars().count()));
            truncate_with_mark(Line::styled(format!("{line}{rest}"), theme.border), width)
        };
        let row = |text: &str, style: Style| {
            let line = Line::styled(text.replace(['\n', '\t'], " "), style);
            wrap(&line, width, &[Span::raw("  ")])
        };
        // Wrapped rows are never cut at the edge; the newest are kept.
        let newest = |mut rows: Vec<Line>, limit: usize| {
            rows.drain(..rows.len().saturating_sub(limit));
            rows
        };
        let mut rows = vec![title(&format!("requests ({key} to close)"))];
        let skipped = self.requests.len().saturating_sub(requests);
        let shown = self.requests.iter().skip(skipped);
        let mut request_rows: Vec<Vec<Line>> =
            shown.map(|text| row(text, theme.secondary)).collect();
        if let Some(last) = request_rows.last_mut() {
            // The request and its duration come first.
            last.truncate(requests);
        }
        rows.extend(newest(request_rows.concat(), requests));
        rows.push(title("log"));
        let limit = room - requests.min(room - 1);
        let mut logged = Vec::new();
        for (level, text, times) in self.log.last_entries(limit) {
            let style = match level {
                LogLevel::Error => theme.error,
                LogLevel::Warning => theme.warning,
                LogLevel::Info => theme.secondary,
            };
            let text = if times > 1 { format!("{text} (×{times})") } else { text };
            logged.extend(row(&text, style));
        }
        rows.extend(newest(logged, limit));
        rows.truncate(height);
        rows
    }
}

/// Formats a size in bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_request_error_is_logged_in_full() {
        let mut console = DebugConsole::default();
        let retry = parallax_protocol::model::Retry {
            attempt: 1,
            max_attempts: 3,
            delay_ms: 10,
            class: "rate_limit".to_owned(),
            status: Some(429),
            message: "Resource has been exhausted, ask again later, THE-END".to_owned(),
            model: "gemini-3-pro".to_owned(),
        };
        console.apply(&Event { seq: 0, turn: 1, body: EventBody::Retry(retry) });
        let rows: Vec<String> =
            console.rows(40, 12, "F12", &Theme::default()).iter().map(Line::text).collect();
        assert!(rows.concat().contains("HTTP 429"), "{rows:?}");
        assert!(rows.last().is_some_and(|row| row.ends_with("THE-END")), "{rows:?}");
        assert!(rows.iter().all(|row| parallax_screen::text_width(row) <= 40), "{rows:?}");
    }

    #[test]
    fn oversized_request_shows_its_beginning() {
        let mut console = DebugConsole::default();
        for model in ["older", "newest"] {
            console.requests.push_back(format!("turn 1 main {model} 0.8s {}", "x".repeat(60)));
        }
        let rows: Vec<String> =
            console.rows(20, 3, "F12", &Theme::default()).iter().map(Line::text).collect();
        assert!(rows[1].starts_with("turn 1 main newest"), "{rows:?}");
    }

    #[test]
    fn equal_log_entries_are_counted() {
        let console = DebugConsole::default();
        for _ in 0..3 {
            console.log.add(LogLevel::Warning, "slow".to_owned());
        }
        console.log.add(LogLevel::Error, "gone\u{1b}[2J".to_owned());
        let rows: Vec<String> =
            console.rows(40, 10, "F12", &Theme::default()).iter().map(Line::text).collect();
        assert!(rows.iter().any(|row| row == "slow (×3)"), "{rows:?}");
        assert!(rows.iter().all(|row| parallax_screen::text_width(row) <= 40));
    }
}
