//! A panel of text pages: a row of tab titles, and the rows of the open page.

use std::cell::Cell;

use parallax_screen::{Key, Line, Span, wrap};

use super::field::{Field, search_row};
use super::{DialogKey, DialogView, Response, tabs};
use crate::layout::{hint_row, truncate_with_mark};
use crate::markdown::{RenderOptions, render};
use crate::theme::Theme;

/// Minimum number of text rows before empty rows are added around them.
const AIRY: usize = 12;

/// The content of a page.
#[derive(Debug, Clone)]
pub(crate) enum PanelText {
    Rows(Vec<Line>),
    Markdown(&'static str),
}

/// A panel of text pages.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    /// What the pages are about, if their titles do not say it.
    title: &'static str,
    pages: Vec<(String, PanelText)>,
    page: usize,
    /// The first visible row.
    first: usize,
    /// The number of rows shown last, and the maximum of `first`.
    shown_rows: Cell<(usize, usize)>,
    /// The search field; only rows with all its words are shown.
    search: Option<Field>,
}

impl Panel {
    pub(crate) fn new(mut pages: Vec<(String, PanelText)>) -> Self {
        for (title, text) in &mut pages {
            // The tab is the heading.
            if let PanelText::Rows(rows) = text
                && rows.len() > 1
                && rows.first().is_some_and(|row| row.text() == *title)
            {
                rows.remove(0);
            }
        }
        Self { title: "", pages, page: 0, first: 0, shown_rows: Cell::default(), search: None }
    }

    /// Says what the pages are about.
    #[must_use]
    pub(crate) fn with_title(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }

    /// Returns the row with the title and the tabs. A single tab cannot be changed.
    fn head(&self, width: usize, theme: &Theme) -> Line {
        let titles: Vec<&str> = self.pages.iter().map(|(title, _)| title.as_str()).collect();
        if self.title.is_empty() {
            return tabs::row(&titles, self.page, width, theme);
        }
        let title = Line::styled(self.title, theme.accent.bold());
        match titles.as_slice() {
            [] => title,
            [only] => {
                truncate_with_mark(title.with_span(format!(" · {only}"), theme.secondary), width)
            }
            titles => {
                let remaining = width.saturating_sub(title.width() + 1);
                let mut row = title.with_span(" ", theme.text);
                row.spans.extend(tabs::row(titles, self.page, remaining, theme).spans);
                row
            }
        }
    }

    /// Whether letters are typed as text.
    pub(crate) fn is_typing(&self) -> bool {
        self.search.is_some()
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(search) = &mut self.search {
            search.insert(text);
            self.first = 0;
        }
    }

