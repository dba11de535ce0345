//! Parses `@path` references in prompts. Does not access files.

use std::ops::Range;

use crate::at_globs::read_glob;
use crate::word_ends::closes;

/// A path that a prompt references with `@`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtToken {
    /// Byte range from the `@` to the end of the reference, including quotes.
    pub range: Range<usize>,
    /// The path without quotes and escapes. Never empty.
    pub path: String,
    /// Whether a quotation mark or another mark precedes the `@`, or the word is in a fenced block:
    /// pasted code has such words, too.
    pub is_enclosed: bool,
    /// The word as a glob, if it has brackets, braces, or a `?` within it.
    pub glob: Option<String>,
}

/// Returns the `@path` references in order.
///
/// An `@` starts a reference at the start of the text and after whitespace, a comma, a semicolon,
/// an opening bracket, a quotation mark, a dash or another mark, or a character of a script without
/// spaces, so `a@b.org` is not a reference. A leading quotation mark or `*` also ends it. `\\@` is
/// a plain at sign. The path is quoted (`@"with spaces"`) or ends at whitespace, at one of
/// ``, ; ! ? ( ) [ ] { } < > | " ` `` or their full-width forms, or at dots or a colon that end a
/// sentence. `glob` has a word with brackets, braces, or a `?` as a whole. A backslash escapes the
/// next character; `\u{1b}` is the control character with that code.
pub fn tokens(prompt: &str) -> Vec<AtToken> {
    let mut found = Vec::new();
    let mut before = None;
    let mut at = 0;
    let mut in_fence = false;
    while let Some(char) = prompt.get(at..).and_then(|rest| rest.chars().next()) {
        let next = at + char.len_utf8();
        if before.is_none_or(|before| before == '\n') {
            let line = prompt.get(at..).unwrap_or("").trim_start_matches([' ', '\t']);
            in_fence ^= line.starts_with("```") || line.starts_with("~~~");
        }
        if char == '@'
            && before.is_none_or(can_precede_token)
            && let rest = prompt.get(next..).unwrap_or("")
            && let is_enclosed = (in_fence || before.is_some_and(is_enclosing))
            && let glob = read_glob(rest).filter(|_| !is_enclosed && !rest.starts_with('"'))
            && let Some((path, length)) = read_path(rest, before.and_then(closing_mark))
                .or_else(|| glob.map(|(glob, length)| (glob.to_owned(), length)))
        {
            let range = at..next + length;
            at = range.end;
            let glob = glob.map(|(glob, _)| glob.to_owned());
            found.push(AtToken { range, path, is_enclosed, glob });
            before = Some('@');
            continue;
        }
        before = Some(char);
        at = next;
    }
    found
}

fn can_precede_token(char: char) -> bool {
    char.is_whitespace()
        || matches!(char, '(' | '[' | '{' | ',' | ';' | '—' | '–')
        || is_enclosing(char)
        || is_cjk(char)
}

/// Whether the character may precede a reference in prose, tables, and quoted mail.
fn is_mark(char: char) -> bool {
    matches!(
        char,
        '|' | '>' | '_' | '~' | '→' | '•' | '…' | '„' | '‹' | '»' | '\u{200b}' | '\u{feff}'
    )
}

fn is_enclosing(char: char) -> bool {
    closing_mark(char).is_some() || is_mark(char)
}

/// Returns the closing counterpart of a mark before the `@`.
fn closing_mark(opening: char) -> Option<char> {
    Some(match opening {
        '"' | '\'' | '`' | '*' => opening,
        '<' => '>',
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    })
}

