//! Pager for the whole transcript, including truncated content, at the current width. It can be
//! scrolled and searched; closing it restores the screen and the scrollback.

use parallax_screen::{Key, KeyCode, Line, MouseEvent, MouseKind, Span, text_width};

use super::App;
use super::mouse::WHEEL;
use super::view::Frame;
use crate::dialog::Field;
use crate::effect::Effect;
use crate::keymap::{Context, KeyCommand};
use crate::layout::cut;
use crate::transcript::{Anchor, Page, SearchNeedle};

/// The state of the pager.
#[derive(Debug, Default)]
pub(super) struct Pager {
    /// The search field while a search is typed after `/`.
    field: Option<Field>,
    needle: SearchNeedle,
    /// The item and row of the last match.
    found: Option<(usize, usize)>,
    /// A note about the last search, if there is one.
    note: &'static str,
    /// The item and row at the top.
    top: (usize, usize),
    /// The position of the top row, in thousandths of all items.
    position: u16,
    /// The scroll position and expansion before the pager opened.
    before: (Anchor, bool),
}

impl App {
    pub(super) fn open_pager(&mut self) {
        if self.settings.screen_reader {
            return self.toast("the terminal already shows the whole transcript");
        }
        self.pager = Some(Pager {
            before: (self.anchor, self.transcript.options.expanded),
            ..Pager::default()
        });
        self.transcript.options.expanded = true;
        self.anchor = Anchor::Bottom;
        if !self.settings.alternate_buffer {
            self.mouse_off = false;
        }
    }

    /// Whether the pager is open.
    pub(crate) fn is_paging(&self) -> bool {
        self.pager.is_some()
    }

    pub(crate) fn close_pager(&mut self) {
        if let Some(pager) = self.pager.take() {
            (self.anchor, self.transcript.options.expanded) = pager.before;
        }
    }

    pub(super) fn pager_key(&mut self, key: Key) {
        let Some(pager) = &mut self.pager else { return };
        pager.note = "";
        if let Some(field) = &mut pager.field {
            match (key.code, key) {
                (KeyCode::Enter, _) => {
                    let typed = field.text().to_owned();
                    pager.field = None;
                    return self.search(&typed);
                }
                (KeyCode::Escape, _) => pager.field = None,
                (_, key) if key == Key::ctrl('c') || key == Key::ctrl('[') => pager.field = None,
                (KeyCode::Backspace, _) if field.text().is_empty() => pager.field = None,
                _ => drop(field.key(key)),
            }
            return;
        }
        if self.pager_command(key) {
            return;
        }
        let page = isize::try_from(self.transcript_size.1).unwrap_or(20).max(2) - 1;
        match key.code {
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down | KeyCode::Enter => self.scroll(1),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::Home => self.anchor = Anchor::Top { item: 0, row: 0 },
            KeyCode::End => self.anchor = Anchor::Bottom,
            KeyCode::Escape => self.close_pager(),
            _ => match key.typed() {
                Some('q') => self.close_pager(),
                Some('k') => self.scroll(-1),
                Some('j') => self.scroll(1),
                Some('b') => self.scroll(-page),
                Some(' ' | 'f') => self.scroll(page),
                Some('g') => self.anchor = Anchor::Top { item: 0, row: 0 },
                Some('G') => self.anchor = Anchor::Bottom,
                Some('n') => self.search_on(true),
                Some('N') => self.search_on(false),
                Some('/') => {
                    if let Some(pager) = &mut self.pager {
                        pager.field = Some(Field::default());
                    }
                }
                _ => {}
            },
        }
    }

    /// Handles keys of the key table that apply to the pager.
    fn pager_command(&mut self, key: Key) -> bool {
        for command in self.keymap.commands_for(key, Context::DIALOG).collect::<Vec<_>>() {
            match command {
                KeyCommand::ShowTranscript | KeyCommand::Quit => self.close_pager(),
                KeyCommand::ShowMoreLines => self.transcript.options.expanded ^= true,
                KeyCommand::ClearScreen => self.effect(Effect::Redraw),
                KeyCommand::Suspend => self.suspend(),
                KeyCommand::ToggleCopyMode => self.toggle_copy_mode(),
                KeyCommand::ToggleMouseMode => self.toggle_mouse(),
                KeyCommand::ScrollUp => self.scroll(-1),
                KeyCommand::ScrollDown => self.scroll(1),
                KeyCommand::ScrollHome => self.anchor = Anchor::Top { item: 0, row: 0 },
                KeyCommand::ScrollEnd => self.anchor = Anchor::Bottom,
                _ => continue,
            }
            return true;
        }
        false
    }

    pub(super) fn pager_paste(&mut self, text: &str) {
        if let Some(field) = self.pager.as_mut().and_then(|pager| pager.field.as_mut()) {
            field.insert(text);
        }
    }

