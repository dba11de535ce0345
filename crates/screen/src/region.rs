//! The painted region of the window. Only its top row is known; everything is relative to it, so
//! that neither the position of the region nor the scrolling of the window matters.
//!
//! The document consists of the committed rows followed by the live ones; the terminal shows its
//! end. New rows are created by line feeds on the last row, which scroll the whole window: every
//! terminal keeps what leaves at the top in its scrollback. Line insertions and deletions then move
//! unchanged blocks into place.

use std::ops::Range;
use std::sync::Arc;

use crate::align::align;
use crate::image::TerminalImage;
use crate::line::Line;
use crate::paint::{PaintOptions, Painter, VerticalMove};
use crate::row::Row;

/// Erases the cursor's row and everything below. The first column is overwritten instead: if the
/// whole first row of the window is erased, tmux forgets that it continues the row above, and if
/// the whole window is, it saves its contents in the scrollback.
pub(crate) const ERASE_BELOW: &[u8] = b"\r \x1b[J\r";

/// Only the end of a longer row is rewritten for programs that read the output.
const ECHO_CAP: usize = 48;

/// The rows to show.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame<'a> {
    /// Finished rows: placed above the live ones once, and part of the scrollback from then on.
    /// Wrapped by the caller; what is wider than the window is truncated.
    pub commit: &'a [Line],
    /// Rows that may still change; at most as many as the window has.
    pub live: &'a [Line],
    /// The cursor's column and its row in `live`, from 0; `None` hides it.
    pub cursor: Option<(u16, u16)>,
}

/// The painted region and the terminal's cursor in it. Pure: frames in, bytes out;
/// [`Screen`](crate::Screen) writes them.
#[derive(Debug)]
pub struct Region {
    columns: usize,
    height: usize,
    options: PaintOptions,
    /// Never empty: the cursor is always in a row.
    rows: Vec<Arc<Row>>,
    /// The row of the terminal's cursor, and the column it was moved to.
    y: usize,
    x: Option<usize>,
    visible: bool,
    /// The vertical moves of the cursor in the last frame.
    vertical_moves: Vec<VerticalMove>,
    /// Whether the contents of the cursor's row and those below are unknown.
    is_unknown: bool,
    scrolled_out: ScrolledOutRows,
}

/// Painted rows that a smaller window pushed out at its top: they are in the scrollback directly
/// above the region, and a growing window may bring them back. They are stored unwrapped, because
/// another width wraps them differently.
#[derive(Debug, Clone, Default)]
struct ScrolledOutRows {
    rows: Vec<Arc<Row>>,
    /// Whether the last row is the first part of a row that the terminal wrapped: together with the
    /// first row of the region, it is one row to the terminal.
    split: bool,
}

impl Region {
    /// Creates a region that begins in the cursor's row, in a window of this size.
    pub fn new(columns: usize, height: usize, options: PaintOptions) -> Self {
        Self {
            columns: columns.max(1),
            height: height.max(1),
            options,
            rows: vec![Arc::default()],
            y: 0,
            x: None,
            visible: true,
            vertical_moves: Vec::new(),
            is_unknown: true,
            scrolled_out: ScrolledOutRows::default(),
        }
    }

    /// Returns what is painted now.
    pub(crate) fn painted_rows(&self) -> PaintedRows {
        PaintedRows {
            columns: self.columns,
            height: self.height,
            scrolled_out: self.scrolled_out.clone(),
            rows: self.rows.clone(),
            y: self.y,
            x: self.x,
        }
    }

    /// Takes the vertical moves of the last frame.
    pub(crate) fn take_moves(&mut self) -> Vec<VerticalMove> {
        std::mem::take(&mut self.vertical_moves)
    }

    /// Sets what the terminal can show.
    pub fn set_look(&mut self, options: PaintOptions) {
        self.options = options;
    }

    /// Returns the terminal's cursor: column (if known) and row in the region.
    pub fn cursor(&self) -> (Option<usize>, usize) {
        (self.x, self.y)
    }

    /// Whether the cursor is visible.
    pub(crate) fn is_visible(&self) -> bool {
        self.visible
    }

