//! A command line as its words: quotes and backslashes as in a shell, nothing
//! else of one.

/// The words of a line.
///
/// # Errors
/// A quote that is not closed, or no word at all.
pub fn command_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            _ if char.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(char) => word.push(char),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(char @ ('"' | '\\' | '$' | '`')) => word.push(char),
                            Some(char) => word.extend(['\\', char]),
                            None => return Err("a quote is not closed".to_owned()),
                        },
                        Some(char) => word.push(char),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    if words.is_empty() {
        return Err("the command is empty".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together_and_nothing_is_expanded() {
        let words = command_words(r#"a 'b c' "d \"e\" \n" f\ g '' $HOME;x"#).expect("words");
        assert_eq!(words, ["a", "b c", r#"d "e" \n"#, "f g", "", "$HOME;x"]);
        for broken in ["'a", "\"a", "  "] {
            assert!(command_words(broken).is_err(), "{broken}");
        }
    }

    proptest::proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec(".{0,12}", 1..5)) {
            let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
            let line = quoted.collect::<Vec<_>>().join(" ");
            proptest::prop_assert_eq!(command_words(&line), Ok(words));
        }
    }
}
