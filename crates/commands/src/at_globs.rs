//! Parses globs with brackets, braces, and question marks behind an `@`.

use crate::word_ends::closes;

/// Maximum bytes of a glob.
const MAX_BYTES: usize = 400;

/// Parses the glob after an `@` and returns it with its length in bytes, or `None` if the word has
/// no bracket expression (`[ab]`), alternatives (`{a,b}`), or `?` within it. Other punctuation ends
/// a glob as it ends a path.
pub(crate) fn read_glob(text: &str) -> Option<(&str, usize)> {
    let (mut at, mut depth, mut has_alternatives, mut is_glob) = (0, 0_usize, false, false);
    while let Some(char) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let next = at + char.len_utf8();
        let rest = text.get(next..).unwrap_or_default();
        if next > MAX_BYTES {
            return None;
        }
        at = match char {
            '\\' => next + rest.chars().next().filter(|it| !it.is_whitespace())?.len_utf8(),
            '[' => {
                is_glob = true;
                next + bracket_expression(rest)?
            }
            '{' => {
                depth += 1;
                next
            }
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 && !has_alternatives {
                    return None;
                }
                is_glob = true;
                next
            }
            ',' if depth > 0 => {
                has_alternatives = true;
                next
            }
            '?' if continues_word(rest) => {
                is_glob = true;
                next
            }
            char if closes(char) => break,
            _ => next,
        };
    }
    let glob = text.get(..at)?.trim_end_matches(['.', ':']);
    (is_glob && depth == 0).then_some((glob, glob.len()))
}

/// Returns the length of the rest of a bracket expression with its closing bracket.
fn bracket_expression(text: &str) -> Option<usize> {
    let negated = text.len() - text.trim_start_matches(['!', '^']).len();
    let members = text.get(negated..)?;
    // A closing bracket at the start is a member.
    let end = members.char_indices().skip(1).find(|(_, char)| *char == ']')?.0;
    let is_word = !members.get(..end)?.contains(|char: char| char.is_whitespace() || char == '/');
    is_word.then_some(negated + end + 1)
}

/// Whether a word continues after a question mark, which otherwise ends a sentence.
fn continues_word(rest: &str) -> bool {
    let rest = rest.trim_start_matches(['?', '!', '.', ':']);
    rest.starts_with(['{', '[']) || rest.starts_with(|char: char| !closes(char))
}

/// Returns the glob without its brackets and alternatives, to see whether it looks like a path.
pub(crate) fn literal_part(glob: &str) -> String {
    let mut depth = 0_usize;
    let mut text = String::new();
    for char in glob.chars() {
        match char {
            '[' | '{' => depth += 1,
            ']' | '}' => {
                depth = depth.saturating_sub(1);
                text.push('x');
            }
            _ if depth == 0 => text.push(char),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::read_glob;

    #[test]
    fn globs_are_read_up_to_the_end_of_the_word() {
        for (text, expected) in [
            ("src/{a,b}.rs", Some("src/{a,b}.rs")),
            ("**/[ab].rs, then", Some("**/[ab].rs")),
            ("{src,lib}/a.rs.", Some("{src,lib}/a.rs")),
            ("src/?.rs", Some("src/?.rs")),
            ("src/m?rs)", Some("src/m?rs")),
            ("src/{m,n{1,2}}.*: see", Some("src/{m,n{1,2}}.*")),
            ("src/[!m]*.rs;", Some("src/[!m]*.rs")),
            ("src/m?", None),
            ("src/m.rs?!", None),
            ("src/{id}.ts", None),
            ("src/{a, b}.rs", None),
            ("src/[a b].rs", None),
            ("src/{a,b.rs", None),
            ("Component({selector: 'x'})", None),
            ("src/!(m).rs", None),
            ("src/*.rs", None),
        ] {
            assert_eq!(read_glob(text).map(|it| it.0), expected, "{text}");
        }
    }
}
