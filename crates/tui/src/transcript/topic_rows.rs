//! Topic headings that the model puts above its next steps.

use parallax_screen::{Line, Span, text_width, wrap};

use super::draw::{ItemRenderer, truncate_row};
use crate::layout::{truncate_text, with_prefix};
use crate::sanitize;

/// A topic, or a new intent under the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) intent: String,
}

/// Returns the rows of a topic.
pub(super) fn rows(topic: &Topic, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let theme = renderer.theme;
    let intent = sanitize::one_row(&topic.intent);
    let marker = renderer.marker("→ ", "Next: ");
    let next = Line::styled(marker, theme.symbol).with_span(intent.into_owned(), theme.secondary);
    if topic.title.is_empty() {
        return vec![truncate_row(&next, renderer.width)];
    }
    let title = sanitize::one_row(&topic.title);
    let mut rows = Vec::new();
    if renderer.options.screen_reader {
        rows.extend(wrap(
            &Line::styled(format!("Topic: {title}"), theme.accent),
            renderer.width,
            &[],
        ));
    } else {
        let title = truncate_text(&title, renderer.width.saturating_sub(6));
        let rule = renderer.width.saturating_sub(text_width(&title) + 4);
        rows.push(
            Line::styled("── ", theme.border)
                .with_span(title, theme.accent.bold())
                .with_span(format!(" {}", "─".repeat(rule)), theme.border),
        );
    }
    if renderer.options.expanded {
        let indent = [Span::raw("  ")];
        for line in sanitize::lines(&topic.summary).lines() {
            let line =
                Line::styled(sanitize::expand_tabs(line, &mut 0).into_owned(), theme.comment);
            let wrapped = wrap(&line, renderer.width.saturating_sub(2).max(4), &[]);
            rows.extend(wrapped.into_iter().map(|row| with_prefix(&indent, row)));
        }
    }
    rows.push(truncate_row(&next, renderer.width));
    rows
}
