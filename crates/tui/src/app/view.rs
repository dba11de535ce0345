//! The screen as rows: what is new for the scrollback, and the live region
//! from the unfinished items down to the footer.

use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{Todo, TodoStatus};
use parallax_screen::{Line, Span, text_width, truncate, wrap};

use super::App;
use crate::clean::one_row;
use crate::footer;
use crate::keymap::{Context, KeyCommand};
use crate::status;
use crate::transcript::Anchor;

/// Messages that wait and are named; of more only the number.
const QUEUED_SHOWN: usize = 3;
/// Rows of the composer at most, as a share of the window.
const COMPOSER_SHARE: usize = 3;
/// In lower windows rules and hints are left out.
pub(super) const LOW: usize = 12;
/// Rows that are left for a dialog, from which one is kept free below it.
const AIRY: usize = 18;
/// Columns of the rules around the input that have the colour of the approval mode:
/// enough to be seen, and few enough that a change of mode costs the terminal little.
const RULE_TELLS: usize = 12;

/// What to draw.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// Rows that are final, for the scrollback, each once.
    pub(crate) finished: Vec<Line>,
    /// The live region.
    pub(crate) live: Vec<Line>,
    /// Column and row in it.
    pub(crate) cursor: Option<(usize, usize)>,
    /// It has the whole window, over the rows that are there.
    pub(crate) over: bool,
}

/// How things are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A live region under the scrollback.
    Inline,
    /// The whole window.
    Full,
    /// Lines only, for a screen reader.
    Plain,
}

impl App {
    /// The next frame. Final rows are given out once.
    pub(crate) fn frame(&mut self, layout: Layout) -> Frame {
        if self.is_paging() {
            // What lies under it is not seen.
            self.tick();
            let (columns, rows) = (usize::from(self.size.0), usize::from(self.size.1).max(1));
            return self.pager_frame(columns.saturating_sub(1).max(1), rows);
        }
        self.note_drawn();
        self.tick();
        self.surround();
        let (columns, rows) = (usize::from(self.size.0).max(1), usize::from(self.size.1).max(1));
        // The last column stays free: some terminals wrap when it is painted.
        let width = columns.saturating_sub(1).max(1);
        let finished = match layout {
            Layout::Full => Vec::new(),
            _ => self.transcript.take_finished(width, &self.theme),
        };
        if layout == Layout::Plain {
            return self.plain_frame(finished, width);
        }
        let (mut bottom, cursor) = self.bottom(width, rows);
        let cut = bottom.len().saturating_sub(rows);
        bottom.drain(..cut);
        let room = rows - bottom.len();
        self.places.transcript = if layout == Layout::Full { room } else { 0 };
        self.places.composer = self.places.composer.and_then(|(first, count)| {
            Some(((first + room).checked_sub(cut)?, count)).filter(|_| layout == Layout::Full)
        });
        let asked = self.overlay.is_some() || !self.questions.is_empty();
        self.transcript.hides_asked = self.is_answering();
        let top = match layout {
            // A row or two of it say nothing beside a question in a tiny window.
            Layout::Inline if asked && rows < LOW && room < 3 => Vec::new(),
            Layout::Full => self.full_transcript(width, room),
            _ => self.transcript.live(width, room, &self.theme, self.now_ms()),
        };
        let at = top.len();
        let mut live = top;
        live.append(&mut bottom);
        let cursor = cursor.and_then(|(column, row)| {
            let row = (row + at).checked_sub(cut)?;
            Some((column.min(columns - 1), row))
        });
        Frame { finished, live, cursor, over: false }
    }

    /// Rows of the transcript up to the scroll position.
    pub(super) fn full_transcript(&mut self, width: usize, room: usize) -> Vec<Line> {
        self.transcript_size = (width, room);
        let now = self.now_ms();
        let page = self.transcript.page(self.anchor, width, room, &self.theme, now);
        self.pager_stands_at(&page);
        self.anchor = if page.at_end { Anchor::Bottom } else { page.anchor };
        let mut rows = page.rows;
        // What is cut at the top says what it is.
        if let (Some(title), Some(first)) = (page.title, rows.first_mut())
            && room > 2
        {
            *first = title;
        }
        // The composer stays at the bottom of the window.
        while rows.len() < room {
            rows.push(Line::EMPTY);
        }
        if !page.at_end || page.position > 0 {
            self.scroll_bar(&mut rows, page.position, page.at_end, width);
        }
        rows
    }

    /// Whether the dialog of an approval request is in sight.
    fn is_answering(&self) -> bool {
        self.overlay.is_none() && !self.questions.is_empty() && !self.is_writing()
    }

