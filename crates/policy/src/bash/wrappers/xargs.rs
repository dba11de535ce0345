//! Parses `xargs` and `parallel`, whose last words come from the input.

use super::options::{Operands, Options};
use super::shells::join_words;
use super::{WrappedCommand, program_without_assignments, started_command, unclear_command};
use crate::bash::line::Word;

const OPTIONS: Options = Options {
    flags: "0rtpxo",
    values: "aEILnPsd",
    long_flags: &[
        "null",
        "no-run-if-empty",
        "verbose",
        "interactive",
        "exit",
        "open-tty",
        "show-limits",
        "replace",
        "eof",
        "max-lines",
    ],
    long_values: &[
        "arg-file",
        "delimiter",
        "max-args",
        "max-procs",
        "max-chars",
        "process-slot-var",
    ],
};

pub(super) fn wrapped_commands(arguments: &[Word]) -> Vec<WrappedCommand> {
    // `-i`, `-l`, and `-e` take a value only if it is attached.
    let joined_value = |word: &Word| {
        word.text.as_deref().is_some_and(|text| {
            text.starts_with("-i") || text.starts_with("-l") || text.starts_with("-e")
        })
    };
    let mut plain: Vec<Word> = Vec::new();
    let mut replaced = None;
    let mut in_options = true;
    let mut skip_value = false;
    for word in arguments {
        if in_options && !skip_value {
            match word.text.as_deref() {
                Some(text) if text.starts_with('-') && text != "--" => {
                    if joined_value(word) {
                        if let Some(with) = text.strip_prefix("-i") {
                            replaced = Some(if with.is_empty() { "{}" } else { with }.to_owned());
                        }
                        continue;
                    }
                    if let Some(with) = text.strip_prefix("--replace") {
                        let with = with.strip_prefix('=').unwrap_or("{}");
                        replaced = Some(with.to_owned());
                    }
                    if let Some((_, with)) =
                        text.split_once('I').filter(|_| !text.starts_with("--"))
                    {
                        replaced = Some(with.to_owned());
                    }
                    skip_value = OPTIONS.takes_value(text) == Some(true);
                }
                _ => in_options = false,
            }
        } else if skip_value {
            skip_value = false;
            if replaced.as_deref() == Some("") {
                replaced = word.text.clone();
            }
        }
        plain.push(word.clone());
    }
    let rest = OPTIONS.operands_after(&plain, 0);
    let Operands::Words(words) = rest else { return started_command(rest) };
    if words.is_empty() {
        let echo =
            Word { text: Some("echo".to_owned()), source: "echo".to_owned(), ..Word::default() };
        return vec![program_without_assignments(vec![echo, word_from_input("…")])];
    }
    let mut words = words.to_vec();
    match replaced {
        Some(with) => {
            for word in &mut words {
                if with.is_empty() || word.text.as_deref().is_some_and(|text| text.contains(&with))
                {
                    word.text = None;
                }
            }
        }
        None => words.push(word_from_input("…")),
    }
    vec![program_without_assignments(words)]
}

/// Returns a word that comes from the input.
pub(super) fn word_from_input(source: &str) -> Word {
    Word { text: None, source: source.to_owned(), glob: false, quoted: false }
}

/// Reads `parallel COMMAND… ::: …`: the words are joined for a shell.
pub(super) fn parallel(arguments: &[Word]) -> Vec<WrappedCommand> {
    const OPTIONS: Options = Options {
        flags: "0kmXqtu",
        values: "jPnNLIaS",
        long_flags: &[
            "null",
            "keep-order",
            "dry-run",
            "verbose",
            "ungroup",
            "line-buffer",
            "bar",
            "eta",
            "progress",
            "tag",
            "will-cite",
            "no-notice",
        ],
        long_values: &[
            "jobs",
            "max-procs",
            "halt",
            "timeout",
            "retries",
            "delay",
            "joblog",
            "colsep",
        ],
    };
    let stop = arguments
        .iter()
        .position(|word| word.text.as_deref().is_some_and(|text| text.starts_with(":::")))
        .unwrap_or(arguments.len());
    let rest = OPTIONS.operands_after(arguments.get(..stop).unwrap_or_default(), 0);
    match rest {
        Operands::Words([]) => unclear_command("`parallel` runs commands that it reads"),
        Operands::Words([program, ..])
            if program.text.as_deref().is_none_or(|text| {
                text.split_ascii_whitespace().next().is_none_or(|first| first.contains('{'))
            }) =>
        {
            unclear_command("`parallel` runs commands that it reads")
        }
        rest => join_words(rest),
    }
}
