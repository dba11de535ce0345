//! Fills arguments into text and shell commands.

use parallax_policy::bash;

use parallax_config::commands::template::TextPart;

/// Splits arguments at whitespace. Quotes group words; a backslash escapes the next character.
pub(crate) fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('\\', None | Some('"')) => {
                word.get_or_insert_default().push(chars.next().unwrap_or('\\'));
            }
            ('"' | '\'', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (char, Some(open)) if char == open => quote = None,
            (char, None) if char.is_whitespace() => words.extend(word.take()),
            (char, _) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// Fills arguments into text unchanged.
pub(crate) fn fill(bits: &[TextPart], all: &str, words: &[String]) -> String {
    bits.iter().map(|bit| value(bit, all, words)).collect()
}

fn value<'a>(bit: &'a TextPart, all: &'a str, words: &'a [String]) -> &'a str {
    match bit {
        TextPart::Text(text) => text,
        TextPart::All => all,
        TextPart::One(number) => {
            number.checked_sub(1).and_then(|index| words.get(index)).map_or("", String::as_str)
        }
    }
}

/// Fills arguments into a shell command, escaped for the surrounding quotes, so that they cannot
/// become commands.
///
/// # Errors
/// Returns an error if an argument cannot be escaped safely.
pub(crate) fn fill_command(
    bits: &[TextPart],
    all: &str,
    words: &[String],
) -> Result<String, String> {
    let mut command = String::new();
    let mut harmless = String::new();
    let mut quotes = Quotes::default();
    for bit in bits {
        if let TextPart::Text(text) = bit {
            quotes.pass(text);
            command.push_str(text);
            harmless.push_str(text);
            continue;
        }
        let value = value(bit, all, words);
        command.push_str(&quotes.escape(value)?);
        harmless.push_str(if value.is_empty() { "" } else { "x" });
    }
    // A second check: with the arguments, the line must have the same structure as with harmless
    // words.
    if command != harmless && shape(&command) != shape(&harmless) {
        return Err("the arguments would change the command".to_owned());
    }
    Ok(command)
}

/// Returns the structure of a command line: the number of commands and redirections, shell
/// features, and whether parsing failed.
fn shape(command: &str) -> (usize, usize, Vec<&'static str>, bool) {
    let line = bash::analyze(command);
    let (commands, redirections) = (line.commands.len(), line.redirections.len());
    (commands, redirections, line.features, line.unanalyzable_reason.is_some())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    Single,
    Double,
    /// `$(…)`.
    Parenthesis,
    Backtick,
}

/// The open quotes at a position in a shell command.
#[derive(Debug, Default)]
struct Quotes {
    open: Vec<Quote>,
    /// Whether a here-document may have begun.
    document: bool,
}

impl Quotes {
    fn pass(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let top = self.open.last().copied();
            match (char, top) {
                ('\'', Some(Quote::Single)) => drop(self.open.pop()),
                (_, Some(Quote::Single)) => {}
                ('\\', _) => drop(chars.next()),
                ('\'', None | Some(Quote::Parenthesis | Quote::Backtick)) => {
                    self.open.push(Quote::Single);
                }
                ('"', Some(Quote::Double)) => drop(self.open.pop()),
                ('"', _) => self.open.push(Quote::Double),
                ('`', Some(Quote::Backtick)) => drop(self.open.pop()),
                ('`', _) => self.open.push(Quote::Backtick),
                ('$', _) if chars.peek() == Some(&'(') => {
                    chars.next();
                    self.open.push(Quote::Parenthesis);
                }
                (')', Some(Quote::Parenthesis)) => drop(self.open.pop()),
                ('<', None | Some(Quote::Parenthesis)) if chars.peek() == Some(&'<') => {
                    self.document = true;
                }
                _ => {}
            }
        }
    }

    fn escape(&self, value: &str) -> Result<String, String> {
        let special = |char: char| matches!(char, '$' | '`' | '\\' | '\n' | '"' | '\'');
        if value.contains('\0') {
            return Err("the arguments contain a NUL character".to_owned());
        }
        let nested = self.open.contains(&Quote::Backtick);
        if (nested || self.document) && value.contains(special) {
            let construct = if nested { "back-ticks" } else { "a here-document" };
            return Err(format!(
                "quotes, `$`, `\\`, and line breaks cannot be inserted into {construct}"
            ));
        }
        Ok(match self.open.last() {
            _ if self.document && !nested => value.to_owned(),
            Some(Quote::Single) => value.replace('\'', r"'\''"),
            Some(Quote::Double) => {
                let mut escaped = String::with_capacity(value.len());
                for char in value.chars() {
                    if matches!(char, '"' | '\\' | '$' | '`') {
                        escaped.push('\\');
                    }
                    escaped.push(char);
                }
                escaped
            }
            _ if value.is_empty() => String::new(),
            _ => parallax_exec::shell::quote_word(value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_config::commands::CommandFormat;
    use parallax_config::commands::template::{TemplateSegment, parse};

    fn filled(template: &str, all: &str) -> Result<String, String> {
        let pieces = parse(&format!("!{{{template}}}"), CommandFormat::Markdown).expect("parsed");
        let [TemplateSegment::Shell(bits)] = pieces.as_slice() else { panic!("{pieces:?}") };
        fill_command(bits, all, &split_words(all))
    }

    #[test]
    fn arguments_are_escaped_for_their_position() {
        for (template, arguments, command) in [
            ("grep {{args}} .", "word", "grep word ."),
            ("grep {{args}} .", "a; rm -rf /", "grep 'a; rm -rf /' ."),
            ("grep {{args}} .", "it's", r"grep 'it'\''s' ."),
            ("grep '{{args}}' .", "it's", r"grep 'it'\''s' ."),
            (r#"grep "{{args}}" ."#, "$(id) `x` \"", r#"grep "\$(id) \`x\` \"" ."#),
            (r#"echo "$(ls {{args}})""#, "a b", r#"echo "$(ls 'a b')""#),
            ("git log {{args}}", "", "git log "),
            ("diff $1 $2", "'a b' c", "diff 'a b' c"),
        ] {
            assert_eq!(filled(template, arguments).expect("filled"), command);
        }
    }

    #[test]
    fn argument_that_cannot_be_escaped_is_rejected() {
        for (template, arguments) in [
            ("echo `ls {{args}}`", "a'b"),
            ("cat <<EOF\n{{args}}\nEOF", "$(id)"),
            ("cat <<EOF\n{{args}}\nEOF", "x\nEOF\nid"),
            ("echo {{args}}", "a\0b"),
        ] {
            assert!(filled(template, arguments).is_err(), "{template} {arguments}");
        }
    }

    #[test]
    fn quoted_words_stay_together() {
        assert_eq!(split_words(r#" a "b c" 'd\' e\ f "" "#), ["a", "b c", r"d\", "e f", ""]);
    }

    proptest::proptest! {
        /// Bash prints any input back unchanged and does nothing else.
        #[test]
        fn escaped_arguments_round_trip_through_bash(text in "[a-z'\"$`\\\\;&|()<>{}!*?~# -]{1,24}") {
            for template in ["printf %s {{args}}", "printf %s '{{args}}'", "printf %s \"{{args}}\""] {
                let Ok(command) = filled(template, &text) else { continue };
                let root = std::path::Path::new("/");
                let time = std::time::Duration::from_secs(10);
                let output = parallax_exec::program::output("bash", ["-c", &command], root, &[], 1000, time);
                proptest::prop_assert_eq!(
                    output.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
                    Some(text.clone()),
                    "{}", command
                );
            }
        }
    }
}
