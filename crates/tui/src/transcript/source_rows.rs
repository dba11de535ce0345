//! The sources of an answer: one per row, each a link.

use parallax_protocol::model::Citation;
use parallax_screen::{Line, Span, wrap};

use super::draw::{ItemRenderer, truncate_row};
use crate::markdown::href;
use crate::sanitize;

/// Returns the numbered list with its heading.
pub(super) fn rows(sources: &[Citation], renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let indent = if renderer.options.screen_reader { "" } else { "  " };
    let mut rows = vec![Line::styled(format!("{indent}Sources"), renderer.theme.secondary.bold())];
    let digits = sources.len().to_string().len();
    for (index, source) in sources.iter().enumerate() {
        let number = format!("{indent}{:>digits$}. ", index + 1);
        let hang = [Span::raw(" ".repeat(number.len()))];
        let uri = sanitize::one_row(&source.uri).into_owned();
        let link = href(&uri);
        let title = source.title.as_deref().map(sanitize::one_row).unwrap_or_default();
        let title = title.trim();
        let mut line = Line::styled(number, renderer.theme.secondary);
        if !title.is_empty() && title != uri {
            let title = Span::styled(title.to_owned(), renderer.theme.text);
            line.push(Span { link: link.clone(), ..title });
            line.push(Span::raw(" "));
        }
        line.push(Span { link, ..Span::styled(uri, renderer.theme.link) });
        rows.extend(
            wrap(&line, renderer.width, &hang).iter().map(|row| truncate_row(row, renderer.width)),
        );
    }
    rows
}
