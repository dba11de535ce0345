//! Conversion of text for the index.

/// Inserted between letters of scripts without spaces between words, so that each letter is found
/// by itself and several as a phrase. Other programs do not rely on this character, and it is
/// removed for display.
const WORD_SEPARATOR: char = '\u{200b}';

/// Converts text for the index: replaces control characters with spaces and separates letters of
/// scripts without spaces.
pub(super) fn for_index(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit) + 16);
    for char in text.chars() {
        if out.len() >= limit {
            break;
        }
        if is_unspaced_script(char) {
            out.push(WORD_SEPARATOR);
            out.push(char);
            out.push(WORD_SEPARATOR);
        } else if char.is_control() {
            out.push(' ');
        } else {
            out.push(char);
        }
    }
    out
}

/// Converts text of the index for display on one line.
pub(super) fn for_display(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let is_hidden = |char: char| matches!(char, WORD_SEPARATOR | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    for char in text.chars().filter(|char| !is_hidden(*char)) {
        match char.is_whitespace() {
            true if out.ends_with(' ') || out.is_empty() => {}
            true => out.push(' '),
            false => out.push(char),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether the character belongs to a script without spaces between words: Han, kana, Thai, Lao,
/// Khmer, or Myanmar.
fn is_unspaced_script(char: char) -> bool {
    matches!(char,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Converts a typed query to an FTS5 expression: every word must occur, and words in quotes must
/// occur as a phrase. With `is_prefix`, the last word may be a prefix. Returns `None` if there is
/// nothing (else) to search for.
pub(super) fn expression(input: &str, is_prefix: bool) -> Option<String> {
    let mut out = String::new();
    let mut can_be_begun = false;
    for (index, piece) in input.split('"').enumerate() {
        // Every second piece was in quotes; the last may lack its closing quote.
        let quoted = index % 2 == 1;
        let words: Vec<&str> = match quoted {
            true => vec![piece],
            false => piece.split_whitespace().collect(),
        };
        for word in words {
            let text = for_index(word, 1024);
            if !text.chars().any(char::is_alphanumeric) {
                continue;
            }
            if !out.is_empty() {
                out.push(' ');
            }
            out.push('"');
            out.push_str(text.trim());
            out.push('"');
            // Nearly every word starts with some given letter.
            can_be_begun = !quoted && word.chars().count() > 1;
        }
    }
    if is_prefix {
        if !can_be_begun {
            return None;
        }
        out.push('*');
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_query_supports_prefix_and_phrases() {
        let exact = |typed| expression(typed, false);
        assert_eq!(exact("fix the").as_deref(), Some("\"fix\" \"the\""));
        assert_eq!(expression("fix the", true).as_deref(), Some("\"fix\" \"the\"*"));
        assert_eq!(exact("a \"b c\" -- \"d").as_deref(), Some("\"a\" \"b c\" \"d\""));
        assert_eq!(expression("a \"b c\"", true), None);
        assert_eq!(expression("the a", true), None);
        assert_eq!(exact(" \"\" -- * "), None);
        assert_eq!(exact("AND NOT x:y").as_deref(), Some("\"AND\" \"NOT\" \"x:y\""));
    }

    #[test]
    fn displayed_search_text_matches_the_original() {
        assert_eq!(
            for_display(&for_index("日本語 and\n\u{1b}[1mthe\u{202e} rest ", 1000)),
            "日本語 and [1mthe rest"
        );
        assert!(for_index(&"é".repeat(100), 50).len() <= 52);
    }
}
