//! A panel of text pages: the tabs, a search, and the rows of the open page.

use std::cell::Cell;

use parallax_screen::{Key, Line, Span, wrap};

use super::field::{Field, search_row, spoken_search_row};
use super::{DialogKey, DialogResponse, DialogView, RowLayout, tabs};
use crate::layout::{hint_row, truncate_with_mark};
use crate::markdown::{RenderOptions, render};
use crate::theme::Theme;
use crate::tokens::{CURRENT, DONE, FAILED, IDLE, LOW};

/// Minimum number of text rows before empty rows are added around them.
const MIN_HEIGHT_FOR_PADDING: usize = 12;

/// The content of a page.
#[derive(Debug, Clone)]
pub(crate) enum PanelText {
    Rows(Vec<Line>),
    Layout(RowLayout),
    Markdown(&'static str),
}

/// A panel of text pages.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    /// What the pages are about.
    title: &'static str,
    pages: Vec<(String, PanelText)>,
    page: usize,
    /// The first visible row.
    first: usize,
    /// The number of rows shown last, and the maximum of `first`.
    shown_rows: Cell<(usize, usize)>,
    /// Only rows with all its words are shown.
    search: Field,
}

impl Panel {
    pub(crate) fn new(title: &'static str, pages: Vec<(String, PanelText)>) -> Self {
        let (shown_rows, search) = (Cell::default(), Field::default());
        Self { title, pages, page: 0, first: 0, shown_rows, search }
    }

    /// Whether there is something to choose with the tabs.
    fn has_tabs(&self) -> bool {
        self.pages.len() > 1
    }

    /// Returns the title and the tabs. A single tab cannot be changed, so it is part of the title;
    /// in low windows, tabs are the title.
    fn head(&self, width: usize, height: usize, theme: &Theme) -> Vec<Line> {
        let titles: Vec<&str> = self.pages.iter().map(|(title, _)| title.as_str()).collect();
        let mut title = Line::styled(self.title, theme.accent.bold());
        if let [only] = titles.as_slice()
            && *only != self.title
        {
            title.push(Span::styled(format!(" · {only}"), theme.secondary));
        }
        let mut rows = vec![truncate_with_mark(title, width)];
        if self.has_tabs() {
            let open = self.search_words().is_empty().then_some(self.page);
            rows.push(tabs::row(&titles, open, width, theme));
            if height < LOW {
                rows.remove(0);
            }
        }
        rows
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.search.insert(text);
        self.first = 0;
    }

