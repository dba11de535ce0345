//! A row of cells: a [`Line`] cut to the width of the window, and the unit in which windows are
//! compared.

use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use crate::line::{Line, Span};
use crate::style::Style;
use crate::width::{grapheme_width, is_forbidden};

/// Replaces clusters that contain a control character: one column wide in every terminal.
const REPLACEMENT: char = '?';

/// The content of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Glyph {
    /// A single character.
    Char(char),
    /// A cluster of several characters; terminals disagree about the width of some.
    Cluster(Arc<str>),
    /// The right half of a wide glyph.
    Tail,
}

/// One column of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub glyph: Glyph,
    pub style: Style,
    pub link: Option<Arc<str>>,
}

impl Cell {
    pub fn is_plain_blank(&self) -> bool {
        self.glyph == Glyph::Char(' ') && self.style == Style::PLAIN && self.link.is_none()
    }
}

/// The cells of a row, without plain trailing spaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    pub cells: Vec<Cell>,
}

impl Row {
    /// Returns the row that shows `line` in a window with `columns`.
    pub fn new(line: &Line, columns: usize) -> Self {
        let mut cells = Vec::with_capacity(columns.min(256));
        for span in &line.spans {
            push_span(&mut cells, span, columns);
            if cells.len() >= columns {
                break;
            }
        }
        if let Some(style) = line.fill_style {
            let style = style.visible_on_space();
            cells.resize(columns, Cell { glyph: Glyph::Char(' '), style, link: None });
        }
        while cells.last().is_some_and(Cell::is_plain_blank) {
            cells.pop();
        }
        Self { cells }
    }

    /// Returns the number of painted columns.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns the number of leading plain spaces.
    pub fn indent(&self) -> usize {
        self.cells.iter().take_while(|cell| cell.is_plain_blank()).count()
    }

    /// Returns how many rows a reflowing terminal makes of this row in a window with `columns`.
    pub fn reflowed_height(&self, columns: usize) -> usize {
        1 + self.reflow_breaks(columns).count()
    }

    /// Returns the cells of the first `count` of these rows.
    pub fn first_rows(&self, count: usize, columns: usize) -> Self {
        let end = match count.checked_sub(1) {
            Some(last) => self.reflow_breaks(columns).nth(last).unwrap_or(self.cells.len()),
            None => 0,
        };
        Self { cells: self.cells.iter().take(end).cloned().collect() }
    }

    /// Concatenates two rows.
    pub fn concat(&self, other: &Self) -> Self {
        Self { cells: self.cells.iter().chain(&other.cells).cloned().collect() }
    }

    /// Returns the cells at which a reflowing terminal starts another row.
    fn reflow_breaks(&self, columns: usize) -> impl Iterator<Item = usize> {
        let columns = columns.max(1);
        let (mut used, mut at) = (0, 0);
        std::iter::from_fn(move || {
            while at < self.cells.len() {
                let wide = self.cells.get(at + 1).is_some_and(|cell| cell.glyph == Glyph::Tail);
                let width = if wide { 2 } else { 1 };
                let start = at;
                let breaks = used + width > columns && used > 0;
                used = if breaks { width } else { used + width };
                at += width;
                if breaks {
                    return Some(start);
                }
            }
            None
        })
    }

    /// Returns the number of different columns, the approximate cost of painting one row over the
    /// other.
    pub fn distance(&self, other: &Self) -> usize {
        let differing = self.cells.iter().zip(&other.cells).filter(|(a, b)| a != b).count();
        let longer = other.len().saturating_sub(self.len());
        differing + longer + if self.len() > other.len() { 3 } else { 0 }
    }
}

fn push_span(cells: &mut Vec<Cell>, span: &Span, columns: usize) {
    if span.text.is_ascii() {
        for byte in span.text.bytes() {
            if cells.len() >= columns {
                return;
            }
            let char = if byte.is_ascii_control() { REPLACEMENT } else { char::from(byte) };
            push_char(cells, char, span);
        }
        return;
    }
    for cluster in span.text.graphemes(true) {
        if cells.len() >= columns {
            return;
        }
        if cluster.chars().any(is_forbidden) {
            push_char(cells, REPLACEMENT, span);
            continue;
        }
        let width = grapheme_width(cluster);
        if width == 0 {
            continue;
        }
        if cells.len() + width > columns {
            // Half of a wide glyph does not fit.
            push_char(cells, ' ', span);
            return;
        }
        let mut chars = cluster.chars();
        match (chars.next(), chars.next()) {
            (Some(char), None) => push_char(cells, char, span),
            _ => cells.push(Cell {
                glyph: Glyph::Cluster(cluster.into()),
                style: span.style,
                link: span.link.clone(),
            }),
        }
        if width == 2 {
            cells.push(Cell { glyph: Glyph::Tail, style: span.style, link: span.link.clone() });
        }
    }
}

fn push_char(cells: &mut Vec<Cell>, char: char, span: &Span) {
    let style = if char == ' ' { span.style.visible_on_space() } else { span.style };
    cells.push(Cell { glyph: Glyph::Char(char), style, link: span.link.clone() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Color;

    fn text(row: &Row) -> String {
        row.cells
            .iter()
            .map(|cell| match &cell.glyph {
                Glyph::Char(char) => char.to_string(),
                Glyph::Cluster(cluster) => cluster.to_string(),
                Glyph::Tail => String::new(),
            })
            .collect()
    }

    #[test]
    fn control_characters_never_become_cells() {
        for bad in ["\x1b", "\x07", "\u{9b}", "\u{7f}", "\u{202e}", "\u{2066}", "\u{2028}", "\r\n"]
        {
            let row = Row::new(&Line::raw(format!("a{bad}é")), 10);
            assert!(!text(&row).contains(is_forbidden), "{bad:?}");
            assert!(text(&row).starts_with('a') && text(&row).ends_with('é'), "{bad:?}");
        }
    }

    #[test]
    fn wide_glyph_that_does_not_fit_becomes_a_space() {
        assert_eq!(text(&Row::new(&Line::raw("漢字"), 3)), "漢");
        let blue = Style::PLAIN.on(Color::Ansi(4));
        assert_eq!(text(&Row::new(&Line::styled("漢字", blue), 3)), "漢 ");
    }

    #[test]
    fn trailing_plain_spaces_are_not_cells_but_a_fill_is() {
        assert_eq!(Row::new(&Line::raw("a  "), 10).len(), 1);
        assert_eq!(Row::new(&Line::raw("a").filled(Style::PLAIN.on(Color::Ansi(1))), 10).len(), 10);
        assert_eq!(Row::new(&Line::raw("a").filled(Style::PLAIN), 10).len(), 1);
    }

    #[test]
    fn reflow_counts_rows_and_does_not_split_wide_glyphs() {
        assert_eq!(Row::new(&Line::EMPTY, 10).reflowed_height(4), 1);
        assert_eq!(Row::new(&Line::raw("12345678"), 10).reflowed_height(4), 2);
        assert_eq!(Row::new(&Line::raw("123456789"), 10).reflowed_height(4), 3);
        assert_eq!(Row::new(&Line::raw("漢字漢"), 10).reflowed_height(3), 3);
        let first_text = |count| text(&Row::new(&Line::raw("漢字漢"), 10).first_rows(count, 3));
        assert_eq!([0, 1, 2, 3, 4].map(first_text), ["", "漢", "漢字", "漢字漢", "漢字漢"]);
    }
}