    /// Everything below the transcript, with the cursor in it.
    fn bottom(&mut self, width: usize, height: usize) -> (Vec<Line>, Option<(usize, usize)>) {
        let low = height < LOW;
        let mut rows = Vec::new();
        let asked = self.overlay.is_some() || !self.questions.is_empty();
        if !(asked && self.settings.collapse_for_questions) {
            rows.extend(self.tray(width, height));
        }
        // What the user has written stays in sight, above a question too.
        if !(asked && low) {
            rows.extend(self.waiting_rows(width));
        }
        if self.is_writing() && self.overlay.is_none() {
            let text = "? A request waits until you stop typing.";
            rows.push(Line::styled(truncate(text, width).to_owned(), self.theme.warning.bold()));
        }
        if self.text_is_in_the_way() {
            let text = "Your text is kept. Press ↑, ↓, y, or Enter to answer the request first.";
            rows.push(Line::styled(truncate(text, width).to_owned(), self.theme.warning));
        }
        if self.frozen {
            let text = " Screen frozen so that you can select text. Any key resumes. ";
            rows.push(Line::styled(truncate(text, width).to_owned(), self.theme.warning.bold()));
        }
        if let Some(toast) = &self.toast {
            rows.push(Line::styled(truncate(&toast.text, width).to_owned(), self.theme.warning));
        }
        if !asked {
            rows.extend(self.silence_row(width));
        }
        let alone = self.shell_work();
        // A dialog for an approval says itself that the agent waits.
        let hidden = (asked && low) || self.is_answering();
        if let Some(working) = self.working.as_ref().or(alone.as_ref()).filter(|_| !hidden) {
            if !low {
                rows.push(Line::EMPTY);
            }
            let look = status::Look {
                spinner: self.settings.spinner,
                phrases: self.settings.loading_phrases,
                own_phrases: &self.settings.witty_phrases,
                stops: !self.shell_focus,
                keys: &self.working_keys(),
            };
            rows.push(status::row(working, look, self.now_ms(), width, &self.theme));
        }
        if self.debug.is_open() {
            let key = self.keymap.key_of(KeyCommand::ShowErrorDetails);
            rows.extend(self.debug.rows(width, (height / 3).max(3), &key, &self.theme));
        }
        if self.facts.mode == ApprovalMode::Yolo {
            let key = self.keymap.key_of(KeyCommand::CycleApprovalMode);
            let asked = parallax_sdk::asked_in_yolo().join(", ");
            let text =
                format!("YOLO mode: all actions auto-approved, except {asked} · {key} to exit");
            let banner = Line::styled(text, self.theme.error.bold());
            match low {
                true => rows.push(Line::styled(
                    truncate(&format!(" YOLO, except {asked}"), width).to_owned(),
                    self.theme.error.bold(),
                )),
                false => rows.extend(wrap(&banner, width, &[Span::raw(" ")])),
            }
        }
        // Text there is not to be taken for the answer's.
        if !low && rows.first().is_some_and(|row| !row.spans.is_empty()) {
            rows.insert(0, Line::EMPTY);
        }
        self.facts.vim = self.vim_state();
        self.facts.mode_key = self.keymap.key_of(KeyCommand::CycleApprovalMode).to_lowercase();
        self.facts.shows_all = self.settings.footer_is_chosen;
        // The input line stays visible, whatever is shown below it.
        let writing = if low { 1 } else { 3 };
        let foot = self.foot(width, height.saturating_sub(rows.len() + writing), low);
        let room = height.saturating_sub(rows.len() + foot.len()).max(1);
        let (middle, cursor) = self.middle(width, height, room, low);
        let at = rows.len();
        self.places.composer = self.places.composer.map(|(first, count)| (first + at, count));
        rows.extend(middle);
        rows.extend(foot);
        (rows, cursor.map(|(column, row)| (column, row + at)))
    }

