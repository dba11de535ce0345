//! Returns rows for the scrollback, each once, and rows of unfinished items.

use std::ops::Range;

use parallax_screen::Line;

use super::draw::{ItemRenderer, ItemSpacing};
use super::item::Item;
use super::{GrammarWait, ThoughtDisplay, Transcript, read_group, tool_rows};
use crate::highlight;
use crate::theme::Theme;

/// Maximum number of live output rows of a call.
const OUTPUT_ROWS: usize = 15;

impl Transcript {
    /// Returns final rows not returned before, in order. An item's rows are returned when all items
    /// before it are final; those of an answer as far as they are final.
    pub fn take_finished(&mut self, width: usize, theme: &Theme) -> Vec<Line> {
        let draw = ItemRenderer::new(theme, width, self.options, 0);
        let mut rows = Vec::new();
        while self.committed_items < self.items.len() {
            if let Some(run) = self.groupable_range(self.committed_items, &draw) {
                if self.may_grow(run.end) {
                    break;
                }
                if read_group::find_group(&self.items, run.start).is_some() {
                    if ItemSpacing::needs_blank_row(self.last_shape, ItemSpacing::Compact) {
                        rows.push(Line::EMPTY);
                    }
                    self.last_shape = Some(ItemSpacing::Compact);
                    rows.push(read_group::row(&self.items[run.clone()], &draw));
                    self.committed_items = run.end;
                    continue;
                }
            }
            let Some(item) = self.items.get_mut(self.committed_items) else { break };
            if item.is_open() && !matches!(item, Item::Answer(_)) && !draw.is_final(item) {
                break;
            }
            let is_change = matches!(item, Item::Tool(tool) if tool.diff().is_some());
            if is_change && self.grammar_wait == GrammarWait::On {
                highlight::load();
                break;
            }
            let mut first = true;
            let (more, shape) = match item {
                Item::Answer(answer) => {
                    first = !answer.is_committed();
                    (answer.take_finished(&draw), ItemSpacing::Block)
                }
                Item::Picture(shown) => (shown.take(&draw), ItemSpacing::Notice),
                item => draw.item(item),
            };
            if !more.is_empty() {
                if first && ItemSpacing::needs_blank_row(self.last_shape, shape) {
                    rows.push(Line::EMPTY);
                }
                self.last_shape = Some(shape);
                rows.extend(more);
            }
            let is_open = |item: &Item| item.is_open() && !draw.is_final(item);
            if self.items.get(self.committed_items).is_some_and(is_open) {
                break;
            }
            self.committed_items += 1;
        }
        rows
    }

    /// Returns the calls starting at `at` that could be shown as one line.
    fn groupable_range(&self, at: usize, renderer: &ItemRenderer<'_>) -> Option<Range<usize>> {
        let is_on = read_group::is_enabled(renderer.options);
        let run = read_group::run(&self.items, at).filter(|_| is_on)?;
        // Rows returned before cannot change.
        Some(run.start.max(self.committed_items)..run.end)
    }

    /// Whether the next calls may join a group that ends at `end`.
    fn may_grow(&self, end: usize) -> bool {
        match self.items.get(end) {
            Some(next) => read_group::may_join(next),
            None => self.in_turn,
        }
    }

    /// Returns at most `max_rows` of the rows not returned before, counted from the end. `now_ms`
    /// is the time of any monotonic clock.
    pub fn live(&mut self, width: usize, max_rows: usize, theme: &Theme, now_ms: u64) -> Vec<Line> {
        if max_rows == 0 {
            return Vec::new();
        }
        // Finished boxes that wait for one above them take rows too.
        let boxes = self.items.iter().skip(self.committed_items).filter(|item| match item {
            Item::Tool(tool) => tool_rows::shape(tool, self.options) == ItemSpacing::Block,
            item => item.is_animated(),
        });
        let boxes = boxes.count().max(1);
        let mut draw = ItemRenderer::new(theme, width, self.options, now_ms);
        draw.is_transient = true;
        // A call in a box takes four rows besides its output: the frame, the title, and the empty
        // row above it.
        draw.output_rows = (max_rows / boxes).saturating_sub(4).clamp(1, OUTPUT_ROWS);
        let mut rows = Vec::new();
        let mut shape_before = self.last_shape;
        let groups = read_group::is_enabled(self.options);
        let mut grouped = self.committed_items;
        for index in self.committed_items..self.items.len() {
            if index < grouped {
                continue;
            }
            if let Some(group) = read_group::find_group(&self.items, index).filter(|_| groups) {
                if ItemSpacing::needs_blank_row(shape_before, ItemSpacing::Compact) {
                    rows.push(Line::EMPTY);
                }
                shape_before = Some(ItemSpacing::Compact);
                rows.push(read_group::row(&self.items[group.clone()], &draw));
                grouped = group.end;
                continue;
            }
            let Some(item) = self.items.get_mut(index) else { break };
            let (more, shape) = match item {
                Item::Answer(answer) => {
                    let is_committed = answer.is_committed();
                    let more = answer.remaining_rows(&draw);
                    // The rows above belong to the same answer.
                    if is_committed {
                        shape_before = None;
                    }
                    (more, ItemSpacing::Block)
                }
                Item::Thought { open: true, .. }
                    if self.options.thoughts != ThoughtDisplay::Full =>
                {
                    continue;
                }
                Item::Tool(tool) if self.hides_pending_approval && tool.awaits_approval_only() => {
                    continue;
                }
                Item::Tool(tool) => {
                    tool.start_clock(now_ms);
                    draw.item(item)
                }
                Item::Shell(shell) => {
                    shell.start_clock(now_ms);
                    draw.item(item)
                }
                item => draw.item(item),
            };
            if more.is_empty() {
                continue;
            }
            if ItemSpacing::needs_blank_row(shape_before, shape) {
                rows.push(Line::EMPTY);
            }
            shape_before = Some(shape);
            rows.extend(more);
        }
        if let Some(retry) = &mut self.retry {
            let text = retry.text(now_ms);
            if ItemSpacing::needs_blank_row(shape_before, ItemSpacing::Notice) {
                rows.push(Line::EMPTY);
            }
            let marker = draw.marker(crate::tokens::RETRY, "Retry:");
            rows.extend(draw.hanging_rows(marker, theme.warning, &text, theme.warning));
        }
        if rows.len() > max_rows {
            let hidden = rows.len() - (max_rows - 1);
            rows.drain(..hidden);
            let text = format!("… {hidden} more rows above (ctrl+o)");
            let text = crate::layout::truncate_text(&text, draw.width);
            rows.insert(0, Line::styled(text, theme.secondary));
        }
        rows
    }
}
