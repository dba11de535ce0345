//! Rows for the scrollback, each once, and rows of what is under way.

use parallax_screen::Line;

use super::draw::{Draw, Shape};
use super::item::Item;
use super::{Thoughts, Transcript, tool_rows};
use crate::theme::Theme;

/// The most rows of live output of one call.
const OUTPUT_ROWS: usize = 15;

impl Transcript {
    /// Rows that are final and were not given out, in order. An item's rows come
    /// when all items before it are final; an answer's as far as they are.
    pub fn take_finished(&mut self, width: usize, theme: &Theme) -> Vec<Line> {
        let draw = Draw::new(theme, width, self.options, 0);
        let mut rows = Vec::new();
        while let Some(item) = self.items.get_mut(self.released) {
            if item.is_open() && !matches!(item, Item::Answer(_)) {
                break;
            }
            let mut first = true;
            let (more, shape) = match item {
                Item::Answer(answer) => {
                    first = !answer.is_given();
                    (answer.take_finished(&draw), Shape::Block)
                }
                Item::Picture(shown) => (shown.take(&draw), Shape::Notice),
                item => draw.item(item),
            };
            if !more.is_empty() {
                if first && Shape::separates(self.last_shape, shape) {
                    rows.push(Line::EMPTY);
                }
                self.last_shape = Some(shape);
                rows.extend(more);
            }
            if self.items.get(self.released).is_some_and(Item::is_open) {
                break;
            }
            self.released += 1;
        }
        rows
    }

    /// The rows of what was not given out: at most `max_rows`, the last ones.
    /// `now_ms` is the time of any clock that does not go back.
    pub fn live(&mut self, width: usize, max_rows: usize, theme: &Theme, now_ms: u64) -> Vec<Line> {
        if max_rows == 0 {
            return Vec::new();
        }
        // Boxes that are done and wait for one above them take rows, too.
        let boxes = self.items.iter().skip(self.released).filter(|item| match item {
            Item::Tool(tool) => tool_rows::shape(tool, self.options.whole_results) == Shape::Block,
            item => item.is_moving(),
        });
        let boxes = boxes.count().max(1);
        let mut draw = Draw::new(theme, width, self.options, now_ms);
        draw.passing = true;
        // A call in a box takes four rows besides its output: the frame, the head, the
        // empty row above it.
        draw.output_rows = (max_rows / boxes).saturating_sub(4).clamp(1, OUTPUT_ROWS);
        let mut rows = Vec::new();
        let mut shape_before = self.last_shape;
        for item in self.items.iter_mut().skip(self.released) {
            let (more, shape) = match item {
                Item::Answer(answer) => {
                    let given = answer.is_given();
                    let more = answer.rest(&draw);
                    // The rows above it are its own.
                    if given {
                        shape_before = None;
                    }
                    (more, Shape::Block)
                }
                Item::Thought { open: true, .. } if self.options.thoughts != Thoughts::Full => {
                    continue;
                }
                Item::Tool(tool) => {
                    tool.seen(now_ms);
                    draw.item(item)
                }
                Item::Shell(shell) => {
                    shell.seen(now_ms);
                    draw.item(item)
                }
                item => draw.item(item),
            };
            if more.is_empty() {
                continue;
            }
            if Shape::separates(shape_before, shape) {
                rows.push(Line::EMPTY);
            }
            shape_before = Some(shape);
            rows.extend(more);
        }
        if let Some(retry) = &mut self.retry {
            let text = retry.text(now_ms);
            if Shape::separates(shape_before, Shape::Notice) {
                rows.push(Line::EMPTY);
            }
            let sign = draw.sign("↻", "Retry:");
            rows.extend(draw.hanging(sign, theme.warning, &text, theme.warning));
        }
        if rows.len() > max_rows {
            let hidden = rows.len() - (max_rows - 1);
            rows.drain(..hidden);
            let text = format!("… {hidden} more rows above (ctrl+o to show more)");
            let text = crate::layout::shortened(&text, draw.width);
            rows.insert(0, Line::styled(text, theme.secondary));
        }
        rows
    }
}
