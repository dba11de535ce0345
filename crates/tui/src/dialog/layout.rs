//! Text of a dialog that is laid out for the current width, which may change while it is open.

use std::fmt;
use std::sync::Arc;

use parallax_screen::{Line, Span, wrap};

use crate::theme::Theme;

type LayoutFunction = dyn Fn(usize, &Theme) -> Vec<Line> + Send + Sync;

/// Returns rows for a width.
#[derive(Clone)]
pub(crate) struct RowLayout(Arc<LayoutFunction>);

impl RowLayout {
    pub(crate) fn new(rows: impl Fn(usize, &Theme) -> Vec<Line> + Send + Sync + 'static) -> Self {
        Self(Arc::new(rows))
    }

    pub(crate) fn rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        (self.0)(width, theme)
    }
}

impl fmt::Debug for RowLayout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RowLayout")
    }
}

/// Returns where the visible rows of text are, with the keys that scroll it.
pub(crate) fn scroll_position(rows_above: usize, rows_below: usize) -> String {
    let above = (rows_above > 0).then(|| format!("↑ {rows_above} more · "));
    let below = (rows_below > 0).then(|| format!("↓ {rows_below} more · "));
    format!("{}{}page up/down", above.unwrap_or_default(), below.unwrap_or_default())
}

/// Wraps lines. An entry, which begins further to the right than text, continues under its own text.
pub(crate) fn wrap_entries(lines: &[Line], width: usize) -> Vec<Line> {
    let wrapped = lines.iter().flat_map(|line| {
        let text = line.text();
        let hang = match text.len() - text.trim_start_matches(' ').len() {
            0 => String::new(),
            indent => " ".repeat(indent + 2),
        };
        wrap(line, width, &[Span::raw(hang)])
    });
    wrapped.collect()
}
