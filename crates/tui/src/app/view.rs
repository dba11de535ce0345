//! Renders the screen as rows: new rows for the scrollback, and the live region from the unfinished
//! items down to the footer.

use parallax_protocol::policy::ApprovalMode;
use parallax_screen::{Line, Span, text_width};
use parallax_sdk::settings::FooterItem;

use super::App;
use super::frame::{Frame, FullWindowView, Layout};
use crate::app::pager;
use crate::app::plain;
use crate::components::shell_view::focus_row;
use crate::highlight;
use crate::keymap::{KeyCommand, KeymapContext};
use crate::layout::{truncate_text, truncate_with_mark};
use crate::sanitize;
use crate::status;
use crate::status_line;
use crate::tokens::{ASKS, LOW};
use crate::transcript::{Anchor, display_name, title_in_words, without_verb};

/// The composer gets at most one in this many rows of the window.
const COMPOSER_SHARE: usize = 3;
/// Minimum rows of the window for an empty row above the composer, and of those available to a
/// dialog for one below it.
const MIN_HEIGHT_FOR_PADDING: usize = 18;
/// Minimum rows that a dialog leaves for an empty row above it.
const AIRY_DIALOG: usize = 4;
/// Minimum rows of the window for labels above the items of the status line.
const LABELED: usize = 24;

/// The rows below the transcript.
#[derive(Debug, Default)]
struct LowerRows {
    rows: Vec<Line>,
    /// Column and row of the cursor.
    cursor: Option<(usize, usize)>,
    /// The first row and the number of rows of the composer's text, unless it is hidden.
    composer: Option<(usize, usize)>,
}

impl App {
    /// Returns the next frame. Each final row is returned once.
    pub(crate) fn frame(&mut self, layout: Layout) -> Frame {
        if self.is_paging() {
            // The content below is hidden.
            self.tick();
            let (columns, rows) = (self.window.columns(), self.window.rows().max(1));
            return pager::frame(self, columns.saturating_sub(1).max(1), rows);
        }
        self.tick();
        let context = self.dialog_context();
        self.dialogs.record_drawn(&context);
        self.tick();
        self.update_composer_context();
        let (columns, rows) = (self.window.columns().max(1), self.window.rows().max(1));
        // The last column stays empty: some terminals wrap when it is painted.
        let width = columns.saturating_sub(1).max(1);
        let covers = layout == Layout::Inline && self.dialogs.covers();
        // Without tints, a change shows what matters even if its syntax colors are missing.
        let is_tinted = layout == Layout::Inline && self.theme.added.bg.is_some();
        self.transcript.wait_for_grammars(is_tinted && highlight::is_pending());
        let finished = match layout {
            Layout::Full => Vec::new(),
            // They stay in the terminal as they are, and return when the dialog is closed.
            _ if covers => Vec::new(),
            _ => self.transcript.take_finished(width, &self.theme),
        };
        if layout == Layout::Plain {
            return plain::frame(self, finished, width);
        }
        let LowerRows { rows: mut bottom, cursor, composer } = self.lower_rows(width, rows);
        let cut = bottom.len().saturating_sub(rows);
        bottom.drain(..cut);
        let room = rows - bottom.len();
        match layout {
            Layout::Full => {
                let composer = composer
                    .and_then(|(first, count)| Some(((first + room).checked_sub(cut)?, count)));
                self.pane.record_layout(room, composer);
            }
            _ => self.pane.record_layout(0, None),
        }
        let is_asking = self.dialogs.has_open_dialog();
        // The dialog shows the call, or the row about the waiting request does.
        let is_writing = self.dialogs.is_writing(self.clock.now_ms()) && !self.dialogs.is_open();
        self.transcript.hides_pending_approval = self.is_answering() || is_writing;
        let top = match layout {
            // One or two rows are useless next to a dialog in a tiny window.
            Layout::Inline if is_asking && rows < LOW && room < 3 => Vec::new(),
            _ if covers => {
                let now = self.clock.now_ms();
                self.transcript.page(Anchor::Bottom, width, room, &self.theme, now).rows
            }
            Layout::Full => {
                let now = self.clock.now_ms();
                self.pane.rows(&mut self.transcript, (width, room), &self.theme, now)
            }
            _ => self.transcript.live(width, room, &self.theme, self.clock.now_ms()),
        };
        let mut live = top;
        if layout == Layout::Inline && !covers {
            let asks = self.is_answering();
            let rows = live.len() + bottom.len();
            let gap = self.window.gap_above_composer(asks, rows, finished.len());
            live.extend(std::iter::repeat_n(Line::EMPTY, gap));
        }
        let at = live.len();
        live.append(&mut bottom);
        let cursor = cursor.and_then(|(column, row)| {
            let row = (row + at).checked_sub(cut)?;
            Some((column.min(columns - 1), row))
        });
        Frame { finished, live, cursor, cover: covers.then_some(FullWindowView::Dialog) }
    }

