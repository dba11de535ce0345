//! A line of flags split as a shell would, and nothing expanded.

/// The words of the line.
///
/// # Errors
/// Why it has none: a quote or an escape that does not end.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            _ if character.is_ascii_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or("a `'` is not closed")? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or("a `\"` is not closed")? {
                        '"' => break,
                        '\\' => match characters.next().ok_or("a `\"` is not closed")? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => {
                let escaped = characters.next().ok_or("it ends in `\\`")?;
                word.get_or_insert_default().push(escaped);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, words) in [
            ("", vec![]),
            ("  a  b\t", vec!["a", "b"]),
            ("a'b c'd", vec!["ab cd"]),
            ("\"a \\\" $HOME \\n\"", vec!["a \" $HOME \\n"]),
            ("a\\ b ''", vec!["a b", ""]),
        ] {
            assert_eq!(split(line).expect("words"), words, "{line}");
        }
        for line in ["'a", "\"a", "\"a\\", "a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
