//! How far a call is: a bar where its server says how much there is to do, else
//! how much is done.

use parallax_protocol::tool::Advance;
use parallax_screen::{Line, Span};

use super::draw::{Draw, cut};
use crate::clean;

/// Cells of the bar, where there is room.
const CELLS: usize = 24;
/// Where a row has less room than that there is no bar.
const NARROW: usize = 36;

/// The row of a call that told how far it is.
pub(super) fn row(advance: &Advance, draw: &Draw<'_>) -> Line {
    let theme = draw.theme;
    let Some(percent) = advance.percent() else {
        let text = clean::one_row(&advance.to_string()).into_owned();
        return cut(&Line::styled(text, theme.secondary), draw.inner());
    };
    let mut line = Line::from(Vec::new());
    if !draw.options.screen_reader && draw.inner() >= NARROW {
        let full = usize::from(percent) * CELLS / 100;
        line.push(Span::styled("█".repeat(full), theme.accent));
        line.push(Span::styled("░".repeat(CELLS - full), theme.secondary));
        line.push(Span::raw(" "));
    }
    line.push(Span::styled(format!("{percent:>3} %"), theme.text));
    let message = clean::one_row(&advance.message);
    if !message.is_empty() {
        line.push(Span::styled(format!("  {message}"), theme.secondary));
    }
    cut(&line, draw.inner())
}
