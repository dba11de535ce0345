//! Draws a list: its title, tabs, search, items, and what belongs to the item under the cursor.

use parallax_screen::{Line, Span, Style, text_width, wrap};

use super::{ListDialog, ListItem};
use crate::dialog::field::search_row;
use crate::dialog::layout::{scroll_position, wrap_entries};
use crate::dialog::tabs::hint;
use crate::dialog::{DialogView, tabs};
use crate::layout::{hint_row, truncate_row, truncate_text, with_prefix};
use crate::theme::Theme;
use crate::tokens::{NO_POINTER, list_row, selectable_rows};

/// Windows with fewer columns show only labels.
const NARROW: usize = 32;
/// Maximum number of visible items.
pub(super) const MAX_SHOWN: usize = 10;
/// Number of answers of a question that stay in view while its text scrolls.
const LEAST_ANSWERS: usize = 7;
/// Number of rows reserved for the full text of a truncated item.
const MAX_CUT_ROWS: usize = 3;
/// Height in rows from which the items may take half of the window.
const HIGH: usize = 36;

impl ListDialog {
    /// Returns at most `height` rows.
    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        let mut rows = wrap(&Line::styled(self.title.clone(), theme.accent.bold()), width, &[]);
        let title = rows.len();
        let hang = [Span::raw("  ")];
        let warnings: Vec<Line> =
            self.warnings.iter().flat_map(|line| wrap(line, width, &hang)).collect();
        // The answers of a question, or a choice, and the hint stay in view.
        let room = height.saturating_sub(rows.len() + self.least_shown() + 1);
        rows.extend(first_rows(warnings, room, width));
        let intro = rows.len();
        rows.extend(self.intro_rows(width, height.saturating_sub(rows.len()), theme));
        let intro_end = rows.len();
        if !self.tabs.is_empty() {
            let open = self.shows_tab().then_some(self.tab);
            rows.push(tabs::row(&self.tabs, open, width, theme));
        }
        let search_at = rows.len();
        if self.search.is_some() {
            rows.push(Line::EMPTY);
        }
        let head = rows.len();
        let (visible_rows, cut_short) = match self.is_described() {
            true => (self.push_described(&mut rows, width, height, theme), None),
            false => self.push_items(&mut rows, width, height, theme),
        };
        let position_text = match self.matching.len() > visible_rows {
            true => format!("{} of {}", self.cursor + 1, self.matching.len()),
            false => String::new(),
        };
        let mut cursor = None;
        if let (Some(search), Some(row)) = (&self.search, rows.get_mut(search_at)) {
            let (shown, column) = search_row(search, &position_text, width, theme);
            *row = shown;
            cursor = Some((column, search_at));
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
        self.push_footer(&mut rows, width, height, &position_text, theme);
        let mut rows: Vec<Line> = rows.into_iter().map(|row| truncate_row(row, width)).collect();
        // Empty rows above the list and above the hint, if both fit.
        if rows.len() + 2 <= height {
            rows.insert(rows.len() - 1, Line::EMPTY);
            rows.insert(head, Line::EMPTY);
            cursor = cursor.map(|(column, row)| (column, row + usize::from(row >= head)));
        }
        // An empty row below warnings.
        if title < intro && intro < intro_end && rows.len() < height {
            rows.insert(intro, Line::EMPTY);
            cursor = cursor.map(|(column, row)| (column, row + 1));
        }
        // An empty row below the title if text follows.
        if (title < intro || intro < intro_end) && rows.len() < height {
            rows.insert(title, Line::EMPTY);
            cursor = cursor.map(|(column, row)| (column, row + usize::from(row >= title)));
        }
        DialogView { rows, cursor }
    }

