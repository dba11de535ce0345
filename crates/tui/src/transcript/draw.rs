//! How rows are drawn: signs, boxes, hanging text.

use parallax_screen::{Line, Span, Style, wrap};

use super::ViewOptions;
use crate::layout::{truncate_with_mark, with_prefix};
use crate::sanitize;
use crate::theme::Theme;
use crate::tokens::{BULLET, SPINNER, SPINNER_MS};

/// The minimum width that items are drawn for.
const MIN_WIDTH: usize = 12;

/// The parameters for drawing rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemRenderer<'a> {
    pub(super) theme: &'a Theme,
    pub(super) width: usize,
    pub(super) options: ViewOptions,
    /// The time in milliseconds of any clock.
    pub(super) now_ms: u64,
    /// Maximum number of live output rows of a call.
    pub(super) output_rows: usize,
    /// Whether the rows will be painted over: none is longer than its text. A terminal that gets
    /// narrower wraps long rows, and what this pushes into the scrollback stays there.
    pub(super) is_transient: bool,
}

/// The shape of an item's rows, which determines the empty row between two items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemSpacing {
    /// A row without an empty row next to others of its kind: a compact call.
    Compact,
    /// A notice.
    Notice,
    /// Anything else.
    Block,
    /// Rows without an empty row before them.
    Attached,
}

impl ItemSpacing {
    /// Whether an empty row separates two items.
    pub(super) fn needs_blank_row(before: Option<Self>, after: Self) -> bool {
        match (before, after) {
            (None, _) | (_, Self::Attached) => false,
            (Some(before), _) => before != after || after == Self::Block,
        }
    }
}

impl<'a> ItemRenderer<'a> {
    pub(super) fn new(theme: &'a Theme, width: usize, options: ViewOptions, now_ms: u64) -> Self {
        Self {
            theme,
            width: width.max(MIN_WIDTH),
            options,
            now_ms,
            output_rows: 15,
            is_transient: false,
        }
    }

    /// Returns a marker, or a word for screen readers.
    pub(super) fn marker(&self, symbol: &'static str, word: &'static str) -> &'static str {
        if self.options.screen_reader { word } else { symbol }
    }

    pub(super) fn spinner(&self) -> &'static str {
        if self.options.is_static {
            return self.marker("·", "running:");
        }
        let frame = usize::try_from(self.now_ms / SPINNER_MS % 10).unwrap_or(0);
        self.marker(SPINNER[frame], "running:")
    }

    /// Returns external text as rows with a hanging sign.
    pub(super) fn hanging_rows(
        &self,
        marker: &str,
        marker_style: Style,
        text: &str,
        style: Style,
    ) -> Vec<Line> {
        let width = parallax_screen::text_width(marker) + 1;
        let room = self.width.saturating_sub(width).max(4);
        let mut rows = Vec::new();
        for line in sanitize::lines(text).lines() {
            let line = Line::styled(sanitize::expand_tabs(line, &mut 0).into_owned(), style);
            // The rest of a list entry is below its text.
            let hang = if line.text().starts_with(BULLET) { "  " } else { "" };
            rows.extend(wrap(&line, room, &[Span::raw(hang)]));
        }
        let first = [Span::styled(format!("{marker} "), marker_style)];
        let rest = [Span::raw(" ".repeat(width))];
        let add_prefix = |(index, row)| with_prefix(if index == 0 { &first } else { &rest }, row);
        let rows = rows.into_iter().enumerate().map(add_prefix);
        rows.map(|row| if row.width() > self.width { truncate_row(&row, self.width) } else { row })
            .collect()
    }

    /// Draws the left side of a box with round corners next to rows, and no box for a screen
    /// reader. A right side would have to be padded, and a terminal that gets narrower would wrap
    /// it.
    pub(super) fn draw_box(&self, rows: Vec<Line>, style: Style) -> Vec<Line> {
        let inner = self.inner_width();
        let fit = |row: Line| if row.width() > inner { truncate_row(&row, inner) } else { row };
        let rows = rows.into_iter().map(fit);
        if self.options.screen_reader {
            return rows.collect();
        }
        let mut boxed = vec![Line::styled("╭─", style)];
        for row in rows {
            // What is painted over stays as short as its text.
            let fill_style = row.fill_style.filter(|_| !self.is_transient);
            boxed.push(with_prefix(&[Span::styled("│ ", style)], Line { fill_style, ..row }));
        }
        boxed.push(Line::styled("╰─", style));
        boxed
    }

    /// Returns lines of a command that were not announced to the screen reader before its end.
    pub(super) fn unannounced_lines(&self, late: Option<&[String]>) -> Vec<Line> {
        let line = |line: &String| Line::styled(line.clone(), self.theme.secondary);
        late.unwrap_or_default()
            .iter()
            .flat_map(|text| wrap(&line(text), self.width, &[]))
            .collect()
    }

    /// Returns the columns inside a box.
    pub(super) fn inner_width(&self) -> usize {
        if self.options.screen_reader { self.width } else { self.width - 2 }
    }
}

/// Cuts a row to `width`, with `…` if something is missing.
pub(super) fn truncate_row(row: &Line, width: usize) -> Line {
    truncate_with_mark(row.clone(), width)
}
