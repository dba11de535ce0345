//! What lists and panels have in common: the row of tab titles and the row of hints.

use parallax_screen::{Line, Span};

use crate::layout::truncate_text;
use crate::theme::Theme;

/// Returns all titles if they fit, otherwise the open one and the number of tabs. None is open
/// while a search covers all of them.
pub(super) fn row<T: AsRef<str>>(
    titles: &[T],
    open: Option<usize>,
    width: usize,
    theme: &Theme,
) -> Line {
    let mut row = Line::EMPTY;
    for (index, title) in titles.iter().enumerate() {
        if index > 0 {
            row.push(Span::styled(" ", theme.secondary));
        }
        let style = if open == Some(index) { theme.selected } else { theme.secondary };
        row.push(Span::styled(format!(" {} ", title.as_ref()), style));
    }
    if row.width() <= width {
        return row;
    }
    let Some(open) = open else {
        let all = format!(" all {} groups ", titles.len());
        return Line::styled(truncate_text(&all, width), theme.secondary);
    };
    let counter = format!(" {}/{} ", open + 1, titles.len());
    let title = titles.get(open).map(T::as_ref).unwrap_or_default();
    let title = truncate_text(title, width.saturating_sub(counter.len() + 2));
    Line::styled(format!(" {title} "), theme.selected).with_span(counter, theme.secondary)
}

/// Returns the hints: how to change the group, the keys, and how to leave. A search is left first,
/// and covers all groups.
pub(super) fn hint(keys: &str, has_groups: bool, is_searching: bool) -> String {
    let groups = if has_groups && !is_searching { "←→ group · " } else { "" };
    match keys.rsplit_once("esc ").filter(|_| is_searching) {
        Some((keys, _)) => format!("{groups}{keys}esc clear search"),
        None => format!("{groups}{keys}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_tab_is_always_visible() {
        let titles = ["General", "Appearance", "Model"];
        let text = |open, width| row(&titles, Some(open), width, &Theme::default()).text();
        assert_eq!(text(1, 40), " General   Appearance   Model ");
        assert_eq!(text(1, 20), " Appearance  2/3 ");
        assert_eq!(row(&titles, None, 20, &Theme::default()).text(), " all 3 groups ");
        for width in 8..40 {
            assert!(row(&titles, Some(1), width, &Theme::default()).width() <= width, "{width}");
        }
    }
}
