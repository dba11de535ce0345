//! The progress of a call: a bar if the server reports a total, otherwise the amount done.

use parallax_protocol::tool::ProgressUpdate;
use parallax_screen::{Line, Span};

use super::draw::{ItemRenderer, truncate_row};
use crate::sanitize;

/// Maximum number of cells of the bar.
const CELLS: usize = 24;
/// Rows with fewer columns have no bar.
const NARROW: usize = 36;

/// Returns the progress row of a call.
pub(super) fn row(advance: &ProgressUpdate, renderer: &ItemRenderer<'_>) -> Line {
    let theme = renderer.theme;
    let Some(percent) = advance.percent() else {
        let text = sanitize::one_row(&advance.to_string()).into_owned();
        return truncate_row(&Line::styled(text, theme.secondary), renderer.inner_width());
    };
    let mut line = Line::from(Vec::new());
    if !renderer.options.screen_reader && renderer.inner_width() >= NARROW {
        let full = usize::from(percent) * CELLS / 100;
        line.push(Span::styled("█".repeat(full), theme.accent));
        line.push(Span::styled("░".repeat(CELLS - full), theme.secondary));
        line.push(Span::raw(" "));
    }
    line.push(Span::styled(format!("{percent:>3} %"), theme.text));
    let message = sanitize::one_row(&advance.message);
    if !message.is_empty() {
        line.push(Span::styled(format!("  {message}"), theme.secondary));
    }
    truncate_row(&line, renderer.inner_width())
}
