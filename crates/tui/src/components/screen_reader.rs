//! Screen reader output: dialogs and lists as lines, each announced once.

use parallax_screen::Line;

use crate::dialog::DialogView;
use crate::footer::{Facts, mode_name};
use crate::tokens::SEARCH;

/// What was already announced.
#[derive(Debug, Default)]
pub(crate) struct ScreenReader {
    /// The rows of the dialog.
    rows: Vec<String>,
    /// The completion list.
    completions: Vec<String>,
    has_shortcuts: bool,
    mode: Option<&'static str>,
    /// Whether the state of the session was announced.
    is_open: bool,
    /// The retry that was announced.
    retry: Option<u64>,
    hint: Option<String>,
    is_working: bool,
}

impl ScreenReader {
    /// Returns the rows of a dialog to announce: all when it opens, later only those that changed.
    pub(crate) fn dialog(&mut self, view: &DialogView) -> Vec<Line> {
        // The row being typed in is the prompt.
        let typed = view.cursor.map(|(_, row)| row);
        let texts: Vec<String> = view.rows.iter().map(Line::text).collect();
        let is_new = |at: usize, text: &String| {
            Some(at) != typed && !text.trim().is_empty() && !self.rows.contains(text)
        };
        let opened = !self.rows.iter().any(|row| texts.contains(row));
        let mut rows = Vec::new();
        for (at, (text, row)) in texts.iter().zip(&view.rows).enumerate() {
            // A deselected choice is not announced.
            if is_new(at, text) && (opened || !text.starts_with("  ")) {
                rows.push(in_words(row));
            }
        }
        self.rows = texts;
        rows
    }

    /// Records that no dialog is open.
    pub(crate) fn no_dialog(&mut self) {
        self.rows.clear();
    }

    /// Announces what the footer shows, once the session is open.
    pub(crate) fn opened(&mut self, facts: &Facts) -> Vec<Line> {
        if std::mem::replace(&mut self.is_open, true) {
            return Vec::new();
        }
        let mode = mode_name(facts.mode);
        let mut text = format!("Parallax. Model: {}. Approval mode: {mode}.", facts.model);
        if !facts.directory.is_empty() {
            text.push_str(&format!(" Directory: {}.", facts.directory));
        }
        if !facts.confined {
            text.push_str(" Commands run without a sandbox.");
        }
        if !facts.trusted {
            text.push_str(" The directory is not trusted.");
        }
        vec![Line::raw(text)]
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

    /// Announces that work begins or ends. `facts` are the words about its end.
    pub(crate) fn work(
        &mut self,
        is_working: bool,
        facts: impl FnOnce() -> String,
    ) -> Option<Line> {
        if std::mem::replace(&mut self.is_working, is_working) == is_working {
            return None;
        }
        let facts = facts();
        Some(match (is_working, facts.as_str()) {
            (true, _) => Line::raw("Working (esc to stop)."),
            (false, "") => Line::raw("Done."),
            (false, facts) => Line::raw(format!("Done. ({facts})")),
        })
    }

    /// Whether the list of keys was opened just now.
    pub(crate) fn shortcuts(&mut self, are_shown: bool) -> bool {
        !std::mem::replace(&mut self.has_shortcuts, are_shown) && are_shown
    }

    /// Returns the completions to announce: those that were not listed before.
    pub(crate) fn completions(&mut self, rows: &[Line]) -> Vec<Line> {
        let texts: Vec<String> = rows.iter().map(Line::text).collect();
        if texts == self.completions {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.completions, texts);
        let new = rows.iter().zip(&self.completions).filter(|(_, text)| !before.contains(text));
        new.map(|(row, _)| row.clone()).collect()
    }
}

/// Returns a row with words in place of a marker at its start.
fn in_words(row: &Line) -> Line {
    let text = row.text();
    for (marker, word) in [("? ", "asks: "), ("❯ ", "selected: "), (SEARCH, "search: ")] {
        if let Some(rest) = text.strip_prefix(marker) {
            return Line::raw(format!("{word}{rest}"));
        }
    }
    row.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialog_is_announced_whole_and_then_by_its_changes() {
        let mut reader = ScreenReader::default();
        let view = |rows: &[&'static str]| DialogView {
            rows: rows.iter().map(|row| Line::raw(*row)).collect(),
            cursor: None,
        };
        assert_eq!(reader.dialog(&view(&["Title", "❯ a", "  b"])).len(), 3);
        let rows = reader.dialog(&view(&["Title", "  a", "❯ b"]));
        assert_eq!(rows.iter().map(Line::text).collect::<Vec<_>>(), ["selected: b"]);
        reader.no_dialog();
        assert_eq!(reader.dialog(&view(&["Title"])).len(), 1);
    }

    #[test]
    fn end_of_work_is_announced_with_its_facts() {
        let mut reader = ScreenReader::default();
        assert!(reader.work(false, String::new).is_none());
        assert!(reader.work(true, String::new).is_some());
        let done = reader.work(false, || "12s".to_owned()).map(|row| row.text());
        assert_eq!(done.as_deref(), Some("Done. (12s)"));
    }
}
