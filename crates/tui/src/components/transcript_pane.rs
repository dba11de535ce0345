//! The visible part of the transcript in full screen and in the pager: its scroll position, its
//! scroll bar, the search, and where its elements are, for the mouse.

use parallax_screen::{Key, KeyCode, Line, Span, text_width};

use crate::dialog::Field;
use crate::keymap::{KeyCommand, Keymap, KeymapContext};
use crate::layout::truncate_with_mark;
use crate::theme::Theme;
use crate::transcript::{Anchor, SearchNeedle, Transcript};

/// Positions of the elements in the last frame, in rows from its top.
#[derive(Debug, Clone, Copy, Default)]
struct ElementPositions {
    /// The first row and the number of rows of the composer's text, or `None` while it is hidden.
    composer: Option<(usize, usize)>,
    /// Rows of the transcript, which has the scroll bar in its last column.
    transcript: usize,
    /// Whether the scroll bar is being dragged.
    is_dragging: bool,
}

/// The state of the pager, which shows the whole transcript, including truncated content, at the
/// current width. Closing it restores the scroll position and the scrollback.
#[derive(Debug, Default)]
struct Pager {
    /// The search field while a search is typed after `/`.
    field: Option<Field>,
    needle: SearchNeedle,
    /// The item and row of the last match.
    last_match: Option<(usize, usize)>,
    /// A note about the last search, if there is one.
    note: &'static str,
    /// The item and row at the top.
    top: (usize, usize),
    /// The position of the top row, in thousandths of all items.
    position: u16,
    /// The scroll position and expansion before the pager opened.
    before: (Anchor, bool),
}

/// A key of the pager that its owner handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagerKey {
    /// The pager handled it.
    Done,
    Redraw,
    Suspend,
    ToggleCopyMode,
    ToggleMouse,
}

/// The press of a mouse button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MousePress {
    /// The scroll bar, or nothing.
    Done,
    /// This column and row of the composer's text.
    Composer(usize, usize),
}

/// The scroll position of the transcript, and the pager.
#[derive(Debug)]
pub(crate) struct TranscriptPane {
    anchor: Anchor,
    /// The columns and rows of the visible part.
    size: (usize, usize),
    positions: ElementPositions,
    /// The pager, when the whole transcript is shown.
    pager: Option<Pager>,
    /// The newest truncated item when expanding began, and the item expanded last.
    expansion: Option<(usize, usize)>,
}

impl Default for TranscriptPane {
    fn default() -> Self {
        Self {
            anchor: Anchor::Bottom,
            size: (80, 10),
            positions: ElementPositions::default(),
            pager: None,
            expansion: None,
        }
    }
}

impl TranscriptPane {
    /// Scrolls by rows.
    pub(crate) fn scroll(&mut self, rows: isize, transcript: &mut Transcript, theme: &Theme) {
        let (width, height) = self.size;
        self.anchor = transcript.scroll(self.anchor, rows, width, height, theme);
    }

    /// Goes to the first row.
    pub(crate) fn scroll_to_top(&mut self) {
        self.anchor = Anchor::Top { item: 0, row: 0 };
    }

    /// Goes to the last row and stays there.
    pub(crate) fn scroll_to_bottom(&mut self) {
        self.anchor = Anchor::Bottom;
    }

    /// Returns the rows at the scroll position, with the scroll bar.
    pub(crate) fn rows(
        &mut self,
        transcript: &mut Transcript,
        (width, height): (usize, usize),
        theme: &Theme,
        now_ms: u64,
    ) -> Vec<Line> {
        self.size = (width, height);
        let page = transcript.page(self.anchor, width, height, theme, now_ms);
        if let (Some(pager), Anchor::Top { item, row }) = (&mut self.pager, page.anchor) {
            (pager.top, pager.position) = ((item, row), page.position);
        }
        self.anchor = if page.at_end { Anchor::Bottom } else { page.anchor };
        let mut rows = page.rows;
        // An item cut off at the top shows its title.
        if let (Some(title), Some(first)) = (page.title, rows.first_mut())
            && height > 2
        {
            *first = title;
        }
        // The composer stays at the bottom of the window.
        while rows.len() < height {
            rows.push(Line::EMPTY);
        }
        if !page.at_end || page.position > 0 {
            scroll_bar(&mut rows, page.position, page.at_end, width, theme);
        }
        rows
    }

    /// Records where the elements of the frame are: the rows of the transcript, and the first row
    /// and the number of rows of the composer's text.
    pub(crate) fn record_layout(&mut self, transcript: usize, composer: Option<(usize, usize)>) {
        self.positions.transcript = transcript;
        self.positions.composer = composer;
    }