    pub(super) fn pager_mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseKind::WheelUp => self.scroll(-WHEEL),
            MouseKind::WheelDown => self.scroll(WHEEL),
            MouseKind::LeftDown => self.press(mouse.column.into(), mouse.row.into()),
            MouseKind::LeftDrag => self.drag_bar(mouse.row.into()),
            MouseKind::LeftUp => self.release_bar(),
            MouseKind::RightDown => {}
        }
    }

    /// Searches for text from the top of the page on, or repeats the last search if `typed` is
    /// empty.
    fn search(&mut self, typed: &str) {
        let Some(pager) = &mut self.pager else { return };
        if !typed.is_empty() {
            pager.needle = SearchNeedle::new(typed);
        }
        let top = match self.anchor {
            Anchor::Top { item, row } => (item, row),
            Anchor::Bottom => pager.top,
        };
        self.search_from(top, true);
    }

    fn search_on(&mut self, forward: bool) {
        let Some(pager) = &self.pager else { return };
        let from = match (pager.found, forward) {
            (Some((item, row)), true) => (item, row + 1),
            (Some(found), false) => found,
            (None, _) => pager.top,
        };
        self.search_from(from, forward);
    }

    /// Goes to the next matching row, wrapping around at the ends.
    fn search_from(&mut self, from: (usize, usize), forward: bool) {
        let Some(needle) = self.pager.as_ref().map(|pager| pager.needle.clone()) else { return };
        if needle.text().is_empty() {
            return self.pager_note("no search yet: press /");
        }
        let (width, height) = self.transcript_size;
        let theme = &self.theme;
        let mut find = |from| self.transcript.find(&needle, from, forward, width, theme);
        let (found, note) = match find(from) {
            Some(found) => (Some(found), ""),
            None if forward => (find((0, 0)), "search wrapped to the top"),
            None => (find((usize::MAX, 0)), "search wrapped to the bottom"),
        };
        let Some((item, row)) = found else { return self.pager_note("not found") };
        if let Some(pager) = &mut self.pager {
            (pager.found, pager.note) = (found, note);
        }
        // Keep some rows above the match visible.
        let above = isize::try_from(height / 4).unwrap_or(0);
        let anchor = Anchor::Top { item, row };
        self.anchor = self.transcript.scroll(anchor, -above, width, height, &self.theme);
    }

    fn pager_note(&mut self, note: &'static str) {
        if let Some(pager) = &mut self.pager {
            pager.note = note;
        }
    }

    /// Builds the frame of the pager.
    pub(super) fn pager_frame(&mut self, width: usize, rows: usize) -> Frame {
        let room = rows.saturating_sub(1).max(1);
        self.places.composer = None;
        self.places.transcript = room;
        let rows_of_it = self.full_transcript(width, room);
        let Some(pager) = &self.pager else { return Frame::default() };
        let mut live: Vec<Line> =
            rows_of_it.into_iter().map(|row| pager.needle.mark(row)).collect();
        let mut cursor = None;
        let foot = match &pager.field {
            Some(field) => {
                let (text, column) = field.row(width.saturating_sub(2));
                cursor = Some(((column + 1).min(width), live.len()));
                Line::styled("/", self.theme.accent).and(text, self.theme.text)
            }
            None => self.pager_foot(pager, width),
        };
        live.push(foot);
        let cut = live.len().saturating_sub(rows);
        live.drain(..cut);
        let cursor = cursor.and_then(|(column, row)| Some((column, row.checked_sub(cut)?)));
        Frame { finished: Vec::new(), live, cursor, over: true }
    }

    /// Builds the bottom row with the position and the keys.
    fn pager_foot(&self, pager: &Pager, width: usize) -> Line {
        let place = match self.anchor {
            Anchor::Bottom => "end".to_owned(),
            Anchor::Top { .. } => format!("{} %", pager.position / 10),
        };
        let mut line = Line::styled(" Transcript ", self.theme.accent.bold());
        line.push(Span::styled(format!("{place} "), self.theme.secondary));
        let word = match self.hints.text() {
            _ if self.frozen => Some("frozen: any key resumes"),
            _ if self.dialogs.has_approvals() => Some("waiting for approval: q"),
            Some(text) => Some(text),
            None if !pager.note.is_empty() => Some(pager.note),
            None => None,
        };
        match word {
            Some(word) => line.push(Span::styled(format!("· {word} "), self.theme.warning)),
            None => {
                let more = self.keymap.key_of(KeyCommand::ShowMoreLines);
                let hints = ["q close", "/ search", "n N next, previous"];
                let shortens = format!("{more} truncate");
                for hint in hints.into_iter().chain([shortens.as_str()]) {
                    if line.width() + text_width(hint) + 3 <= width {
                        line.push(Span::styled(format!("· {hint} "), self.theme.secondary));
                    }
                }
            }
        }
        cut(line, width)
    }

    /// Records where the displayed page begins.
    pub(super) fn pager_stands_at(&mut self, page: &Page) {
        if let (Some(pager), Anchor::Top { item, row }) = (&mut self.pager, page.anchor) {
            (pager.top, pager.position) = ((item, row), page.position);
        }
    }
}
