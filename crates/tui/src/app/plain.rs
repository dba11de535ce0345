//! Screen reader output: dialogs and lists as lines, each announced once.

use parallax_screen::Line;

use super::App;
use super::view::Frame;

/// Maximum number of rows of a dialog.
const MOST_ROWS: usize = 200;
/// Maximum number of completions announced.
const COMPLETIONS: usize = 8;

impl App {
    /// Returns the new rows and the prompt. All rows of a dialog are announced when it opens, later
    /// only those that changed.
    pub(super) fn plain_frame(&mut self, mut finished: Vec<Line>, width: usize) -> Frame {
        self.announce(&mut finished);
        let view = self.dialogs.view(width, MOST_ROWS, &self.theme, self.clock.now_ms());
        if let Some(view) = view {
            finished.extend(self.screen_reader.dialog(&view));
            let live = if view.cursor.is_some() { view.rows } else { Vec::new() };
            return Frame { finished, live, cursor: view.cursor, over: false };
        }
        self.screen_reader.no_dialog();
        // Load descriptions first, so that nothing is read twice.
        self.completion.tell_all();
        let completions = match self.completion.is_open() {
            true => self.completion.rows(width, COMPLETIONS, &self.theme),
            false => Vec::new(),
        };
        finished.extend(self.screen_reader.completions(&completions));
        // During work, an empty composer would be read out after each output.
        let is_empty = self.composer.is_empty() && !self.composer.is_searching();
        if is_empty && (self.is_busy() || self.shell.is_running()) {
            return Frame { finished, ..Frame::default() };
        }
        let view = self.composer.render(width, 50, &self.theme);
        Frame { finished, live: view.rows, cursor: Some(view.cursor), over: false }
    }

    /// Announces changes of the mode, hints, and work, one line each.
    fn announce(&mut self, finished: &mut Vec<Line>) {
        let mode = crate::footer::mode(self.facts.mode, &self.theme).0;
        finished.extend(self.screen_reader.mode(mode));
        finished.extend(self.screen_reader.hint(self.hints.text()));
        let is_busy = self.is_busy();
        finished.extend(self.screen_reader.work(is_busy, || self.turn.take_end_facts()));
        let around = self.around_shell();
        finished.extend(self.shell.announce(&around));
        finished.extend(self.transcript.take_heard(&self.theme));
        if self.screen_reader.shortcuts(self.hints.shows_shortcuts()) {
            finished.extend(self.shortcuts(59));
        }
    }
}
