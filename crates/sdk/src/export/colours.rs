//! Code on a page.

use std::fmt::Write as _;

use super::escaped::Escaped;

/// Tells what the pieces of code are: where each ends, in bytes, and what it is.
/// Given a language as a fence or a file's ending names it, and the code. The
/// pieces stand in order; what they leave out is plain.
pub type Colourist = fn(language: &str, code: &str) -> Vec<(usize, CodePiece)>;

/// What a piece of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum CodePiece {
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

impl CodePiece {
    /// Its class in the page's style.
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

/// Writes code as the inside of a block.
pub(super) fn write_code(page: &mut String, language: &str, code: &str, by: Option<Colourist>) {
    let pieces = by.map(|colourist| colourist(language, code)).unwrap_or_default();
    let mut begin = 0;
    for (end, piece) in pieces {
        let Some(text) = code.get(begin..end).filter(|text| !text.is_empty()) else { continue };
        begin = end;
        let _ = match piece.class() {
            Some(class) => write!(page, "<span class=\"{class}\">{}</span>", Escaped(text)),
            None => write!(page, "{}", Escaped(text)),
        };
    }
    let _ = write!(page, "{}", Escaped(code.get(begin..).unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_classes_and_nothing_is_lost() {
        let mut page = String::new();
        // The third piece ends inside of a character, the fourth before its begin.
        let by: Colourist = |_, _| {
            vec![
                (2, CodePiece::Keyword),
                (3, CodePiece::Plain),
                (6, CodePiece::Text),
                (1, CodePiece::Type),
            ]
        };
        write_code(&mut page, "rust", "fn <é>", Some(by));
        assert_eq!(page, "<span class=\"k\">fn</span> <span class=\"s\">&lt;é</span>&gt;");
        page.clear();
        write_code(&mut page, "", "a & b", None);
        assert_eq!(page, "a &amp; b");
    }
}
