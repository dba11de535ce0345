//! Screen reader output: dialogs and lists as lines, each announced once.

use parallax_screen::layout::{NO_POINTER, POINTER};
use parallax_screen::{Line, Span, wrap};

use super::dialog_stack::QuestionId;
use crate::dialog::DialogView;
use crate::status_line::{StatusLineData, mode_name};
use crate::tokens::{ASKS, SEARCH};

/// What was already announced.
#[derive(Debug, Default)]
pub(crate) struct ScreenReader {
    /// The rows of the dialog.
    rows: Vec<String>,
    /// The question that they belong to.
    question: Option<QuestionId>,
    /// The completion list.
    completions: Vec<String>,
    /// The messages that wait.
    queued_messages: Vec<String>,
    has_shortcuts: bool,
    mode: Option<&'static str>,
    /// Whether the state of the session was announced.
    is_open: bool,
    /// Whether the state of the sandbox is known.
    knows_sandbox: bool,
    /// The retry that was announced.
    retry: Option<u64>,
    hint: Option<String>,
    is_compacting: bool,
}

impl ScreenReader {
    /// Returns the rows of a dialog to announce: all when it opens, later only those that changed.
    /// A question may have rows in common with the one before it.
    pub(crate) fn dialog(
        &mut self,
        view: &DialogView,
        question: Option<QuestionId>,
        width: usize,
    ) -> Vec<Line> {
        if self.question != question {
            self.rows.clear();
            self.question = question;
        }
        // The row being typed in is the prompt.
        let typed = view.cursor.map(|(_, row)| row);
        let texts: Vec<String> = view.rows.iter().map(Line::text).collect();
        let mut rows = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let is_rule = text.chars().all(|char| char == '─' || char == ' ');
            if Some(index) == typed || is_rule || self.rows.contains(text) {
                continue;
            }
            // A deselected choice is not announced.
            let was_selected = |rest: &str| self.rows.contains(&format!("{POINTER}{rest}"));
            if text.strip_prefix(NO_POINTER).is_some_and(was_selected) {
                continue;
            }
            let text = describe_marker(text, index == 0);
            rows.extend(wrap(&Line::raw(text), width, &[Span::raw(NO_POINTER)]));
        }
        self.rows = texts;
        rows
    }

    /// Records that no dialog is open.
    pub(crate) fn record_no_dialog(&mut self) {
        self.rows.clear();
        self.question = None;
    }

    /// Announces what the footer shows, once the session is open.
    pub(crate) fn announce_session(&mut self, status: &StatusLineData) -> Vec<Line> {
        if std::mem::replace(&mut self.is_open, true) {
            return Vec::new();
        }
        let mode = mode_name(status.mode);
        let mut text = format!("Parallax. Model: {}. Approval mode: {mode}.", status.model);
        if !status.directory.is_empty() {
            text.push_str(&format!(" Directory: {}.", status.directory));
        }
        if !status.trusted {
            text.push_str(" The directory is not trusted.");
        }
        vec![Line::raw(text)]
    }

    /// Announces a missing sandbox, once its state is known.
    pub(crate) fn sandbox(&mut self, status: &StatusLineData) -> Option<Line> {
        let is_known = self.is_open && !status.sandbox.is_empty();
        if !is_known || std::mem::replace(&mut self.knows_sandbox, true) || status.confined {
            return None;
        }
        Some(Line::raw("Commands run without a sandbox."))
    }

    /// Announces a request that is retried. `until`: when the next attempt begins, in milliseconds
    /// of the clock.
    pub(crate) fn retry(&mut self, until: Option<u64>, now_ms: u64) -> Option<Line> {
        if self.retry == until {
            return None;
        }
        self.retry = until;
        let seconds = until?.saturating_sub(now_ms).div_ceil(1000);
        Some(Line::raw(format!("The request failed; retrying in {seconds} seconds.")))
    }

    /// Announces another approval mode.
    pub(crate) fn mode(&mut self, mode: &'static str) -> Option<Line> {
        let before = self.mode.replace(mode);
        let is_new = before.is_some_and(|before| before != mode);
        is_new.then(|| Line::raw(format!("Approval mode: {mode}")))
    }

    /// Announces another hint.
    pub(crate) fn hint(&mut self, hint: Option<&str>) -> Option<Line> {
        if self.hint.as_deref() == hint {
            return None;
        }
        self.hint = hint.map(str::to_owned);
        hint.map(|hint| Line::raw(hint.to_owned()))
    }

    /// Announces messages that wait.
    pub(crate) fn announce_waiting(&mut self, messages: Vec<String>) -> Vec<Line> {
        let before = std::mem::replace(&mut self.queued_messages, messages);
        let new = self.queued_messages.iter().filter(|message| !before.contains(message));
        new.map(|message| Line::raw(message.clone())).collect()
    }

    /// Announces that a compaction begins or ends. The transcript announces turns.
    pub(crate) fn compaction(&mut self, is_running: bool) -> Option<Line> {
        if std::mem::replace(&mut self.is_compacting, is_running) == is_running {
            return None;
        }
        Some(Line::raw(match is_running {
            true => "Compacting the history (esc to stop).",
            false => "Done.",
        }))
    }

    /// Whether the list of keys was opened just now.
    pub(crate) fn shortcuts(&mut self, are_shown: bool) -> bool {
        !std::mem::replace(&mut self.has_shortcuts, are_shown) && are_shown
    }

    /// Returns the completions to announce: those that were not listed before.
    pub(crate) fn completions(&mut self, rows: Vec<String>, width: usize) -> Vec<Line> {
        let before = std::mem::replace(&mut self.completions, rows);
        // A deselected candidate is not announced.
        let is_known =
            |row: &&String| before.contains(row) || before.contains(&format!("selected: {row}"));
        let new = self.completions.iter().filter(|row| !is_known(row));
        new.flat_map(|row| wrap(&Line::raw(row.clone()), width, &[Span::raw("  ")])).collect()
    }
}

