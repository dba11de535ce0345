//! A selection list: numbered or searchable, optionally with a preview.

mod described;
mod spoken;
mod view;

use std::cell::Cell;
use std::collections::HashMap;

use parallax_screen::{Key, KeyCode, Line};

use super::field::Field;
use super::layout::{RowLayout, wrap_entries};
use super::{DialogKey, DialogResponse};
use crate::sanitize::sanitize;
use crate::theme::Theme;
use view::MAX_SHOWN;

/// An item of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListItem {
    /// The value returned when the item is chosen.
    pub(crate) id: String,
    pub(crate) label: String,
    /// Secondary text after the label.
    pub(crate) detail: String,
    /// A sentence below the label.
    pub(crate) description: String,
    /// More text that a search finds.
    pub(crate) keywords: String,
    /// Why the item cannot be chosen, if so.
    pub(crate) disabled: Option<String>,
    /// Rows shown below the list while the cursor is on the item.
    pub(crate) preview: Vec<Line>,
    /// The index of the item's tab, if the list has tabs.
    pub(crate) tab: usize,
}

impl ListItem {
    pub(crate) fn new(
        id: impl Into<String>,
        label: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        // Many are names from outside.
        let [label, detail] = [label.into(), detail.into()].map(|text| sanitize(&text));
        Self { id: id.into(), label, detail, ..Self::default() }
    }

    /// Names the state of an item that can be turned on and off.
    pub(crate) fn state(is_on: bool) -> &'static str {
        if is_on { "on" } else { "off" }
    }

    /// Adds a sentence below the label.
    #[must_use]
    pub(crate) fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = sanitize(&description.into());
        self
    }

    /// Returns all text that a search finds.
    fn searched_text(&self) -> String {
        [&self.label, &self.detail, &self.description, &self.keywords].map(String::as_str).join(" ")
    }

    #[must_use]
    pub(crate) fn with_preview(mut self, preview: Vec<Line>) -> Self {
        self.preview = preview;
        self
    }
}

/// The text above a list.
#[derive(Debug, Clone)]
enum IntroText {
    Lines(Vec<Line>),
    Layout(RowLayout),
}

impl Default for IntroText {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

impl IntroText {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Lines(lines) if lines.is_empty())
    }

    fn rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        match self {
            Self::Lines(lines) => wrap_entries(lines, width),
            Self::Layout(layout) => layout.rows(width, theme),
        }
    }
}

/// A list and its cursor.
#[derive(Debug, Clone)]
pub(crate) struct ListDialog {
    title: String,
    /// What needs care; always in view.
    warnings: Vec<Line>,
    /// An explanation, which is left out where the intro would not fit with it.
    explanation: Vec<Line>,
    intro: IntroText,
    /// The first visible row of the intro.
    intro_at: usize,
    /// The number of intro rows per page, and the last row that a page can start with.
    intro_page: Cell<(usize, usize)>,
    items: Vec<ListItem>,
    /// Titles of tabs. Each tab shows its items; a search covers all.
    tabs: Vec<String>,
    tab: usize,
    /// Indexes of the items that match the search, best first.
    matching: Vec<usize>,
    search: Option<Field>,
    cursor: usize,
    hint: String,
    /// The text shown for an empty list.
    empty: String,
    /// Digits typed so far, in lists without a search.
    digits: String,
    /// Whether the first nine items have digits until something is searched for.
    has_digits: bool,
    /// Results of an external search: the query, and a row for each matching item.
    external_results: Option<Box<(String, HashMap<String, Line>)>>,
    /// The last query of the external search.
    last_query: String,
    /// A notice shown below the list.
    pub(crate) notice: Option<String>,
    /// The work in progress to find more.
    pub(crate) search_status: Option<String>,
}