    /// Whether an approval dialog is visible.
    fn is_answering(&self) -> bool {
        !self.dialogs.is_open()
            && self.dialogs.has_approvals()
            && !self.dialogs.is_writing(self.clock.now_ms())
    }

    /// Names the request that waits for a pause in typing.
    fn waiting_request_text(&self) -> String {
        const WAITS: &str = "A request waits until you stop typing";
        let Some(question) = self.dialogs.approval() else { return format!("{ASKS} {WAITS}.") };
        let (name, title) = (&question.request.name, &question.request.title);
        let call = match title_in_words(title) {
            words if words != *title => words,
            _ => format!("{} {}", display_name(name), without_verb(name, title)),
        };
        format!("{ASKS} {WAITS}: {}", sanitize::one_row_of_lines(&call))
    }

    /// Returns everything below the transcript.
    fn lower_rows(&mut self, width: usize, height: usize) -> LowerRows {
        let low = height < LOW;
        let mut rows = Vec::new();
        let is_asking = self.dialogs.has_open_dialog();
        if !(is_asking && self.settings.collapse_for_questions) {
            let todos_key = self.keymap.hint_key(KeyCommand::ShowFullTodos);
            rows.extend(self.todos.tray(width, height, &todos_key, &self.theme));
        }
        // Pending messages stay visible, even above a dialog.
        if !(is_asking && low) {
            let queued = self.prompt_queue.rows(width, &self.theme);
            if !rows.is_empty() && !queued.is_empty() && height >= MIN_HEIGHT_FOR_PADDING {
                rows.push(Line::EMPTY);
            }
            rows.extend(queued);
        }
        if self.dialogs.is_writing(self.clock.now_ms()) && !self.dialogs.is_open() {
            let text = self.waiting_request_text();
            rows.push(Line::styled(truncate_text(&text, width), self.theme.warning.bold()));
        }
        if self.dialogs.is_blocked_by_draft(&self.dialog_context()) {
            let text = "Your text is kept. Press ↑, ↓, y, or enter to answer the request first.";
            rows.push(Line::styled(truncate_text(text, width), self.theme.warning));
        }
        if self.window.is_frozen() {
            let text = " Screen frozen so that you can select text. Any key resumes. ";
            rows.push(Line::styled(truncate_text(text, width), self.theme.warning.bold()));
        }
        if let Some(hint) = self.hints.text() {
            rows.push(Line::styled(truncate_text(hint, width), self.theme.warning));
        }
        if !is_asking {
            rows.extend(self.shell.silence_hint_row(&self.shell_context(), width, &self.theme));
        }
        let alone = self.shell.work();
        // An approval dialog itself shows that the agent waits.
        let is_hidden_request = self.dialogs.is_writing(self.clock.now_ms());
        let hidden = (is_asking && low) || self.is_answering() || is_hidden_request;
        if let Some(working) = self.turn.activity().or(alone.as_ref()).filter(|_| !hidden) {
            if !low {
                rows.push(Line::EMPTY);
            }
            let options = status::StatusOptions {
                spinner: self.settings.spinner,
                phrases: self.settings.loading_phrases,
                own_phrases: &self.settings.witty_phrases,
                stops: !self.shell.has_focus(),
                keys: &self.working_keys(),
            };
            rows.push(status::row(working, options, self.clock.now_ms(), width, &self.theme));
        }
        if self.debug.is_open() {
            let key = self.keymap.hint_key(KeyCommand::ShowErrorDetails);
            rows.extend(self.debug.rows(width, (height / 3).max(3), &key, &self.theme));
        }
        let shows_mode = |items: &Vec<FooterItem>| items.contains(&FooterItem::Mode);
        let footer = self.settings.footer.as_ref();
        // The status line shows the mode, unless the user removed it.
        if self.status_data.mode == ApprovalMode::Yolo && !footer.is_some_and(shows_mode) {
            let key = self.keymap.hint_key(KeyCommand::CycleApprovalMode);
            let text = format!("YOLO mode: destructive actions still ask · {key} to exit");
            rows.push(Line::styled(truncate_text(&text, width), self.theme.error.bold()));
        }
        // Keeps the text apart from the answer above.
        let starts_empty = rows.first().map(|row| row.spans.is_empty());
        let is_airy = height >= MIN_HEIGHT_FOR_PADDING && !is_asking;
        if (!low && starts_empty == Some(false)) || (is_airy && starts_empty.is_none()) {
            rows.insert(0, Line::EMPTY);
        }
        self.status_data.vim = self.vim_state();
        self.status_data.mode_key = self.keymap.hint_key(KeyCommand::CycleApprovalMode);
        self.status_data.shows_all = self.settings.footer_is_chosen;
        // The input line stays visible regardless of what is below it.
        let writing = if low { 1 } else { 3 };
        let foot = self.render_footer(width, height.saturating_sub(rows.len() + writing), low);
        let room = height.saturating_sub(rows.len() + foot.len()).max(1);
        let middle = self.dialog_or_composer_rows(width, height, room, low);
        let spare = height.saturating_sub(rows.len() + middle.rows.len() + foot.len());
        if is_asking && rows.is_empty() && spare >= AIRY_DIALOG {
            rows.push(Line::EMPTY);
        }
        let at = rows.len();
        rows.extend(middle.rows);
        rows.extend(foot);
        LowerRows {
            rows,
            cursor: middle.cursor.map(|(column, row)| (column, row + at)),
            composer: middle.composer.map(|(first, count)| (first + at, count)),
        }
    }