    /// Returns the bytes that make the terminal show `frame`; empty if it already does.
    pub fn frame(&mut self, frame: &Frame<'_>) -> Vec<u8> {
        let mut live = frame.live;
        let mut cursor = frame.cursor.map(|(x, y)| (usize::from(x), usize::from(y)));
        if live.len() > self.height {
            // An error of the caller; show the end.
            let cut = live.len() - self.height;
            live = live.get(cut..).unwrap_or_default();
            cursor = cursor.map(|(x, y)| (x, y.saturating_sub(cut)));
        }
        let committed = frame.commit.len();
        let mut new: Vec<Arc<Row>> = Vec::with_capacity(committed + live.len().max(1));
        new.extend(frame.commit.iter().chain(live).map(|line| self.build(line)));
        if live.is_empty() {
            new.push(Arc::default());
        }

        if committed > 0 {
            // They are between the region and the rows that scrolled out.
            self.scrolled_out = ScrolledOutRows::default();
        }
        let mut painter = Painter::new(self.options, self.columns, (self.x, self.y));
        if self.is_unknown {
            painter.output.extend_from_slice(ERASE_BELOW);
            painter.set_origin();
            self.is_unknown = false;
        }
        let scrolls = new.len() > self.rows.len();
        let pictures = self.positioned_images(frame.commit);
        if new.len() <= self.height {
            let cursor = cursor.map(|(x, y)| (x.min(self.columns - 1), committed + y));
            self.shift(&mut painter, &new, cursor);
            for placed in &pictures {
                painter.draw_image(placed.x, placed.y, placed.picture);
            }
        } else {
            self.stream(&mut painter, &new, &pictures);
        }
        painter.reset_style();

        let heavy = scrolls || painter.touched_rows > 1;
        let last = new.len() - committed - 1;
        // A hidden cursor waits in the first live row: when a window shrinks, the terminal drops
        // what is below the cursor first, and only the rest at the top, where it would stay in the
        // scrollback.
        let (x, y) = cursor.map_or((0, 0), |(x, y)| (x.min(self.columns - 1), y.min(last)));
        painter.move_to(x, committed + y);
        (self.x, self.y) = painter.position();
        self.y -= committed;
        self.vertical_moves = std::mem::take(&mut painter.vertical_moves);
        self.rows = new.split_off(committed);
        self.wrap_frame(painter.output, heavy, cursor.is_some())
    }