    /// The dialog, the question, or the composer.
    fn middle(
        &mut self,
        width: usize,
        height: usize,
        room: usize,
        low: bool,
    ) -> (Vec<Line>, Option<(usize, usize)>) {
        self.places.composer = None;
        let rule = || Line::styled("─".repeat(width), self.theme.border);
        let question = self.questions.front().filter(|_| !self.is_writing());
        // The rule takes a row, where there is one.
        let inside = room.saturating_sub(usize::from(!low)).max(1);
        let view = match (&self.overlay, question) {
            (Some(overlay), _) => Some(overlay.view(width, inside, &self.theme)),
            (None, Some(question)) => {
                let waiting = self.questions.len();
                Some(question.view(width, inside, waiting, &self.theme))
            }
            (None, None) => None,
        };
        if let Some(mut view) = view {
            let mut rows = if low { Vec::new() } else { vec![rule()] };
            let at = rows.len();
            rows.append(&mut view.rows);
            return (rows, view.cursor.map(|(column, row)| (column, row + at)));
        }
        let most = (height / COMPOSER_SHARE).max(1).min(room.saturating_sub(2).max(1));
        let mode = self.facts.mode;
        let rule_style = match mode {
            _ if self.shell_focus => self.theme.accent,
            ApprovalMode::Default => self.theme.border,
            mode => footer::mode(mode, &self.theme).1,
        };
        let (told, rest) = (width.min(RULE_TELLS), width.saturating_sub(RULE_TELLS));
        let rule =
            Line::styled("─".repeat(told), rule_style).and("─".repeat(rest), self.theme.border);
        if self.shell_focus {
            let row = self.focus_row(width);
            return (if low { vec![row] } else { vec![rule.clone(), row, rule] }, None);
        }
        let view = self.composer.render(width, most, &self.theme);
        let mut rows = if low { Vec::new() } else { vec![rule.clone()] };
        let at = rows.len();
        self.places.composer = Some((at, view.rows.len()));
        rows.extend(view.rows);
        rows.extend(self.composer.search_rows(width, &self.theme));
        if !low {
            rows.push(rule);
        }
        if self.completion.is_open() {
            let shown = room.saturating_sub(rows.len()).clamp(1, 10);
            rows.extend(self.completion.rows(width, shown, &self.theme));
        }
        let (column, row) = view.cursor;
        (rows, Some((column, row + at)))
    }

    /// The mode of vi's editing, with what is typed of a command.
    fn vim_state(&self) -> String {
        let Some(mode) = self.composer.vim_mode() else { return String::new() };
        let name = mode.label();
        let pending = self.composer.vim_pending();
        if pending.is_empty() { format!("[{name}]") } else { format!("[{name}] {pending}") }
    }

    /// The footer, or what has its place.
    fn foot(&self, width: usize, room: usize, low: bool) -> Vec<Line> {
        if self.show_shortcuts {
            let mut rows = self.shortcuts(width);
            if rows.len() > room {
                rows.truncate(room.saturating_sub(1));
                rows.push(Line::styled(
                    truncate("/help shows all keys", width).to_owned(),
                    self.theme.secondary,
                ));
            }
            return rows;
        }
        if self.completion.is_open() && self.overlay.is_none() && self.questions.is_empty() {
            return Vec::new();
        }
        if (self.overlay.is_some() || !self.questions.is_empty()) && low {
            return Vec::new();
        }
        let mut rows = match &self.settings.footer {
            Some(items) => {
                footer::rows(&self.facts, items, self.settings.footer_labels, width, &self.theme)
            }
            None => Vec::new(),
        };
        if !low {
            rows.extend(self.own_status_row(width));
        }
        // Air below a dialog, in windows that have the room.
        let has_dialog = self.overlay.is_some() || self.is_answering();
        if room > AIRY && has_dialog && !rows.is_empty() {
            rows.insert(0, Line::EMPTY);
        }
        rows
    }

    /// The keys, after `?`.
    pub(super) fn shortcuts(&self, width: usize) -> Vec<Line> {
        let keys = [
            (KeyCommand::Submit, "send; steer during a turn"),
            (KeyCommand::QueueMessage, "queue for after the turn"),
            (KeyCommand::Cancel, "stop; twice: clear, rewind"),
            (KeyCommand::CycleApprovalMode, "approval mode"),
            (KeyCommand::SearchStart, "search the history"),
            (KeyCommand::OpenExternalEditor, "edit in your editor"),
            (KeyCommand::ShowMoreLines, "show more"),
            (KeyCommand::ShowTranscript, "the whole transcript"),
            (KeyCommand::BackgroundToggle, "move to the background"),
            (KeyCommand::ShowErrorDetails, "log and requests"),
        ];
        let key = |command| self.keymap.keys_in(command, Context::COMPOSER).into_iter().next();
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
        let column = (width / 2).max(20);
        let mut rows = Vec::new();
        for pair in words.chunks(if width < 60 { 1 } else { 2 }) {
            let mut line = Line::EMPTY;
            for (key, text) in pair {
                let cell = format!("{key}  {text}");
                let pad = column.saturating_sub(text_width(&cell)).max(1);
                line.push(Span::styled(key.clone(), self.theme.accent));
                line.push(Span::styled(
                    format!("  {text}{}", " ".repeat(pad)),
                    self.theme.secondary,
                ));
            }
            rows.push(cut(line, width));
        }
        rows
    }

    /// A key for a new line that every terminal tells from Enter, where it has
    /// one; none where all were taken away.
    fn newline_key(&self) -> Option<String> {
        let keys = self.keymap.keys_in(KeyCommand::Newline, Context::COMPOSER);
        let sure = keys.iter().find(|key| !key.contains("Enter")).or_else(|| keys.first());
        sure.cloned()
    }