    /// Returns the dialog or the composer.
    fn dialog_or_composer_rows(
        &mut self,
        width: usize,
        height: usize,
        room: usize,
        low: bool,
    ) -> LowerRows {
        let rule = || Line::styled("─".repeat(width), self.theme.border);
        // The rule takes one row if it is shown.
        let inside = room.saturating_sub(usize::from(!low)).max(1);
        let view = self.dialogs.view(width, inside, &self.theme, self.clock.now_ms());
        if let Some(mut view) = view {
            let mut rows = if low { Vec::new() } else { vec![rule()] };
            let at = rows.len();
            rows.append(&mut view.rows);
            let cursor = view.cursor.map(|(column, row)| (column, row + at));
            return LowerRows { rows, cursor, composer: None };
        }
        let max_height = (height / COMPOSER_SHARE).max(1).min(room.saturating_sub(2).max(1));
        let mode = self.status_data.mode;
        let rule_style = match mode {
            _ if self.shell.has_focus() => self.theme.accent,
            ApprovalMode::Default => self.theme.border,
            mode => status_line::mode(mode, &self.theme).1,
        };
        let rule = Line::styled("─".repeat(width), rule_style);
        if self.shell.has_focus() {
            let row = focus_row(&self.keymap, width, &self.theme);
            let rows = if low { vec![row] } else { vec![rule.clone(), row, rule] };
            return LowerRows { rows, ..LowerRows::default() };
        }
        let view = self.composer.render(width, max_height, &self.theme);
        let mut rows = if low { Vec::new() } else { vec![rule.clone()] };
        let at = rows.len();
        let composer = Some((at, view.rows.len()));
        rows.extend(view.rows);
        rows.extend(self.composer.search_rows(width, &self.theme));
        if !low {
            rows.push(rule);
        }
        if self.completion.is_open() {
            let visible_rows = room.saturating_sub(rows.len()).clamp(1, 10);
            rows.extend(self.completion.rows(width, visible_rows, &self.theme));
        }
        let (column, row) = view.cursor;
        LowerRows { rows, cursor: Some((column, row + at)), composer }
    }

    /// Returns the vi mode and the pending command.
    fn vim_state(&self) -> String {
        let Some(mode) = self.composer.vim_mode() else { return String::new() };
        let name = mode.label();
        let pending = self.composer.vim_pending();
        if pending.is_empty() { format!("[{name}]") } else { format!("[{name}] {pending}") }
    }