/// Returns whether the character belongs to a script without spaces between words.
pub fn is_cjk(char: char) -> bool {
    matches!(char, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// Parses the path after an `@` and returns it with its length in bytes.
fn read_path(text: &str, closing: Option<char>) -> Option<(String, usize)> {
    let (path, length) = match text.strip_prefix('"') {
        Some(quoted) => {
            let (path, length) = read_quoted(quoted)?;
            (path, length + 1)
        }
        None => read_bare(text, closing),
    };
    (!path.is_empty()).then_some((path, length))
}

/// Parses up to the closing quote; returns `None` if there is none.
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
                    // The escape is all ASCII.
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

/// Parses `u{…}` at the start of a string. Returns the control character and the length in bytes.
fn control(text: &str) -> Option<(char, usize)> {
    let (digits, _) = text.strip_prefix("u{")?.split_once('}')?;
    if !(1..=6).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let char = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?;
    char.is_control().then_some((char, digits.len() + 3))
}

fn read_bare(text: &str, closing: Option<char>) -> (String, usize) {
    let ends_at = |at: usize| {
        let char = text.get(at..).and_then(|rest| rest.chars().next());
        char.is_none_or(closes)
            || char == closing && {
                // Within a word, the mark is a part of it, such as `*` in a pattern.
                let rest =
                    text.get(at..).unwrap_or("").trim_start_matches(|it| Some(it) == closing);
                rest.trim_start_matches(['.', ':']).chars().next().is_none_or(closes)
            }
    };
    let mut path = String::new();
    let mut at = 0;
    while let Some(char) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if ends_at(at) {
            break;
        }
        let mut next = at + char.len_utf8();
        let rest = text.get(next..).unwrap_or("");
        match char {
            '.' | ':' => {
                // Handles a run of dots at once to avoid quadratic time.
                let run =
                    if char == '.' { rest.len() - rest.trim_start_matches('.').len() } else { 0 };
                next += run;
                if ends_at(next) && !(char == '.' && is_directory(&path, run + 1)) {
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

/// Returns whether dots after this path are a `.` or `..` component rather than the end of a
/// sentence.
fn is_directory(path: &str, dots: usize) -> bool {
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
    fn at_paths_are_found_at_common_positions() {
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
            (
                "\"@a.py\" '@b.py', `@c.py` **@d.py** <@e.py>",
                vec!["a.py", "b.py", "c.py", "d.py", "e.py"],
            ),
            ("**@src/*.rs**, \"@a.py\".", vec!["src/*.rs", "a.py"]),
            ("see “@a.py” —@b.py", vec!["a.py", "b.py"]),
            ("He said \"fix @src/m.rs\".", vec!["src/m.rs"]),
            ("run `cat @a.py @b.md`", vec!["a.py", "b.md"]),
            (
                "| @a.py|@b.md | <code>@c.py</code> _@d.py_ >@e.py→@f.py",
                vec!["a.py", "b.md", "c.py", "d.py_", "e.py", "f.py"],
            ),
            // Not a control character, or not a number.
            (r"@\u{41}x @\user", vec!["u", "user"]),
        ] {
            assert_eq!(paths(prompt), expected, "{prompt}");
        }
    }

    #[test]
    fn words_in_fenced_blocks_are_enclosed() {
        let prompt = "@a\n```java\n@Test\n  @Override\n```\n@b\n~~~\n@c\n~~~\n@d";
        let open: Vec<String> = tokens(prompt)
            .into_iter()
            .filter(|token| !token.is_enclosed)
            .map(|token| token.path)
            .collect();
        assert_eq!(open, ["a", "b", "d"]);
    }

    #[test]
    fn globs_are_read_with_their_brackets() {
        for (prompt, path, glob) in [
            ("@src/{a,b}.rs, x", "src/", Some("src/{a,b}.rs")),
            ("@[ab].rs", "[ab].rs", Some("[ab].rs")),
            ("see @{a,b}/c.rs.", "{a,b}/c.rs", Some("{a,b}/c.rs")),
            ("`@src/{a,b}.rs`", "src/", None),
            ("@src/m.rs?", "src/m.rs", None),
        ] {
            let found = tokens(prompt);
            assert_eq!(
                (found[0].path.as_str(), found[0].glob.as_deref()),
                (path, glob),
                "{prompt}"
            );
        }
    }

    #[test]
    fn at_signs_without_a_path_are_plain_text() {
        for prompt in
            ["bob@inner.txt", r"\@name", "a @ b", "@", "@,", r#"@"" x"#, r#"@"open"#, "@!x"]
        {
            assert_eq!(paths(prompt), Vec::<String>::new(), "{prompt}");
        }
    }

    #[test]
    fn long_run_of_dots_is_scanned_in_linear_time() {
        let prompt = format!("@{}x", ".".repeat(1_000_000));
        assert_eq!(tokens(&prompt).len(), 1);
    }

    #[test]
    fn at_path_range_covers_the_word_as_written() {
        let prompt = r#"see @"a b" and @c\ d."#;
        let words: Vec<&str> =
            tokens(prompt).into_iter().map(|token| &prompt[token.range]).collect();
        assert_eq!(words, [r#"@"a b""#, r"@c\ d"]);
    }

    proptest! {
        #[test]
        fn at_path_ranges_are_ordered_and_within_the_text(prompt in r#"[@a."\\ ,/é(:\n]{0,40}"#) {
            let mut end = 0;
            for token in tokens(&prompt) {
                prop_assert!(token.range.start >= end && token.range.end <= prompt.len());
                prop_assert!(prompt[token.range.clone()].starts_with('@'));
                prop_assert!(!token.path.is_empty());
                end = token.range.end;
            }
        }

        #[test]
        fn quoted_path_round_trips(path in any::<String>().prop_filter("not empty", |path| !path.is_empty())) {
            let quoted = path.replace('\\', r"\\").replace('"', "\\\"");
            prop_assert_eq!(paths(&format!("x @\"{quoted}\" y")), vec![path]);
        }
    }
}