impl ListDialog {
    /// Creates a numbered list.
    pub(crate) fn new(title: impl Into<String>, items: Vec<ListItem>) -> Self {
        let matching = (0..items.len()).collect();
        Self {
            title: title.into(),
            warnings: Vec::new(),
            explanation: Vec::new(),
            intro: IntroText::default(),
            intro_at: 0,
            intro_page: Cell::default(),
            items,
            tabs: Vec::new(),
            tab: 0,
            matching,
            search: None,
            cursor: 0,
            hint: "enter choose · esc back".to_owned(),
            empty: "nothing to show".to_owned(),
            digits: String::new(),
            has_digits: false,
            external_results: None,
            last_query: String::new(),
            notice: None,
            search_status: None,
        }
    }

    /// Makes typing search instead of choosing by number.
    #[must_use]
    pub(crate) fn with_search(mut self) -> Self {
        self.search = Some(Field::default());
        "enter choose · esc back".clone_into(&mut self.hint);
        self
    }

    /// Gives the first nine items of a searched list digits, which choose at once while the search
    /// is empty.
    #[must_use]
    pub(crate) fn with_digits(mut self) -> Self {
        self.has_digits = true;
        self
    }

    /// Whether digits choose items of this searched list now.
    fn shows_digits(&self) -> bool {
        self.has_digits && self.search_text().is_empty()
    }

    /// Puts the items into tabs. A single tab is not shown.
    #[must_use]
    pub(crate) fn with_tabs<T: Into<String>>(mut self, tabs: Vec<T>) -> Self {
        self.set_tabs(tabs);
        self.filter();
        self
    }

    /// Replaces the tabs.
    fn set_tabs<T: Into<String>>(&mut self, tabs: Vec<T>) {
        self.tabs = tabs.into_iter().map(Into::into).collect();
        if self.tabs.len() < 2 {
            self.tabs.clear();
        }
        self.tab = self.tab.min(self.tabs.len().saturating_sub(1));
    }

    /// Replaces items and tabs; the cursor stays on its item if it still exists.
    pub(crate) fn replace_with_tabs<T: Into<String>>(
        &mut self,
        items: Vec<ListItem>,
        tabs: Vec<T>,
    ) {
        let open = self.tabs.get(self.tab).cloned();
        self.set_tabs(tabs);
        let at = open.and_then(|open| self.tabs.iter().position(|tab| *tab == open));
        self.tab = at.unwrap_or(self.tab);
        self.replace(items);
    }

    /// Sets the text shown for an empty list.
    #[must_use]
    pub(crate) fn with_empty_text(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }

    /// Sets the lines above the list.
    #[must_use]
    pub(crate) fn intro(mut self, lines: Vec<Line>) -> Self {
        self.intro = IntroText::Lines(lines);
        self
    }

    /// Sets the text above the list, whose rows depend on the width.
    #[must_use]
    pub(crate) fn intro_layout(mut self, layout: RowLayout) -> Self {
        self.intro = IntroText::Layout(layout);
        self
    }

    /// Sets lines above the intro that are left out where it would not fit with them.
    #[must_use]
    pub(crate) fn explanation(mut self, lines: Vec<Line>) -> Self {
        self.explanation = lines;
        self
    }

    /// Sets the lines with what needs care. They are directly below the title, always in view.
    #[must_use]
    pub(crate) fn warnings(mut self, lines: Vec<Line>) -> Self {
        self.warnings = lines;
        self
    }

    /// Sets the key hints below the list.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Replaces the title.
    pub(crate) fn set_title(&mut self, title: impl Into<String>) {
        self.title = title.into();
    }

    /// Moves the cursor to this item.
    #[must_use]
    pub(crate) fn at(mut self, id: &str) -> Self {
        let tab = self.items.iter().find(|item| item.id == id).map(|item| item.tab);
        if let Some(tab) = tab.filter(|tab| *tab < self.tabs.len()) {
            self.tab = tab;
            self.filter();
        }
        if let Some(at) = self.matching.iter().position(|index| self.items[*index].id == id) {
            self.cursor = at;
        }
        self
    }