    /// Returns the images of finished rows. Images too high or too wide for the window are
    /// omitted; the first row of a high one would scroll out before the last is there.
    fn positioned_images<'a>(&self, commit: &'a [Line]) -> Vec<PositionedImage<'a>> {
        let placed = |(y, line): (usize, &'a Line)| {
            let picture = line.picture.as_deref()?;
            let (x, (columns, rows)) = (line.width(), picture.size());
            let fits = rows < self.height && x + columns <= self.columns;
            fits.then_some(PositionedImage { x, y, picture })
        };
        commit.iter().enumerate().filter_map(placed).collect()
    }

    fn build(&self, line: &Line) -> Arc<Row> {
        Arc::new(Row::new(line, self.columns))
    }

    /// Paints rows that all fit into the window: moves blocks, then changes cells.
    fn shift(&self, painter: &mut Painter, new: &[Arc<Row>], cursor: Option<(usize, usize)>) {
        let old = &self.rows;
        if new.len() > old.len() {
            painter.move_to_row(old.len() - 1);
            painter.grow(new.len() - old.len());
        }
        let pairs = align(old, new);
        // Delete first and from below, so that nothing leaves the end of the window and the rows
        // above keep their numbers.
        let mut is_reused = vec![false; old.len()];
        for index in pairs.iter().flatten() {
            if let Some(is_reused) = is_reused.get_mut(*index) {
                *is_reused = true;
            }
        }
        let mut end = old.len();
        while end > 0 {
            let run = is_reused.get(..end).map_or(0, |is_reused| {
                is_reused.iter().rev().take_while(|is_reused| !**is_reused).count()
            });
            if run > 0 {
                painter.delete_rows(end - run, run);
            }
            end = end.saturating_sub(run.max(1));
        }
        let mut at = 0;
        while at < pairs.len() {
            let run = pairs
                .get(at..)
                .map_or(0, |pairs| pairs.iter().take_while(|pair| pair.is_none()).count());
            // At the end, the rows below are already empty.
            if run > 0 && at + run < pairs.len() {
                painter.insert_rows(at, run);
            }
            at += run.max(1);
        }
        let empty = Arc::<Row>::default();
        let echo = cursor.and_then(|cursor| Some((cursor.1, self.echo(&pairs, new, cursor)?)));
        for (y, (pair, row)) in pairs.iter().zip(new).enumerate() {
            let shown = pair.and_then(|at| old.get(at)).unwrap_or(&empty);
            let echo = echo.clone().filter(|(at, _)| *at == y);
            painter.paint_row(y, shown, row, echo.map_or(0..0, |(_, cells)| cells));
        }
    }

    /// Returns the cells of the cursor's row that are written even if they are already shown.
    /// Programs that drive this one through a terminal read its output as a stream: they look for
    /// the characters that they typed, and for whole words after a list below the row has been
    /// painted in between.
    fn echo(
        &self,
        pairs: &[Option<usize>],
        new: &[Arc<Row>],
        (x, y): (usize, usize),
    ) -> Option<Range<usize>> {
        let before = pairs.get(y).copied().flatten().filter(|at| *at == self.y)?;
        let (old_row, row) = (self.rows.get(before)?, new.get(y)?);
        let (old_below, below) = (self.rows.get(before + 1..)?, new.get(y + 1..)?);
        let has_changed = old_row != row;
        // A change of the selection in the list needs no echo.
        let is_at_rest = !has_changed && self.x == Some(x) && old_below.len() == below.len();
        if old_below != below && !is_at_rest {
            return Some(row.len().saturating_sub(ECHO_CAP)..row.len().max(x));
        }
        let from = self.x.filter(|from| *from < x)?;
        let typed = if has_changed { from..x } else { from.max(row.len())..x };
        Some(typed)
    }

    /// Paints more rows than the window has: each before it scrolls out at the top.
    fn stream(&self, painter: &mut Painter, new: &[Arc<Row>], pictures: &[PositionedImage<'_>]) {
        let empty = Arc::<Row>::default();
        for (y, row) in new.iter().enumerate() {
            if y >= self.rows.len() {
                painter.move_to_row(y - 1);
                painter.grow(1);
            }
            painter.paint_row(y, self.rows.get(y).unwrap_or(&empty), row, 0..0);
            // The row below exists, and the image's own rows are blank.
            for placed in pictures.iter().filter(|it| it.y + it.picture.size().1 == y) {
                painter.draw_image(placed.x, placed.y, placed.picture);
            }
        }
    }

    /// Wraps a frame in sequences that hide intermediate states, if needed.
    fn wrap_frame(&mut self, body: Vec<u8>, heavy: bool, show: bool) -> Vec<u8> {
        let was = std::mem::replace(&mut self.visible, show);
        if body.is_empty() && was == show {
            return body;
        }
        let mut out = Vec::with_capacity(body.len() + 32);
        let synchronized = heavy && self.options.synchronized;
        if synchronized {
            out.extend_from_slice(b"\x1b[?2026h");
        }
        // A synchronized frame shows only its final state.
        let hides = heavy && was && show && !synchronized;
        if hides || (was && !show) {
            out.extend_from_slice(b"\x1b[?25l");
        }
        out.extend_from_slice(&body);
        if hides || (show && !was) {
            out.extend_from_slice(b"\x1b[?25h");
        }
        if synchronized {
            out.extend_from_slice(b"\x1b[?2026l");
        }
        out
    }

    /// Returns the bytes that move to the region's first row in a window with a new size; the
    /// region starts again there. What is above stays; the rest is cleared with the next frame.
    /// `reflows` is whether the terminal wraps rows that have become too long.
    pub fn resize(&mut self, columns: usize, height: usize, reflows: bool) -> Vec<u8> {
        let painted = self.painted_rows();
        let up = painted.rows_above_cursor(columns, reflows);
        // The terminal keeps the cursor inside the window, so at least the rows further above it
        // than the height have scrolled out. Rows that fit into added height may have come back.
        let missing = match columns == self.columns {
            true => {
                let scrolled_out = painted.scrolled_out_rows(columns);
                let grown = height.saturating_sub(self.height);
                scrolled_out.saturating_sub(grown) + self.y.saturating_sub(height.max(1) - 1)
            }
            // The wrapping is a guess, and no foreign row may be erased.
            false => 0,
        };
        self.restart_in_place(columns, height);
        self.record_scrolled(&painted, missing, columns);
        move_vertically(isize::try_from(up).unwrap_or(0))
    }

    /// Starts again in the cursor's row, which is known to be the first of the region, in a window
    /// of another size. The next frame clears everything at and below it.
    pub(crate) fn restart_in_place(&mut self, columns: usize, height: usize) {
        let visible = self.visible;
        self.restart(columns, height);
        self.visible = visible;
    }

    /// Records how many painted rows, wrapped to `columns`, are in the scrollback directly above
    /// the region.
    pub(crate) fn record_scrolled(&mut self, painted: &PaintedRows, rows: usize, columns: usize) {
        self.scrolled_out = painted.first(rows, columns);
    }

    /// Starts again in the cursor's row, wherever another program left it.
    pub fn restart(&mut self, columns: usize, height: usize) {
        *self = Self::new(columns, height, self.options);
    }

    /// Replaces the live rows with `rows` and puts the cursor below them.
    pub fn close(&mut self, rows: &[Line]) -> Vec<u8> {
        let mut out = self.frame(&Frame { commit: rows, live: &[], cursor: Some((0, 0)) });
        if self.y > 0 || self.x != Some(0) {
            out.push(b'\r');
        }
        out
    }
}

