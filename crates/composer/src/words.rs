//! Word boundaries: Unicode segments, where runs of one East Asian script are one word (finding the
//! real boundaries would need a dictionary).

use unicode_segmentation::UnicodeSegmentation;

/// The class of a segment for word movements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentClass {
    /// Whitespace and punctuation.
    Separator,
    /// Letters, digits, `_`.
    Word,
    Han,
    Hiragana,
    Katakana,
}

/// Returns the class of a segment or cluster.
pub fn class(segment: &str) -> SegmentClass {
    let Some(char) = segment.chars().next() else { return SegmentClass::Separator };
    match char {
        '\u{3040}'..='\u{309f}' => SegmentClass::Hiragana,
        '\u{30a0}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}' => {
            SegmentClass::Katakana
        }
        '\u{3005}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => SegmentClass::Han,
        _ if segment.chars().any(|char| char.is_alphanumeric() || char == '_') => {
            SegmentClass::Word
        }
        _ => SegmentClass::Separator,
    }
}

/// Returns the length in bytes up to the end of the first word; the whole length without one.
pub fn end_of_first(text: &str) -> usize {
    let mut found = None;
    for (at, segment) in text.split_word_bound_indices() {
        match (found, class(segment)) {
            (None, SegmentClass::Separator) => {}
            (None, SegmentClass::Word) => return at + segment.len(),
            (None, class) => found = Some(class),
            (Some(before), class) if before != class => return at,
            (Some(_), _) => {}
        }
    }
    text.len()
}

/// Returns the start of the last word; 0 without one.
pub fn start_of_last(text: &str) -> usize {
    let mut found: Option<(SegmentClass, usize)> = None;
    for (at, segment) in text.split_word_bound_indices().rev() {
        match (found, class(segment)) {
            (None, SegmentClass::Separator) => {}
            (None, SegmentClass::Word) => return at,
            (Some((before, start)), class) if before != class => return start,
            (_, class) => found = Some((class, at)),
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_boundaries_follow_the_script() {
        for (text, first, last) in [
            ("hello, world", 5, 7),
            ("  don't stop", 7, 8),
            ("3.14 snake_case!", 4, 5),
            ("漢字とカタカナ", 6, 9),
            ("これは漢字", 9, 9),
            ("über größe", 5, 6),
            ("...", 3, 0),
            ("", 0, 0),
        ] {
            assert_eq!((end_of_first(text), start_of_last(text)), (first, last), "{text}");
        }
    }
}
