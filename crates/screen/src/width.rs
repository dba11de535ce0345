//! Text width in columns. Terminals disagree about rare clusters; this follows what most do: a
//! cluster is as wide as its widest character, and at most two columns.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the width of a character; 0 for control characters.
pub fn char_width(char: char) -> usize {
    char.width().unwrap_or(0)
}

/// Whether a character is a control character, including bidirectional marks and line separators:
/// rows show a replacement of one column for a cluster with one.
pub(crate) fn is_forbidden(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the width of a grapheme cluster as rows show it, 0 to 2.
pub fn grapheme_width(cluster: &str) -> usize {
    if cluster.len() == 1 || cluster.chars().any(is_forbidden) {
        return 1;
    }
    cluster.width().min(2)
}

/// Returns the width of a string without line breaks, as rows show it.
pub fn text_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(grapheme_width).sum()
}

/// Returns the part of `text` that fits into `columns`, cut between clusters.
pub fn truncate(text: &str, columns: usize) -> &str {
    if text.len() <= columns && text.is_ascii() {
        return text;
    }
    let mut used = 0;
    for (offset, cluster) in text.grapheme_indices(true) {
        used += grapheme_width(cluster);
        if used > columns {
            return &text[..offset];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::line::Line;
    use crate::row::Row;
    use proptest::prelude::*;

    proptest! {
        /// A wrong width would cut text off, or hide what is behind it.
        #[test]
        fn text_width_matches_its_row(text in "[\u{0}-\u{ff}\u{300}\u{200b}-\u{202e}\u{2066}-\u{2069}漢👩‍🚒]{0,40}") {
            let line = Line::raw(format!("{text}."));
            prop_assert_eq!(Row::new(&line, 1000).len(), line.width());
        }
    }
}
