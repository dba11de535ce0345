//! Pages of the transcript for scrolling views. Only visible items are rendered, so that a long
//! session opens at once.

use std::collections::HashMap;

use parallax_screen::Line;

use super::draw::{ItemRenderer, ItemSpacing};
use super::item::Item;
use super::{Transcript, ViewOptions, read_group};
use crate::highlight::is_loaded;
use crate::theme::Theme;

/// Maximum number of cached rows.
const MAX_ROWS: usize = 4_000;

/// A scroll position in the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anchor {
    /// The end, even as items are added.
    #[default]
    Bottom,
    /// The first visible row is row `row` of item `item`.
    Top {
        /// The index of the item.
        item: usize,
        /// The index of the row in the item.
        row: usize,
    },
}

/// A visible part of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The rows, at most as many as requested.
    pub rows: Vec<Line>,
    /// The position of the first row.
    pub anchor: Anchor,
    /// Whether the page includes the very last row.
    pub at_end: bool,
    /// The position of the page in thousandths of the items, for a scroll bar.
    pub position: u16,
    /// The title of the box that contains the first row, if the title is above it.
    pub title: Option<Line>,
}

/// The cache of rendered rows.
#[derive(Debug, Default)]
pub(super) struct RowCache {
    rows: HashMap<usize, Vec<Line>>,
    cached_rows: usize,
    /// The parameters the rows were rendered for.
    width: usize,
    theme: String,
    options: ViewOptions,
    /// Whether the rows were rendered with syntax highlighting available.
    colored: bool,
}

impl RowCache {
    /// Removes a changed item from the cache.
    pub(super) fn remove(&mut self, item: usize) {
        if let Some(rows) = self.rows.remove(&item) {
            self.cached_rows -= rows.len();
        }
    }

    pub(super) fn fits(&mut self, renderer: &ItemRenderer<'_>) {
        let colored = is_loaded();
        if self.width != renderer.width
            || self.theme != renderer.theme.name
            || self.options != renderer.options
            || self.colored != colored
        {
            self.rows.clear();
            self.cached_rows = 0;
            self.width = renderer.width;
            self.theme.clone_from(&renderer.theme.name);
            self.options = renderer.options;
            self.colored = colored;
        }
    }
}

impl Transcript {
    /// Returns up to `height` rows starting at a position. At the end the page is filled from
    /// above.
    pub fn page(
        &mut self,
        anchor: Anchor,
        width: usize,
        height: usize,
        theme: &Theme,
        now_ms: u64,
    ) -> Page {
        let draw = ItemRenderer::new(theme, width, self.options, now_ms);
        self.row_cache.fits(&draw);
        self.start_call_clocks(now_ms);
        let (item, row) = match anchor {
            Anchor::Bottom => self.position_above(self.items.len(), 0, height, &draw),
            Anchor::Top { item, row } => {
                // Not beyond a full page at the end.
                let last = self.position_above(self.items.len(), 0, height, &draw);
                last.min((item, row))
            }
        };
        let mut rows: Vec<Line> = Vec::with_capacity(height);
        let mut at = item;
        let mut skip = row;
        let mut at_end = true;
        while at < self.items.len() {
            let item_rows = self.item_rows(at, &draw);
            let more = item_rows.get(skip..).unwrap_or(&[]);
            let room = height - rows.len();
            rows.extend(more.iter().take(room).cloned());
            // The remaining items may have no rows.
            at_end = more.len() <= room;
            if !at_end {
                break;
            }
            skip = 0;
            at += 1;
        }
        let position = u16::try_from(item * 1000 / self.items.len().max(1)).unwrap_or(1000);
        let title = self.title_above(item, row, &draw);
        Page { rows, anchor: Anchor::Top { item, row }, at_end, position, title }
    }

    /// Returns the title row of a call's box that is cut off at this row.
    fn title_above(
        &mut self,
        item: usize,
        row: usize,
        renderer: &ItemRenderer<'_>,
    ) -> Option<Line> {
        if !matches!(self.items.get(item), Some(Item::Tool(_) | Item::Shell(_))) {
            return None;
        }
        let rows = self.item_rows(item, renderer);
        let border = rows.iter().position(|row| !row.spans.is_empty())?;
        let boxed = rows.get(border)?.spans.first()?.text.starts_with('╭');
        // Only the bottom border is left, which needs no title.
        let cut = row > border + 1 && row + 1 < rows.len();
        if boxed && cut { rows.get(border + 1).cloned() } else { None }
    }