    /// Returns the words that are searched for.
    fn search_words(&self) -> Vec<String> {
        self.search.text().to_lowercase().split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the rows of all pages that contain all words, below the titles of the pages.
    fn matching_rows(&self, words: &[String], width: usize, theme: &Theme) -> Vec<Line> {
        let finds = |entry: &Vec<Line>| {
            let text: String = entry.iter().map(|row| row.text().to_lowercase() + " ").collect();
            words.iter().all(|word| text.contains(word))
        };
        let mut found: Vec<Line> = Vec::new();
        for page in &self.pages {
            let is_markdown = matches!(page.1, PanelText::Markdown(_));
            let entries = entries(page_rows(page, width, theme), is_markdown).into_iter();
            let mut rows = entries.filter(finds).flatten().peekable();
            if rows.peek().is_some() && self.has_tabs() {
                if !found.is_empty() {
                    found.push(Line::EMPTY);
                }
                found.push(Line::styled(page.0.clone(), theme.accent.bold()));
            }
            found.extend(rows);
        }
        found
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> DialogResponse {
        let is_searching = !self.search.text().is_empty();
        let (visible_rows, last) = self.shown_rows.get();
        let page = visible_rows.saturating_sub(1).max(1);
        let count = self.pages.len().max(1);
        self.first = self.first.min(last);
        match key {
            DialogKey::Cancel if is_searching => {
                (self.search, self.first) = (Field::default(), 0);
            }
            DialogKey::Cancel | DialogKey::Confirm => return DialogResponse::Closed,
            // As in pagers, `/` begins a search, and a space turns the page.
            DialogKey::Other(key) if !is_searching && key.character() == Some('/') => {}
            DialogKey::Other(key) if !is_searching && key.character() == Some(' ') => {
                self.first += page;
            }
            DialogKey::Other(_) => {
                if !self.search.key(raw) {
                    return DialogResponse::KeyPressed(raw, String::new());
                }
                self.first = 0;
            }
            // While searching, they move the cursor in the search text.
            DialogKey::Left | DialogKey::Right if is_searching => {
                self.search.key(raw);
            }
            // A search covers all pages.
            DialogKey::Next | DialogKey::Previous if is_searching => {}
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
        DialogResponse::Stay
    }

    /// Returns all rows of the open page, or of all pages during a search. The row of the search is
    /// last.
    pub(crate) fn screen_reader_view(&self, width: usize, theme: &Theme) -> DialogView {
        let mut rows = vec![Line::raw(self.title)];
        let words = self.search_words();
        match self.pages.get(self.page).filter(|_| words.is_empty()) {
            Some(page) => {
                let (number, count) = (self.page + 1, self.pages.len());
                rows.push(Line::raw(format!("Tab {number} of {count}: {}", page.0)));
                rows.extend(page_rows(page, width, theme));
            }
            None => rows.extend(self.matching_rows(&words, width, theme)),
        }
        if !words.is_empty() && rows.len() == 1 {
            rows.push(Line::raw("no match"));
        }
        rows.push(Line::raw(tabs::hint("esc close", self.has_tabs(), !words.is_empty())));
        let (row, column) = spoken_search_row(&self.search, width, theme);
        let cursor = Some((column, rows.len()));
        rows.push(row);
        DialogView { rows, cursor }
    }

    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        let mut rows = self.head(width, height, theme);
        let words = self.search_words();
        let text = match words.as_slice() {
            [] => self
                .pages
                .get(self.page)
                .map_or_else(Vec::new, |page| page_rows(page, width, theme)),
            words => self.matching_rows(words, width, theme),
        };
        // The head, the search row, and the hint; empty rows if there is space.
        let used_rows = rows.len() + 2;
        let air =
            if height > text.len().min(MIN_HEIGHT_FOR_PADDING) + used_rows + 2 { 2 } else { 0 };
        let visible_rows = height.saturating_sub(used_rows + air).max(1).min(text.len());
        let last = text.len() - visible_rows;
        self.shown_rows.set((visible_rows, last));
        let first = self.first.min(last);
        let position_text = match last {
            0 => String::new(),
            _ => format!("{}-{} of {}", first + 1, first + visible_rows, text.len()),
        };
        let (search, column) = search_row(&self.search, &position_text, width, theme);
        let cursor = Some((column, rows.len()));
        rows.push(search);
        if air > 0 {
            rows.push(Line::EMPTY);
        }
        if text.is_empty() && !words.is_empty() {
            rows.push(Line::styled("  no match", theme.secondary));
        }
        rows.extend(text.into_iter().skip(first).take(visible_rows));
        if air > 0 {
            rows.push(Line::EMPTY);
        }
        let hint = tabs::hint("↑↓ scroll · esc close", self.has_tabs(), !words.is_empty());
        rows.push(Line::styled(hint_row(&hint, width), theme.secondary));
        rows.truncate(height.max(1));
        DialogView { rows, cursor }
    }
}

/// Returns rows together with the rows that belong to them.
fn entries(rows: Vec<Line>, is_markdown: bool) -> Vec<Vec<Line>> {
    let mut entries: Vec<Vec<Line>> = Vec::new();
    for row in rows {
        match entries.last_mut() {
            Some(entry)
                if entry.first().is_some_and(|first| belongs_to(first, &row, is_markdown)) =>
            {
                entry.push(row);
            }
            _ => entries.push(vec![row]),
        }
    }
    entries
}

/// Whether a row belongs to the one that begins an entry: its text continues there, or it is a
/// description below a name.
fn belongs_to(first: &Line, row: &Line, is_markdown: bool) -> bool {
    /// More than the indentation of a list in a list.
    const CONTINUED: usize = 4;
    /// The indentation of a description below a name.
    const DESCRIBED: usize = 2;
    let text = first.text();
    if text.is_empty() || row.width() == 0 {
        return false;
    }
    let indent = |text: &str| text.len() - text.trim_start().len();
    let (before, own) = (indent(&text), indent(&row.text()));
    let has_marker = [DONE, FAILED, IDLE, CURRENT].iter().any(|marker| text.starts_with(marker));
    match before {
        // What is further to the right are lists, such as the tools of a server.
        0 if has_marker => (DESCRIBED..CONTINUED).contains(&own),
        DESCRIBED.. if !is_markdown => own >= before + DESCRIBED,
        _ => own >= before + CONTINUED,
    }
}

fn page_rows((title, text): &(String, PanelText), width: usize, theme: &Theme) -> Vec<Line> {
    let mut rows: Vec<Line> = match text {
        PanelText::Rows(rows) => {
            rows.iter().flat_map(|row| wrap(row, width, &[Span::raw("    ")])).collect()
        }
        PanelText::Layout(layout) => layout.rows(width, theme),
        PanelText::Markdown(text) => return render(text, &RenderOptions::new(theme, width)),
    };
    // The tab is the heading.
    if rows.len() > 1 && rows.first().is_some_and(|row| row.text() == *title) {
        rows.remove(0);
    }
    rows
}

#[cfg(test)]
mod tests {
    use parallax_screen::KeyCode;

    use super::*;

    fn rows_as_text(panel: &Panel, height: usize) -> Vec<String> {
        panel.view(40, height, &Theme::default()).rows.iter().map(Line::text).collect()
    }

    fn press(panel: &mut Panel, code: KeyCode) -> DialogResponse {
        let key = Key::plain(code);
        panel.key(DialogKey::from_default_key(key), key)
    }

    fn panel() -> Panel {
        let rows = |name: &str| (0..9).map(|at| Line::raw(format!("{name}{at}"))).collect();
        let pages = vec![
            ("One".to_owned(), PanelText::Rows(rows("a"))),
            ("Two".to_owned(), PanelText::Markdown("# Title\n\n**bold**\n")),
        ];
        Panel::new("Pages", pages)
    }

    #[test]
    fn layout_follows_the_width_and_omits_the_title_of_its_tab() {
        let layout = RowLayout::new(|width, _| {
            vec![Line::raw("One"), Line::raw("x".repeat(width)), Line::raw("end")]
        });
        let panel = Panel::new("Pages", vec![("One".to_owned(), PanelText::Layout(layout))]);
        for width in [20, 50] {
            let rows = panel.view(width, 20, &Theme::default()).rows;
            let rows: Vec<String> = rows.iter().map(Line::text).collect();
            assert!(rows.contains(&"x".repeat(width)), "{rows:?}");
            assert!(!rows.contains(&"One".to_owned()), "{rows:?}");
        }
    }

    #[test]
    fn pages_are_turned_and_scrolled() {
        let mut panel = panel();
        // A low window shows the tabs without the title.
        assert_eq!(
            rows_as_text(&panel, 6)[..5],
            [" One   Two ", &place("1-3 of 9"), "a0", "a1", "a2"]
        );
        press(&mut panel, KeyCode::PageDown);
        assert_eq!(rows_as_text(&panel, 6)[2..5], ["a2", "a3", "a4"]);
        press(&mut panel, KeyCode::Char(' '));
        assert_eq!(rows_as_text(&panel, 6)[2..5], ["a4", "a5", "a6"]);
        press(&mut panel, KeyCode::End);
        press(&mut panel, KeyCode::Down);
        assert_eq!(rows_as_text(&panel, 6)[1..5], [&place("7-9 of 9"), "a6", "a7", "a8"]);
        press(&mut panel, KeyCode::Tab);
        assert_eq!(rows_as_text(&panel, 7)[2..5], ["Title", "", "bold"]);
        press(&mut panel, KeyCode::Left);
        assert_eq!(
            rows_as_text(&panel, 14)[..5],
            ["Pages", " One   Two ", "⌕ Type to search", "a0", "a1"]
        );
        assert_eq!(
            rows_as_text(&panel, 14).last().map(String::as_str),
            Some("←→ group · ↑↓ scroll · esc close")
        );
    }

    /// Returns the row of an empty search with a position at its end.
    fn place(text: &str) -> String {
        format!("⌕ Type to search{text:>23}")
    }

    #[test]
    fn found_rows_are_shown_with_the_rest_of_their_entries() {
        let rows = ["  /undo [TURN]", "         Undo the changes", "         of a turn", "  /vim"];
        let rows = rows.iter().map(|row| Line::raw(*row)).collect();
        let mut panel = Panel::new("Help", vec![("One".to_owned(), PanelText::Rows(rows))]);
        for key in "/undo turn".chars() {
            press(&mut panel, KeyCode::Char(key));
        }
        assert_eq!(
            rows_as_text(&panel, 20)[..6],
            [
                "Help · One",
                "⌕ undo turn",
                "",
                "  /undo [TURN]",
                "         Undo the changes",
                "         of a turn"
            ]
        );
    }

    #[test]
    fn description_is_found_with_its_name() {
        let found = |rows: &[&'static str], typed: &str| -> Vec<String> {
            let rows = rows.iter().map(|row| Line::raw(*row)).collect();
            let mut panel = Panel::new("Tools", vec![("All".to_owned(), PanelText::Rows(rows))]);
            for key in typed.chars() {
                press(&mut panel, KeyCode::Char(key));
            }
            let rows = rows_as_text(&panel, 30);
            rows[3..rows.len() - 2].to_vec()
        };
        let tools = ["  glob", "    Finds files", "  replace", "    Replaces text", "    in files"];
        assert_eq!(found(&tools, "text"), ["  replace", "    Replaces text", "    in files"]);
        let server = ["✓ one · ready", "  stdio: node", "  Tools:", "    search", "    create"];
        assert_eq!(found(&server, "node"), ["✓ one · ready", "  stdio: node", "  Tools:"]);
        assert_eq!(found(&server, "create"), ["    create"]);
    }

    #[test]
    fn typing_searches_all_pages_with_or_without_a_slash() {
        for typed in ["/a3", "a3"] {
            let mut panel = panel();
            press(&mut panel, KeyCode::Right);
            for key in typed.chars() {
                press(&mut panel, KeyCode::Char(key));
            }
            let rows = rows_as_text(&panel, 20);
            assert_eq!(rows[1..6], [" One   Two ", "⌕ a3", "", "One", "a3"]);
            assert_eq!(rows.last().map(String::as_str), Some("↑↓ scroll · esc clear search"));
            // No group is open while all are searched.
            let tabs = &panel.view(40, 20, &Theme::default()).rows[1];
            assert!(tabs.spans.iter().all(|span| span.style != Theme::default().selected));
            press(&mut panel, KeyCode::Char('q'));
            assert!(rows_as_text(&panel, 20).contains(&"  no match".to_owned()));
            assert_eq!(press(&mut panel, KeyCode::Escape), DialogResponse::Stay);
            assert_eq!(rows_as_text(&panel, 20)[4], "Title", "the page stays");
            assert_eq!(press(&mut panel, KeyCode::Escape), DialogResponse::Closed);
        }
    }
}
