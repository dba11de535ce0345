//! A list to choose from: numbered or searched, with a preview where it helps.

use std::collections::HashMap;

use parallax_screen::{Key, KeyCode, Line, Span, text_width, wrap};

use super::field::Field;
use super::{DialogKey, DialogView, Response};
use crate::app::cut;
use crate::layout::shortened;
use crate::theme::Theme;

/// Rows of a list that are shown at once.
const SHOWN: usize = 10;

/// One row to choose.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListItem {
    /// What is told when it is chosen.
    pub(crate) id: String,
    pub(crate) label: String,
    /// Behind the label, in less weight.
    pub(crate) detail: String,
    /// Why it cannot be chosen, if so.
    pub(crate) disabled: Option<String>,
    /// Rows shown beneath the list while the cursor is on it.
    pub(crate) preview: Vec<Line>,
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
    pub(crate) fn previewed(mut self, preview: Vec<Line>) -> Self {
        self.preview = preview;
        self
    }
}

/// The list and where the cursor is.
#[derive(Debug, Clone)]
pub(crate) struct ListDialog {
    title: String,
    intro: Vec<Line>,
    items: Vec<ListItem>,
    /// Indexes of the items that fit the search, best first.
    matching: Vec<usize>,
    search: Option<Field>,
    cursor: usize,
    hint: String,
    /// What is said where there is nothing to choose.
    empty: String,
    /// Digits typed so far, for lists without a search.
    digits: String,
    /// What was found elsewhere: for which text, and the items with a row each.
    found: Option<(String, HashMap<String, Line>)>,
    /// The text that was last looked for elsewhere.
    looked: String,
    /// Something to be told beneath the list.
    pub(crate) notice: Option<String>,
}

impl ListDialog {
    /// A numbered list.
    pub(crate) fn new(title: impl Into<String>, items: Vec<ListItem>) -> Self {
        let matching = (0..items.len()).collect();
        Self {
            title: title.into(),
            intro: Vec::new(),
            items,
            matching,
            search: None,
            cursor: 0,
            hint: "enter choose · esc back".to_owned(),
            empty: "nothing is here".to_owned(),
            digits: String::new(),
            found: None,
            looked: String::new(),
            notice: None,
        }
    }

    /// Typing searches instead of choosing by number.
    #[must_use]
    pub(crate) fn searched(mut self) -> Self {
        self.search = Some(Field::default());
        "type to search · enter choose · esc back".clone_into(&mut self.hint);
        self
    }

    /// What is said while there is nothing to choose.
    #[must_use]
    pub(crate) fn when_empty(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }

    /// Rows above the list.
    #[must_use]
    pub(crate) fn intro(mut self, rows: Vec<Line>) -> Self {
        self.intro = rows;
        self
    }

    /// What the keys do, beneath the list.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Another title.
    pub(crate) fn retitle(&mut self, title: impl Into<String>) {
        self.title = title.into();
    }

    /// The cursor on this item.
    #[must_use]
    pub(crate) fn at(mut self, id: &str) -> Self {
        if let Some(at) = self.matching.iter().position(|index| self.items[*index].id == id) {
            self.cursor = at;
        }
        self
    }

    /// Exchanges the items; the cursor stays on its item where it still is.
    pub(crate) fn replace(&mut self, items: Vec<ListItem>) {
        let id = self.current().map(|item| item.id.clone());
        self.items = items;
        self.filter();
        let matching = &self.matching;
        let at = id.and_then(|id| matching.iter().position(|index| self.items[*index].id == id));
        self.cursor = at.unwrap_or(self.cursor).min(self.matching.len().saturating_sub(1));
    }

    /// The item that the cursor is on.
    pub(crate) fn current(&self) -> Option<&ListItem> {
        self.matching.get(self.cursor).and_then(|index| self.items.get(*index))
    }

    /// What is searched for.
    pub(crate) fn search_text(&self) -> String {
        self.search.as_ref().map(|search| search.text().to_owned()).unwrap_or_default()
    }

    /// Whether this text was looked for elsewhere already; from now on it was.
    pub(crate) fn looked_for(&mut self, text: &str) -> bool {
        let again = self.looked == text;
        text.clone_into(&mut self.looked);
        again
    }

    /// What was found elsewhere for a text: items with the row that says why.
    /// It counts as long as that is the text.
    pub(crate) fn found(&mut self, text: &str, found: Vec<(String, Line)>) {
        if self.search_text().trim() == text {
            self.found = Some((text.to_owned(), found.into_iter().collect()));
            self.filter();
        }
    }

