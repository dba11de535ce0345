//! Writes cells with short cursor moves and minimal style changes, and without anything that could
//! make the terminal wrap or scroll by itself.

use std::ops::Range;
use std::sync::Arc;

use crate::image::TerminalImage;
use crate::row::{Glyph, Row};
use crate::sgr::{self, ColorDepth, number};
use crate::style::Style;

/// Maximum number of unchanged cells between two changed ones that are rewritten instead of
/// skipped.
const SHORT_GAP: usize = 4;
/// Maximum length of a link in bytes: some terminals truncate longer ones, some hang.
const LINK_CAP: usize = 2_000;

/// What the terminal can show.
#[derive(Debug, Clone, Copy)]
pub struct PaintOptions {
    /// The color depth.
    pub depth: ColorDepth,
    /// Whether links are supported (OSC 8).
    pub links: bool,
    /// Whether synchronized output is supported (mode 2026).
    pub synchronized: bool,
}

/// The terminal's cursor and style while a frame is painted. Rows count from the top of the region.
pub(crate) struct Painter {
    pub output: Vec<u8>,
    options: PaintOptions,
    columns: usize,
    style: Style,
    link: Option<Arc<str>>,
    y: usize,
    /// `None` where terminals disagree: after the last column, and after a cluster whose width they
    /// may see differently.
    x: Option<usize>,
    /// The number of rows written to.
    pub touched_rows: usize,
    /// The vertical moves of the cursor.
    pub vertical_moves: Vec<VerticalMove>,
}

/// A vertical move of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerticalMove {
    /// Up, at most to the first row of the window.
    Up(usize),
    /// Down, at most to the last row.
    Down(usize),
    /// Down with line feeds, which scroll the window on the last row.
    Feed(usize),
}

impl Painter {
    pub fn new(options: PaintOptions, columns: usize, (x, y): (Option<usize>, usize)) -> Self {
        Self {
            output: Vec::new(),
            options,
            columns,
            style: Style::PLAIN,
            link: None,
            y,
            x,
            touched_rows: 0,
            vertical_moves: Vec::new(),
        }
    }

    pub fn position(&self) -> (Option<usize>, usize) {
        (self.x, self.y)
    }

    /// Records that the cursor is in the first cell of the region.
    pub fn set_origin(&mut self) {
        (self.x, self.y) = (Some(0), 0);
    }

    /// Moves the cursor between existing rows of the region.
    pub fn move_to(&mut self, x: usize, y: usize) {
        self.move_to_row(y);
        if self.x == Some(x) {
            return;
        }
        match self.x {
            _ if x == 0 => self.output.push(b'\r'),
            Some(from) if from > x && from - x <= 3 => {
                self.output.extend(std::iter::repeat_n(b'\x08', from - x));
            }
            Some(from) if x > from && (x - from < 10 && x >= 9 || x - from == 1) => {
                self.push_csi(x - from, b'C');
            }
            _ => {
                self.output.extend_from_slice(b"\x1b[");
                number(&mut self.output, x + 1);
                self.output.push(b'G');
            }
        }
        self.x = Some(x);
    }

    /// Moves the cursor up or down in its column.
    pub fn move_to_row(&mut self, y: usize) {
        if y < self.y {
            self.push_csi(self.y - y, b'A');
            self.vertical_moves.push(VerticalMove::Up(self.y - y));
        } else if y > self.y {
            // Unlike line feeds, this never scrolls.
            self.push_csi(y - self.y, b'B');
            self.vertical_moves.push(VerticalMove::Down(y - self.y));
        }
        self.y = y;
    }

    /// Adds `count` rows below the last row of the region, where the cursor is. At the end of the
    /// window this scrolls the whole window, so that what leaves at the top goes into the
    /// scrollback.
    pub fn grow(&mut self, count: usize) {
        if self.style.visible_on_space() != Style::PLAIN {
            // Some terminals fill new rows with the current background.
            self.reset_style();
        }
        self.output.extend(std::iter::repeat_n(b'\n', count));
        self.y += count;
        self.vertical_moves.push(VerticalMove::Feed(count));
    }

    /// Inserts `count` empty rows at row `y`.
    pub fn insert_rows(&mut self, y: usize, count: usize) {
        self.push_line_operation(y, count, b'L');
    }

    /// Removes `count` rows at row `y`.
    pub fn delete_rows(&mut self, y: usize, count: usize) {
        self.push_line_operation(y, count, b'M');
    }

    fn push_line_operation(&mut self, y: usize, count: usize, letter: u8) {
        // Some terminals move the cursor to the first column here.
        self.move_to(0, y);
        self.set_style(Style::PLAIN);
        self.push_csi(count, letter);
        self.touched_rows += 2;
    }

