//! Lists whose items have a description: one dim row below each label. The item under the cursor
//! shows all of it, and the facts about the item.

use parallax_screen::{Line, Span, wrap};

use super::{ListDialog, ListItem};
use crate::layout::{truncate_text, with_prefix};
use crate::theme::Theme;
use crate::tokens::{NO_POINTER, selectable_rows};

/// Columns before a description, after those of the pointer.
const INDENT: &str = "  ";
/// The rows of an item that is not under the cursor.
const ROWS: usize = 2;
/// From this height on, there are empty rows above the list and above the hint.
const MIN_HEIGHT_FOR_PADDING: usize = 16;

impl ListDialog {
    /// Whether items have descriptions.
    pub(super) fn is_described(&self) -> bool {
        self.items.iter().any(|item| !item.description.is_empty())
    }

    /// Adds the items around the cursor. Returns how many of them are visible.
    pub(super) fn push_described(
        &self,
        rows: &mut Vec<Line>,
        width: usize,
        height: usize,
        theme: &Theme,
    ) -> usize {
        let air = if height < MIN_HEIGHT_FOR_PADDING { 0 } else { 2 };
        let notes = usize::from(self.search_status.is_some()) + usize::from(self.notice.is_some());
        let room = height.saturating_sub(rows.len() + 1 + air + notes).max(1);
        let label_width = self.label_width(width);
        let block = |offset: usize| -> Vec<Line> {
            let item = self.matching.get(offset).and_then(|index| self.items.get(*index));
            item.map_or_else(Vec::new, |item| {
                self.described_item(offset, item, label_width, width, theme)
            })
        };
        let selected = block(self.cursor);
        let others = room.saturating_sub(selected.len()) / ROWS;
        let visible = (1 + others).min(self.matching.len());
        let end = rows.len() + room;
        let first = self.first_visible(visible.max(1));
        for offset in first..first + visible {
            rows.extend(block(offset));
        }
        rows.truncate(end);
        visible
    }

    fn described_item(
        &self,
        offset: usize,
        item: &ListItem,
        label_width: usize,
        width: usize,
        theme: &Theme,
    ) -> Vec<Line> {
        let (label, is_whole) = self.row(offset, item, label_width, width, theme);
        let is_selected = offset == self.cursor;
        let mut rows = vec![label];
        let mut text = item.description.clone();
        if let Some(tab) = self.tabs.get(item.tab).filter(|_| !self.shows_tab()) {
            text = format!("{tab} · {text}");
        }
        let room = width.saturating_sub(NO_POINTER.len() + INDENT.len()).max(8);
        if !is_selected {
            let text = truncate_text(&text, room);
            rows.push(Line::styled(format!("{NO_POINTER}{INDENT}{text}"), theme.secondary));
            return rows;
        }
        let indented = |line: &Line| -> Vec<Line> {
            let wrapped = wrap(line, room, &[]).into_iter();
            wrapped.map(|row| with_prefix(&[Span::raw(INDENT)], row)).collect()
        };
        let mut texts = Vec::new();
        if !is_whole {
            texts.extend(indented(&Line::raw(format!("{}: {}", item.label, item.detail))));
        }
        texts.extend(indented(&Line::raw(text)));
        // The first row has the pointer.
        texts.insert(0, Line::EMPTY);
        rows.extend(selectable_rows(texts, true, width, theme).into_iter().skip(1));
        let facts = self.result_row(&item.id).into_iter().chain(&item.preview);
        let facts = facts.flat_map(indented);
        rows.extend(facts.map(|row| with_prefix(&[Span::raw(NO_POINTER)], row)));
        rows
    }
}
