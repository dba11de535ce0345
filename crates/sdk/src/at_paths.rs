//! The `@path` words of a prompt. Pure: nothing is looked up here.

use std::ops::Range;

/// A path that a prompt names with `@`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtToken {
    /// Where it stands: bytes from the `@` to its end, quotes included.
    pub range: Range<usize>,
    /// The path, quotes and escapes taken off. Never empty.
    pub path: String,
}

/// Finds the `@path` words, in order.
///
/// An `@` counts at the start of the text and behind whitespace, a comma, a semicolon,
/// an opening bracket or a character of scripts without spaces, so `a@b.org` is no
/// path; `\\@` is a plain at sign. The path is quoted (`@"with spaces"`) or runs to
/// whitespace, to one of `, ; ! ? ( ) [ ] { }` or their full-width forms, or to dots
/// or a colon that end a sentence. A backslash takes the next
/// character as it is; `\u{1b}` is the control character of that number.
pub fn tokens(prompt: &str) -> Vec<AtToken> {
    let mut found = Vec::new();
    let mut before = None;
    let mut at = 0;
    while let Some(char) = prompt.get(at..).and_then(|rest| rest.chars().next()) {
        let next = at + char.len_utf8();
        if char == '@'
            && before.is_none_or(opens)
            && let Some((path, length)) = read_path(prompt.get(next..).unwrap_or(""))
        {
            let range = at..next + length;
            at = range.end;
            found.push(AtToken { range, path });
            before = Some('@');
            continue;
        }
        before = Some(char);
        at = next;
    }
    found
}

fn opens(char: char) -> bool {
    char.is_whitespace() || matches!(char, '(' | '[' | '{' | '<' | ',' | ';') || is_cjk(char)
}

fn closes(char: char) -> bool {
    char.is_whitespace()
        || matches!(char, ',' | ';' | '!' | '?' | '(' | ')' | '[' | ']' | '{' | '}')
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

/// Whether text is written without spaces around the character.
pub(crate) fn is_cjk(char: char) -> bool {
    matches!(char, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// Reads the path behind an `@`: it and the bytes it takes.
fn read_path(text: &str) -> Option<(String, usize)> {
    let (path, length) = match text.strip_prefix('"') {
        Some(quoted) => {
            let (path, length) = read_quoted(quoted)?;
            (path, length + 1)
        }
        None => read_bare(text),
    };
    (!path.is_empty()).then_some((path, length))
}

/// Reads to the closing quote; without one it is no path.
fn read_quoted(text: &str) -> Option<(String, usize)> {
    let mut path = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((path, at + 1)),
            '\\' => {
                let rest = text.get(at + 1..).unwrap_or("");
                if let Some((control, length)) = control(rest) {
                    path.push(control);
                    // All of it is ASCII.
                    chars.nth(length - 1);
                } else {
                    path.extend(chars.next().map(|(_, escaped)| escaped));
                }
            }
            _ => path.push(char),
        }
    }
    None
}

/// The control character that `u{…}` names at the start of a text, and the bytes that
/// this takes.
fn control(text: &str) -> Option<(char, usize)> {
    let (digits, _) = text.strip_prefix("u{")?.split_once('}')?;
    if !(1..=6).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let char = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?;
    char.is_control().then_some((char, digits.len() + 3))
}

fn read_bare(text: &str) -> (String, usize) {
    let mut path = String::new();
    let mut at = 0;
    while let Some(char) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if closes(char) {
            break;
        }
        let mut next = at + char.len_utf8();
        let rest = text.get(next..).unwrap_or("");
        match char {
            '.' | ':' => {
                // A run of dots is read at once, or a long one would be read
                // again for each of its dots.
                let run =
                    if char == '.' { rest.len() - rest.trim_start_matches('.').len() } else { 0 };
                next += run;
                let ends = text.get(next..).and_then(|rest| rest.chars().next()).is_none_or(closes);
                if ends && !(char == '.' && is_folder(&path, run + 1)) {
                    break;
                }
                path.push_str(text.get(at..next).unwrap_or(""));
            }
            '\\' => match (control(rest), rest.chars().next()) {
                (Some((control, length)), _) => {
                    path.push(control);
                    next += length;
                }
                (None, Some(escaped)) => {
                    path.push(escaped);
                    next += escaped.len_utf8();
                }
                (None, None) => path.push(char),
            },
            _ => path.push(char),
        }
        at = next;
    }
    (path, at)
}

