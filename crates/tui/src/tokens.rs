//! The design tokens: one marker per meaning, and the sizes that decide what is shown.
//! `DESIGN.md` explains them. Colours by role are in `theme.rs`.

use parallax_screen::{Line, Span};

use crate::layout::padded;
use crate::theme::Theme;

/// Before the row that the cursor is on.
pub(crate) const POINTER: &str = "❯ ";
/// Before the other rows of the same list.
pub(crate) const NO_POINTER: &str = "  ";
/// It succeeded.
pub(crate) const DONE: &str = "✓";
/// It failed.
pub(crate) const FAILED: &str = "✕";
/// It was cancelled.
pub(crate) const CANCELLED: &str = "-";
/// It waits for its turn, or is turned off.
pub(crate) const IDLE: &str = "○";
/// It needs an answer.
pub(crate) const ASKS: &str = "?";
/// It is in progress.
pub(crate) const CURRENT: &str = "»";
/// It cannot go on.
pub(crate) const BLOCKED: &str = "!";
/// Before the facts about a turn that is over.
pub(crate) const TURN_END: &str = "─";
/// Between facts in one row.
pub(crate) const SEPARATOR: &str = " · ";
/// The steps of an animation, one every [`SPINNER_MS`].
pub(crate) const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long each step is shown, in milliseconds.
pub(crate) const SPINNER_MS: u64 = 120;

/// The marker of the cursor in a list.
pub(crate) fn pointer(selected: bool) -> &'static str {
    if selected { POINTER } else { NO_POINTER }
}

/// The rows of one item of a list, the marker before the first.
pub(crate) fn selectable_rows(
    rows: Vec<Line>,
    selected: bool,
    width: usize,
    theme: &Theme,
) -> Vec<Line> {
    let mark = |(index, row)| {
        let mut row = selectable(row, selected, width, theme);
        if let (1.., Some(pointer)) = (index, row.spans.first_mut()) {
            *pointer = Span::raw(NO_POINTER);
        }
        row
    };
    rows.into_iter().enumerate().map(mark).collect()
}

/// A row of a list: the marker before it and, if the cursor is on it, the whole row inverse.
pub(crate) fn selectable(line: Line, selected: bool, width: usize, theme: &Theme) -> Line {
    let mut row = Line::styled(pointer(selected), theme.accent);
    if !selected {
        row.spans.extend(line.spans);
        return row;
    }
    row.spans.extend(line.spans.into_iter().map(|span| Span { style: theme.selected, ..span }));
    padded(row, width, theme.selected)
}