    /// The row of an item that was found elsewhere.
    fn found_row(&self, id: &str) -> Option<&Line> {
        let (text, found) = self.found.as_ref()?;
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

    /// Whether letters search.
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
            DialogKey::Up => self.cursor = if before == 0 { last } else { before - 1 },
            DialogKey::Down => self.cursor = if before >= last { 0 } else { before + 1 },
            DialogKey::PageUp => self.cursor = before.saturating_sub(SHOWN),
            DialogKey::PageDown => self.cursor = (before + SHOWN).min(last),
            DialogKey::First if self.search.is_none() => self.cursor = 0,
            DialogKey::Last if self.search.is_none() => self.cursor = last,
            _ => return self.other(raw),
        }
        self.digits.clear();
        match self.current() {
            Some(item) if self.cursor != before => Response::Moved(item.id.clone()),
            _ => Response::Stay,
        }
    }

    fn other(&mut self, raw: Key) -> Response {
        // Keys that a list may have a use of its own for, before the search has.
        let own = ['k', 'l', 'r', 's', 'x'].into_iter().any(|char| raw == Key::ctrl(char))
            || raw.code == KeyCode::Delete;
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
            && raw.typed().is_some()
        {
            match char {
                '0'..='9' => return self.digit(char),
                'j' => return self.key(DialogKey::Down, raw),
                'k' => return self.key(DialogKey::Up, raw),
                _ => {}
            }
        }
        let id = self.current().map(|item| item.id.clone()).unwrap_or_default();
        Response::Pressed(raw, id)
    }

    /// A digit chooses at once when no longer number can begin with it.
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
            Some(why) => {
                self.notice = Some(why);
                Response::Stay
            }
            None => Response::Chosen(id),
        }
    }

    /// Items whose label or detail holds every word of the search; those whose
    /// label does come first.
    fn filter(&mut self) {
        let Some(search) = &self.search else {
            self.matching = (0..self.items.len()).collect();
            return;
        };
        let wanted = search.text().to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        let holds = |text: &str| {
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let (mut by_label, mut by_detail) = (Vec::new(), Vec::new());
        let mut elsewhere = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            if holds(&item.label) {
                by_label.push(index);
            } else if holds(&format!("{} {}", item.label, item.detail)) {
                by_detail.push(index);
            } else if self.found_row(&item.id).is_some() {
                elsewhere.push(index);
            }
        }
        by_label.append(&mut by_detail);
        by_label.append(&mut elsewhere);
        self.matching = by_label;
        self.cursor = self.cursor.min(self.matching.len().saturating_sub(1));
    }

    /// The rows, `height` at most.
    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        let mut rows = wrap(&Line::styled(self.title.clone(), theme.accent.bold()), width, &[]);
        for line in &self.intro {
            rows.extend(wrap(line, width, &[]));
        }
        let mut cursor = None;
        if let Some(search) = &self.search {
            let (text, column) = search.row(width.saturating_sub(3));
            cursor = Some((column + 2, rows.len()));
            rows.push(Line::styled("⌕ ", theme.secondary).and(text, theme.text));
        }
        let shown = SHOWN.min(height.saturating_sub(rows.len() + 2)).max(1);
        let first = self.first_shown(shown);
        let label_width = self.label_width(width);
        let mut cut_short = None;
        for (offset, index) in self.matching.iter().enumerate().skip(first).take(shown) {
            let item = &self.items[*index];
            let (row, is_whole) = self.row(offset, item, label_width, width, theme);
            rows.push(row);
            if offset == self.cursor && !is_whole {
                cut_short = Some(format!("{}  {}", item.label, item.detail));
            }
        }
        if self.matching.is_empty() {
            let why = if self.items.is_empty() { &self.empty } else { "nothing fits" };
            rows.push(Line::styled(format!("  {why}"), theme.secondary));
        }
        if let Some(text) = cut_short {
            // All of it, while there is room for at least the start.
            let text = Line::styled(text.trim_end().to_owned(), theme.secondary);
            let room = height.saturating_sub(rows.len() + 1);
            rows.extend(wrap(&text, width, &[]).into_iter().take(room));
        }
        self.foot(&mut rows, width, height, shown, theme);
        let rows = rows.into_iter().map(|row| cut(row, width)).collect();
        DialogView { rows, cursor }
    }

    fn first_shown(&self, shown: usize) -> usize {
        let last_first = self.matching.len().saturating_sub(shown);
        self.cursor.saturating_sub(shown / 2).min(last_first)
    }

    fn label_width(&self, width: usize) -> usize {
        let widest = self.matching.iter().map(|index| text_width(&self.items[*index].label)).max();
        widest.unwrap_or(0).min(width.saturating_sub(8).max(8) * 3 / 5)
    }

    /// An item's row, and whether it shows all of its text.
    fn row(
        &self,
        offset: usize,
        item: &ListItem,
        label_width: usize,
        width: usize,
        theme: &Theme,
    ) -> (Line, bool) {
        let chosen = offset == self.cursor;
        let label = match (chosen, &item.disabled) {
            (_, Some(_)) => theme.secondary,
            (true, None) => theme.selected,
            (false, None) => theme.text,
        };
        let sign = if chosen { "❯ " } else { "  " };
        let number = match self.search {
            Some(_) => String::new(),
            None => {
                let digits = self.matching.len().to_string().len();
                format!("{:>digits$}. ", offset + 1)
            }
        };
        let room = width.saturating_sub(2 + text_width(&number));
        let most = if item.detail.is_empty() { room } else { label_width };
        let text = shortened(&item.label, most);
        let mut is_whole = text == item.label;
        let pad = label_width.saturating_sub(text_width(&text)) + 2;
        let left = room.saturating_sub(text_width(&text) + pad);
        let mut line = Line::styled(sign, theme.accent).and(number, label).and(text, label);
        if !item.detail.is_empty() {
            let detail = if left > 4 { shortened(&item.detail, left) } else { String::new() };
            is_whole &= detail == item.detail;
            line.push(Span::raw(" ".repeat(pad)));
            line.push(Span::styled(detail, theme.secondary));
        }
        (line, is_whole)
    }

    fn foot(&self, rows: &mut Vec<Line>, width: usize, height: usize, shown: usize, theme: &Theme) {
        if let Some(item) = self.current() {
            let room = height.saturating_sub(rows.len() + 2);
            let preview = self.found_row(&item.id).into_iter().chain(&item.preview);
            let wrapped: Vec<Line> =
                preview.flat_map(|line| wrap(line, width, &[])).take(room).collect();
            if !wrapped.is_empty() {
                rows.push(Line::styled("─".repeat(width.min(40)), theme.border));
                rows.extend(wrapped);
            }
        }
        if let Some(notice) = &self.notice {
            rows.extend(wrap(&Line::styled(notice.clone(), theme.warning), width, &[]));
        }
        let mut hint = self.hint.clone();
        if self.matching.len() > shown {
            hint = format!("{} of {} · {hint}", self.cursor + 1, self.matching.len());
        }
        rows.push(Line::styled(shortened(&hint, width), theme.secondary));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> ListDialog {
        let items = (1..=count)
            .map(|number| ListItem::new(number.to_string(), format!("item {number}"), ""));
        ListDialog::new("Items", items.collect())
    }

    fn press(list: &mut ListDialog, code: KeyCode) -> Response {
        let key = Key::plain(code);
        list.key(DialogKey::of(key), key)
    }

    #[test]
    fn a_number_chooses_as_soon_as_it_is_plain() {
        let mut short = list(5);
        assert_eq!(press(&mut short, KeyCode::Char('3')), Response::Chosen("3".into()));
        let mut long = list(25);
        assert_eq!(press(&mut long, KeyCode::Char('1')), Response::Stay);
        assert_eq!(press(&mut long, KeyCode::Char('2')), Response::Chosen("12".into()));
        assert_eq!(press(&mut long, KeyCode::Char('9')), Response::Chosen("9".into()));
    }

    #[test]
    fn a_search_narrows_and_escape_first_ends_the_search() {
        let mut list = list(30).searched();
        for char in "item 2".chars() {
            press(&mut list, KeyCode::Char(char));
        }
        assert_eq!(list.matching.len(), 12);
        assert_eq!(press(&mut list, KeyCode::Enter), Response::Chosen("2".into()));
        assert_eq!(press(&mut list, KeyCode::Escape), Response::Stay);
        assert_eq!(press(&mut list, KeyCode::Escape), Response::Closed);
    }

    #[test]
    fn what_a_narrow_window_cuts_of_the_chosen_item_stands_below() {
        let items = vec![
            ListItem::new("a", "Paste a key", "checked, and kept where only you can read it"),
            ListItem::new("b", "Try it", "an offline demonstration: scripted words"),
        ];
        let mut list = ListDialog::new("How shall the model be reached?", items);
        let shown = |list: &ListDialog, width| -> Vec<String> {
            list.view(width, 20, &Theme::default()).rows.iter().map(Line::text).collect()
        };
        let rows = shown(&list, 40);
        assert_eq!(rows[1], "❯ 1. Paste a key  checked, and kept whe…");
        assert_eq!(rows[3..5], ["Paste a key  checked, and kept where", "only you can read it"]);
        press(&mut list, KeyCode::Down);
        assert_eq!(shown(&list, 40)[3], "Try it  an offline demonstration:");
        assert!(!shown(&list, 80).join("\n").contains('…'));
    }

    #[test]
    fn what_is_disabled_tells_why() {
        let mut items = vec![ListItem::new("a", "a", "")];
        items[0].disabled = Some("not here".to_owned());
        let mut list = ListDialog::new("x", items);
        assert_eq!(press(&mut list, KeyCode::Enter), Response::Stay);
        assert_eq!(list.notice.as_deref(), Some("not here"));
    }

    #[test]
    fn no_row_is_wider_than_the_window() {
        let items = vec![ListItem::new("a", "日本語".repeat(30), "detail ".repeat(30))];
        let list = ListDialog::new("x", items);
        for width in 8..120 {
            for row in list.view(width, 12, &Theme::default()).rows {
                assert!(row.width() <= width, "{width}: {}", row.text());
            }
        }
    }
}