    /// Adds the visible items. Returns their number, and the whole text of the selected one if its
    /// row is cut.
    fn push_items(
        &self,
        rows: &mut Vec<Line>,
        width: usize,
        height: usize,
        theme: &Theme,
    ) -> (usize, Option<String>) {
        let limit = if height < HIGH { MAX_SHOWN } else { height / 2 };
        let label_width = self.label_width(width);
        let room = height.saturating_sub(rows.len() + 1);
        if let Some(whole) = self.wrapped_rows(label_width, width, room, theme) {
            rows.extend(whole);
            return (self.matching.len(), None);
        }
        // The whole text of the selected item has precedence over other items.
        let cut = self
            .current()
            .map_or(0, |item| self.cut_rows(self.cursor, item, (label_width, width), theme));
        let footer = self.footer_row_count();
        let room = height.saturating_sub(rows.len() + footer);
        let room = if cut > 0 { (room + 1).saturating_sub(cut) } else { room };
        let spare = height.saturating_sub(rows.len() + 1);
        let has_whole_labels = self.matching.iter().all(|index| {
            let label = text_width(&self.items[*index].label);
            label + text_width("  1. ") <= width && label <= label_width
        });
        let least = self.least_shown();
        // Below text, all answers are more important than the whole text of one.
        let has_text = !rows.is_empty() && !self.intro.is_empty();
        let keeps_all = has_whole_labels || has_text || least + cut.min(1) <= spare;
        let least = if keeps_all { least.min(spare) } else { 1 };
        let visible_rows = limit.min(room).max(least).max(1);
        let first = self.first_visible(visible_rows);
        let mut cut_short = None;
        for (offset, index) in self.matching.iter().enumerate().skip(first).take(visible_rows) {
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
                cut_short = Some(format!("{label}  {}", self.detail(item)));
            }
        }
        (visible_rows, cut_short)
    }

    /// Returns how many rows the whole text of an item needs below the list while the cursor is on
    /// it, because its own row is cut.
    fn cut_rows(
        &self,
        offset: usize,
        item: &ListItem,
        (label_width, width): (usize, usize),
        theme: &Theme,
    ) -> usize {
        if self.row(offset, item, label_width, width, theme).1 {
            return 0;
        }
        let text = format!("  {}  {}", item.label, self.detail(item));
        wrap(&Line::raw(text), width, &[Span::raw("  ")]).len().min(MAX_CUT_ROWS)
    }

    /// Returns how many items stay in view although other rows need the space: the answers of a
    /// question, but only one item of a list for browsing.
    fn least_shown(&self) -> usize {
        if self.search.is_some() { 1 } else { self.matching.len().clamp(1, LEAST_ANSWERS) }
    }

    /// Returns what is shown beside the label: while a search covers all tabs, also which one.
    pub(super) fn detail(&self, item: &ListItem) -> String {
        match self.tabs.get(item.tab).filter(|_| !self.shows_tab() && !self.is_described()) {
            Some(tab) if item.detail.is_empty() => tab.clone(),
            Some(tab) => format!("{} · {tab}", item.detail),
            None => item.detail.clone(),
        }
    }

    /// Returns the rows above the list that fit; the others are shown page by page.
    fn intro_rows(&self, width: usize, height: usize, theme: &Theme) -> Vec<Line> {
        let mut rows = self.intro.rows(width, theme);
        let mut explanation = wrap_entries(&self.explanation, width);
        explanation.extend((!explanation.is_empty()).then_some(Line::EMPTY));
        if rows.is_empty() && explanation.is_empty() {
            self.intro_page.set((0, 0));
            return rows;
        }
        let most = if self.search.is_some() { 3 } else { LEAST_ANSWERS };
        let items = self.matching.len().clamp(1, most);
        let room = height.saturating_sub(items + usize::from(self.search.is_some()) + 1);
        // The rows below the list for the whole text of the selected item.
        let widths = (self.label_width(width), width);
        let cut = |item| self.cut_rows(self.cursor, item, widths, theme);
        let reserved = self.current().map_or(0, cut);
        // The choices may need two rows each.
        if !explanation.is_empty() && explanation.len() + rows.len() + items < room {
            rows.splice(0..0, explanation);
        }
        if rows.is_empty() || rows.len() + reserved.max(1) <= room {
            self.intro_page.set((0, 0));
            return rows;
        }
        let room = match self.search {
            // If space is scarce, one visible item of a list for browsing is enough.
            Some(_) if room <= 3 => height.saturating_sub(3).max(1),
            _ if room <= 3 => room.saturating_sub(reserved.min(1)).max(1),
            _ => room.saturating_sub(reserved.max(1)).max(3),
        };
        let page = room.saturating_sub(1).max(1);
        let last = rows.len().saturating_sub(page);
        self.intro_page.set((page, last));
        let (at, count) = (self.intro_at.min(last), rows.len());
        let mut shown: Vec<Line> = rows.into_iter().skip(at).take(page).collect();
        let text = format!("  {}", scroll_position(at, count - at - shown.len()));
        let line = Line::styled(truncate_text(&text, width), theme.warning);
        match room {
            // The first page shows that there are more.
            1 if at == 0 => shown = vec![line],
            1 => {}
            _ => shown.push(line),
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

    pub(super) fn first_visible(&self, visible_rows: usize) -> usize {
        let last_first = self.matching.len().saturating_sub(visible_rows);
        self.cursor.saturating_sub(visible_rows / 2).min(last_first)
    }

    /// Returns the columns of labels: all that details do not need, and at least three fifths.
    pub(super) fn label_width(&self, width: usize) -> usize {
        let widest = |of: fn(&ListItem) -> &String| {
            self.matching.iter().map(|index| text_width(of(&self.items[*index]))).max().unwrap_or(0)
        };
        let room = width.saturating_sub(8).max(8);
        let remaining = room.saturating_sub(widest(|item| &item.detail));
        widest(|item| &item.label).min(remaining.max(room * 3 / 5))
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
    pub(super) fn row_prefix(
        &self,
        offset: usize,
        item: &ListItem,
        theme: &Theme,
    ) -> (Line, Style) {
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
    pub(super) fn row(
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
        let item_detail = self.detail(item);
        let (label_limit, label_width) = match item_detail.is_empty() || width < NARROW {
            true => (room, room),
            false => (label_width, label_width),
        };
        let text = truncate_text(&item.label, label_limit);
        let mut is_whole = text == item.label;
        let pad = label_width.saturating_sub(text_width(&text)) + 2;
        let remaining = room.saturating_sub(text_width(&text) + pad);
        let mut line = lead.with_span(text, label);
        if !item_detail.is_empty() {
            let detail =
                if remaining > 4 { truncate_text(&item_detail, remaining) } else { String::new() };
            is_whole &= detail == item_detail;
            if !detail.is_empty() {
                line.push(Span::raw(" ".repeat(pad)));
                line.push(Span::styled(detail, theme.secondary));
            }
        }
        (list_row(line, offset == self.cursor, width, theme), is_whole)
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
        position_text: &str,
        theme: &Theme,
    ) {
        if let Some(item) = self.current().filter(|_| !self.is_described()) {
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
        let mut hint = hint(&self.hint, self.shows_tab(), !self.search_text().is_empty());
        if self.search.is_none() && !position_text.is_empty() {
            hint = format!("{position_text} · {hint}");
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
