//! Computes the output of `echo`, `printf`, and `cat` if their arguments determine it.

use super::super::ansi;
use super::super::line::{Redirection, RedirectionKind, Word};

/// Maximum length of the output in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The output of a command, or the input that it passes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PrintedText {
    /// Known text.
    Text(String),
    /// Text that a program derives from text in the line.
    Derived,
    /// Unknown output.
    Unknown,
}

/// Returns the output of the command with these words; `input` is its standard input.
pub(super) fn command_output(
    words: &[Word],
    redirections: &[Redirection],
    input: &PrintedText,
) -> PrintedText {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.text.as_deref()).collect();
    let name = words.first().and_then(|word| word.text.as_deref()).unwrap_or_default();
    let input = match here_text(redirections) {
        Some(text) => PrintedText::Text(text.to_owned()),
        None => input.clone(),
    };
    let to_file = redirections
        .iter()
        .any(|it| matches!(it.kind, RedirectionKind::Write | RedirectionKind::Append));
    let printed = match (name.rsplit('/').next().unwrap_or(name), texts) {
        ("echo", Some(texts)) => echo(texts.get(1..).unwrap_or_default()),
        ("printf", Some(texts)) => printf(texts.get(1..).unwrap_or_default()),
        ("echo" | "printf", None) => None,
        ("cat", Some(texts)) if matches!(texts.get(1..), Some([] | ["-"])) => return input,
        // `tee` prints its input.
        ("tee", _) => return input,
        _ => {
            return if input == PrintedText::Unknown {
                PrintedText::Unknown
            } else {
                PrintedText::Derived
            };
        }
    };
    match printed {
        Some(text) if !to_file && text.len() <= MAX_BYTES => PrintedText::Text(text),
        _ => PrintedText::Unknown,
    }
}

/// Returns the text of a here-document or here-string.
pub(super) fn here_text(redirections: &[Redirection]) -> Option<&str> {
    let is_text = |it: &&Redirection| {
        matches!(it.kind, RedirectionKind::HereDocument | RedirectionKind::HereString)
    };
    redirections.iter().rfind(is_text).and_then(|it| it.target.text.as_deref())
}

fn echo(words: &[&str]) -> Option<String> {
    let is_option = |word: &&&str| {
        word.strip_prefix('-').is_some_and(|letters| {
            !letters.is_empty() && letters.chars().all(|letter| "neE".contains(letter))
        })
    };
    let options = words.iter().take_while(is_option).count();
    let (options, words) = words.split_at_checked(options)?;
    let has = |letter: char| options.iter().any(|word| word.contains(letter));
    let text = words.join(" ");
    let text = if has('e') { decode_escapes(&text)? } else { text };
    Some(if has('n') { text } else { text + "\n" })
}

fn printf(words: &[&str]) -> Option<String> {
    let words = if words.first() == Some(&"--") { words.get(1..)? } else { words };
    let (format, arguments) = words.split_first()?;
    if format.starts_with("-v") {
        return None;
    }
    let mut arguments = arguments.iter();
    let mut text = String::new();
    loop {
        let before = arguments.len();
        apply_format(format, &mut arguments, &mut text)?;
        if arguments.len() == 0 || arguments.len() == before || text.len() > MAX_BYTES {
            return Some(text);
        }
    }
}

/// Applies the format of `printf` once.
fn apply_format<'a>(
    format: &str,
    arguments: &mut impl Iterator<Item = &'a &'a str>,
    text: &mut String,
) -> Option<()> {
    let mut rest = format;
    while let Some((literal, directive)) = rest.split_once('%') {
        text.push_str(&decode_escapes(literal)?);
        let kind_at = directive.find(|c: char| !"-+ #0123456789.".contains(c))?;
        let kind = directive.get(kind_at..)?.chars().next()?;
        match kind {
            '%' => text.push('%'),
            's' | 'q' => text.push_str(arguments.next().copied().unwrap_or_default()),
            'b' => text.push_str(&decode_escapes(arguments.next().copied().unwrap_or_default())?),
            'c' => text.extend(arguments.next().and_then(|argument| argument.chars().next())),
            'd' | 'i' | 'u' => text.push_str(arguments.next().copied().unwrap_or("0")),
            _ => return None,
        }
        rest = directive.get(kind_at + kind.len_utf8()..)?;
    }
    text.push_str(&decode_escapes(rest)?);
    Some(())
}

/// Decodes escapes such as `\n`, `\x72`, `\162`, and `\0162`.
fn decode_escapes(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut short = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        short.push(character);
        match character {
            '\\' => {
                let next = characters.next()?;
                let octal = next == '0' && characters.peek().is_some_and(|it| it.is_digit(8));
                if !octal {
                    short.push(next);
                }
            }
            '\'' => {
                short.pop();
                short.push_str("\\'");
            }
            _ => {}
        }
    }
    ansi::decode(&format!("{short}'")).ok()?.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_and_printf_output_matches_bash() {
        for (line, expected) in [
            (&["echo", "rm", "-rf"][..], Some("rm -rf\n")),
            (&["echo", "-n", "rm"], Some("rm")),
            (&["echo", "-ne", "r\\x6d"], Some("rm")),
            (&["echo", "-e", "\\0162m"], Some("rm\n")),
            (&["printf", "rm"], Some("rm")),
            (&["printf", "\\162\\155"], Some("rm")),
            (&["printf", "%s %s", "rm", "-rf"], Some("rm -rf")),
            (&["printf", "%s\\n", "a", "b"], Some("a\nb\n")),
            (&["printf", "%b", "\\x72m"], Some("rm")),
            (&["printf", "it's%%"], Some("it's%")),
            (&["printf", "%x", "1"], None),
            (&["printf", "-v", "x", "rm"], None),
        ] {
            let word = |text: &&str| Word { text: Some((*text).to_owned()), ..Word::default() };
            let words: Vec<Word> = line.iter().map(word).collect();
            let expected =
                expected.map_or(PrintedText::Unknown, |text| PrintedText::Text(text.to_owned()));
            assert_eq!(command_output(&words, &[], &PrintedText::Unknown), expected, "{line:?}");
        }
    }
}