    /// Replaces the items; the cursor stays on its item if it still exists.
    pub(crate) fn replace(&mut self, items: Vec<ListItem>) {
        let id = self.current().map(|item| item.id.clone());
        self.items = items;
        self.filter();
        let matching = &self.matching;
        let at = id.and_then(|id| matching.iter().position(|index| self.items[*index].id == id));
        self.cursor = at.unwrap_or(self.cursor).min(self.matching.len().saturating_sub(1));
    }

    /// Returns the item under the cursor.
    pub(crate) fn current(&self) -> Option<&ListItem> {
        self.matching.get(self.cursor).and_then(|index| self.items.get(*index))
    }

    /// Returns the search text.
    pub(crate) fn search_text(&self) -> String {
        self.search.as_ref().map(|search| search.text().to_owned()).unwrap_or_default()
    }

    /// Returns whether this text was already searched for externally, and records it.
    pub(crate) fn record_search(&mut self, text: &str) -> bool {
        let is_same_query = self.last_query == text;
        text.clone_into(&mut self.last_query);
        is_same_query
    }

    /// Adds results of an external search: items with a row that shows the match. They are used as
    /// long as the search text stays the same.
    pub(crate) fn add_results(&mut self, text: &str, found: Vec<(String, Line)>) {
        if self.search_text().trim() == text {
            self.external_results = Some(Box::new((text.to_owned(), found.into_iter().collect())));
            self.filter();
        }
    }

    /// Returns the row of an externally found item.
    fn result_row(&self, id: &str) -> Option<&Line> {
        let (text, found) = self.external_results.as_deref()?;
        found.get(id).filter(|_| self.search_text().trim() == text)
    }

    /// Whether an item has a preview.
    pub(crate) fn has_preview(&self, id: &str) -> bool {
        self.items.iter().any(|item| item.id == id && !item.preview.is_empty())
    }

    /// Sets an item's preview.
    pub(crate) fn preview(&mut self, id: &str, rows: Vec<Line>) {
        if let Some(item) = self.items.iter_mut().find(|item| item.id == id) {
            item.preview = rows;
        }
    }

