//! A selection list: numbered or searchable, optionally with a preview.

mod spoken;

use std::cell::Cell;
use std::collections::HashMap;

use parallax_screen::{Key, KeyCode, Line, Span, Style, text_width, wrap};

use super::field::{Field, search_row};
use super::{DialogKey, DialogView, Response, tabs};
use crate::layout::truncate_row;
use crate::layout::{hint_row, truncate_text, with_prefix};
use crate::theme::Theme;
use crate::tokens::{NO_POINTER, selectable, selectable_rows};

/// Windows with fewer columns show only labels.
const NARROW: usize = 32;
/// Maximum number of visible items.
const MAX_SHOWN: usize = 10;
/// Rows of a high window, where the items may take half of it.
const HIGH: usize = 36;

/// An item of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListItem {
    /// The value returned when the item is chosen.
    pub(crate) id: String,
    pub(crate) label: String,
    /// Secondary text after the label.
    pub(crate) detail: String,
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
        Self { id: id.into(), label: label.into(), detail: detail.into(), ..Self::default() }
    }

    #[must_use]
    pub(crate) fn with_preview(mut self, preview: Vec<Line>) -> Self {
        self.preview = preview;
        self
    }
}

/// A list and its cursor.
#[derive(Debug, Clone)]
pub(crate) struct ListDialog {
    title: String,
    intro: Vec<Line>,
    /// The first visible row of the intro.
    intro_at: usize,
    /// The number of intro rows per page, and the last row that a page can start with.
    intro_page: Cell<(usize, usize)>,
    items: Vec<ListItem>,
    /// Titles of tabs. Each tab shows its items; a search covers all.
    tabs: Vec<&'static str>,
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
            intro: Vec::new(),
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

    /// Puts the items into tabs.
    #[must_use]
    pub(crate) fn with_tabs(mut self, tabs: Vec<&'static str>) -> Self {
        self.tabs = tabs;
        self.filter();
        self
    }

    /// Sets the text shown for an empty list.
    #[must_use]
    pub(crate) fn with_empty_text(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }

    /// Sets the rows above the list.
    #[must_use]
    pub(crate) fn intro(mut self, rows: Vec<Line>) -> Self {
        self.intro = rows;
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

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> Response {
        let last = self.matching.len().saturating_sub(1);
        let before = self.cursor;
        match key {
            DialogKey::Cancel => {
                if self.search.as_ref().is_some_and(|search| !search.text().is_empty()) {
                    self.search = Some(Field::default());
                    self.filter();
                    return Response::Stay;
                }
                return Response::Closed;
            }
            DialogKey::Confirm => return self.choose(),
            // While searching, they move the cursor in the search text.
            DialogKey::Left | DialogKey::Right if self.shows_tab() => {
                let (count, left) = (self.tabs.len(), key == DialogKey::Left);
                self.tab = (self.tab + if left { count - 1 } else { 1 }) % count;
                self.cursor = 0;
                self.filter();
                return match self.current() {
                    Some(item) => Response::Moved(item.id.clone()),
                    None => Response::Stay,
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
            Some(item) if self.cursor != before => Response::Moved(item.id.clone()),
            _ => Response::Stay,
        }
    }

    fn handle_other_key(&mut self, raw: Key) -> Response {
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
            if !own && search.key(raw) {
                self.filter();
                self.cursor = 0;
                return match self.current() {
                    Some(item) => Response::Moved(item.id.clone()),
                    None => Response::Stay,
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
        Response::KeyPressed(raw, id)
    }

    /// Handles a digit. Chooses at once if no longer number can start with it.
    fn digit(&mut self, digit: char) -> Response {
        self.digits.push(digit);
        let Ok(number) = self.digits.parse::<usize>() else {
            self.digits.clear();
            return Response::Stay;
        };
        let count = self.matching.len();
        if number == 0 || number > count {
            self.digits.clear();
            return Response::Stay;
        }
        self.cursor = number - 1;
        if number * 10 > count {
            self.digits.clear();
            return self.choose();
        }
        Response::Stay
    }

    fn choose(&mut self) -> Response {
        self.digits.clear();
        let (id, disabled) = match self.current() {
            None => return Response::Stay,
            Some(item) => (item.id.clone(), item.disabled.clone()),
        };
        match disabled {
            Some(reason) => {
                self.notice = Some(reason);
                Response::Stay
            }
            None => Response::Chosen(id),
        }
    }

    /// Finds the items whose label, detail, or keywords contain every search word; matches in the label come
    /// first.
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
            } else if holds(&format!("{} {} {}", item.label, item.detail, item.keywords)) {
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

    /// Returns at most `height` rows.
    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        let mut rows = wrap(&Line::styled(self.title.clone(), theme.accent.bold()), width, &[]);
        let title = rows.len();
        rows.extend(self.intro_rows(width, height.saturating_sub(rows.len()), theme));
        if self.shows_tab() {
            rows.push(tabs::row(&self.tabs, self.tab, width, theme));
        }
        let mut cursor = None;
        if let Some(search) = &self.search {
            let (row, column) = search_row(search, width, theme);
            cursor = Some((column, rows.len()));
            rows.push(row);
        }
        let head = rows.len();
        let limit = if height < HIGH { MAX_SHOWN } else { height / 2 };
        let visible_rows =
            limit.min(height.saturating_sub(rows.len() + self.footer_row_count())).max(1);
        let first = self.first_visible(visible_rows);
        let label_width = self.label_width(width);
        let mut cut_short = None;
        let room = height.saturating_sub(rows.len() + 1);
        let whole = self.wrapped_rows(label_width, width, room, theme);
        let in_rows = if whole.is_some() { 0 } else { visible_rows };
        let visible_rows = if whole.is_some() { self.matching.len() } else { visible_rows };
        rows.extend(whole.into_iter().flatten());
        for (offset, index) in self.matching.iter().enumerate().skip(first).take(in_rows) {
            let item = &self.items[*index];
            let (row, is_whole) = self.row(offset, item, label_width, width, theme);
            if visible_rows == 1 && !is_whole {
                // No other item needs the rows.
                let room = height.saturating_sub(rows.len() + 1).max(1);
                rows.extend(self.item_rows(offset, item, width, theme).into_iter().take(room));
                continue;
            }
            rows.push(row);
            if offset == self.cursor && !is_whole {
                let label = match text_width(&item.label) <= label_width {
                    true => "",
                    false => &item.label,
                };
                cut_short = Some(format!("{label}  {}", item.detail));
            }
        }
        if self.matching.is_empty() {
            let reason = match &self.search_status {
                _ if self.items.is_empty() => &self.empty,
                Some(_) => "no match so far",
                None => "no match",
            };
            rows.push(Line::styled(format!("  {reason}"), theme.secondary));
        }
        if let Some(text) = cut_short {
            // Show the whole text if at least its start fits.
            let text = Line::styled(format!("  {}", text.trim()), theme.secondary);
            let room = height.saturating_sub(rows.len() + 1);
            rows.extend(first_rows(wrap(&text, width, &[Span::raw("  ")]), room, width));
        }
        self.push_footer(&mut rows, width, height, visible_rows, theme);
        let mut rows: Vec<Line> = rows.into_iter().map(|row| truncate_row(row, width)).collect();
        // Empty rows above the list and above the hint, if both fit.
        if rows.len() + 2 <= height {
            rows.insert(rows.len() - 1, Line::EMPTY);
            rows.insert(head, Line::EMPTY);
            cursor = cursor.map(|(column, row)| (column, row + usize::from(row >= head)));
        }
        // An empty row below the title if text follows.
        if !self.intro.is_empty() && rows.len() < height {
            rows.insert(title, Line::EMPTY);
            cursor = cursor.map(|(column, row)| (column, row + usize::from(row >= title)));
        }
        DialogView { rows, cursor }
    }

    /// Returns the rows above the list that fit; the others are shown page by page.
    fn intro_rows(&self, width: usize, height: usize, theme: &Theme) -> Vec<Line> {
        let rows: Vec<Line> = self.intro.iter().flat_map(|line| wrap(line, width, &[])).collect();
        let search = usize::from(self.search.is_some());
        let room =
            |items: usize| height.saturating_sub(self.matching.len().clamp(1, items) + search + 1);
        if rows.is_empty() || rows.len() < room(3) {
            self.intro_page.set((0, 0));
            return rows;
        }
        // If space is scarce, one visible item is enough.
        let room = if room(3) > 3 { room(3) - 1 } else { room(1).max(1) };
        let page = room.saturating_sub(1).max(1);
        let last = rows.len().saturating_sub(page);
        self.intro_page.set((page, last));
        let (at, count) = (self.intro_at.min(last), rows.len());
        let mut shown: Vec<Line> = rows.into_iter().skip(at).take(page).collect();
        let text =
            format!("… rows {} to {} of {count}: page up, page down", at + 1, at + shown.len());
        let report = Line::styled(truncate_text(&text, width), theme.warning);
        match room {
            // The first page shows that there are more.
            1 if at == 0 => shown = vec![report],
            1 => {}
            _ => shown.push(report),
        }
        shown
    }

    /// Returns the rows of a numbered list with wrapped items, if they fit.
    fn wrapped_rows(
        &self,
        label_width: usize,
        width: usize,
        room: usize,
        theme: &Theme,
    ) -> Option<Vec<Line>> {
        if self.search.is_some() || self.matching.len() > MAX_SHOWN {
            return None;
        }
        let items = || self.matching.iter().map(|index| &self.items[*index]).enumerate();
        let is_whole = |(at, item)| self.row(at, item, label_width, width, theme).1;
        if items().all(is_whole) {
            return None;
        }
        // All details are below their labels, so that the items look alike.
        let rows: Vec<Line> =
            items().flat_map(|(at, item)| self.item_rows(at, item, width, theme)).collect();
        (rows.len() <= room).then_some(rows)
    }

    /// Returns an item with its whole text.
    fn item_rows(&self, offset: usize, item: &ListItem, width: usize, theme: &Theme) -> Vec<Line> {
        let (lead, style) = self.row_prefix(offset, item, theme);
        let hang = [Span::raw(" ".repeat(lead.width()))];
        let room = width.saturating_sub(text_width(NO_POINTER));
        let mut rows = wrap(&lead.with_span(item.label.clone(), style), room, &hang);
        if !item.detail.is_empty() {
            let remaining = room.saturating_sub(hang[0].width()).max(8);
            let detail = wrap(&Line::styled(item.detail.clone(), theme.secondary), remaining, &[]);
            rows.extend(detail.into_iter().map(|row| with_prefix(&hang, row)));
        }
        self.with_marker(rows, offset, width, theme)
    }

    fn first_visible(&self, visible_rows: usize) -> usize {
        let last_first = self.matching.len().saturating_sub(visible_rows);
        self.cursor.saturating_sub(visible_rows / 2).min(last_first)
    }

    /// Returns the columns of labels: all that details do not need, and at least three fifths.
    fn label_width(&self, width: usize) -> usize {
        let widest = |of: fn(&ListItem) -> &String| {
            self.matching.iter().map(|index| text_width(of(&self.items[*index]))).max().unwrap_or(0)
        };
        let room = width.saturating_sub(8).max(8);
        let beside = room.saturating_sub(widest(|item| &item.detail));
        widest(|item| &item.label).min(beside.max(room * 3 / 5))
    }

    /// Returns the rows of an item with the marker before the first; the selected item is
    /// highlighted.
    fn with_marker(
        &self,
        rows: Vec<Line>,
        offset: usize,
        width: usize,
        theme: &Theme,
    ) -> Vec<Line> {
        let selected = offset == self.cursor;
        selectable_rows(rows, selected, width, theme)
    }

    /// Returns the number before an item's label, and the label's style.
    fn row_prefix(&self, offset: usize, item: &ListItem, theme: &Theme) -> (Line, Style) {
        let label = if item.disabled.is_some() { theme.secondary } else { theme.text };
        let number = match self.search {
            Some(_) if self.shows_digits() => match offset {
                0..9 => format!("{}. ", offset + 1),
                _ => "   ".to_owned(),
            },
            Some(_) => String::new(),
            None => {
                let digits = self.matching.len().to_string().len();
                format!("{:>digits$}. ", offset + 1)
            }
        };
        (Line::styled(number, label), label)
    }

    /// Returns an item's row and whether it shows the whole text.
    fn row(
        &self,
        offset: usize,
        item: &ListItem,
        label_width: usize,
        width: usize,
        theme: &Theme,
    ) -> (Line, bool) {
        let (lead, label) = self.row_prefix(offset, item, theme);
        let room = width.saturating_sub(lead.width() + text_width(NO_POINTER));
        // In a narrow window the label alone is more useful than truncated label and detail.
        let (label_limit, label_width) = match item.detail.is_empty() || width < NARROW {
            true => (room, room),
            false => (label_width, label_width),
        };
        let text = truncate_text(&item.label, label_limit);
        let mut is_whole = text == item.label;
        let pad = label_width.saturating_sub(text_width(&text)) + 2;
        let remaining = room.saturating_sub(text_width(&text) + pad);
        let mut line = lead.with_span(text, label);
        if !item.detail.is_empty() {
            let detail =
                if remaining > 4 { truncate_text(&item.detail, remaining) } else { String::new() };
            is_whole &= detail == item.detail;
            if !detail.is_empty() {
                line.push(Span::raw(" ".repeat(pad)));
                line.push(Span::styled(detail, theme.secondary));
            }
        }
        (selectable(line, offset == self.cursor, width, theme), is_whole)
    }

    /// Returns the number of rows that the foot always needs.
    fn footer_row_count(&self) -> usize {
        2 + usize::from(self.search_status.is_some())
    }

    fn push_footer(
        &self,
        rows: &mut Vec<Line>,
        width: usize,
        height: usize,
        visible_rows: usize,
        theme: &Theme,
    ) {
        if let Some(item) = self.current() {
            let room = height.saturating_sub(rows.len() + self.footer_row_count());
            let preview = self.result_row(&item.id).into_iter().chain(&item.preview);
            let wrapped: Vec<Line> = preview.flat_map(|line| wrap(line, width, &[])).collect();
            let wrapped = first_rows(wrapped, room.saturating_sub(1), width);
            if !wrapped.is_empty() {
                rows.push(Line::styled("─".repeat(width), theme.border));
                rows.extend(wrapped);
            }
        }
        if let Some(under_way) = &self.search_status {
            rows.push(Line::styled(format!("  {under_way}"), theme.secondary));
        }
        if let Some(notice) = &self.notice {
            rows.extend(wrap(&Line::styled(notice.clone(), theme.warning), width, &[]));
        }
        let mut hint = self.hint.clone();
        if self.matching.len() > visible_rows {
            hint = format!("{} of {} · {hint}", self.cursor + 1, self.matching.len());
        }
        rows.push(Line::styled(hint_row(&hint, width), theme.secondary));
    }
}

/// Returns the first rows; the last one says whether there are more.
fn first_rows(mut rows: Vec<Line>, room: usize, width: usize) -> Vec<Line> {
    let is_cut = rows.len() > room;
    rows.truncate(room);
    if let Some(last) = rows.last_mut().filter(|_| is_cut) {
        let style = last.spans.last().map(|span| span.style).unwrap_or_default();
        let text = std::mem::take(last);
        *last = truncate_row(text, width.saturating_sub(1)).with_span("…", style);
    }
    rows
}

#[cfg(test)]
mod tests;