    /// Handles a press of the mouse: on the scroll bar in the column `bar`, or on the composer.
    pub(crate) fn press(
        &mut self,
        (column, row): (usize, usize),
        bar: usize,
        transcript: &Transcript,
    ) -> MousePress {
        if column == bar && row < self.positions.transcript {
            self.positions.is_dragging = true;
            self.drag_to(row, transcript);
            return MousePress::Done;
        }
        match self.positions.composer {
            Some((first, rows)) if (first..first + rows).contains(&row) => {
                MousePress::Composer(column, row - first)
            }
            _ => MousePress::Done,
        }
    }

    /// Drags the scroll bar, if it is held.
    pub(crate) fn drag(&mut self, row: usize, transcript: &Transcript) {
        if self.positions.is_dragging {
            self.drag_to(row, transcript);
        }
    }

    /// Releases the scroll bar.
    pub(crate) fn release(&mut self) {
        self.positions.is_dragging = false;
    }

    /// Scrolls to the row that the bar was dragged to.
    fn drag_to(&mut self, row: usize, transcript: &Transcript) {
        let rows = self.positions.transcript.max(1);
        let item = transcript.len() * row.min(rows - 1) / rows;
        self.anchor = match row + 1 >= rows {
            true => Anchor::Bottom,
            false => Anchor::Top { item, row: 0 },
        };
    }

