//! Text to read in pages: titles in a row, the rows of one page beneath them.

use std::cell::Cell;

use parallax_screen::{Line, Span, wrap};

use super::{DialogKey, DialogView, Response};
use crate::layout::hint_row;
use crate::markdown::{Look, render};
use crate::theme::Theme;

/// What a page shows.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    Rows(Vec<Line>),
    Markdown(&'static str),
}

/// The panel.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pages: Vec<(String, Text)>,
    page: usize,
    /// The first row that is shown.
    first: usize,
    /// How many rows were shown last, and the furthest that `first` could be.
    shown: Cell<(usize, usize)>,
}

impl Panel {
    pub(crate) fn new(pages: Vec<(String, Text)>) -> Self {
        Self { pages, page: 0, first: 0, shown: Cell::default() }
    }

    pub(crate) fn key(&mut self, key: DialogKey) -> Response {
        let (shown, last) = self.shown.get();
        let page = shown.saturating_sub(1).max(1);
        let count = self.pages.len().max(1);
        self.first = self.first.min(last);
        match key {
            DialogKey::Cancel | DialogKey::Confirm => return Response::Closed,
            DialogKey::Other(key) => match key.typed() {
                Some('q') => return Response::Closed,
                Some('j') => return self.key(DialogKey::Down),
                Some('k') => return self.key(DialogKey::Up),
                Some(' ') => return self.key(DialogKey::PageDown),
                _ => {}
            },
            DialogKey::Left | DialogKey::Previous => {
                (self.page, self.first) = ((self.page + count - 1) % count, 0);
            }
            DialogKey::Right | DialogKey::Next => {
                (self.page, self.first) = ((self.page + 1) % count, 0);
            }
            DialogKey::Up => self.first = self.first.saturating_sub(1),
            DialogKey::Down => self.first += 1,
            DialogKey::PageUp => self.first = self.first.saturating_sub(page),
            DialogKey::PageDown => self.first += page,
            DialogKey::First => self.first = 0,
            DialogKey::Last => self.first = last,
        }
        Response::Stay
    }

    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        let mut head = Line::EMPTY;
        for (at, (title, _)) in self.pages.iter().enumerate() {
            let style = if at == self.page { theme.selected.bold() } else { theme.secondary };
            if at > 0 {
                head.push(Span::styled("  ", theme.secondary));
            }
            head.push(Span::styled(title.clone(), style));
        }
        let text = match self.pages.get(self.page) {
            Some((_, Text::Rows(rows))) => {
                rows.iter().flat_map(|row| wrap(row, width, &[Span::raw("    ")])).collect()
            }
            Some((_, Text::Markdown(text))) => render(text, &Look::new(theme, width)),
            None => Vec::new(),
        };
        let shown = height.saturating_sub(2).max(1).min(text.len());
        let last = text.len() - shown;
        self.shown.set((shown, last));
        let first = self.first.min(last);
        let place = match last {
            0 => String::new(),
            _ => format!("{}-{} of {} · ", first + 1, first + shown, text.len()),
        };
        let pages = if self.pages.len() > 1 { "←→ other pages · " } else { "" };
        let hint = hint_row(&format!("{place}{pages}↑↓ scroll · esc close"), width);
        let mut rows = vec![head];
        rows.extend(text.into_iter().skip(first).take(shown));
        rows.push(Line::styled(hint, theme.secondary));
        rows.truncate(height.max(1));
        DialogView { rows, cursor: None }
    }
}

#[cfg(test)]
mod tests {
    use parallax_screen::{Key, KeyCode};

    use super::*;

    fn texts(panel: &Panel, height: usize) -> Vec<String> {
        panel.view(40, height, &Theme::default()).rows.iter().map(Line::text).collect()
    }

    #[test]
    fn pages_are_turned_and_scrolled() {
        let rows = |name: &str| (0..9).map(|at| Line::raw(format!("{name}{at}"))).collect();
        let pages = vec![
            ("One".to_owned(), Text::Rows(rows("a"))),
            ("Two".to_owned(), Text::Markdown("# Title\n\n**bold**\n")),
        ];
        let mut panel = Panel::new(pages);
        assert_eq!(texts(&panel, 5)[..4], ["One  Two", "a0", "a1", "a2"]);
        panel.key(DialogKey::PageDown);
        assert_eq!(texts(&panel, 5)[1..4], ["a2", "a3", "a4"]);
        panel.key(DialogKey::Last);
        panel.key(DialogKey::Down);
        assert_eq!(texts(&panel, 5)[1..4], ["a6", "a7", "a8"]);
        assert!(texts(&panel, 5)[4].starts_with("7-9 of 9 · "), "{:?}", texts(&panel, 5));
        panel.key(DialogKey::Next);
        assert_eq!(texts(&panel, 9)[1..4], ["Title", "", "bold"]);
        panel.key(DialogKey::Left);
        assert_eq!(texts(&panel, 5)[1], "a0");
        let closes = DialogKey::Other(Key::plain(KeyCode::Char('q')));
        assert_eq!(panel.key(closes), Response::Closed);
    }
}
