//! Keeps the table cells that a row has more than its header.
//!
//! GitHub's Markdown drops them, but a model often writes `x|y` as code in a cell, which is parsed as
//! two cells.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

/// Adds a backslash before each pipe that would begin an excess cell: first before those in code,
/// then before the last ones, so that the last cell contains the rest. `events` are the parse events
/// of the source.
pub(super) fn escape_excess_pipes<'s, 'e>(
    source: &'s str,
    events: impl Iterator<Item = (Event<'e>, Range<usize>)>,
) -> Cow<'s, str> {
    let (mut text, mut copied) = (String::new(), 0);
    let (mut columns, mut in_head) = (0, false);
    for (event, range) in events {
        match event {
            Event::Start(Tag::TableHead) => (columns, in_head) = (0, true),
            Event::End(TagEnd::TableHead) => in_head = false,
            Event::Start(Tag::TableCell) if in_head => columns += 1,
            Event::Start(Tag::TableRow) => {
                let row = source.get(range.clone()).unwrap_or_default();
                for pipe in excess_pipes(row, columns) {
                    let at = range.start + pipe;
                    text.push_str(source.get(copied..at).unwrap_or_default());
                    text.push('\\');
                    copied = at;
                }
            }
            _ => {}
        }
    }
    match text.is_empty() {
        true => Cow::Borrowed(source),
        false => Cow::Owned(text + source.get(copied..).unwrap_or_default()),
    }
}

/// Returns the positions of the pipes to escape, ascending.
fn excess_pipes(row: &str, columns: usize) -> Vec<usize> {
    let row = row.trim_end();
    let pipes: Vec<usize> = row
        .match_indices('|')
        .map(|(at, _)| at)
        // The first and the last one delimit the row.
        .filter(|at| {
            let (before, after) = (row.get(..*at).unwrap_or_default(), row.get(at + 1..));
            let backslashes = before.len() - before.trim_end_matches('\\').len();
            !before.trim().is_empty() && after != Some("") && backslashes.is_multiple_of(2)
        })
        .collect();
    let excess = (pipes.len() + 1).saturating_sub(columns.max(1));
    if excess == 0 {
        return Vec::new();
    }
    let spans = code_spans(row);
    let in_code = |at: &&usize| spans.iter().any(|span| span.contains(at));
    let mut chosen: Vec<usize> = pipes.iter().filter(in_code).take(excess).copied().collect();
    let rest = excess - chosen.len();
    let others: Vec<usize> =
        pipes.iter().rev().filter(|at| !chosen.contains(at)).take(rest).copied().collect();
    chosen.extend(others);
    chosen.sort_unstable();
    chosen
}

/// Returns the ranges between runs of backticks of the same length.
fn code_spans(row: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in row.match_indices('`') {
        match runs.last_mut().filter(|run| run.end == at) {
            Some(run) => run.end += 1,
            None => runs.push(at..at + 1),
        }
    }
    let mut spans = Vec::new();
    let mut index = 0;
    while let Some(open) = runs.get(index) {
        let is_partner = |run: &&Range<usize>| run.len() == open.len();
        let close = runs.iter().skip(index + 1).position(|run| is_partner(&run));
        index += 1;
        if let Some(distance) = close
            && let Some(partner) = runs.get(index + distance)
        {
            spans.push(open.end..partner.start);
            index += distance + 1;
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Options, Parser};

    use super::*;

    #[test]
    fn pipes_of_excess_cells_are_escaped() {
        let head = "| a | b |\n|---|---|\n";
        for (row, expected) in [
            ("| 1 | `x|y` |", r"| 1 | `x\|y` |"),
            ("| `x|y` | 2 |", r"| `x\|y` | 2 |"),
            ("| `x|y|z` | ``2|`3`` |", r"| `x\|y\|z` | ``2\|`3`` |"),
            ("| 1 | 2 | 3 | 4 |", r"| 1 | 2 \| 3 \| 4 |"),
            ("1 | 2 | 3", r"1 | 2 \| 3"),
            (r"| 1 | `x\|y` |", r"| 1 | `x\|y` |"),
            ("| 1 |", "| 1 |"),
            ("| 1 | `2` |", "| 1 | `2` |"),
        ] {
            let source = format!("{head}{row}\n\nnext | one | two\n");
            let events = Parser::new_ext(&source, Options::ENABLE_TABLES).into_offset_iter();
            let escaped = escape_excess_pipes(&source, events);
            assert_eq!(escaped, source.replace(row, expected), "{row}");
        }
    }
}
