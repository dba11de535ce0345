//! A row of tab titles for lists and panels.

use parallax_screen::{Line, Span};

use crate::layout::truncate_text;
use crate::theme::Theme;

/// Returns all titles if they fit, otherwise the open one and the number of tabs.
pub(super) fn row(titles: &[&str], open: usize, width: usize, theme: &Theme) -> Line {
    let mut row = Line::EMPTY;
    for (index, title) in titles.iter().enumerate() {
        if index > 0 {
            row.push(Span::styled(" ", theme.secondary));
        }
        let style = if index == open { theme.selected } else { theme.secondary };
        row.push(Span::styled(format!(" {title} "), style));
    }
    if row.width() <= width {
        return row;
    }
    let counter = format!(" {}/{} ", open + 1, titles.len());
    let title = titles.get(open).copied().unwrap_or_default();
    let title = truncate_text(title, width.saturating_sub(counter.len() + 2));
    Line::styled(format!(" {title} "), theme.selected).with_span(counter, theme.secondary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_tab_is_always_visible() {
        let titles = ["General", "Appearance", "Model"];
        let text = |open, width| row(&titles, open, width, &Theme::default()).text();
        assert_eq!(text(1, 40), " General   Appearance   Model ");
        assert_eq!(text(1, 20), " Appearance  2/3 ");
        for width in 8..40 {
            assert!(row(&titles, 1, width, &Theme::default()).width() <= width, "{width}");
        }
    }
}
