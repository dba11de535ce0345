//! Shows the Markdown source with highlighted markup.

use parallax_screen::{Line, Span, Style, wrap};

use crate::render_options::RenderOptions;
use parallax_screen::layout::hard_wrap;
use parallax_screen::sanitize;

/// Returns the rows of a line outside code.
pub(super) fn row(line: &str, options: &RenderOptions<'_>) -> Vec<Line> {
    let line = sanitize::expand_tabs(line, &mut 0).into_owned();
    let text = line.trim_start();
    let (theme, indent) = (options.theme, line.len() - text.len());
    let mut spans = vec![Span::styled(line[..indent].to_owned(), options.base)];
    let marker = marker_length(text);
    if text.starts_with('#') && marker > 0 {
        spans.push(Span::styled(text.to_owned(), options.base.patch(theme.link).bold()));
    } else if text.starts_with("```") || text.starts_with("~~~") {
        spans.push(Span::styled(text.to_owned(), theme.secondary));
    } else {
        spans.push(Span::styled(text[..marker].to_owned(), theme.symbol));
        highlight_inline(&text[marker..], options, &mut spans);
    }
    spans.retain(|span| !span.text.is_empty());
    wrap(&Line::from(spans), options.columns(), &[])
}

/// Returns the rows of a line inside fenced code.
pub(super) fn code_row(line: &str, options: &RenderOptions<'_>) -> Vec<Line> {
    let line = sanitize::expand_tabs(line, &mut 0).into_owned();
    let spans = vec![Span::styled(line, options.theme.code)];
    hard_wrap(spans, options.columns()).into_iter().map(Line::from).collect()
}

/// Returns the length of the marker of a heading, item, or quote.
fn marker_length(text: &str) -> usize {
    let marker_count = text.bytes().take_while(|byte| matches!(byte, b'#' | b'>')).count();
    if marker_count > 0 {
        return marker_count;
    }
    if let [b'-' | b'*' | b'+', b' ', ..] = text.as_bytes() {
        return 1;
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match text.as_bytes().get(digits) {
        Some(b'.' | b')') if digits > 0 => digits + 1,
        _ => 0,
    }
}

/// Highlights code, bold, and links by their markers.
fn highlight_inline(text: &str, options: &RenderOptions<'_>, spans: &mut Vec<Span>) {
    let mut rest = text;
    while !rest.is_empty() {
        let next = rest.find(['`', '*', '[']).unwrap_or(rest.len());
        spans.push(Span::styled(rest[..next].to_owned(), options.base));
        rest = &rest[next..];
        let (length, style) = marked_span(rest, options);
        spans.push(Span::styled(rest[..length].to_owned(), style));
        rest = &rest[length..];
    }
}

/// Returns the length and style of the text that begins with a marker.
fn marked_span(text: &str, options: &RenderOptions<'_>) -> (usize, Style) {
    let theme = options.theme;
    let between = |delimiter: &str| {
        let inner = text.strip_prefix(delimiter)?;
        inner
            .find(delimiter)
            .filter(|offset| *offset > 0)
            .map(|offset| offset + 2 * delimiter.len())
    };
    if text.starts_with('`') {
        return between("`").map_or((1, options.base), |length| (length, theme.code));
    }
    if text.starts_with('[') {
        let link =
            text.find("](").and_then(|offset| text[offset..].find(')').map(|end| offset + end + 1));
        return link.map_or((1, options.base), |length| (length, theme.link));
    }
    match (between("**"), between("*")) {
        (Some(length), _) => (length, options.base.bold()),
        (None, Some(length)) => (length, options.base.italic()),
        _ => (text.len().min(1), options.base),
    }
}
