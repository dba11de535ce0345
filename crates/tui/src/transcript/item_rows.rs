//! Draws items as rows.

use parallax_protocol::event::Level;
use parallax_screen::{Line, Span, Style, wrap};

use super::draw::{ItemRenderer, ItemSpacing};
use super::item::{Item, ShellItem};
use super::{ThoughtDisplay, command_rows, descriptions, source_rows, tool_rows};
use crate::layout::{truncate_text, with_prefix};
use crate::sanitize;
use crate::tokens::{FAILED, TURN_END};

impl ItemRenderer<'_> {
    /// Returns all rows of an item that does not stream, and their shape.
    pub(super) fn item(&self, item: &Item) -> (Vec<Line>, ItemSpacing) {
        match item {
            Item::User { text, typed_text } => {
                let typed = typed_text.as_ref().filter(|_| !self.options.expanded);
                (self.user(typed.unwrap_or(text)), ItemSpacing::Block)
            }
            Item::Answer(answer) => (answer.rows(self), ItemSpacing::Block),
            Item::Thought { text, .. } => (self.thought(text), ItemSpacing::Block),
            Item::Tool(tool) => tool_rows::rows(tool, self),
            Item::Shell(shell) if shell.unannounced_lines.is_some() => {
                (self.shell(shell), ItemSpacing::Attached)
            }
            Item::Shell(shell) => (self.shell(shell), ItemSpacing::Block),
            Item::Notice { level, text } => (self.notice(*level, text), ItemSpacing::Notice),
            Item::Remark { marker, label, text } => {
                let style = self.theme.secondary;
                (
                    self.hanging_rows(self.marker(marker, label), self.theme.symbol, text, style),
                    ItemSpacing::Notice,
                )
            }
            Item::Picture(shown) => (shown.caption(self), ItemSpacing::Notice),
            Item::TurnEnd(text) => {
                let text = truncate_text(text, self.width.saturating_sub(2));
                let row = Line::styled(format!("{TURN_END} {text}"), self.theme.secondary);
                (vec![row], ItemSpacing::Block)
            }
            Item::Announcement(text) => {
                (wrap(&Line::raw(text.to_string()), self.width, &[]), ItemSpacing::Attached)
            }
            Item::Sources(sources) => (source_rows::rows(sources, self), ItemSpacing::Block),
            Item::Rows(rows) => {
                (rows.iter().flat_map(|row| self.wrap_row(row)).collect(), ItemSpacing::Block)
            }
        }
    }

    /// Wraps a row of command output under its text.
    fn wrap_row(&self, row: &Line) -> Vec<Line> {
        if row.width() <= self.width {
            return vec![row.clone()];
        }
        let text = row.text();
        let indent = (text.len() - text.trim_start().len()).min(self.width / 2);
        wrap(row, self.width, &[Span::raw(" ".repeat(indent))])
    }

    /// Returns the shape of an item's rows, if it has any.
    pub(super) fn shape(&self, item: &Item) -> Option<ItemSpacing> {
        match item {
            Item::Answer(answer) if !answer.is_shown() => None,
            Item::Thought { .. } if self.options.thoughts == ThoughtDisplay::Off => None,
            Item::Thought { text, .. } if text.trim().is_empty() => None,
            Item::Rows(rows) if rows.is_empty() => None,
            Item::Tool(tool) => Some(tool_rows::shape(tool, self.options)),
            Item::Notice { .. } | Item::Remark { .. } | Item::Picture(_) => {
                Some(ItemSpacing::Notice)
            }
            Item::Announcement(_) => Some(ItemSpacing::Attached),
            _ => Some(ItemSpacing::Block),
        }
    }

    fn user(&self, text: &str) -> Vec<Line> {
        let style = match self.theme.band {
            Some(band) => self.theme.user.on(band),
            None => self.theme.user,
        };
        let marker = self.marker(">", "You:");
        let marker_style = if self.theme.band.is_some() { style.bold() } else { style };
        let mut rows = self.hanging_rows(marker, marker_style, text.trim_end(), style);
        if self.theme.band.is_some() {
            for row in &mut rows {
                row.spans.iter_mut().for_each(|span| span.style = style.patch(span.style));
                row.fill_style = Some(style);
            }
        }
        rows
    }

    /// Whether the rows of an open item are final. A screen reader says the subject of a thought as
    /// soon as it is known, as the working line shows it.
    pub(super) fn is_final(&self, item: &Item) -> bool {
        let Item::Thought { text, .. } = item else { return false };
        let has_subject = || text.split_once("**").is_some_and(|(_, rest)| rest.contains("**"));
        self.options.screen_reader
            && self.options.thoughts == ThoughtDisplay::Subject
            && has_subject()
    }

    fn thought(&self, text: &str) -> Vec<Line> {
        let (subject, body) = descriptions::subject(text);
        let subject = sanitize::one_row(&subject).into_owned();
        let style = self.theme.comment;
        let marker = self.marker("∴", "Thought:");
        match self.options.thoughts {
            ThoughtDisplay::Off => Vec::new(),
            ThoughtDisplay::Subject if subject.is_empty() => Vec::new(),
            ThoughtDisplay::Subject => {
                let room = self.width.saturating_sub(parallax_screen::text_width(marker) + 1);
                let line = Line::styled(format!("{marker} "), self.theme.secondary);
                vec![line.with_span(truncate_text(&subject, room), style)]
            }
            ThoughtDisplay::Full => {
                let bar = self.marker("│", " ");
                let mut rows = Vec::new();
                if !subject.is_empty() {
                    rows.extend(self.hanging_rows(
                        marker,
                        self.theme.secondary,
                        &subject,
                        style.bold(),
                    ));
                }
                let room = self.width.saturating_sub(2);
                for line in sanitize::lines(body.trim()).lines() {
                    let line =
                        Line::styled(sanitize::expand_tabs(line, &mut 0).into_owned(), style);
                    let bar = [Span::styled(format!("{bar} "), self.theme.border)];
                    rows.extend(
                        wrap(&line, room, &[]).into_iter().map(|row| with_prefix(&bar, row)),
                    );
                }
                rows
            }
        }
    }

    fn notice(&self, level: Level, text: &str) -> Vec<Line> {
        let (marker, word, style) = match level {
            Level::Info => {
                ("ℹ", "Info:", Style { attributes: Style::PLAIN.attributes, ..self.theme.link })
            }
            Level::Warning => ("⚠", "Warning:", self.theme.warning),
            Level::Error => (FAILED, "Error:", self.theme.error),
        };
        let text_style = if level == Level::Info { self.theme.text } else { style };
        self.hanging_rows(self.marker(marker, word), style, text, text_style)
    }

    fn shell(&self, shell: &ShellItem) -> Vec<Line> {
        let marker = if shell.running { self.spinner() } else { self.marker("!", "Shell:") };
        let style = match shell.code {
            _ if shell.running => self.theme.accent,
            Some(0) => self.theme.success,
            _ => self.theme.error,
        };
        let time = match shell.since_ms.filter(|_| shell.running) {
            Some(since) => descriptions::seconds(self.now_ms.saturating_sub(since)),
            None => String::new(),
        };
        let before = Line::styled(format!("{marker} "), style);
        let context = command_rows::CommandRowContext { before, notes: [&time, ""] };
        let style = self.theme.text.bold();
        let mut rows = command_rows::rows(&shell.command, style, context, self.inner_width(), self);
        let limit = if self.options.expanded { usize::MAX } else { self.output_rows };
        let mut output = shell.output.rows(self.inner_width(), limit, self.theme);
        if !shell.running && !self.options.expanded {
            tool_rows::name_key(&mut output, self.inner_width());
        }
        // A screen reader announced most of it while the command was running.
        let at = if shell.unannounced_lines.is_some() { 0 } else { rows.len() };
        rows.splice(at..at, output);
        rows.splice(0..0, self.unannounced_lines(shell.unannounced_lines.as_deref()));
        match shell.code {
            _ if shell.running => {}
            Some(0) => {}
            Some(code) => rows.push(Line::styled(format!("exit code {code}"), self.theme.error)),
            None if shell.note.is_none() => {
                rows.push(Line::styled("ended by a signal", self.theme.error));
            }
            None => {}
        }
        if let Some(note) = &shell.note {
            let note = Line::styled(sanitize::one_row(note).into_owned(), self.theme.secondary);
            rows.extend(parallax_screen::wrap(&note, self.inner_width(), &[]));
        }
        self.draw_box(rows, self.theme.border)
    }
}
