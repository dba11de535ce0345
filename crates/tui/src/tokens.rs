//! Design tokens: one marker per meaning, and sizes. `DESIGN.md` explains them. Colors are in the
//! theme.

use parallax_screen::{Line, Span};

pub(crate) use parallax_screen::layout::{NO_POINTER, SEARCH, pointer};

use crate::layout::pad_row;
use crate::theme::Theme;

/// Windows with fewer rows omit rules and hints.
pub(crate) const LOW: usize = 12;
/// Success.
pub(crate) const DONE: &str = "✓";
/// Failure.
pub(crate) const FAILED: &str = "✕";
/// Cancelled.
pub(crate) const CANCELLED: &str = "-";
/// Pending or disabled.
pub(crate) const IDLE: &str = "○";
/// Needs an answer.
pub(crate) const ASKS: &str = "?";
/// In progress.
pub(crate) const CURRENT: &str = "»";
/// Blocked.
pub(crate) const BLOCKED: &str = "!";
/// A request that is repeated.
pub(crate) const RETRY: &str = "↻";
/// Belongs to the item above: what was read for it, an image, a hint.
pub(crate) const ATTACHED: &str = "↳";
/// A part of a command.
pub(crate) const PART: &str = "· ";
/// Before the facts about a finished turn.
pub(crate) const TURN_END: &str = "─";
/// Before an entry of a list in a notice or the welcome.
pub(crate) const BULLET: &str = "• ";
/// Between facts in one row.
pub(crate) const SEPARATOR: &str = " · ";
/// Runs now, next to rows that turn by themselves.
pub(crate) const STATIC_MARKER: &str = CURRENT;
/// The frames of the spinner, each shown for [`SPINNER_MS`].
pub(crate) const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long each frame is shown, in milliseconds.
pub(crate) const SPINNER_MS: u64 = 120;

/// Returns the rows of a list item, with the marker before the first.
pub(crate) fn selectable_rows(
    rows: Vec<Line>,
    selected: bool,
    width: usize,
    theme: &Theme,
) -> Vec<Line> {
    let mark = |(index, row)| {
        let mut row = list_row(row, selected, width, theme);
        if let (1.., Some(pointer)) = (index, row.spans.first_mut()) {
            *pointer = Span::raw(NO_POINTER);
        }
        row
    };
    rows.into_iter().enumerate().map(mark).collect()
}

/// Returns a list row with its prefix; the selected row is highlighted across its width.
pub(crate) fn list_row(line: Line, selected: bool, width: usize, theme: &Theme) -> Line {
    let mut row = Line::styled(pointer(selected), theme.accent);
    if !selected {
        row.spans.extend(line.spans);
        return row;
    }
    row.spans.extend(line.spans.into_iter().map(|span| Span { style: theme.selected, ..span }));
    pad_row(row, width, theme.selected)
}
