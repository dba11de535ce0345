//! Syntax highlighting for exported session pages.

use parallax_sessions::export::CodePiece;

use crate::highlight::{Highlighter, Role, wait_until_loaded};

/// Returns the pieces of code, for [`parallax_sdk::LaunchOptions::colourist`]. Waits until the
/// grammars are loaded.
pub fn code_pieces(language: &str, code: &str) -> Vec<(usize, CodePiece)> {
    wait_until_loaded();
    let mut highlighter = Highlighter::new(language);
    let mut pieces = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let of_line = highlighter.line(text);
        pieces.extend(of_line.into_iter().map(|(end, role)| (start + end, piece(role))));
        start += line.len();
        pieces.push((start, CodePiece::Plain));
    }
    pieces
}

fn piece(role: Role) -> CodePiece {
    match role {
        Role::Plain => CodePiece::Plain,
        Role::Keyword => CodePiece::Keyword,
        Role::Text => CodePiece::Text,
        Role::Number => CodePiece::Number,
        Role::Comment => CodePiece::Comment,
        Role::Function => CodePiece::Function,
        Role::Type => CodePiece::Type,
        Role::Added => CodePiece::Added,
        Role::Removed => CodePiece::Removed,
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
        assert!(pieces.contains(&(7, CodePiece::Keyword)), "{pieces:?}");
        assert_eq!(pieces.last().map(|(end, _)| *end), Some(code.len()));
    }
}