    /// Returns the words that are searched for.
    fn search_words(&self) -> Vec<String> {
        let typed = self.search.as_ref().map(|search| search.text().to_lowercase());
        typed.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the rows of all pages that contain all words, below the titles of the pages.
    fn matching_rows(&self, words: &[String], width: usize, theme: &Theme) -> Vec<Line> {
        let finds = |entry: &Vec<Line>| {
            let text: String = entry.iter().map(|row| row.text().to_lowercase() + " ").collect();
            words.iter().all(|word| text.contains(word))
        };
        let mut found: Vec<Line> = Vec::new();
        for page in &self.pages {
            let entries = entries(page_rows(page, width, theme)).into_iter();
            let mut rows = entries.filter(finds).flatten().peekable();
            if rows.peek().is_some() && self.pages.len() > 1 {
                if !found.is_empty() {
                    found.push(Line::EMPTY);
                }
                found.push(Line::styled(page.0.clone(), theme.accent.bold()));
            }
            found.extend(rows);
        }
        found
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> Response {
        if let Some(search) = &mut self.search {
            match key {
                DialogKey::Cancel => {
                    (self.search, self.first) = (None, 0);
                    return Response::Stay;
                }
                DialogKey::Other(_) | DialogKey::Left | DialogKey::Right => {
                    search.key(raw);
                    self.first = 0;
                    return Response::Stay;
                }
                _ => {}
            }
        }
        let (visible_rows, last) = self.shown_rows.get();
        let page = visible_rows.saturating_sub(1).max(1);
        let count = self.pages.len().max(1);
        self.first = self.first.min(last);
        match key {
            DialogKey::Cancel | DialogKey::Confirm => return Response::Closed,
            DialogKey::Other(key) => match key.character() {
                Some('q') => return Response::Closed,
                Some('/') => (self.search, self.first) = (Some(Field::default()), 0),
                Some('j') => return self.key(DialogKey::Down, raw),
                Some('k') => return self.key(DialogKey::Up, raw),
                Some(' ') => return self.key(DialogKey::PageDown, raw),
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
        let head = self.head(width, theme);
        let text = match self.search_words().as_slice() {
            [] => self
                .pages
                .get(self.page)
                .map_or_else(Vec::new, |page| page_rows(page, width, theme)),
            // A search covers all pages.
            wanted => self.matching_rows(wanted, width, theme),
        };
        // The title, the hint, and the search row; empty rows if there is space.
        let used_rows = 2 + usize::from(self.search.is_some());
        let air = if height > text.len().min(AIRY) + used_rows + 2 { 2 } else { 0 };
        let visible_rows = height.saturating_sub(used_rows + air).max(1).min(text.len());
        let last = text.len() - visible_rows;
        self.shown_rows.set((visible_rows, last));
        let first = self.first.min(last);
        let place = match last {
            0 => String::new(),
            _ => format!("{}-{} of {} · ", first + 1, first + visible_rows, text.len()),
        };
        let pages = if self.pages.len() > 1 { "←→ other pages · " } else { "" };
        let keys = match &self.search {
            Some(_) => "↑↓ scroll · esc end search",
            None => "↑↓ scroll · / search · esc close",
        };
        let hint = hint_row(&format!("{place}{pages}{keys}"), width);
        let mut rows = vec![head];
        let mut cursor = None;
        if let Some(search) = &self.search {
            let (row, column) = search_row(search, width, theme);
            cursor = Some((column, rows.len()));
            rows.push(row);
        }
        if air > 0 {
            rows.push(Line::EMPTY);
        }
        if text.is_empty() && self.search.is_some() {
            rows.push(Line::styled("  no match", theme.secondary));
        }
        rows.extend(text.into_iter().skip(first).take(visible_rows));
        if air > 0 {
            rows.push(Line::EMPTY);
        }
        rows.push(Line::styled(hint, theme.secondary));
        rows.truncate(height.max(1));
        DialogView { rows, cursor }
    }
}

/// Returns rows together with the continuation rows below them, which are indented further.
fn entries(rows: Vec<Line>) -> Vec<Vec<Line>> {
    /// More than the indentation of a list in a list.
    const CONTINUED: usize = 4;
    let indent = |row: &Line| {
        let text = row.text();
        text.len() - text.trim_start().len()
    };
    let mut entries: Vec<Vec<Line>> = Vec::new();
    for row in rows {
        match entries.last_mut() {
            Some(entry)
                if row.width() > 0
                    && entry.first().is_some_and(|first| {
                        first.width() > 0 && indent(&row) >= indent(first) + CONTINUED
                    }) =>
            {
                entry.push(row);
            }
            _ => entries.push(vec![row]),
        }
    }
    entries
}

fn page_rows((_, text): &(String, PanelText), width: usize, theme: &Theme) -> Vec<Line> {
    match text {
        PanelText::Rows(rows) => {
            rows.iter().flat_map(|row| wrap(row, width, &[Span::raw("    ")])).collect()
        }
        PanelText::Markdown(text) => render(text, &RenderOptions::new(theme, width)),
    }
}

#[cfg(test)]
mod tests {
    use parallax_screen::KeyCode;

    use super::*;

    fn texts(panel: &Panel, height: usize) -> Vec<String> {
        panel.view(40, height, &Theme::default()).rows.iter().map(Line::text).collect()
    }

    fn press(panel: &mut Panel, code: KeyCode) -> Response {
        let key = Key::plain(code);
        panel.key(DialogKey::from_default_key(key), key)
    }

    fn panel() -> Panel {
        let rows = |name: &str| (0..9).map(|at| Line::raw(format!("{name}{at}"))).collect();
        Panel::new(vec![
            ("One".to_owned(), PanelText::Rows(rows("a"))),
            ("Two".to_owned(), PanelText::Markdown("# Title\n\n**bold**\n")),
        ])
    }

    #[test]
    fn pages_are_turned_and_scrolled() {
        let mut panel = panel();
        assert_eq!(texts(&panel, 5)[..4], [" One   Two ", "a0", "a1", "a2"]);
        press(&mut panel, KeyCode::PageDown);
        assert_eq!(texts(&panel, 5)[1..4], ["a2", "a3", "a4"]);
        press(&mut panel, KeyCode::End);
        press(&mut panel, KeyCode::Down);
        assert_eq!(texts(&panel, 5)[1..4], ["a6", "a7", "a8"]);
        assert!(texts(&panel, 5)[4].starts_with("7-9 of 9 · "), "{:?}", texts(&panel, 5));
        press(&mut panel, KeyCode::Tab);
        assert_eq!(texts(&panel, 6)[1..4], ["Title", "", "bold"]);
        press(&mut panel, KeyCode::Left);
        assert_eq!(texts(&panel, 5)[1], "a0");
        assert_eq!(press(&mut panel, KeyCode::Char('q')), Response::Closed);
    }

    #[test]
    fn found_rows_are_shown_with_the_rest_of_their_entries() {
        let rows = ["  /undo [TURN]", "         Undo the changes", "         of a turn", "  /vim"];
        let rows = rows.iter().map(|row| Line::raw(*row)).collect();
        let mut panel = Panel::new(vec![("One".to_owned(), PanelText::Rows(rows))]);
        for key in "/undo turn".chars() {
            press(&mut panel, KeyCode::Char(key));
        }
        assert_eq!(
            texts(&panel, 20)[3..6],
            ["  /undo [TURN]", "         Undo the changes", "         of a turn"]
        );
    }

    #[test]
    fn panel_search_filters_rows() {
        let mut panel = panel();
        for key in ['/', 'a', '3'] {
            press(&mut panel, KeyCode::Char(key));
        }
        assert_eq!(texts(&panel, 20)[1..4], ["⌕ a3", "", "One"]);
        press(&mut panel, KeyCode::Char('q'));
        assert!(texts(&panel, 20).contains(&"  no match".to_owned()));
        assert_eq!(press(&mut panel, KeyCode::Escape), Response::Stay);
        assert_eq!(texts(&panel, 20)[2], "a0");
        assert_eq!(press(&mut panel, KeyCode::Escape), Response::Closed);
    }
}
