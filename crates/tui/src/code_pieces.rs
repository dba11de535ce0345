//! Syntax highlighting for exported session pages.

use parallax_sessions::export::SyntaxClass;

use crate::highlight::{Highlighter, Role, wait_until_loaded};

/// Returns the pieces of code, for [`parallax_sdk::LaunchOptions::highlighter`]. Waits until the
/// grammars are loaded.
pub fn code_pieces(language: &str, code: &str) -> Vec<(usize, SyntaxClass)> {
    wait_until_loaded();
    let mut highlighter = Highlighter::new(language);
    let mut pieces = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let line_pieces = highlighter.line(text);
        pieces.extend(line_pieces.into_iter().map(|(end, role)| (start + end, piece(role))));
        start += line.len();
        pieces.push((start, SyntaxClass::Plain));
    }
    pieces
}

fn piece(role: Role) -> SyntaxClass {
    match role {
        Role::Plain => SyntaxClass::Plain,
        Role::Keyword => SyntaxClass::Keyword,
        Role::Text => SyntaxClass::Text,
        Role::Number => SyntaxClass::Number,
        Role::Comment => SyntaxClass::Comment,
        Role::Function => SyntaxClass::Function,
        Role::Type => SyntaxClass::Type,
        Role::Added => SyntaxClass::Added,
        Role::Removed => SyntaxClass::Removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_piece_offsets_start_at_the_beginning() {
        let code = "// a\nfn f() {}\n";
        let pieces = code_pieces("rust", code);
        assert!(pieces.windows(2).all(|two| two[0].0 <= two[1].0), "{pieces:?}");
        assert!(pieces.contains(&(7, SyntaxClass::Keyword)), "{pieces:?}");
        assert_eq!(pieces.last().map(|(end, _)| *end), Some(code.len()));
    }
}
