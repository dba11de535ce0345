//! Syntax highlighting on exported pages.

use std::fmt::Write as _;

use super::escaped::EscapedText;

/// A syntax highlighter: given a language (from a code fence or file extension) and the code,
/// returns the end of each piece in bytes and its kind, in order. Text not covered is plain.
pub type SyntaxHighlighter = fn(language: &str, code: &str) -> Vec<(usize, SyntaxClass)>;

/// Kind of a piece of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum SyntaxClass {
    Plain,
    Keyword,
    Text,
    Number,
    Comment,
    Function,
    Type,
    Added,
    Removed,
}

impl SyntaxClass {
    /// Returns its CSS class.
    fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Keyword => Some("k"),
            Self::Text => Some("s"),
            Self::Number => Some("n"),
            Self::Comment => Some("c"),
            Self::Function => Some("f"),
            Self::Type => Some("t"),
            Self::Added => Some("add"),
            Self::Removed => Some("del"),
        }
    }
}

/// Writes highlighted code as the content of a block.
pub(super) fn write_code(
    page: &mut String,
    language: &str,
    code: &str,
    by: Option<SyntaxHighlighter>,
) {
    let pieces = by.map(|highlighter| highlighter(language, code)).unwrap_or_default();
    let mut start = 0;
    for (end, piece) in pieces {
        let Some(text) = code.get(start..end).filter(|text| !text.is_empty()) else { continue };
        start = end;
        let _ = match piece.class() {
            Some(class) => write!(page, "<span class=\"{class}\">{}</span>", EscapedText(text)),
            None => write!(page, "{}", EscapedText(text)),
        };
    }
    let _ = write!(page, "{}", EscapedText(code.get(start..).unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highlighted_spans_have_classes_and_keep_all_text() {
        let mut page = String::new();
        // The third piece ends within a character; the fourth ends before it begins.
        let by: SyntaxHighlighter = |_, _| {
            vec![
                (2, SyntaxClass::Keyword),
                (3, SyntaxClass::Plain),
                (6, SyntaxClass::Text),
                (1, SyntaxClass::Type),
            ]
        };
        write_code(&mut page, "rust", "fn <é>", Some(by));
        assert_eq!(page, "<span class=\"k\">fn</span> <span class=\"s\">&lt;é</span>&gt;");
        page.clear();
        write_code(&mut page, "", "a & b", None);
        assert_eq!(page, "a &amp; b");
    }
}
