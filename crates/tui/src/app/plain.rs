//! Screen reader output: dialogs and lists as lines, each announced once.

use parallax_screen::Line;

use super::App;
use super::view::Frame;
use crate::dialog::DialogView;

/// Maximum number of rows of a dialog.
const MOST_ROWS: usize = 200;
/// Maximum number of completions announced.
const COMPLETIONS: usize = 8;

/// What was already announced.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// The rows of the dialog.
    rows: Vec<String>,
    /// The completion list.
    completions: Vec<String>,
    shortcuts: bool,
    mode: Option<&'static str>,
    toast: Option<String>,
    working: bool,
}

impl App {
    /// Returns the new rows and the prompt. All rows of a dialog are announced when it opens, later
    /// only those that changed.
    pub(super) fn plain_frame(&mut self, mut finished: Vec<Line>, width: usize) -> Frame {
        self.tell_state(&mut finished);
        let view = self.dialogs.view(width, MOST_ROWS, &self.theme, self.clock.now_ms());
        if let Some(DialogView { rows, cursor }) = view {
            // The row being typed in is the prompt.
            let typed = cursor.map(|(_, row)| row);
            let texts: Vec<String> = rows.iter().map(Line::text).collect();
            let is_new = |at: usize, text: &String| {
                Some(at) != typed && !text.trim().is_empty() && !self.announced.rows.contains(text)
            };
            let opened = !self.announced.rows.iter().any(|row| texts.contains(row));
            for (at, (text, row)) in texts.iter().zip(&rows).enumerate() {
                // A deselected choice is not announced.
                if is_new(at, text) && (opened || !text.starts_with("  ")) {
                    finished.push(row.clone());
                }
            }
            self.announced.rows = texts;
            let live = if cursor.is_some() { rows } else { Vec::new() };
            return Frame { finished, live, cursor, over: false };
        }
        self.announced.rows.clear();
        self.tell_completions(&mut finished, width);
        // During work, an empty composer would be read out after each output.
        let is_empty = self.composer.is_empty() && !self.composer.is_searching();
        if is_empty && (self.is_busy() || self.shell.is_running()) {
            return Frame { finished, ..Frame::default() };
        }
        let view = self.composer.render(width, 50, &self.theme);
        Frame { finished, live: view.rows, cursor: Some(view.cursor), over: false }
    }

    /// Announces changes of the mode, hints, and work, one line each.
    fn tell_state(&mut self, finished: &mut Vec<Line>) {
        let mode = crate::footer::mode(self.facts.mode, &self.theme).0;
        if self.announced.mode.replace(mode).is_some_and(|before| before != mode) {
            finished.push(Line::raw(format!("Approval mode: {mode}")));
        }
        let toast = self.hints.text().map(str::to_owned);
        if toast != self.announced.toast {
            finished.extend(toast.clone().map(Line::raw));
            self.announced.toast = toast;
        }
        let working = self.working.is_some();
        if working != self.announced.working {
            self.announced.working = working;
            let facts = std::mem::take(&mut self.end_facts);
            finished.push(match (working, facts.as_str()) {
                (true, _) => Line::raw("Working (Esc to stop)."),
                (false, "") => Line::raw("Done."),
                (false, facts) => Line::raw(format!("Done. ({facts})")),
            });
        }
        let around = self.around_shell();
        finished.extend(self.shell.announce(&around));
        finished.extend(self.transcript.take_heard(&self.theme));
        let shortcuts = self.hints.shows_shortcuts();
        if shortcuts != self.announced.shortcuts {
            self.announced.shortcuts = shortcuts;
            if shortcuts {
                finished.extend(self.shortcuts(59));
            }
        }
    }

    /// Announces the first completions if they changed.
    fn tell_completions(&mut self, finished: &mut Vec<Line>, width: usize) {
        // Load descriptions first, so that nothing is read twice.
        self.completion.tell_all();
        let rows = match self.completion.is_open() {
            true => self.completion.rows(width, COMPLETIONS, &self.theme),
            false => Vec::new(),
        };
        let texts: Vec<String> = rows.iter().map(Line::text).collect();
        if texts != self.announced.completions {
            let before = std::mem::replace(&mut self.announced.completions, texts);
            let texts = &self.announced.completions;
            let new = rows.iter().zip(texts).filter(|(_, text)| !before.contains(text));
            finished.extend(new.map(|(row, _)| row.clone()));
        }
    }
}