    /// Starts the clocks of open calls.
    fn start_call_clocks(&mut self, now_ms: u64) {
        let mut open_items: Vec<usize> = self.open.values().copied().collect();
        open_items.sort_unstable();
        for index in open_items {
            match self.items.get_mut(index) {
                Some(Item::Tool(tool)) => tool.start_clock(now_ms),
                Some(Item::Shell(shell)) => shell.start_clock(now_ms),
                _ => {}
            }
        }
    }

    /// Returns the position `delta` rows below (or above, if negative) another.
    pub fn scroll(
        &mut self,
        anchor: Anchor,
        delta: isize,
        width: usize,
        height: usize,
        theme: &Theme,
    ) -> Anchor {
        let draw = ItemRenderer::new(theme, width, self.options, 0);
        self.row_cache.fits(&draw);
        let last = self.position_above(self.items.len(), 0, height, &draw);
        let (mut item, mut row) = match anchor {
            Anchor::Bottom => last,
            Anchor::Top { item, row } => (item, row),
        };
        if delta < 0 {
            (item, row) = self.position_above(item, row, delta.unsigned_abs(), &draw);
        } else {
            let mut left = delta.unsigned_abs();
            while left > 0 && item < self.items.len() {
                let rows = self.item_rows(item, &draw).len();
                let step = left.min(rows.saturating_sub(row));
                (row, left) = (row + step, left - step);
                if row >= rows {
                    (item, row) = (item + 1, 0);
                }
            }
        }
        if (item, row) >= last { Anchor::Bottom } else { Anchor::Top { item, row } }
    }

    /// Returns the position `rows` rows above another.
    fn position_above(
        &mut self,
        item: usize,
        row: usize,
        rows: usize,
        renderer: &ItemRenderer<'_>,
    ) -> (usize, usize) {
        let (mut item, mut row, mut left) = (item.min(self.items.len()), row, rows);
        loop {
            if left <= row {
                return (item, row - left);
            }
            if item == 0 {
                return (0, 0);
            }
            left -= row;
            item -= 1;
            row = self.item_rows(item, renderer).len();
        }
    }

    /// Returns the rows of an item with the empty row above it.
    pub(super) fn item_rows(&mut self, at: usize, renderer: &ItemRenderer<'_>) -> &[Line] {
        let is_animated = self.items.get(at).is_some_and(Item::is_animated);
        let group = read_group::find_group(&self.items, at)
            .filter(|_| read_group::is_enabled(renderer.options));
        if is_animated || group.is_some() {
            self.row_cache.remove(at);
        }
        if !self.row_cache.rows.contains_key(&at) {
            let mut rows = Vec::new();
            if let Some(group) = group {
                // The first item has the row of the whole group.
                if group.start == at {
                    if ItemSpacing::needs_blank_row(
                        self.spacing_before(at, renderer),
                        ItemSpacing::Compact,
                    ) {
                        rows.push(Line::EMPTY);
                    }
                    rows.push(read_group::row(&self.items[group], renderer));
                }
            } else if let Some(item) = self.items.get_mut(at) {
                let (more, shape) = match item {
                    Item::Answer(answer) => (answer.growing_rows(renderer), ItemSpacing::Block),
                    item => renderer.item(item),
                };
                if !more.is_empty()
                    && ItemSpacing::needs_blank_row(self.spacing_before(at, renderer), shape)
                {
                    rows.push(Line::EMPTY);
                }
                rows.extend(more);
            }
            if self.row_cache.cached_rows + rows.len() > MAX_ROWS {
                self.row_cache.rows.clear();
                self.row_cache.cached_rows = 0;
            }
            self.row_cache.cached_rows += rows.len();
            self.row_cache.rows.insert(at, rows);
        }
        self.row_cache.rows.get(&at).map_or(&[], Vec::as_slice)
    }

    /// Returns the shape of the nearest item above that has rows.
    fn spacing_before(&self, at: usize, renderer: &ItemRenderer<'_>) -> Option<ItemSpacing> {
        self.items.get(..at)?.iter().rev().find_map(|item| renderer.shape(item))
    }
}
