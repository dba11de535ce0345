//! Row layout helpers: prefixes, hard wrapping for code, padding.

use crate::{Line, Span, Style, grapheme_width, text_width, truncate, wrap};
use unicode_segmentation::UnicodeSegmentation;

/// The marker of the selected row.
pub const POINTER: &str = "❯ ";
/// Before a search.
pub const SEARCH: &str = "⌕ ";
/// The prefix of the other rows of the list.
pub const NO_POINTER: &str = "  ";

/// Returns the prefix of a list row.
pub fn pointer(selected: bool) -> &'static str {
    if selected { POINTER } else { NO_POINTER }
}

/// Wraps spans at exactly `columns`, even inside words. For code and output, where every space
/// matters. Always returns at least one row.
pub fn hard_wrap(spans: Vec<Span>, columns: usize) -> Vec<Vec<Span>> {
    // Two columns fit any grapheme cluster.
    let columns = columns.max(2);
    let total: usize = spans.iter().map(Span::width).sum();
    if total <= columns {
        return vec![spans];
    }
    let (mut rows, mut row, mut used) = (Vec::new(), Vec::new(), 0);
    for span in spans {
        let mut start = 0;
        for (offset, cluster) in span.text.grapheme_indices(true) {
            let width = grapheme_width(cluster);
            if used + width > columns {
                if start < offset {
                    row.push(Span {
                        text: span.text[start..offset].to_owned().into(),
                        ..span.clone()
                    });
                }
                rows.push(std::mem::take(&mut row));
                (start, used) = (offset, 0);
            }
            used += width;
        }
        if start == 0 {
            row.push(span);
        } else if start < span.text.len() {
            row.push(Span { text: span.text[start..].to_owned().into(), ..span });
        }
    }
    rows.push(row);
    rows
}

/// Like [`hard_wrap`], but breaks after a space if the second half of a row has one. All characters
/// are kept.
pub fn space_wrap(spans: Vec<Span>, columns: usize) -> Vec<Vec<Span>> {
    let columns = columns.max(2);
    let total: usize = spans.iter().map(Span::width).sum();
    if total <= columns {
        return vec![spans];
    }
    let text: String = spans.iter().map(|span| span.text.as_ref()).collect();
    let (mut ends, mut used) = (Vec::new(), 0);
    // The end of the last space in the row, and the columns up to there.
    let mut space = None;
    for (offset, cluster) in text.grapheme_indices(true) {
        let width = grapheme_width(cluster);
        if used + width > columns {
            match space.take().filter(|(_, before)| *before > columns / 2) {
                Some((end, before)) => {
                    ends.push(end);
                    used -= before;
                }
                None => {
                    ends.push(offset);
                    used = 0;
                }
            }
        }
        used += width;
        if cluster == " " {
            space = Some((offset + 1, used));
        }
    }
    ends.push(text.len());
    split_spans(&spans, &ends)
}

/// Splits spans at offsets in their text.
fn split_spans(spans: &[Span], ends: &[usize]) -> Vec<Vec<Span>> {
    let mut rows = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in ends {
        let mut row = Vec::new();
        let mut offset = 0;
        for span in spans {
            let range = offset..offset + span.text.len();
            let (from, to) = (start.max(range.start), (*end).min(range.end));
            if from < to
                && let Some(text) = span.text.get(from - offset..to - offset)
            {
                row.push(Span { text: text.to_owned().into(), ..span.clone() });
            }
            offset = range.end;
        }
        rows.push(row);
        start = *end;
    }
    rows
}

/// Returns the row with a prefix.
pub fn with_prefix(prefix: &[Span], mut row: Line) -> Line {
    if prefix.is_empty() {
        return row;
    }
    let mut spans = Vec::with_capacity(prefix.len() + row.spans.len());
    spans.extend_from_slice(prefix);
    spans.append(&mut row.spans);
    Line { spans, fill_style: row.fill_style, picture: row.picture }
}

/// Returns the row padded with spaces to `columns`.
pub fn pad_row(mut row: Line, columns: usize, style: Style) -> Line {
    let width = row.width();
    if width < columns {
        row.push(Span::styled(" ".repeat(columns - width), style));
    }
    row
}

/// Cuts a row to the width.
pub fn truncate_row(line: Line, width: usize) -> Line {
    if line.width() <= width {
        return line;
    }
    let mut remaining = width;
    let mut spans = Vec::new();
    for span in line.spans {
        let text = truncate(&span.text, remaining).to_owned();
        remaining = remaining.saturating_sub(text_width(&text));
        let whole = text.len() == span.text.len();
        spans.push(Span { text: text.into(), ..span });
        if !whole {
            break;
        }
    }
    Line { spans, fill_style: line.fill_style, picture: None }
}

/// Cuts a row to the width, with `…` if something is missing.
pub fn truncate_with_mark(line: Line, width: usize) -> Line {
    if line.width() <= width {
        return line;
    }
    let style = line.spans.last().map(|span| span.style).unwrap_or_default();
    truncate_row(line, width.saturating_sub(1)).with_span("…", style)
}

/// Returns the indentation of continuation rows: aligned with the text of list entries, and
/// indented below headings.
pub fn hanging_indent(row: &str) -> usize {
    let words = row.trim_start();
    let indent = row.chars().count() - words.chars().count();
    match indent {
        // Descriptions are aligned below their names.
        4.. if !words.starts_with("- ") => indent,
        _ => indent + 2,
    }
}

