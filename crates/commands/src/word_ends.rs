//! The characters at which a reference in a prompt ends.

/// Whether a character ends a reference that is not quoted.
pub(crate) fn closes(char: char) -> bool {
    char.is_whitespace()
        || matches!(char, ',' | ';' | '!' | '?' | '(' | ')' | '[' | ']' | '{' | '}')
        || matches!(
            char,
            '"' | '`' | '“' | '”' | '„' | '«' | '»' | '‹' | '›' | '<' | '>' | '|' | '→'
        )
        || matches!(char, '\u{3001}' | '\u{3002}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301b}')
        || matches!(
            char,
            '\u{ff01}'
                | '\u{ff08}'
                | '\u{ff09}'
                | '\u{ff0c}'
                | '\u{ff1a}'
                | '\u{ff1b}'
                | '\u{ff1f}'
        )
}