/// Returns a row with a word in place of a marker at its start. Only the title of a request has the
/// marker of requests.
fn describe_marker(text: &str, is_title: bool) -> String {
    let asks = is_title.then_some((ASKS, "asks:"));
    let words = [(POINTER.trim_end(), "selected:"), (SEARCH.trim_end(), "search:")];
    for (marker, word) in words.into_iter().chain(asks) {
        if let Some(rest) = text.strip_prefix(marker).and_then(|rest| rest.strip_prefix(' ')) {
            return format!("{word} {rest}");
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use parallax_protocol::ids::ApprovalId;

    use super::*;

    #[test]
    fn dialog_is_announced_in_full_and_then_by_its_changes() {
        let mut reader = ScreenReader::default();
        let view = |rows: &[&'static str]| DialogView {
            rows: rows.iter().map(|row| Line::raw(*row)).collect(),
            cursor: None,
        };
        assert_eq!(reader.dialog(&view(&["Title", "❯ a", "  b", "───"]), None, 80).len(), 3);
        let rows = reader.dialog(&view(&["Title", "  a", "❯ b", "  c"]), None, 80);
        assert_eq!(rows.iter().map(Line::text).collect::<Vec<_>>(), ["selected: b", "  c"]);
        reader.record_no_dialog();
        let rows = reader.dialog(&view(&["? Title", "? why"]), None, 80);
        assert_eq!(rows.iter().map(Line::text).collect::<Vec<_>>(), ["asks: Title", "? why"]);
    }

    #[test]
    fn next_question_is_announced_in_full() {
        let mut reader = ScreenReader::default();
        let view = |rows: &[&'static str]| DialogView {
            rows: rows.iter().map(|row| Line::raw(*row)).collect(),
            cursor: None,
        };
        let mut read = |rows: &[&'static str], id: &str, page| {
            let question = QuestionId { request: ApprovalId::new(id), page };
            let rows = reader.dialog(&view(rows), Some(question), 80);
            rows.iter().map(Line::text).collect::<Vec<_>>()
        };
        assert_eq!(read(&["? Allow?", "❯ 1. Yes"], "a", 0), ["asks: Allow?", "selected: 1. Yes"]);
        // Only the number of requests changed.
        assert_eq!(read(&["? Allow?  1 of 2", "❯ 1. Yes"], "a", 0), ["asks: Allow?  1 of 2"]);
        assert_eq!(read(&["? Allow?", "❯ 1. Yes"], "b", 0), ["asks: Allow?", "selected: 1. Yes"]);
        assert_eq!(read(&["? Allow?", "❯ 1. Yes"], "b", 1), ["asks: Allow?", "selected: 1. Yes"]);
    }

    #[test]
    fn compaction_is_announced_when_it_begins_and_ends() {
        let mut reader = ScreenReader::default();
        assert!(reader.compaction(false).is_none());
        assert!(reader.compaction(true).is_some() && reader.compaction(true).is_none());
        assert_eq!(reader.compaction(false).map(|row| row.text()).as_deref(), Some("Done."));
    }
}