/// Returns the text as rows, with tabs replaced.
pub fn plain_rows(text: &str) -> Vec<Line> {
    text.lines().map(|line| Line::raw(format!("  {}", line.replace('\t', "    ")))).collect()
}

/// Returns the part of `text` that fits, with `…` if something is missing.
pub fn truncate_text(text: &str, columns: usize) -> String {
    if text.len() <= columns || text_width(text) <= columns {
        return text.to_owned();
    }
    format!("{}…", crate::truncate(text, columns.saturating_sub(1)))
}

/// Lays out a name and its description in two columns. The description starts at column `at`
/// (further left in a narrow window) and wraps within its column. If the name is too wide, the
/// description starts on the next row.
pub fn two_columns(name: Line, meaning: Line, at: usize, width: usize) -> Vec<Line> {
    let at = at.min(width * 2 / 5);
    let room = width.saturating_sub(at).max(8);
    let hang = [Span::raw(" ".repeat(at))];
    let mut description = wrap(&meaning, room, &[]).into_iter();
    let mut rows = Vec::new();
    if name.width() < at {
        let first = description.next().unwrap_or(Line::EMPTY);
        let name = pad_row(name, at, Style::PLAIN);
        rows.push(with_prefix(&name.spans, first));
    } else {
        let indent = name.text().chars().take_while(|char| *char == ' ').count().min(at);
        rows.extend(wrap(&name, width, &[Span::raw(" ".repeat(indent + 2))]));
    }
    rows.extend(description.map(|row| with_prefix(&hang, row)));
    rows
}

/// Returns key hints separated by ` · `. Hints that do not fit are dropped from the end, except the
/// last one, which shows how to leave.
pub fn hint_row(hints: &str, columns: usize) -> String {
    const SEPARATOR: &str = " · ";
    let mut parts: Vec<&str> = hints.split(SEPARATOR).collect();
    while parts.len() > 1 && text_width(&parts.join(SEPARATOR)) > columns {
        parts.remove(parts.len() - 2);
    }
    truncate_text(&parts.join(SEPARATOR), columns)
}

/// Returns a count with its noun: `1 line`, `2 lines`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Formats a size in bytes.
pub fn bytes(size: usize) -> String {
    match size {
        0..1_000 => count(size, "byte"),
        1_000..1_000_000 => format!("{} KB", size.div_ceil(1_000)),
        _ => format!("{}.{} MB", size / 1_000_000, size / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_as_text(name: &str, meaning: &str, width: usize) -> Vec<String> {
        let rows =
            two_columns(Line::raw(name.to_owned()), Line::raw(meaning.to_owned()), 20, width);
        rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
    }

    fn space_wrapped(text: &str, columns: usize) -> Vec<String> {
        // Spans end anywhere.
        let (first, rest) = text.split_at(text.len() / 3);
        let spans = vec![Span::raw(first.to_owned()), Span::raw(rest.to_owned())];
        let rows = space_wrap(spans, columns).into_iter();
        rows.map(|row| row.iter().map(|span| span.text.as_ref()).collect()).collect()
    }

    #[test]
    fn code_is_broken_after_spaces_and_keeps_all_characters() {
        let code = "    let attempt = attempt.saturating_add(1);";
        assert_eq!(space_wrapped(code, 30), ["    let attempt = ", "attempt.saturating_add(1);"]);
        assert_eq!(space_wrapped("aaaaaaaaaaaaaaaaaaaa", 8), ["aaaaaaaa", "aaaaaaaa", "aaaa"]);
        // A break in the first half would waste too much of the row.
        assert_eq!(space_wrapped("a bbbbbbbbbbbb", 8), ["a bbbbbb", "bbbbbb"]);
        for width in 2..50 {
            let rows = space_wrapped(code, width);
            assert_eq!(rows.concat(), code, "{width}");
            assert!(rows.iter().all(|row| text_width(row) <= width), "{width}: {rows:?}");
        }
    }

    #[test]
    fn description_wraps_with_a_hanging_indent() {
        let rows = rows_as_text("  /name WHAT", "one two three four five", 32);
        let expected = ["  /name WHAT", "            one two three four", "            five"];
        assert_eq!(rows, expected, "the name takes more than two fifths");
        let rows = rows_as_text("  /name", "one two three four five", 34);
        assert_eq!(rows, ["  /name      one two three four", "             five"]);
        let rows = rows_as_text("  /a-name-that-is-longer WHAT", "one", 60);
        assert_eq!(rows, ["  /a-name-that-is-longer WHAT", "                    one"]);
        for width in 1..60 {
            let rows = two_columns(Line::raw("  /name A B"), Line::raw("one two"), 20, width);
            let text: String = rows.iter().map(Line::text).collect();
            assert!(text.contains("two") || width < 8, "{width}: {text}");
        }
    }

    #[test]
    fn complete_hints_are_dropped_and_the_exit_hint_stays() {
        let hints = "type to search · enter changes · tab for whom · esc leaves";
        assert_eq!(hint_row(hints, 58), hints);
        assert_eq!(hint_row(hints, 50), "type to search · enter changes · esc leaves");
        assert_eq!(hint_row(hints, 30), "type to search · esc leaves");
        assert_eq!(hint_row(hints, 12), "esc leaves");
        assert_eq!(hint_row(hints, 6), "esc l…");
    }
}
