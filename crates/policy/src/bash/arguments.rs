//! Classifies the words of a command as options and operands. A word known only at run time may be
//! either, so checks treat it as a match.

use super::line::{Command, Word};

/// Returns the literal arguments, skipping words known only at run time.
pub(super) fn literal_arguments(command: &Command) -> impl Iterator<Item = &str> {
    command.arguments().iter().filter_map(|word| word.text.as_deref())
}

/// Whether an argument is or may become `-x` with one of the letters, alone or combined with
/// others.
pub(super) fn has_letter(command: &Command, letters: &[char]) -> bool {
    words_before_dashes(command.arguments()).any(|word| match &word.text {
        Some(text) if word.glob && text.starts_with('{') => {
            text.contains('-') && text.contains(letters)
        }
        Some(text) => text
            .strip_prefix('-')
            .is_some_and(|flags| !flags.starts_with('-') && flags.contains(letters)),
        None => false,
    })
}

/// Whether an argument is the long option, or an abbreviation of it that is at least as long as
/// `shortest`, with or without a value.
pub(super) fn has_long_option(command: &Command, option: &str, shortest: &str) -> bool {
    words_before_dashes(command.arguments()).filter_map(|word| word.text.as_deref()).any(|text| {
        let name = text.split('=').next().unwrap_or(text);
        name.starts_with(shortest) && option.starts_with(name)
    })
}

/// Returns the values of an option: attached to the letter, after `=`, or in the next word.
pub(super) fn values(command: &Command, letter: char, long: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut words = command.arguments().iter();
    while let Some(word) = words.next() {
        let Some(text) = word.text.as_deref() else { continue };
        if text == "--" {
            break;
        }
        if let Some(name) = text.strip_prefix("--") {
            let (name, glued) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            if !long.is_empty() && name.len() >= 3 && long.starts_with(name) {
                match glued {
                    Some(value) => found.push(part(word, value)),
                    None => found.extend(words.next().cloned()),
                }
            }
            continue;
        }
        let Some(letters) = text.strip_prefix('-') else { continue };
        if let Some((_, value)) = letters.split_once(letter) {
            if value.is_empty() {
                found.extend(words.next().cloned());
            } else {
                found.push(part(word, value));
            }
        }
    }
    found
}

/// Returns a word that is a part of another word.
pub(super) fn part(word: &Word, text: &str) -> Word {
    Word {
        text: Some(text.to_owned()),
        source: word.source.clone(),
        glob: word.glob,
        quoted: word.quoted,
    }
}

/// Returns the words that are not options. `letters` are the letters whose value is the next word,
/// and `long` are the long options of that kind.
pub(super) fn operands(command: &Command, letters: &str, long: &[&str]) -> Vec<Word> {
    let mut found = Vec::new();
    let mut words = command.arguments().iter();
    let mut options = true;
    while let Some(word) = words.next() {
        let Some(text) = word.text.as_deref() else {
            found.push(word.clone());
            continue;
        };
        if !options || !text.starts_with('-') || text == "-" {
            found.push(word.clone());
        } else if text == "--" {
            options = false;
        } else if long.contains(&text)
            || text.strip_prefix('-').is_some_and(|flags| {
                !flags.starts_with('-')
                    && flags
                        .char_indices()
                        .find(|(_, letter)| letters.contains(*letter))
                        .is_some_and(|(at, letter)| at + letter.len_utf8() == flags.len())
            })
        {
            words.next();
        }
    }
    found
}

/// Returns the arguments before `--`.
pub(super) fn words_before_dashes(words: &[Word]) -> impl Iterator<Item = &Word> {
    words.iter().take_while(|word| word.text.as_deref() != Some("--"))
}
