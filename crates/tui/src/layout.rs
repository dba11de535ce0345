//! Rows put together: prefixes, hard breaks for code, padding.

use parallax_screen::{Line, Span, Style, grapheme_width, text_width};
use unicode_segmentation::UnicodeSegmentation;

/// Breaks pieces into rows of exactly as many columns as fit, wherever that is.
/// For code and output, where every space counts. Never gives no row.
pub(crate) fn hard_wrap(spans: Vec<Span>, columns: usize) -> Vec<Vec<Span>> {
    // Two columns hold any cluster.
    let columns = columns.max(2);
    let total: usize = spans.iter().map(Span::width).sum();
    if total <= columns {
        return vec![spans];
    }
    let (mut rows, mut row, mut used) = (Vec::new(), Vec::new(), 0);
    for span in spans {
        let mut begin = 0;
        for (at, cluster) in span.text.grapheme_indices(true) {
            let width = grapheme_width(cluster);
            if used + width > columns {
                if begin < at {
                    row.push(Span { text: span.text[begin..at].to_owned().into(), ..span.clone() });
                }
                rows.push(std::mem::take(&mut row));
                (begin, used) = (at, 0);
            }
            used += width;
        }
        if begin == 0 {
            row.push(span);
        } else if begin < span.text.len() {
            row.push(Span { text: span.text[begin..].to_owned().into(), ..span });
        }
    }
    rows.push(row);
    rows
}

/// The row with these pieces before it.
pub(crate) fn prefixed(prefix: &[Span], mut row: Line) -> Line {
    if prefix.is_empty() {
        return row;
    }
    let mut spans = Vec::with_capacity(prefix.len() + row.spans.len());
    spans.extend_from_slice(prefix);
    spans.append(&mut row.spans);
    Line { spans, fill: row.fill }
}

/// The row with spaces behind it, up to `columns`.
pub(crate) fn padded(mut row: Line, columns: usize, style: Style) -> Line {
    let width = row.width();
    if width < columns {
        row.push(Span::styled(" ".repeat(columns - width), style));
    }
    row
}

/// The beginning of `text` that fits, with `…` where something is missing.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if text.len() <= columns || text_width(text) <= columns {
        return text.to_owned();
    }
    format!("{}…", parallax_screen::truncate(text, columns.saturating_sub(1)))
}

/// `1 line`, `2 lines`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
