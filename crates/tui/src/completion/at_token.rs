//! Finds the `@` word at the cursor.

use std::ops::Range;

/// Maximum distance in bytes between the start of the word and the cursor.
const MAX_BEFORE: usize = 4096;

/// An `@` word being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtToken {
    /// The byte range in the line, including the `@`.
    pub range: Range<usize>,
    /// The text between the `@` and the cursor, without quotes and escapes.
    pub query: String,
}

/// Returns the word around `cursor` (in bytes). An `@` counts at the start of the line, after
/// whitespace, and after an opening bracket; `\@` does not.
pub fn find_at_token(line: &str, cursor: usize) -> Option<AtToken> {
    let from = line.floor_char_boundary(cursor.saturating_sub(MAX_BEFORE));
    let mut before = line.get(..from)?.chars().next_back();
    let mut at = from;
    while at < cursor {
        let char = line.get(at..)?.chars().next()?;
        if char == '@' && before.is_none_or(can_precede_token) {
            let token = read(line, at, cursor);
            if token.range.end >= cursor {
                return Some(token);
            }
            at = token.range.end;
            before = Some('@');
            continue;
        }
        before = Some(char);
        at += char.len_utf8();
    }
    None
}

fn can_precede_token(char: char) -> bool {
    char.is_whitespace() || matches!(char, '(' | '[' | '{' | '<')
}

fn closes(char: char) -> bool {
    char.is_whitespace() || ",;!?()[]{}".contains(char)
}

fn read(line: &str, start: usize, cursor: usize) -> AtToken {
    let mut query = String::new();
    let mut end = start + 1;
    let quoted = line.get(end..).is_some_and(|rest| rest.starts_with('"'));
    if quoted {
        end += 1;
    }
    let mut escaped = false;
    for (offset, char) in line.get(end..).unwrap_or("").char_indices() {
        let at = end + offset;
        let ends = if quoted { char == '"' } else { closes(char) };
        if ends && !escaped {
            let end = if quoted { at + 1 } else { at };
            return AtToken { range: start..end, query };
        }
        if at < cursor && (escaped || char != '\\') {
            query.push(char);
        }
        escaped = char == '\\' && !escaped;
    }
    AtToken { range: start..line.len(), query }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_token_at_the_cursor_is_found() {
        for (text, expected) in [
            ("@|", Some(("@", ""))),
            ("see @src/ma| now", Some(("@src/ma", "src/ma"))),
            ("see @src|/main.rs now", Some(("@src/main.rs", "src"))),
            (r"(@a\ b|)", Some((r"@a\ b", "a b"))),
            ("@\"a b|", Some(("@\"a b", "a b"))),
            ("@a.rs, @b|", Some(("@b", "b"))),
            ("@grö|ße", Some(("@größe", "grö"))),
            ("@a |", None),
            ("@a,|", None),
            ("x@y|", None),
            (r"\@y|", None),
            ("|@a", None),
            ("plain|", None),
        ] {
            let cursor = text.find('|').unwrap();
            let line = text.replacen('|', "", 1);
            let found = find_at_token(&line, cursor);
            let found =
                found.as_ref().map(|token| (&line[token.range.clone()], token.query.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
