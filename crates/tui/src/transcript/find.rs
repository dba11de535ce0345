//! Searches text in the rows of the transcript.

use parallax_screen::{Attributes, Line, Span};

/// A search text. Case is ignored unless it contains an uppercase letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchNeedle {
    text: String,
    exact: bool,
}

impl SearchNeedle {
    /// Creates a search for typed text.
    pub fn new(text: &str) -> Self {
        let exact = text.chars().any(char::is_uppercase);
        Self { text: if exact { text.to_owned() } else { lowercase(text) }, exact }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the byte ranges of the matches.
    fn match_ranges(&self, text: &str) -> Vec<(usize, usize)> {
        if self.text.is_empty() {
            return Vec::new();
        }
        let among = if self.exact { text.to_owned() } else { lowercase(text) };
        among
            .match_indices(&self.text)
            .map(|(offset, found)| (offset, offset + found.len()))
            .collect()
    }

    pub(super) fn matches_row(&self, row: &Line) -> bool {
        !self.match_ranges(&row.text()).is_empty()
    }

    /// Whether an answer with this source may have a matching row: each word must occur in it. Text
    /// that is not ASCII may come from an entity or a formula.
    pub(super) fn may_match(&self, source: &str) -> bool {
        let words = self.text.split(|char: char| !char.is_ascii_alphanumeric());
        let source = if self.exact { source.to_owned() } else { lowercase(source) };
        !self.text.is_ascii() || words.into_iter().all(|word| source.contains(word))
    }

    /// Highlights the matches in a row.
    pub fn mark(&self, row: Line) -> Line {
        let ranges = self.match_ranges(&row.text());
        if ranges.is_empty() {
            return row;
        }
        let mut spans = Vec::with_capacity(row.spans.len() + 2 * ranges.len());
        let mut start = 0;
        for span in row.spans {
            let end = start + span.text.len();
            let mut at = start;
            while at < end {
                let range = ranges.iter().find(|(_, to)| *to > at);
                let (next, found) = match range {
                    Some((from, to)) if *from <= at => (*to, true),
                    Some((from, _)) => (*from, false),
                    None => (end, false),
                };
                let next = next.min(end);
                let text = span.text.get(at - start..next - start).unwrap_or_default().to_owned();
                let style = match found {
                    true => span.style.with(Attributes::REVERSE),
                    false => span.style,
                };
                spans.push(Span { text: text.into(), style, ..span.clone() });
                at = next;
            }
            start = end;
        }
        Line { spans, fill_style: row.fill_style, picture: None }
    }
}

/// Lowercases characters whose lowercase form has the same length.
fn lowercase(text: &str) -> String {
    let small = |char: char| {
        let mut lower = char.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(one), None) if one.len_utf8() == char.len_utf8() => one,
            _ => char,
        }
    };
    text.chars().map(small).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Theme;

    #[test]
    fn search_match_is_highlighted_across_spans() {
        let style = Theme::default().accent;
        let row = Line::raw("the Re").with_span("try waits; a retry", style);
        let marked = SearchNeedle::new("retry").mark(row.clone());
        assert_eq!(marked.text(), row.text());
        let out: Vec<&str> = marked
            .spans
            .iter()
            .filter(|span| span.style.attributes.0 & Attributes::REVERSE.0 != 0)
            .map(|span| span.text.as_ref())
            .collect();
        assert_eq!(out, ["Re", "try", "retry"]);
        assert_eq!(SearchNeedle::new("Retry").mark(row.clone()).spans.len(), 4);
        assert_eq!(SearchNeedle::new("rETRY").mark(row.clone()), row);
        assert_eq!(SearchNeedle::new("").mark(row.clone()), row);
        assert!(
            SearchNeedle::new("ÄRGER").exact
                && SearchNeedle::new("ärger").matches_row(&Line::raw("Ärger"))
        );
    }
}
