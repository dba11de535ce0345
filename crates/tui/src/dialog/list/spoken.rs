//! The list in words, for screen readers: all rows, without columns and rules.

use parallax_screen::{Line, with_visible_characters};

use super::{IntroText, ListDialog};
use crate::dialog::DialogView;
use crate::dialog::field::spoken_search_row;
use crate::dialog::tabs::hint;
use crate::theme::Theme;
use crate::tokens::pointer;

/// A value that is not set, in lists on the screen.
const UNSET: &str = "–";

impl ListDialog {
    /// Returns the rows, which may be longer than the window is wide. That of the search is last.
    pub(crate) fn screen_reader_view(&self, width: usize, theme: &Theme) -> DialogView {
        let mut rows = vec![Line::raw(self.title.clone())];
        rows.extend(self.warnings.iter().chain(&self.explanation).cloned());
        match &self.intro {
            IntroText::Lines(lines) => rows.extend(lines.iter().cloned()),
            IntroText::Layout(layout) => rows.extend(layout.rows(width, theme)),
        }
        if self.shows_tab() {
            let title = self.tabs.get(self.tab).cloned().unwrap_or_default();
            rows.push(Line::raw(format!("Tab {} of {}: {title}", self.tab + 1, self.tabs.len())));
        }
        if !self.search_text().is_empty() {
            rows.push(Line::raw(match self.matching.len() {
                1 => "1 match".to_owned(),
                found => format!("{found} matches"),
            }));
        } else if self.items.is_empty() {
            rows.push(Line::raw(self.empty.clone()));
        }
        for (offset, index) in self.matching.iter().enumerate() {
            let Some(item) = self.items.get(*index) else { continue };
            let number = self.row_prefix(offset, item, theme).0.text();
            let mut text = format!("{}{}", number.trim_start(), item.label);
            let detail = self.detail(item);
            if !detail.is_empty() {
                text.push_str(&format!(": {}", if detail == UNSET { "not set" } else { &detail }));
            }
            let row = Line::raw(format!("{}{text}", pointer(offset == self.cursor)));
            rows.push(row);
        }
        if let Some(item) = self.current() {
            if !item.description.is_empty() {
                rows.push(Line::raw(item.description.clone()));
            }
            rows.extend(self.result_row(&item.id).into_iter().chain(&item.preview).cloned());
        }
        let notes = self.search_status.iter().chain(&self.notice);
        rows.extend(notes.map(|note| Line::raw(note.clone())));
        let is_searching = !self.search_text().is_empty();
        rows.push(Line::raw(hint(&self.hint, self.shows_tab(), is_searching)));
        let mut cursor = None;
        if let Some(search) = &self.search {
            let (row, column) = spoken_search_row(search, width, theme);
            cursor = Some((column, rows.len()));
            rows.push(row);
        }
        DialogView { rows: rows.iter().map(with_visible_characters).collect(), cursor }
    }
}
