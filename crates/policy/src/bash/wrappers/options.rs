//! Skips options of programs whose options are all known.

use crate::bash::line::Word;

/// The options of a program.
pub(super) struct Options {
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters with a value, attached or in the next word.
    pub(super) values: &'static str,
    /// Long options without a value, or with one after `=`.
    pub(super) long_flags: &'static [&'static str],
    /// Long options with a value, after `=` or in the next word.
    pub(super) long_values: &'static [&'static str],
}

/// What follows the options.
pub(super) enum Operands<'w> {
    Words(&'w [Word]),
    Unclear(String),
}

/// Whether the word is always a single word, whatever its expansions produce, and cannot become an
/// option or another program.
pub(super) fn is_single_word(word: &Word) -> bool {
    match &word.text {
        Some(text) => !word.glob || !text.contains(['*', '?', '[', '{']),
        // `NAME="$x"`
        None => {
            let Some((name, value)) = word.source.split_once('=') else { return false };
            let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            crate::bash::variable_name::is_name(name)
                && inner.is_some_and(|inner| !inner.contains(['"', '@', '*', '`', '(', '\\']))
        }
    }
}

impl Options {
    /// Skips the options and `operands` words.
    pub(super) fn operands_after<'w>(&self, words: &'w [Word], operands: usize) -> Operands<'w> {
        let mut rest = words;
        while let Some((word, behind)) = rest.split_first() {
            let Some(text) = word.text.as_deref().filter(|_| is_single_word(word)) else {
                // The caller handles a program name known only at run time.
                return if operands == 0 && word.text.is_none() {
                    Operands::Words(rest)
                } else {
                    Operands::Unclear(
                        "a wrapper command has arguments that are known only at run time"
                            .to_owned(),
                    )
                };
            };
            if text == "--" {
                rest = behind;
                break;
            }
            if !text.starts_with('-') || text == "-" {
                break;
            }
            let Some(takes_value) = self.takes_value(text) else {
                return Operands::Unclear(format!("unknown option `{text}` of a wrapper command"));
            };
            rest = behind;
            if takes_value {
                let Some((value, behind)) = rest.split_first() else {
                    return Operands::Words(&[]);
                };
                if value.text.is_none() || !is_single_word(value) {
                    return Operands::Unclear(
                        "a wrapper command has arguments that are known only at \
                        run time"
                            .to_owned(),
                    );
                }
                rest = behind;
            }
        }
        for _ in 0..operands {
            let Some((word, behind)) = rest.split_first() else { return Operands::Words(&[]) };
            if word.text.is_none() || !is_single_word(word) {
                return Operands::Unclear(
                    "a wrapper command has arguments that are known only at run \
                    time"
                        .to_owned(),
                );
            }
            rest = behind;
        }
        Operands::Words(rest)
    }

    /// Whether the option takes the next word as its value; `None` if the option is unknown.
    pub(super) fn takes_value(&self, option: &str) -> Option<bool> {
        if let Some(long) = option.strip_prefix("--") {
            let (name, glued) = match long.split_once('=') {
                Some((name, _)) => (name, true),
                None => (long, false),
            };
            if self.long_flags.contains(&name) {
                return Some(false);
            }
            return self.long_values.contains(&name).then_some(!glued);
        }
        let letters = option.strip_prefix('-')?;
        for (offset, letter) in letters.char_indices() {
            if self.values.contains(letter) {
                return Some(offset + letter.len_utf8() == letters.len());
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        Some(false)
    }
}
