//! Rows as plain lines, for screen readers and terminals that only print: nothing is repainted,
//! nothing has colors, and the cursor only returns to the beginning of the prompt's line.

use crate::line::Line;
use crate::region::Frame;
use crate::row::{Glyph, Row};
use crate::width::{text_width, truncate};

/// Columns of a finished line, large enough never to truncate it.
const UNCUT: usize = 100_000;

/// The prompt's line as shown.
#[derive(Debug, Default)]
pub(crate) struct PlainRenderer {
    prompt: String,
    /// Columns before the cursor.
    column: usize,
}

impl PlainRenderer {
    /// Returns the bytes that print the finished rows, and the row of the cursor as the prompt.
    pub fn frame(&mut self, frame: &Frame<'_>, columns: usize) -> Vec<u8> {
        // Some terminals wrap when the last column is written.
        let room = columns.saturating_sub(1).max(1);
        let prompt = frame.cursor.and_then(|(x, y)| {
            Some((printable_row(frame.live.get(usize::from(y))?, room), usize::from(x).min(room)))
        });
        let (prompt, column) = prompt.unwrap_or_default();
        let mut out = String::new();
        if !frame.commit.is_empty() {
            self.erase(&mut out);
            for line in frame.commit {
                out.push_str(&printable_row(line, UNCUT));
                out.push_str("\r\n");
            }
        }
        self.show(prompt, column, &mut out);
        out.into_bytes()
    }

    fn erase(&mut self, out: &mut String) {
        if !self.prompt.is_empty() {
            out.push('\r');
            out.extend(std::iter::repeat_n(' ', text_width(&self.prompt)));
            out.push('\r');
        }
        *self = Self::default();
    }

    fn show(&mut self, prompt: String, column: usize, out: &mut String) {
        if prompt == self.prompt && column == self.column {
            return;
        }
        let width = text_width(&prompt);
        let at_end = self.column == text_width(&self.prompt);
        match prompt.strip_prefix(self.prompt.as_str()) {
            Some(more) if at_end => out.push_str(more),
            _ => {
                let blank = text_width(&self.prompt).saturating_sub(width);
                out.push('\r');
                out.push_str(&prompt);
                if blank > 0 {
                    out.extend(std::iter::repeat_n(' ', blank));
                    out.push('\r');
                    out.push_str(&prompt);
                }
            }
        }
        // Trailing spaces of the prompt are not cells, but the cursor is after them.
        let column = column.max(width.min(column));
        if column > width {
            out.extend(std::iter::repeat_n(' ', column - width));
        } else if column < width {
            out.push('\r');
            out.push_str(truncate(&prompt, column));
        }
        self.prompt =
            if column > width { format!("{prompt}{}", " ".repeat(column - width)) } else { prompt };
        self.column = column;
    }

    /// Ends the prompt's line.
    pub fn close(&mut self, rows: &[Line]) -> Vec<u8> {
        let keeps = rows.is_empty() && !self.prompt.is_empty();
        let mut out = self.frame(&Frame { commit: rows, live: &[], cursor: None }, UNCUT);
        if keeps {
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    /// Records that something else ended the prompt's line.
    pub fn restart(&mut self) {
        *self = Self::default();
    }
}

fn printable_row(line: &Line, columns: usize) -> String {
    let unfilled = Line { spans: line.spans.clone(), ..Line::EMPTY };
    let row = Row::new(&unfilled, columns);
    let mut text = String::with_capacity(row.len());
    for cell in &row.cells {
        match &cell.glyph {
            Glyph::Char(char) => text.push(*char),
            Glyph::Cluster(cluster) => text.push_str(cluster),
            Glyph::Tail => {}
        }
    }
    text.truncate(text.trim_end_matches(' ').len());
    text
}