    /// Messages that wait.
    fn waiting_rows(&self, width: usize) -> Vec<Line> {
        let mut rows = Vec::new();
        let lists = [
            ("Sent:", self.beginning.iter().collect::<Vec<_>>()),
            ("Sent when the session is open:", self.early.iter().collect()),
            ("For this turn (↑ edits):", self.steering.iter().map(|one| &one.text).collect()),
            ("For after it (↑ edits):", self.queued.iter().collect()),
        ];
        for (title, texts) in lists {
            if texts.is_empty() {
                continue;
            }
            rows.push(Line::styled(title, self.theme.secondary));
            for text in texts.iter().take(QUEUED_SHOWN) {
                let first = text.lines().next().unwrap_or_default().replace('\t', " ");
                let line = format!("  › {first}");
                rows.push(Line::styled(truncate(&line, width).to_owned(), self.theme.user));
            }
            if texts.len() > QUEUED_SHOWN {
                let more = format!("  (+{} more)", texts.len() - QUEUED_SHOWN);
                rows.push(Line::styled(more, self.theme.secondary));
            }
        }
        rows
    }

    /// The todo list: what is being done, or all of it.
    fn tray(&self, width: usize, height: usize) -> Vec<Line> {
        let open = self
            .todos
            .iter()
            .any(|todo| !matches!(todo.status, TodoStatus::Completed | TodoStatus::Cancelled));
        let shown = (open && self.todos_count) || self.show_todos;
        if self.todos.is_empty() || !shown || height < LOW {
            return Vec::new();
        }
        // What was given up is not open either: the block of the call counts so.
        let is_over =
            |todo: &&Todo| matches!(todo.status, TodoStatus::Completed | TodoStatus::Cancelled);
        let done = self.todos.iter().filter(is_over).count();
        let key = self.keymap.key_of(KeyCommand::ShowFullTodos);
        let head = format!("Todo {done}/{} done ({key})", self.todos.len());
        if !self.show_todos {
            let current = self.todos.iter().find(|todo| todo.status == TodoStatus::InProgress);
            let mut line = Line::styled(head, self.theme.secondary);
            if let Some(todo) = current {
                let text = format!("  » {}", one_row(&todo.description));
                line = line.and(text, self.theme.text);
            }
            return vec![cut(line, width)];
        }
        let mut rows = vec![Line::styled(head, self.theme.secondary)];
        for todo in &self.todos {
            rows.extend(self.todo(todo, width));
        }
        rows.truncate(height / 3);
        rows
    }

    fn todo(&self, todo: &Todo, width: usize) -> Vec<Line> {
        let (sign, style) = match todo.status {
            TodoStatus::Completed => ("✓ ", self.theme.success),
            TodoStatus::InProgress => ("» ", self.theme.accent),
            TodoStatus::Cancelled => ("- ", self.theme.secondary),
            TodoStatus::Blocked => ("! ", self.theme.warning),
            TodoStatus::Pending => ("☐ ", self.theme.text),
        };
        let text = one_row(&todo.description).into_owned();
        let text_style = match todo.status {
            TodoStatus::Completed | TodoStatus::Cancelled => self.theme.secondary,
            _ => self.theme.text,
        };
        let line = Line::styled(format!("  {sign}"), style).and(text, text_style);
        wrap(&line, width, &[Span::raw("    ")])
    }

    /// The todo list as a command shows it.
    pub(super) fn todo_rows(&self) -> Vec<Line> {
        let width = usize::from(self.size.0).saturating_sub(1).max(1);
        match self.todos.is_empty() {
            true => vec![Line::styled(
                "The agent has no to-do list at the moment.",
                self.theme.secondary,
            )],
            false => self.todos.iter().flat_map(|todo| self.todo(todo, width)).collect(),
        }
    }
}

/// The part of a row that fits.
pub(crate) fn cut(line: Line, width: usize) -> Line {
    if line.width() <= width {
        return line;
    }
    let mut left = width;
    let mut spans = Vec::new();
    for span in line.spans {
        let text = truncate(&span.text, left).to_owned();
        left = left.saturating_sub(text_width(&text));
        let whole = text.len() == span.text.len();
        spans.push(Span { text: text.into(), ..span });
        if !whole {
            break;
        }
    }
    Line { spans, fill: line.fill, picture: None }
}

/// The same, with a `…` where something is missing.
pub(crate) fn cut_marked(line: Line, width: usize) -> Line {
    if line.width() <= width {
        return line;
    }
    let style = line.spans.last().map(|span| span.style).unwrap_or_default();
    cut(line, width.saturating_sub(1)).and("…", style)
}
