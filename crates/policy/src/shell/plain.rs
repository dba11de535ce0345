//! The strict reading: plain words, quoted literals, `|`, `&&`, `||` and `;`.

/// Longer commands are not looked at.
const LONGEST: usize = 16 * 1024;

/// One word after quote removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text that the program gets (before globbing).
    pub(crate) text: String,
    /// Some of it stood in quotes.
    pub(crate) quoted: bool,
    /// It holds a glob character outside quotes, so the program may get any
    /// number of other words.
    pub(crate) glob: bool,
}

/// The words of one simple command; never empty.
pub(crate) type Part = Vec<Word>;

/// The simple commands of a line, or `None` when anything in it is more than a
/// plain word: an expansion, an escape, a redirection, a background job, an
/// assignment, a comment, a second line.
pub(crate) fn plain(command: &str) -> Option<Vec<Part>> {
    if command.len() > LONGEST {
        return None;
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut part: Part = Vec::new();
    let mut word: Option<Word> = None;
    let mut ended_by_semicolon = false;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => part.extend(word.take()),
            '|' | '&' | ';' => {
                part.extend(word.take());
                let doubled = characters.next_if_eq(&character).is_some();
                // A lone `&` is a background job, `;;` belongs to `case`.
                if matches!((character, doubled), ('&', false) | (';', true)) || part.is_empty() {
                    return None;
                }
                ended_by_semicolon = character == ';';
                parts.push(std::mem::take(&mut part));
            }
            '\'' | '"' => {
                let word = word.get_or_insert_with(Word::empty);
                word.quoted = true;
                loop {
                    match characters.next()? {
                        end if end == character => break,
                        // Single quotes protect all that stands in them.
                        '$' | '`' | '\\' | '!' if character == '"' => return None,
                        literal if literal.is_control() && literal != '\t' => return None,
                        literal => word.text.push(literal),
                    }
                }
            }
            other if is_word_character(other) => {
                // An assignment before the command, or instead of it.
                if other == '=' && part.is_empty() {
                    return None;
                }
                let word = word.get_or_insert_with(Word::empty);
                word.glob |= matches!(other, '*' | '?' | '[');
                word.text.push(other);
            }
            _ => return None,
        }
    }
    part.extend(word.take());
    if part.is_empty() {
        // Only `;` may stand at the end.
        return (ended_by_semicolon && !parts.is_empty()).then_some(parts);
    }
    parts.push(part);
    Some(parts)
}

impl Word {
    fn empty() -> Self {
        Self { text: String::new(), quoted: false, glob: false }
    }
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || "_-./:,+=@%^*?[]~".contains(character)
}

#[cfg(test)]
mod tests {
    use super::plain;

    fn words(command: &str) -> Option<Vec<Vec<String>>> {
        let texts = |part: Vec<super::Word>| part.into_iter().map(|word| word.text).collect();
        plain(command).map(|parts| parts.into_iter().map(texts).collect())
    }

    #[test]
    fn quotes_and_operators_are_read_as_bash_reads_them() {
        assert_eq!(
            words(r#"grep -n 'a | b' "x;y"z | head -3 && ls;"#),
            Some(vec![
                vec!["grep".into(), "-n".into(), "a | b".into(), "x;yz".into()],
                vec!["head".into(), "-3".into()],
                vec!["ls".into()],
            ])
        );
        assert_eq!(
            words(r"awk '{print $1 `\!}' a"),
            Some(vec![vec!["awk".into(), r"{print $1 `\!}".into(), "a".into()]])
        );
        assert_eq!(words("echo ''"), Some(vec![vec!["echo".into(), String::new()]]));
    }

    #[test]
    fn everything_else_is_given_up() {
        for command in [
            "",
            "  ",
            ";",
            "ls &",
            "ls & ls",
            "a;;b",
            "| a",
            "a |",
            "a &&",
            "a || || b",
            "a > b",
            "a < b",
            "a $b",
            "a `b`",
            "a \\b",
            "a !b",
            "a # b",
            "a {b,c}",
            "(a)",
            "A=b c",
            "A=b",
            "a\nb",
            "a\r",
            "'a",
            "a \"b",
            "a \"$b\"",
            "a '\n'",
            "a 'b'$c",
            "a \0b",
            "a |& b",
        ] {
            assert_eq!(words(command), None, "{command:?}");
        }
    }
}