    /// Returns the footer, or the shortcuts in its place.
    fn render_footer(&self, width: usize, room: usize, low: bool) -> Vec<Line> {
        if self.hints.shows_shortcuts() {
            let mut rows = self.shortcuts(width);
            if rows.len() > room {
                rows.truncate(room.saturating_sub(1));
                rows.push(Line::styled(
                    truncate_text("/help shows all keys", width),
                    self.theme.secondary,
                ));
            }
            return rows;
        }
        if self.completion.is_open() && !self.dialogs.has_open_dialog() {
            return Vec::new();
        }
        if (self.dialogs.has_open_dialog()) && low {
            return Vec::new();
        }
        let mut rows = match &self.settings.footer {
            Some(items) => {
                let labels = self.settings.footer_labels && self.window.rows() >= LABELED;
                status_line::rows(&self.status_data, items, labels, width, &self.theme)
            }
            None => Vec::new(),
        };
        if !low && self.settings.status_line.is_some() {
            rows.extend(self.status_line_command.row(width, &self.theme));
        }
        // An empty row below a dialog, if there is space.
        let has_dialog = self.dialogs.is_open() || self.is_answering();
        if room > MIN_HEIGHT_FOR_PADDING && has_dialog && !rows.is_empty() {
            rows.insert(0, Line::EMPTY);
        }
        rows
    }

    /// Returns the list of keys shown after `?`.
    pub(super) fn shortcuts(&self, width: usize) -> Vec<Line> {
        let keys = [
            (KeyCommand::Submit, "send; steer during a turn"),
            (KeyCommand::QueueMessage, "queue for after the turn"),
            (KeyCommand::Cancel, "stop; press twice to clear or rewind"),
            (KeyCommand::CycleApprovalMode, "approval mode"),
            (KeyCommand::SearchStart, "search the history"),
            (KeyCommand::OpenExternalEditor, "edit in your editor"),
            (KeyCommand::ShowMoreLines, "show more"),
            (KeyCommand::ShowTranscript, "the whole transcript"),
            (KeyCommand::BackgroundToggle, "move to the background"),
            (KeyCommand::ShowErrorDetails, "log and requests"),
        ];
        let key =
            |command| self.keymap.keys_in(command, KeymapContext::COMPOSER).into_iter().next();
        let mut words: Vec<(String, &str)> = keys
            .iter()
            .filter_map(|(command, text)| key(*command).map(|key| (key, *text)))
            .collect();
        words.extend(self.newline_key().map(|key| (key, "new line")));
        words.extend([
            ("@".to_owned(), "file"),
            ("/".to_owned(), "command"),
            ("!".to_owned(), "your shell"),
        ]);
        // The lines are below each other, except where they are read aloud.
        let widest = words.iter().map(|(key, _)| text_width(key)).max().unwrap_or(0);
        let widest = if self.settings.screen_reader { 0 } else { widest };
        let first = words.iter().step_by(2).map(|(_, text)| widest + 2 + text_width(text)).max();
        let column = (width / 2).max(20).max(first.unwrap_or(0) + 2);
        let mut rows = Vec::new();
        for pair in words.chunks(if width < 60 { 1 } else { 2 }) {
            let mut line = Line::EMPTY;
            for (at, (key, text)) in pair.iter().enumerate() {
                if at > 0 {
                    let pad = column.saturating_sub(line.width()).max(1);
                    line.push(Span::raw(" ".repeat(pad)));
                }
                let pad = widest.saturating_sub(text_width(key)) + 2;
                line.push(Span::styled(key.to_lowercase(), self.theme.accent));
                line.push(Span::styled(format!("{}{text}", " ".repeat(pad)), self.theme.secondary));
            }
            rows.push(truncate_with_mark(line, width));
        }
        rows
    }

    /// Returns the key for a new line, preferring one that every terminal distinguishes from Enter.
    /// `None` if no key is bound.
    fn newline_key(&self) -> Option<String> {
        let keys = self.keymap.keys_in(KeyCommand::Newline, KeymapContext::COMPOSER);
        let sure = keys.iter().find(|key| !key.contains("Enter")).or_else(|| keys.first());
        sure.cloned()
    }

    /// Returns hints for keys while the agent works: those of the running command after a moment,
    /// and those for sending text.
    fn working_keys(&self) -> Vec<String> {
        if self.shell.has_focus() {
            return Vec::new();
        }
        let own = self.shell.keys(&self.shell_context());
        let mut keys = Vec::new();
        let key = |command| self.keymap.hint_key(command);
        let steers = [(KeyCommand::Submit, "to steer"), (KeyCommand::QueueMessage, "to queue")];
        for (command, what) in steers.into_iter().filter(|_| self.turn.is_busy()) {
            let key = key(command);
            // Tab is for the command while the composer is empty.
            let is_taken = own.iter().any(|own| own.split(' ').next() == Some(key.as_str()));
            if !key.is_empty() && !is_taken {
                keys.push(format!("{key} {what}"));
            }
        }
        keys.extend(own);
        keys
    }
}
