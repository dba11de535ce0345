//! The part of a long body that is in view before the user scrolls: its beginning, and the rows that
//! must be seen, with their neighbors.

use std::collections::BTreeSet;

use parallax_screen::Line;

use super::body::Body;
use crate::layout::count;
use crate::theme::Theme;

/// Rows of a body with marks where rows are left out.
#[derive(Debug)]
pub(super) struct Excerpt {
    pub(super) rows: Vec<Line>,
    /// How many rows of the beginning are in view.
    pub(super) beginning: usize,
    /// How many rows of the body are in view.
    pub(super) shown: usize,
}

/// Returns at most `room` rows, or nothing if as many rows from `start` contain all that must be
/// seen.
pub(super) fn excerpt(body: &Body, start: usize, room: usize, theme: &Theme) -> Option<Excerpt> {
    let in_view = start..start + room;
    if room < 2 || body.important.iter().all(|row| in_view.contains(row)) {
        return None;
    }
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    let total = body.rows.len();
    let important = || body.important.iter().copied();
    let after = important().map(|row| row + 1);
    let before = important().filter_map(|row| row.checked_sub(1));
    // What must be seen, the beginning, what is next to it, and more of the beginning.
    let candidates = important()
        .take(room)
        .chain([start])
        .chain(before.take(room))
        .chain(after.take(room))
        .chain(start + 1..start + room);
    for row in candidates.filter(|row| *row < total) {
        let is_new = chosen.insert(row);
        if is_new && height(&chosen) > room {
            chosen.remove(&row);
        }
    }
    let mut rows = Vec::new();
    let mut next = 0;
    for index in &chosen {
        if *index > next {
            let gap = format!("    … {}", count(index - next, "row"));
            rows.push(Line::styled(gap, theme.secondary));
        }
        rows.extend(body.rows.get(*index).cloned());
        next = index + 1;
    }
    let beginning = (start..total).take_while(|row| chosen.contains(row)).count();
    Some(Excerpt { rows, beginning, shown: chosen.len() })
}

/// Returns the rows of a choice with a mark before each gap.
fn height(chosen: &BTreeSet<usize>) -> usize {
    let mut next = 0;
    let mut gaps = 0;
    for index in chosen {
        gaps += usize::from(*index > next);
        next = index + 1;
    }
    chosen.len() + gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(rows: usize, important: &[usize]) -> Body {
        let rows = (0..rows).map(|row| Line::raw(row.to_string())).collect();
        Body { rows, important: important.to_vec() }
    }

    fn rows_as_text(body: &Body, room: usize) -> Vec<String> {
        let excerpt = excerpt(body, 0, room, &Theme::default());
        excerpt.map_or_else(Vec::new, |excerpt| {
            excerpt.rows.iter().map(|row| row.text().trim().to_owned()).collect()
        })
    }

    #[test]
    fn important_rows_are_in_view_with_their_neighbors() {
        let body = body(40, &[37]);
        assert_eq!(rows_as_text(&body, 2), ["… 37 rows", "37"]);
        assert_eq!(rows_as_text(&body, 3), ["0", "… 36 rows", "37"]);
        assert_eq!(rows_as_text(&body, 7), ["0", "1", "2", "… 33 rows", "36", "37", "38"]);
        assert!(rows_as_text(&body, 38).is_empty(), "all of it is in view without an excerpt");
        for room in 2..38 {
            assert!(
                rows_as_text(&body, room).len() <= room
                    && rows_as_text(&body, room).contains(&"37".into())
            );
        }
    }

    #[test]
    fn several_important_rows_share_the_space() {
        let body = body(100, &[20, 50, 51, 90]);
        assert_eq!(
            rows_as_text(&body, 8),
            ["0", "… 19 rows", "20", "… 29 rows", "50", "51", "… 38 rows", "90"]
        );
    }
}
