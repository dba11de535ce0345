//! Parses `.env` files.

/// Maximum number of variables read from one file.
const MAX_COUNT: usize = 1000;

/// Returns names and values in order. Skips lines that are not assignments, like other parsers of
/// such files.
pub(crate) fn parse(text: &str) -> Vec<(String, String)> {
    parse_with_warnings(text, |_| ())
}

/// Like [`parse`], but calls `odd` with the numbers, from 1, of the lines that are neither empty,
/// nor a comment, nor an assignment.
pub(crate) fn parse_with_warnings(text: &str, mut odd: impl FnMut(usize)) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && found.len() < MAX_COUNT {
        let line = rest.find(['\n', '\r']).map_or(rest, |end| rest.get(..end).unwrap_or(rest));
        let after_line =
            rest.get(line.len()..).unwrap_or_default().trim_start_matches(['\n', '\r']);
        let Some((name, start)) = assignment(line) else {
            if !matches!(line.trim_start().chars().next(), None | Some('#')) {
                let before = text.get(..text.len() - rest.len()).unwrap_or_default();
                odd(before.matches('\n').count() + 1);
            }
            rest = after_line;
            continue;
        };
        let value = rest.get(start..).unwrap_or_default();
        match parse_quoted(value) {
            Some((text, after)) => {
                found.push((name.to_owned(), text));
                rest = after;
            }
            None => {
                let value = line.get(start..).unwrap_or_default();
                let value = value.split('#').next().unwrap_or_default().trim();
                found.push((name.to_owned(), unquote(value).to_owned()));
                rest = after_line;
            }
        }
    }
    found
}

/// Returns the name and the position in the line where its value begins.
fn assignment(line: &str) -> Option<(&str, usize)> {
    let equals = line.find('=')?;
    let name = line.get(..equals)?.trim();
    let name = match name.strip_prefix("export") {
        Some(exported) if exported.starts_with([' ', '\t']) => exported.trim_start(),
        _ => name,
    };
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (!name.is_empty() && name.bytes().all(valid)).then_some((name, equals + 1))
}

/// Returns the value between quotes, which may span lines, and the text after its last line.
/// Returns `None` if the value is not quoted, or if something other than a comment follows.
fn parse_quoted(value: &str) -> Option<(String, &str)> {
    let value = value.trim_start_matches([' ', '\t']);
    let quote = value.chars().next().filter(|first| matches!(first, '\'' | '"' | '`'))?;
    let mut text = String::new();
    let mut characters = value.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == quote {
            let after = value.get(at + 1..)?;
            let line =
                after.find(['\n', '\r']).map_or(after, |end| after.get(..end).unwrap_or(after));
            let tail = line.trim();
            return (tail.is_empty() || tail.starts_with('#'))
                .then(|| (text, after.get(line.len()..).unwrap_or_default()));
        }
        if character == '\\' && quote == '"' {
            match characters.next()?.1 {
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                escaped @ ('"' | '\\') => text.push(escaped),
                other => text.extend(['\\', other]),
            }
        } else {
            text.push(character);
        }
    }
    None
}

fn unquote(value: &str) -> &str {
    ['\'', '"', '`']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_with_warnings};
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text)
    }

    #[test]
    fn dotenv_values_are_parsed_like_node() {
        let text = "# comment\r\nA=1\r\nexport B = two words # said\nC='x # y'\nD=\"a\\nb \\\"q\\\"\"\nE=\nF=`z`\n\
                    G='one\ntwo'\nnot an assignment\n=x\nH=a=b\nexportJ=3\nK.L-M=\"q\" # c\n1 2=3\nN='a'b";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "x # y"),
            ("D", "a\nb \"q\""),
            ("E", ""),
            ("F", "z"),
            ("G", "one\ntwo"),
            ("H", "a=b"),
            ("exportJ", "3"),
            ("K.L-M", "q"),
            ("N", "'a'b"),
        ];
        assert_eq!(pairs(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn invalid_lines_are_reported() {
        let mut odd = Vec::new();
        parse_with_warnings("# comment\n\nA='one\ntwo'\r\nB\nC=\n=x\n  # said\n1 2=3", |line| {
            odd.push(line)
        });
        assert_eq!(odd, [5, 7, 9]);
    }

    #[test]
    fn unclosed_quote_does_not_consume_the_file() {
        assert_eq!(
            pairs("I=\"unclosed\nJ=3"),
            vec![("I".to_owned(), "\"unclosed".to_owned()), ("J".to_owned(), "3".to_owned())]
        );
    }

    proptest! {
        #[test]
        fn parsed_variable_names_are_never_empty(text in "(\\PC|[\n\r=\"'`\\\\# ]){0,200}") {
            for (name, _) in pairs(&text) {
                prop_assert!(!name.is_empty());
            }
        }
    }
}