    /// Changes row `y` from `old` to `new`. The cells in `echo` are written even if they are
    /// unchanged.
    pub fn paint_row(&mut self, y: usize, old: &Row, new: &Row, echo: Range<usize>) {
        if old == new && echo.is_empty() {
            return;
        }
        self.touched_rows += 1;
        // The old row is blank after its last cell. Indentation is written anyway, so that it is
        // part of copied text.
        let indent = new.indent();
        let same = |at: usize| match (old.cells.get(at), new.cells.get(at)) {
            _ if echo.contains(&at) => false,
            (None, Some(new)) => at > indent && new.is_plain_blank(),
            (old, new) => old == new,
        };
        let mut at = 0;
        while at < new.len() {
            if same(at) {
                at += 1;
                continue;
            }
            let mut end = at + 1;
            let mut gap = 0;
            while end + gap < new.len() && gap <= SHORT_GAP {
                if same(end + gap) {
                    gap += 1;
                } else {
                    end += gap + 1;
                    gap = 0;
                }
            }
            // A wide glyph is written from its left half.
            while at > 0 && new.cells.get(at).is_some_and(|cell| cell.glyph == Glyph::Tail) {
                at -= 1;
            }
            self.move_to(at, y);
            at = self.cells(new, at, end);
        }
        if old.len() > new.len() {
            self.set_style(Style::PLAIN);
            self.move_to(new.len(), y);
            self.output.extend_from_slice(b"\x1b[K");
        }
        // A row ends with its last character, but typed text may end with spaces.
        if let Some(count) = echo.end.min(self.columns).checked_sub(new.len().max(echo.start))
            && count > 0
        {
            self.set_style(Style::PLAIN);
            self.move_to(echo.end - count, y);
            self.output.extend(std::iter::repeat_n(b' ', count));
            self.x = Some(echo.end).filter(|x| *x < self.columns);
        }
    }

    /// Writes the cells of a row starting at the cursor and returns where it ended.
    fn cells(&mut self, row: &Row, from: usize, end: usize) -> usize {
        let mut at = from;
        while let Some(cell) = row.cells.get(at) {
            if at >= end && cell.glyph != Glyph::Tail {
                break;
            }
            if self.x != Some(at) && cell.glyph != Glyph::Tail {
                self.move_to(at, self.y);
            }
            match &cell.glyph {
                Glyph::Tail => {}
                Glyph::Char(char) => {
                    // Between words, keep the style if it is invisible on spaces.
                    if *char != ' ' || self.style.visible_on_space() != cell.style {
                        self.set_style(cell.style);
                    }
                    self.set_link(cell.link.as_ref());
                    let mut buffer = [0; 4];
                    self.output.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes());
                    let wide = row.cells.get(at + 1).is_some_and(|next| next.glyph == Glyph::Tail);
                    self.x = Some(at + if wide { 2 } else { 1 });
                }
                Glyph::Cluster(cluster) => {
                    self.set_style(cell.style);
                    self.set_link(cell.link.as_ref());
                    if row.cells.get(at + 1).is_some_and(|next| next.glyph == Glyph::Tail) {
                        // Where the cluster is narrow, its second cell would keep its old contents.
                        self.output.extend_from_slice(b"  ");
                        self.x = Some(at + 2).filter(|x| *x < self.columns);
                        self.move_to(at, self.y);
                    }
                    self.output.extend_from_slice(cluster.as_bytes());
                    self.x = None;
                }
            }
            at += 1;
        }
        if at >= self.columns {
            self.x = None;
        }
        self.set_link(None);
        at
    }

    /// Draws an image starting at a cell. Its rows exist and are blank, and there is one below
    /// them, so that no terminal scrolls. Returns the cursor to that cell.
    pub fn draw_image(&mut self, x: usize, y: usize, picture: &TerminalImage) {
        self.reset_style();
        self.move_to(x, y);
        self.output.extend_from_slice(b"\x1b7");
        self.output.extend_from_slice(picture.bytes());
        self.output.extend_from_slice(b"\x1b8");
        self.touched_rows += picture.size().1;
    }

    /// Resets the style, which the terminal keeps between frames.
    pub fn reset_style(&mut self) {
        self.set_style(Style::PLAIN);
    }

    fn set_style(&mut self, style: Style) {
        sgr::change(&mut self.output, self.style, style, self.options.depth);
        self.style = style;
    }

    fn set_link(&mut self, link: Option<&Arc<str>>) {
        let link = link.filter(|link| self.options.links && link_is_safe(link));
        if self.link.as_ref() == link {
            return;
        }
        self.output.extend_from_slice(b"\x1b]8;;");
        self.output.extend_from_slice(link.map_or("", |link| link).as_bytes());
        self.output.extend_from_slice(b"\x1b\\");
        self.link = link.cloned();
    }

    fn push_csi(&mut self, count: usize, letter: u8) {
        self.output.extend_from_slice(b"\x1b[");
        if count != 1 {
            number(&mut self.output, count);
        }
        self.output.push(letter);
    }
}

/// Whether a link can be sent unchanged; a changed one would lead elsewhere.
fn link_is_safe(link: &str) -> bool {
    !link.is_empty()
        && link.len() <= LINK_CAP
        && link.bytes().all(|byte| (0x21..0x7f).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;

    #[test]
    fn second_cell_of_a_cluster_is_cleared() {
        let row = |text: &str| Row::new(&Line::raw(text.to_owned()), 10);
        let options = PaintOptions { depth: ColorDepth::True, links: false, synchronized: false };
        let mut painter = Painter::new(options, 10, (Some(0), 0));
        painter.paint_row(0, &row("abcd"), &row("⚠\u{fe0f}cd"), 0..0);
        let output = String::from_utf8_lossy(&painter.output).into_owned();
        assert_eq!(output, "  \r⚠\u{fe0f}");
    }
}