    /// Prints the next truncated content of the scrollback in full: the latest, or the one before
    /// the one printed last.
    ///
    /// # Errors
    /// Returns the reason why there is none.
    pub(crate) fn expand_next(
        &mut self,
        transcript: &Transcript,
        width: usize,
        theme: &Theme,
    ) -> Result<ExpandedContent, &'static str> {
        let folded = |before| transcript.find_truncated_before(before, width, theme);
        let (newest, rows) = folded(usize::MAX).ok_or("nothing was truncated")?;
        // If something new was truncated since, start there again.
        let walk = self.expansion.take().filter(|(began, _)| *began == newest);
        let (at, rows) = match walk {
            None => (newest, rows),
            Some((_, at)) => folded(at).ok_or("no earlier truncated content")?,
        };
        self.expansion = Some((newest, at));
        Ok(ExpandedContent { rows, has_more: folded(at).is_some() })
    }

    /// Opens the pager.
    pub(crate) fn open_pager(&mut self, transcript: &mut Transcript) {
        let before = (self.anchor, transcript.options.expanded);
        self.pager = Some(Pager { before, ..Pager::default() });
        transcript.options.expanded = true;
        self.anchor = Anchor::Bottom;
    }

    /// Whether the pager is open.
    pub(crate) fn is_paging(&self) -> bool {
        self.pager.is_some()
    }

    /// Closes the pager.
    pub(crate) fn close_pager(&mut self, transcript: &mut Transcript) {
        if let Some(pager) = self.pager.take() {
            (self.anchor, transcript.options.expanded) = pager.before;
        }
    }

    /// Handles a key of the pager.
    pub(crate) fn pager_key(
        &mut self,
        key: Key,
        transcript: &mut Transcript,
        keymap: &Keymap,
        theme: &Theme,
    ) -> PagerKey {
        let Some(pager) = &mut self.pager else { return PagerKey::Done };
        pager.note = "";
        if let Some(field) = &mut pager.field {
            match (key.code, key) {
                (KeyCode::Enter, _) => {
                    let typed = field.text().to_owned();
                    pager.field = None;
                    self.search(&typed, transcript, theme);
                }
                (KeyCode::Escape, _) => pager.field = None,
                (_, key) if key == Key::ctrl('c') || key == Key::ctrl('[') => pager.field = None,
                (KeyCode::Backspace, _) if field.text().is_empty() => pager.field = None,
                _ => drop(field.key(key)),
            }
            return PagerKey::Done;
        }
        if let Some(done) = self.pager_command(key, transcript, keymap, theme) {
            return done;
        }
        let page = isize::try_from(self.size.1).unwrap_or(20).max(2) - 1;
        match (key.code, key.character()) {
            (KeyCode::Up, _) | (_, Some('k')) => self.scroll(-1, transcript, theme),
            (KeyCode::Down | KeyCode::Enter, _) | (_, Some('j')) => {
                self.scroll(1, transcript, theme);
            }
            (KeyCode::PageUp, _) | (_, Some('b')) => self.scroll(-page, transcript, theme),
            (KeyCode::PageDown, _) | (_, Some(' ' | 'f')) => self.scroll(page, transcript, theme),
            (KeyCode::Home, _) | (_, Some('g')) => self.scroll_to_top(),
            (KeyCode::End, _) | (_, Some('G')) => self.scroll_to_bottom(),
            (KeyCode::Escape, _) | (_, Some('q')) => self.close_pager(transcript),
            (_, Some('n')) => self.search_on(true, transcript, theme),
            (_, Some('N')) => self.search_on(false, transcript, theme),
            (_, Some('/')) => {
                if let Some(pager) = &mut self.pager {
                    pager.field = Some(Field::default());
                }
            }
            _ => {}
        }
        PagerKey::Done
    }

    /// Handles keys of the key table that apply to the pager.
    fn pager_command(
        &mut self,
        key: Key,
        transcript: &mut Transcript,
        keymap: &Keymap,
        theme: &Theme,
    ) -> Option<PagerKey> {
        for command in keymap.commands_for(key, KeymapContext::DIALOG) {
            match command {
                KeyCommand::ShowTranscript | KeyCommand::Quit => self.close_pager(transcript),
                KeyCommand::ShowMoreLines => transcript.options.expanded ^= true,
                KeyCommand::ClearScreen => return Some(PagerKey::Redraw),
                KeyCommand::Suspend => return Some(PagerKey::Suspend),
                KeyCommand::ToggleCopyMode => return Some(PagerKey::ToggleCopyMode),
                KeyCommand::ToggleMouseMode => return Some(PagerKey::ToggleMouse),
                KeyCommand::ScrollUp => self.scroll(-1, transcript, theme),
                KeyCommand::ScrollDown => self.scroll(1, transcript, theme),
                KeyCommand::ScrollHome => self.scroll_to_top(),
                KeyCommand::ScrollEnd => self.scroll_to_bottom(),
                _ => continue,
            }
            return Some(PagerKey::Done);
        }
        None
    }

    /// Pastes text into the search field.
    pub(crate) fn pager_paste(&mut self, text: &str) {
        if let Some(field) = self.pager.as_mut().and_then(|pager| pager.field.as_mut()) {
            field.insert(text);
        }
    }

    /// Searches for text starting at the top of the page, or repeats the last search if `typed` is
    /// empty.
    fn search(&mut self, input: &str, transcript: &mut Transcript, theme: &Theme) {
        let Some(pager) = &mut self.pager else { return };
        if !input.is_empty() {
            pager.needle = SearchNeedle::new(input);
        }
        let top = match self.anchor {
            Anchor::Top { item, row } => (item, row),
            Anchor::Bottom => pager.top,
        };
        self.search_from(top, true, transcript, theme);
    }

    fn search_on(&mut self, forward: bool, transcript: &mut Transcript, theme: &Theme) {
        let Some(pager) = &self.pager else { return };
        let from = match (pager.last_match, forward) {
            (Some((item, row)), true) => (item, row + 1),
            (Some(found), false) => found,
            (None, _) => pager.top,
        };
        self.search_from(from, forward, transcript, theme);
    }

    /// Goes to the next matching row, wrapping around at the ends.
    fn search_from(
        &mut self,
        from: (usize, usize),
        forward: bool,
        transcript: &mut Transcript,
        theme: &Theme,
    ) {
        let Some(pager) = &mut self.pager else { return };
        if pager.needle.text().is_empty() {
            pager.note = "no search yet: press /";
            return;
        }
        let (width, height) = self.size;
        let needle = pager.needle.clone();
        let mut find = |from| transcript.find(&needle, from, forward, width, theme);
        let (found, note) = match find(from) {
            Some(found) => (Some(found), ""),
            None if forward => (find((0, 0)), "search wrapped to the top"),
            None => (find((usize::MAX, 0)), "search wrapped to the bottom"),
        };
        let Some((item, row)) = found else {
            pager.note = "not found";
            return;
        };
        (pager.last_match, pager.note) = (found, note);
        // Keep some rows above the match visible.
        let rows_above = isize::try_from(height / 4).unwrap_or(0);
        let anchor = Anchor::Top { item, row };
        self.anchor = transcript.scroll(anchor, -rows_above, width, height, theme);
    }

    /// Returns the rows of the pager and the cursor. `word` is shown instead of the keys.
    pub(crate) fn pager_rows(
        &mut self,
        transcript: &mut Transcript,
        (width, height): (usize, usize),
        word: Option<&str>,
        (keymap, theme): (&Keymap, &Theme),
        now_ms: u64,
    ) -> (Vec<Line>, Option<(usize, usize)>) {
        let room = height.saturating_sub(1).max(1);
        self.record_layout(room, None);
        let rows = self.rows(transcript, (width, room), theme, now_ms);
        let Some(pager) = &self.pager else { return (Vec::new(), None) };
        let mut live: Vec<Line> = rows.into_iter().map(|row| pager.needle.mark(row)).collect();
        let mut cursor = None;
        let foot = match &pager.field {
            Some(field) => {
                let (text, column) = field.row(width.saturating_sub(2));
                cursor = Some(((column + 1).min(width), live.len()));
                Line::styled("/", theme.accent).with_span(text, theme.text)
            }
            None => self.pager_foot(pager, width, word, keymap, theme),
        };
        live.push(foot);
        let cut = live.len().saturating_sub(height);
        live.drain(..cut);
        let cursor = cursor.and_then(|(column, row)| Some((column, row.checked_sub(cut)?)));
        (live, cursor)
    }

    /// Builds the bottom row with the position and the keys.
    fn pager_foot(
        &self,
        pager: &Pager,
        width: usize,
        word: Option<&str>,
        keymap: &Keymap,
        theme: &Theme,
    ) -> Line {
        let position_text = match self.anchor {
            Anchor::Bottom => "end".to_owned(),
            Anchor::Top { .. } => format!("{} %", pager.position / 10),
        };
        let mut line = Line::styled(" Transcript ", theme.accent.bold());
        line.push(Span::styled(format!("{position_text} "), theme.secondary));
        let word = word.or(Some(pager.note).filter(|note| !note.is_empty()));
        match word {
            Some(word) => line.push(Span::styled(format!("· {word} "), theme.warning)),
            None => {
                let more = keymap.hint_key(KeyCommand::ShowMoreLines);
                let shortens = format!("{more} truncate");
                let hints = ["/ search", "n next match", "N previous match", &shortens];
                let close = "q close";
                let end = text_width(close) + 3;
                for hint in hints.into_iter().chain([close]) {
                    let end = if hint == close { 0 } else { end };
                    if line.width() + text_width(hint) + 3 + end <= width {
                        line.push(Span::styled(format!("· {hint} "), theme.secondary));
                    }
                }
            }
        }
        truncate_with_mark(line, width)
    }
}