    /// Whether typing searches.
    pub(crate) fn is_searched(&self) -> bool {
        self.search.is_some()
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(search) = &mut self.search {
            search.insert(text);
            self.filter();
        }
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> DialogResponse {
        let last = self.matching.len().saturating_sub(1);
        let before = self.cursor;
        match key {
            DialogKey::Cancel => {
                if self.search.as_ref().is_some_and(|search| !search.text().is_empty()) {
                    self.search = Some(Field::default());
                    self.filter();
                    return DialogResponse::Stay;
                }
                return DialogResponse::Closed;
            }
            DialogKey::Confirm => return self.choose(),
            // While searching, they move the cursor in the search text.
            DialogKey::Left | DialogKey::Right if self.shows_tab() => {
                let (count, left) = (self.tabs.len(), key == DialogKey::Left);
                self.tab = (self.tab + if left { count - 1 } else { 1 }) % count;
                self.cursor = 0;
                self.filter();
                return match self.current() {
                    Some(item) => DialogResponse::Moved(item.id.clone()),
                    None => DialogResponse::Stay,
                };
            }
            DialogKey::Up => self.cursor = if before == 0 { last } else { before - 1 },
            DialogKey::Down => self.cursor = if before >= last { 0 } else { before + 1 },
            DialogKey::PageUp | DialogKey::PageDown if self.intro_page.get().1 > 0 => {
                let (page, last) = self.intro_page.get();
                let at = self.intro_at.min(last);
                self.intro_at = match key {
                    DialogKey::PageUp => at.saturating_sub(page),
                    _ => (at + page).min(last),
                };
            }
            DialogKey::PageUp => self.cursor = before.saturating_sub(MAX_SHOWN),
            DialogKey::PageDown => self.cursor = (before + MAX_SHOWN).min(last),
            // While searching, they move the cursor in the search text.
            DialogKey::First if self.search_text().is_empty() => self.cursor = 0,
            DialogKey::Last if self.search_text().is_empty() => self.cursor = last,
            _ => return self.handle_other_key(raw),
        }
        self.digits.clear();
        match self.current() {
            Some(item) if self.cursor != before => DialogResponse::Moved(item.id.clone()),
            _ => DialogResponse::Stay,
        }
    }

    fn handle_other_key(&mut self, raw: Key) -> DialogResponse {
        // Keys that a list may use itself, before the search does.
        let own = ['k', 'l', 'r', 's', 'x'].into_iter().any(|char| raw == Key::ctrl(char))
            || raw.code == KeyCode::Delete;
        if let Some(digit @ '1'..='9') = raw.character().filter(|_| self.shows_digits()) {
            let at = digit as usize - '1' as usize;
            if at < self.matching.len() {
                self.cursor = at;
                return self.choose();
            }
        }
        if let Some(search) = &mut self.search {
            // As in pagers, `/` begins a search.
            if search.text().is_empty() && raw.character() == Some('/') {
                return DialogResponse::Stay;
            }
            if !own && search.key(raw) {
                self.filter();
                self.cursor = 0;
                return match self.current() {
                    Some(item) => DialogResponse::Moved(item.id.clone()),
                    None => DialogResponse::Stay,
                };
            }
        } else if let KeyCode::Char(char) = raw.code
            && raw.character().is_some()
        {
            match char {
                '0'..='9' => return self.digit(char),
                'j' => return self.key(DialogKey::Down, raw),
                'k' => return self.key(DialogKey::Up, raw),
                _ => {}
            }
        }
        let id = self.current().map(|item| item.id.clone()).unwrap_or_default();
        DialogResponse::KeyPressed(raw, id)
    }

    /// Handles a digit. Chooses at once if no longer number can start with it.
    fn digit(&mut self, digit: char) -> DialogResponse {
        self.digits.push(digit);
        let Ok(number) = self.digits.parse::<usize>() else {
            self.digits.clear();
            return DialogResponse::Stay;
        };
        let count = self.matching.len();
        if number == 0 || number > count {
            self.digits.clear();
            return DialogResponse::Stay;
        }
        self.cursor = number - 1;
        if number * 10 > count {
            self.digits.clear();
            return self.choose();
        }
        DialogResponse::Stay
    }

    fn choose(&mut self) -> DialogResponse {
        self.digits.clear();
        let (id, disabled) = match self.current() {
            None => return DialogResponse::Stay,
            Some(item) => (item.id.clone(), item.disabled.clone()),
        };
        match disabled {
            Some(reason) => {
                self.notice = Some(reason);
                DialogResponse::Stay
            }
            None => DialogResponse::Chosen(id),
        }
    }

    /// Finds the items whose label, detail, or keywords contain every search word; matches in the
    /// label come first.
    fn filter(&mut self) {
        if self.shows_tab() {
            let is_here = |index: &usize| self.items[*index].tab == self.tab;
            self.matching = (0..self.items.len()).filter(is_here).collect();
            self.cursor = self.cursor.min(self.matching.len().saturating_sub(1));
            return;
        }
        let Some(search) = &self.search else {
            self.matching = (0..self.items.len()).collect();
            return;
        };
        let query = search.text().to_lowercase();
        let words: Vec<&str> = query.split_whitespace().collect();
        let holds = |text: &str| {
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let (mut by_label, mut by_detail) = (Vec::new(), Vec::new());
        let mut elsewhere = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            if holds(&item.label) {
                by_label.push(index);
            } else if holds(&item.searched_text()) {
                by_detail.push(index);
            } else if self.result_row(&item.id).is_some() {
                elsewhere.push(index);
            }
        }
        by_label.append(&mut by_detail);
        by_label.append(&mut elsewhere);
        self.matching = by_label;
        self.cursor = self.cursor.min(self.matching.len().saturating_sub(1));
    }

    /// Whether the items of only one tab are shown.
    fn shows_tab(&self) -> bool {
        !self.tabs.is_empty() && self.search_text().is_empty()
    }
}

#[cfg(test)]
mod tests;
