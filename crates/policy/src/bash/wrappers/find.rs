//! Parses `find -exec` and `fd -x`.

use super::options::is_single_word;
use super::{WrappedCommand, program_without_assignments, unclear_command};
use crate::bash::line::Word;

pub(super) fn wrapped_commands(arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut found = Vec::new();
    let mut words = arguments.iter().enumerate();
    while let Some((at, word)) = words.next() {
        let Some(text) =
            word.text.as_deref().filter(|_| is_single_word(word) || expands_only_to_names(word))
        else {
            return unclear_command("`find` has arguments that are known only at run time");
        };
        if !matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let behind = arguments.get(at + 1..).unwrap_or_default();
        let length = behind
            .iter()
            .enumerate()
            .position(|(index, word)| match word.text.as_deref() {
                Some(";") => true,
                Some("+") => {
                    index > 0
                        && behind
                            .get(index - 1)
                            .is_some_and(|before| before.text.as_deref() == Some("{}"))
                }
                _ => false,
            })
            .unwrap_or(behind.len());
        let started = replace_placeholders(behind.get(..length).unwrap_or_default(), &["{}"]);
        if started.iter().any(|word| word.glob && !is_single_word(word)) {
            return unclear_command("`find -exec` has arguments that are known only at run time");
        }
        if !started.is_empty() {
            found.push(program_without_assignments(started));
        }
        for _ in 0..length {
            words.next();
        }
    }
    found
}

/// Whether a pattern begins with a plain letter, a dot, or a slash, so that it cannot expand to an
/// option.
fn expands_only_to_names(word: &Word) -> bool {
    word.text.as_deref().is_some_and(|text| {
        !text.contains('{')
            && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/')
    })
}

/// Returns the words; those with a placeholder for a file name count as known only at run time.
fn replace_placeholders(words: &[Word], placeholders: &[&str]) -> Vec<Word> {
    words
        .iter()
        .map(|word| {
            let mut word = word.clone();
            if word.text.as_deref().is_some_and(|text| {
                placeholders.iter().any(|placeholder| text.contains(placeholder))
            }) {
                word.text = None;
                word.glob = false;
            }
            word
        })
        .collect()
}

pub(super) fn fd(arguments: &[Word]) -> Vec<WrappedCommand> {
    for (index, word) in arguments.iter().enumerate() {
        let Some(text) =
            word.text.as_deref().filter(|_| is_single_word(word) || expands_only_to_names(word))
        else {
            return unclear_command("`fd` has arguments that are known only at run time");
        };
        if text == "--" {
            return Vec::new();
        }
        let cluster =
            text.strip_prefix('-').filter(|letters| !letters.starts_with('-') && letters.len() > 1);
        let hidden = cluster.is_some_and(|letters| letters.contains(['x', 'X']));
        if hidden || text.starts_with("--exec=") || text.starts_with("--exec-batch=") {
            return unclear_command("`fd` runs an unsupported command");
        }
        if !matches!(text, "-x" | "-X" | "--exec" | "--exec-batch") {
            continue;
        }
        let behind = arguments.get(index + 1..).unwrap_or_default();
        let length = behind
            .iter()
            .position(|word| word.text.as_deref() == Some(";"))
            .unwrap_or(behind.len());
        let mut found = match behind.get(..length) {
            Some([]) | None => Vec::new(),
            Some(words) => {
                let mut words = replace_placeholders(words, &["{}", "{/}", "{//}", "{.}", "{/.}"]);
                words.push(super::xargs::word_from_input("{}"));
                vec![program_without_assignments(words)]
            }
        };
        found.extend(fd(behind.get(length + 1..).unwrap_or_default()));
        return found;
    }
    Vec::new()
}
