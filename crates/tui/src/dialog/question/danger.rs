//! Highlights the dangerous parts of text.

use std::ops::Range;

use parallax_screen::{Line, Span, Style};
use unicode_segmentation::UnicodeSegmentation;

use crate::dialog::url_warning::METADATA;

/// Returns where text contains one of the sources, or the address of a metadata service.
pub(super) fn danger_ranges(text: &str, sources: &[String]) -> Vec<Range<usize>> {
    let sources = sources.iter().map(|source| source.trim()).chain(METADATA);
    let sources = sources.filter(|source| !source.is_empty());
    sources
        .flat_map(|source| {
            text.match_indices(source).map(|(offset, found)| offset..offset + found.len())
        })
        .collect()
}

/// Returns a line with the dangerous parts in this style.
pub(super) fn highlight(line: Line, ranges: &[Range<usize>], style: Style) -> Line {
    if ranges.is_empty() {
        return line;
    }
    let mut marked = Line { spans: Vec::new(), ..line.clone() };
    let mut offset = 0;
    for span in line.spans {
        for cluster in span.text.graphemes(true) {
            let is_marked = ranges.iter().any(|range| range.contains(&offset));
            let style = if is_marked { style } else { span.style };
            offset += cluster.len();
            match marked.spans.last_mut() {
                Some(last) if last.style == style => last.text.to_mut().push_str(cluster),
                _ => marked.push(Span { style, text: cluster.to_owned().into(), ..span.clone() }),
            }
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_parts_are_highlighted_across_spans() {
        let line = Line::raw("cd /; rm").with_span(" -rf / && ls", Style::PLAIN);
        let found = danger_ranges(&line.text(), &["rm -rf /".to_owned()]);
        assert_eq!(found.first(), Some(&(6..14)));
        let line = highlight(line, &found, Style::PLAIN.bold());
        let bold: String = (line.spans.iter())
            .filter(|span| span.style == Style::PLAIN.bold())
            .map(|span| span.text.as_ref())
            .collect();
        assert_eq!((line.text().as_str(), bold.as_str()), ("cd /; rm -rf / && ls", "rm -rf /"));
        let found = danger_ranges("curl http://169.254.169.254/latest", &[]);
        assert_eq!(found.first(), Some(&(12..27)));
    }
}
