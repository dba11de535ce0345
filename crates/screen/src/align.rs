//! Aligns the rows of the old and new window, so that a block that only moved is moved by the
//! terminal instead of repainted.

use std::sync::Arc;

use crate::row::Row;

/// Approximate cost of inserting or deleting a row, in bytes.
const LINE_OPERATION: usize = 8;
/// Approximate cost of moving to another row, in bytes.
const MOVE: usize = 4;
/// Higher than the cost of any window.
const NEVER: usize = 1 << 30;
/// With more pairs than this, rows are compared in place.
const PAIRS_CAP: usize = 10_000;

/// Returns for each new row the old row to paint it over, in increasing order. Old rows that are
/// not listed are deleted; new rows without one are inserted. Neither side is empty.
///
/// The first old row is always painted over: it may be the first of the window, and a line deleted
/// there goes into the scrollback in some terminals.
pub(crate) fn align(old: &[Arc<Row>], new: &[Arc<Row>]) -> Vec<Option<usize>> {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (tail(old, prefix), tail(new, prefix));
    // Empty rows need not be moved.
    let suffix = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(a, b)| a == b && a.len() > 0)
        .count()
        .min(old_rest.len().min(new_rest.len()).saturating_sub(usize::from(prefix == 0)));
    let old_middle = old_rest.get(..old_rest.len() - suffix).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len() - suffix).unwrap_or_default();

    let middle = align_middle(old_middle, new_middle, (prefix == 0, suffix == 0));
    let mut pairs: Vec<Option<usize>> = (0..prefix).map(Some).collect();
    pairs.extend(middle.into_iter().map(|at| Some(at? + prefix)));
    let behind = prefix + old_middle.len();
    pairs.extend((0..suffix).map(|at| Some(behind + at)));
    pairs
}

fn tail(rows: &[Arc<Row>], from: usize) -> &[Arc<Row>] {
    rows.get(from..).unwrap_or_default()
}

/// Returns the cheapest way from `old` to `new` by deletions, insertions, and repainting. `first`
/// and `last` are whether the rows include the first and last of all.
fn align_middle(
    old: &[Arc<Row>],
    new: &[Arc<Row>],
    (first, last): (bool, bool),
) -> Vec<Option<usize>> {
    let (height, width) = (old.len(), new.len());
    if height == 0 {
        return vec![None; width];
    }
    if height * width > PAIRS_CAP {
        return (0..width).map(|at| (at < height).then_some(at)).collect();
    }
    let stride = width + 1;
    // costs[i * stride + j]: the cost from old[i..] to new[j..].
    let mut costs = vec![0_usize; (height + 1) * stride];
    let mut choices = vec![RowEdit::Paint; (height + 1) * stride];
    for i in (0..=height).rev() {
        for j in (0..=width).rev() {
            let cost = |i: usize, j: usize| costs.get(i * stride + j).copied().unwrap_or(0);
            let (old_row, new_row) = (old.get(i), new.get(j));
            let mut best = (usize::MAX, RowEdit::Paint);
            if let (Some(old_row), Some(new_row)) = (old_row, new_row) {
                let paint = if old_row == new_row { 0 } else { MOVE + old_row.distance(new_row) };
                best = (paint + cost(i + 1, j + 1), RowEdit::Paint);
            }
            if old_row.is_some() {
                let delete = if first && i == 0 { NEVER } else { LINE_OPERATION };
                best = best.min((delete + cost(i + 1, j), RowEdit::Delete));
            }
            if let Some(new_row) = new_row {
                // Below the last old row there are already empty ones.
                let at_end = last && old_row.is_none();
                let insert = if at_end { 1 } else { LINE_OPERATION } + new_row.len();
                best = best.min((insert + cost(i, j + 1), RowEdit::Insert));
            }
            let at = i * stride + j;
            if (old_row.is_some() || new_row.is_some())
                && let (Some(cost), Some(choice)) = (costs.get_mut(at), choices.get_mut(at))
            {
                (*cost, *choice) = best;
            }
        }
    }
    let mut pairs = Vec::with_capacity(width);
    let (mut i, mut j) = (0, 0);
    while j < width {
        match choices.get(i * stride + j) {
            Some(RowEdit::Paint) => {
                pairs.push(Some(i));
                (i, j) = (i + 1, j + 1);
            }
            Some(RowEdit::Delete) => i += 1,
            _ => {
                pairs.push(None);
                j += 1;
            }
        }
    }
    pairs
}

/// Ordered so that painting wins among equal costs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RowEdit {
    Paint,
    Delete,
    Insert,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;

    fn rows(texts: &[&str]) -> Vec<Arc<Row>> {
        texts.iter().map(|text| Arc::new(Row::new(&Line::raw((*text).to_owned()), 80))).collect()
    }

    #[test]
    fn block_below_a_new_row_is_not_repainted() {
        let old = rows(&["one line", "status 1s", "composer here", "footer here"]);
        let new = rows(&["one line", "another line", "status 2s", "composer here", "footer here"]);
        assert_eq!(align(&old, &new), [Some(0), None, Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn box_that_scrolls_inside_is_moved() {
        let old = rows(&["top border", "alpha text", "beta words", "gamma stuff", "bottom border"]);
        let new =
            rows(&["top border", "beta words", "gamma stuff", "delta thing", "bottom border"]);
        assert_eq!(align(&old, &new), [Some(0), Some(2), Some(3), None, Some(4)]);
    }

    #[test]
    fn removed_rows_are_deleted() {
        let old = rows(&["dialog title", "1. yes please", "2. no thanks", "the footer"]);
        let new = rows(&["dialog title", "the footer"]);
        assert_eq!(align(&old, &new), [Some(0), Some(3)]);
    }

    #[test]
    fn first_row_is_never_deleted() {
        let old = rows(&["dialog title", "1. yes please", "the footer"]);
        let new = rows(&["the footer"]);
        assert_eq!(align(&old, &new), [Some(0)]);
    }
}
