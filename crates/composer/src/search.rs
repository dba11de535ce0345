//! The history search (Ctrl+R): searches earlier inputs, newest first.

use parallax_screen::{Key, KeyCode, Line, Style, text_width, truncate};

use crate::edit_command::{EditCommand, KeyContext, KeyTable};
use parallax_screen::layout::pointer;
use parallax_screen::theme::Theme;

/// Maximum number of rows of the list.
const ROWS: usize = 8;
/// Maximum number of rows of an expanded entry.
const EXPANDED_ROWS: usize = 12;

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    query: String,
    /// The matches, newest first, without duplicates.
    matches: Vec<String>,
    selected: usize,
    expanded: bool,
}

/// The result of a key in the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchAction {
    /// The search continues.
    Active,
    /// Put this text into the input.
    Accept(String),
    /// Send this text.
    Submit(String),
    /// Close the search without changing the input.
    Cancel,
    /// Not used; the program handles the key.
    Ignored,
}

impl Search {
    /// Creates a search that shows all entries.
    pub fn new(entries: &[String]) -> Self {
        let mut search =
            Self { query: String::new(), matches: Vec::new(), selected: 0, expanded: false };
        search.update(entries);
        search
    }

    /// Returns the search text.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Returns the selected entry.
    pub fn selected(&self) -> Option<&str> {
        self.matches.get(self.selected).map(String::as_str)
    }

    fn update(&mut self, entries: &[String]) {
        let query = self.query.to_lowercase();
        let mut seen = std::collections::HashSet::new();
        self.matches = entries
            .iter()
            .rev()
            .filter(|entry| entry.to_lowercase().contains(&query) && seen.insert(entry.as_str()))
            .cloned()
            .collect();
        self.selected = 0;
        self.expanded = false;
    }

    fn step(&mut self, down: bool) {
        let last = self.matches.len().saturating_sub(1);
        self.selected =
            if down { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
        self.expanded = false;
    }

    /// Handles a key.
    pub fn key(&mut self, key: Key, keymap: &dyn KeyTable, entries: &[String]) -> SearchAction {
        let chosen = self.selected().map(str::to_owned);
        for command in keymap.commands(key, KeyContext::Search) {
            match command {
                EditCommand::SearchSubmit => {
                    return chosen.map_or(SearchAction::Active, SearchAction::Submit);
                }
                EditCommand::SearchAccept => {
                    return chosen.map_or(SearchAction::Cancel, SearchAction::Accept);
                }
                EditCommand::Cancel | EditCommand::Quit => return SearchAction::Cancel,
                EditCommand::SuggestPrevious => self.step(false),
                // Another Ctrl+R selects an older entry.
                EditCommand::SuggestNext | EditCommand::SearchStart => self.step(true),
                EditCommand::SuggestExpand => self.expanded = true,
                EditCommand::SuggestCollapse => self.expanded = false,
                EditCommand::DeleteLeft => {
                    self.query.pop();
                    self.update(entries);
                }
                EditCommand::DeleteWordLeft => {
                    let start = super::words::start_of_last(&self.query);
                    self.query.truncate(start);
                    self.update(entries);
                }
                EditCommand::DeleteLeftAll => {
                    self.query.clear();
                    self.update(entries);
                }
                // Commands of other contexts are handled below.
                EditCommand::Confirm => continue,
                _ => break,
            }
            return SearchAction::Active;
        }
        match key.character() {
            Some(char) if !char.is_control() => {
                self.query.push(char);
                self.update(entries);
                SearchAction::Active
            }
            _ if matches!(key.code, KeyCode::F(_)) => SearchAction::Ignored,
            _ => SearchAction::Active,
        }
    }

    /// Adds pasted text to the query.
    pub fn paste(&mut self, text: &str, entries: &[String]) {
        self.query
            .extend(text.lines().next().unwrap_or("").chars().filter(|char| !char.is_control()));
        self.update(entries);
    }

    /// Returns the list of matches.
    pub fn rows(&self, columns: usize, theme: &Theme) -> Vec<Line> {
        if self.matches.is_empty() {
            return vec![Line::styled("  no match", theme.secondary)];
        }
        let top = self.selected.saturating_sub(ROWS - 1);
        let mut rows = Vec::new();
        for (index, entry) in self.matches.iter().enumerate().skip(top).take(ROWS) {
            let chosen = index == self.selected;
            let mark = pointer(chosen);
            let style = if chosen { theme.selected } else { theme.secondary };
            if chosen && self.expanded {
                for (number, text) in entry.lines().take(EXPANDED_ROWS).enumerate() {
                    let mark = pointer(number == 0);
                    let text = text.replace('\t', "    ");
                    rows.push(row(mark, &text, columns, (theme.accent, style)));
                }
                continue;
            }
            let flat = entry.split_whitespace().collect::<Vec<_>>().join(" ");
            rows.push(row(mark, &flat, columns, (theme.accent, style)));
        }
        if self.matches.len() > ROWS {
            let count = format!("  ({}/{})", self.selected + 1, self.matches.len());
            rows.push(Line::styled(count, theme.secondary));
        }
        rows
    }
}

fn row(
    mark: &'static str,
    text: &str,
    columns: usize,
    (marker_style, style): (Style, Style),
) -> Line {
    let room = columns.saturating_sub(text_width(mark)).max(1);
    let shown = if text_width(text) <= room {
        text.to_owned()
    } else {
        format!("{}…", truncate(text, room.saturating_sub(1)))
    };
    Line::styled(mark, marker_style).with_span(shown, style)
}
