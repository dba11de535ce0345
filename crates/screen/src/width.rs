//! Text width in columns. Terminals disagree about rare clusters; this follows what most do: a
//! cluster is as wide as its widest character, and at most two columns.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the width of a character; 0 for control characters.
pub fn char_width(char: char) -> usize {
    char.width().unwrap_or(0)
}

/// Returns the width of a grapheme cluster, 0 to 2.
pub fn grapheme_width(cluster: &str) -> usize {
    if cluster.len() == 1 {
        return usize::from(!cluster.as_bytes()[0].is_ascii_control());
    }
    cluster.width().min(2)
}

/// Returns the width of a text without line breaks.
pub fn text_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.bytes().filter(|byte| !byte.is_ascii_control()).count();
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