/// Truncated content in full.
#[derive(Debug)]
pub(crate) struct ExpandedContent {
    pub(crate) rows: Vec<Line>,
    /// Whether there is earlier truncated content.
    pub(crate) has_more: bool,
}

/// Draws the scroll bar into the last column of `rows`. `position` is where they begin, in
/// thousandths of the whole.
fn scroll_bar(rows: &mut [Line], position: u16, at_end: bool, width: usize, theme: &Theme) {
    let height = rows.len();
    let thumb = (height / 6).max(1);
    let top = match at_end {
        true => height - thumb.min(height),
        false => usize::from(position) * height.saturating_sub(thumb) / 1000,
    };
    for (index, row) in rows.iter_mut().enumerate() {
        let held = (top..top + thumb).contains(&index);
        let (marker, style) = match held {
            true => ("┃", theme.secondary),
            false => ("│", theme.border),
        };
        let missing = width.saturating_sub(row.width());
        let fill = row.fill_style.take().unwrap_or_default();
        row.push(Span::styled(" ".repeat(missing), fill));
        row.push(Span::styled(marker, style));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mouse_press_distinguishes_scroll_bar_and_composer() {
        let (mut pane, transcript) = (TranscriptPane::default(), Transcript::new());
        pane.record_layout(10, Some((11, 2)));
        assert_eq!(pane.press((3, 12), 79, &transcript), MousePress::Composer(3, 1));
        assert_eq!(pane.press((3, 13), 79, &transcript), MousePress::Done);
        pane.drag(0, &transcript);
        assert_eq!(pane.anchor, Anchor::Bottom);
        assert_eq!(pane.press((79, 0), 79, &transcript), MousePress::Done);
        assert_eq!(pane.anchor, Anchor::Top { item: 0, row: 0 });
        pane.drag(9, &transcript);
        assert_eq!(pane.anchor, Anchor::Bottom);
    }

    #[test]
    fn closed_pager_restores_the_position() {
        let (mut pane, mut transcript) = (TranscriptPane::default(), Transcript::new());
        pane.scroll_to_top();
        pane.open_pager(&mut transcript);
        assert!(transcript.options.expanded && pane.anchor == Anchor::Bottom);
        let (keymap, theme) = (Keymap::load(crate::keymap::Platform::Linux, ""), Theme::default());
        let key = Key::plain(KeyCode::Char('q'));
        assert_eq!(pane.pager_key(key, &mut transcript, &keymap, &theme), PagerKey::Done);
        assert!(!pane.is_paging() && !transcript.options.expanded);
        assert_eq!(pane.anchor, Anchor::Top { item: 0, row: 0 });
    }
}