/// An image and the cell of the frame where it begins.
struct PositionedImage<'a> {
    x: usize,
    y: usize,
    picture: &'a TerminalImage,
}

/// Rows on the terminal and the cursor in them.
#[derive(Debug)]
pub(crate) struct PaintedRows {
    columns: usize,
    height: usize,
    scrolled_out: ScrolledOutRows,
    rows: Vec<Arc<Row>>,
    y: usize,
    x: Option<usize>,
}

impl PaintedRows {
    /// Returns how many rows the cursor is below the first row, including rows that scrolled out,
    /// in a window that is now `columns` wide.
    pub fn rows_above_cursor(&self, columns: usize, reflows: bool) -> usize {
        if !reflows {
            let scrolled_out =
                if columns == self.columns { self.scrolled_out.rows.len() } else { 0 };
            return scrolled_out + self.y;
        }
        let rows = self.document();
        // The cursor's row is one of the document's rows, but may begin inside it.
        let (before, own) = match (self.y, self.scrolled_out.split) {
            (0, true) => {
                (self.scrolled_out.rows.len().saturating_sub(1), self.scrolled_out.last_len())
            }
            (y, split) => {
                ((self.scrolled_out.rows.len() + y).saturating_sub(usize::from(split)), 0)
            }
        };
        let rows_above: usize =
            rows.iter().take(before).map(|row| row.reflowed_height(columns)).sum();
        let height = rows.get(before).map_or(1, |row| row.reflowed_height(columns));
        rows_above + ((own + self.x.unwrap_or(0)) / columns.max(1)).min(height - 1)
    }

    /// Returns how many rows of a `columns` wide window have scrolled out.
    pub fn scrolled_out_rows(&self, columns: usize) -> usize {
        self.scrolled_out.rows.iter().map(|row| row.reflowed_height(columns)).sum()
    }

    /// Returns how many rows at and below the cursor's row scrolled out at the top of a window that
    /// got this size, where `below` is the number of rows from the cursor's row to the end of the
    /// window. In a window that shrinks, tmux first drops what is below the cursor, then wraps what
    /// has become too long and shows its end.
    pub fn scrolled_out_below(&self, below: usize, columns: usize, height: usize) -> usize {
        let lower = self.height.saturating_sub(height);
        let remaining = below - lower.min(below.saturating_sub(1));
        let rows = self.rows.iter().skip(self.y).take(remaining);
        let blank = remaining.saturating_sub(self.rows.len().saturating_sub(self.y));
        let wrapped: usize = rows.map(|row| row.reflowed_height(columns)).sum();
        (wrapped + blank).saturating_sub(height)
    }

    /// Returns all rows as the terminal knows them, starting with those that scrolled out.
    fn document(&self) -> Vec<Arc<Row>> {
        let mut rows = self.scrolled_out.rows.clone();
        let mut painted = self.rows.iter();
        if self.scrolled_out.split
            && let (Some(begun), Some(rest)) = (rows.last_mut(), painted.next())
        {
            *begun = Arc::new(begun.concat(rest));
        }
        rows.extend(painted.cloned());
        rows
    }

    /// Returns the first `count` rows after wrapping to `columns`.
    fn first(&self, mut count: usize, columns: usize) -> ScrolledOutRows {
        let mut scrolled_out = ScrolledOutRows::default();
        for row in self.document() {
            let height = row.reflowed_height(columns);
            if height > count {
                scrolled_out.split = count > 0;
                if scrolled_out.split {
                    scrolled_out.rows.push(Arc::new(row.first_rows(count, columns)));
                }
                break;
            }
            count -= height;
            scrolled_out.rows.push(row);
        }
        scrolled_out
    }
}

impl ScrolledOutRows {
    fn last_len(&self) -> usize {
        self.rows.last().map_or(0, |row| row.len())
    }
}

/// Moves the cursor up, or down if negative.
pub(crate) fn move_vertically(rows: isize) -> Vec<u8> {
    match rows {
        0 => Vec::new(),
        1.. => format!("\x1b[{rows}A").into_bytes(),
        _ => format!("\x1b[{}B", rows.unsigned_abs()).into_bytes(),
    }
}