/// Whether dots behind this path are `.` or `..` in it, and no sentence's end.
fn is_folder(path: &str, dots: usize) -> bool {
    dots <= 2 && (path.is_empty() || path.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(prompt: &str) -> Vec<String> {
        tokens(prompt).into_iter().map(|token| token.path).collect()
    }

    #[test]
    fn paths_are_found_where_people_write_them() {
        for (prompt, expected) in [
            ("@src/main.rs", vec!["src/main.rs"]),
            ("Look at @a.rs, @b.rs; and (@c.rs)!", vec!["a.rs", "b.rs", "c.rs"]),
            ("See @README.md. Then @lib/x... end", vec!["README.md", "lib/x"]),
            ("In @src/main.rs: explain", vec!["src/main.rs"]),
            (r#"@"with spaces/a b.txt" now"#, vec!["with spaces/a b.txt"]),
            (r"@with\ spaces/a\,b.txt now", vec!["with spaces/a,b.txt"]),
            ("@. @.. @../.. @./x.", vec![".", "..", "../..", "./x"]),
            ("@/abs/größe.txt\n@b", vec!["/abs/größe.txt", "b"]),
            ("@src/*.rs", vec!["src/*.rs"]),
            ("@a.py,@docs/b.md;@c", vec!["a.py", "docs/b.md", "c"]),
            ("请看@a.py，然后@b.md。", vec!["a.py", "b.md"]),
            ("@a.py、@b.py」", vec!["a.py", "b.py"]),
            (r"@a\u{1b}b\u{9}c d", vec!["a\u{1b}b\tc"]),
            (r#"@"a\u{1b}b c" d"#, vec!["a\u{1b}b c"]),
            // No control character, no number.
            (r"@\u{41}x @\user", vec!["u", "user"]),
        ] {
            assert_eq!(paths(prompt), expected, "{prompt}");
        }
    }

    #[test]
    fn other_at_signs_are_text() {
        for prompt in
            ["bob@inner.txt", r"\@name", "a @ b", "@", "@,", r#"@"" x"#, r#"@"open"#, "@!x"]
        {
            assert_eq!(paths(prompt), Vec::<String>::new(), "{prompt}");
        }
    }

    #[test]
    fn a_long_run_of_dots_is_read_once() {
        let prompt = format!("@{}x", ".".repeat(1_000_000));
        assert_eq!(tokens(&prompt).len(), 1);
    }

    #[test]
    fn a_range_covers_the_word_as_written() {
        let prompt = r#"see @"a b" and @c\ d."#;
        let words: Vec<&str> =
            tokens(prompt).into_iter().map(|token| &prompt[token.range]).collect();
        assert_eq!(words, [r#"@"a b""#, r"@c\ d"]);
    }

    proptest! {
        #[test]
        fn ranges_are_ordered_and_inside_the_text(prompt in r#"[@a."\\ ,/é(:\n]{0,40}"#) {
            let mut end = 0;
            for token in tokens(&prompt) {
                prop_assert!(token.range.start >= end && token.range.end <= prompt.len());
                prop_assert!(prompt[token.range.clone()].starts_with('@'));
                prop_assert!(!token.path.is_empty());
                end = token.range.end;
            }
        }

        #[test]
        fn a_quoted_path_comes_back(path in any::<String>().prop_filter("not empty", |path| !path.is_empty())) {
            let quoted = path.replace('\\', r"\\").replace('"', "\\\"");
            prop_assert_eq!(paths(&format!("x @\"{quoted}\" y")), vec![path]);
        }
    }
}
