//! Commands that git runs because its arguments say so.

use super::options::Operands;
use super::shells::join_words;
use super::{WrappedCommand, started_command, unclear_command};
use crate::bash::git::subcommand;
use crate::bash::line::Word;

pub(super) fn wrapped_commands(arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut found = aliases(arguments);
    let Some(call) = subcommand(arguments) else { return found };
    let rest = call.words;
    let behind = |word: &str| {
        rest.iter()
            .position(|found| found.text.as_deref() == Some(word))
            .map(|at| rest.get(at + 1..).unwrap_or_default())
    };
    match call.name {
        "submodule" => {
            if let Some(words) = behind("foreach") {
                let options = words
                    .iter()
                    .take_while(|word| {
                        matches!(word.text.as_deref(), Some("--recursive" | "-q" | "--quiet"))
                    })
                    .count();
                found.extend(join_words(Operands::Words(words.get(options..).unwrap_or_default())));
            }
        }
        "bisect" => {
            if let Some(words) = behind("run") {
                found.extend(started_command(Operands::Words(words)));
            }
        }
        "rebase" => found.extend(values(rest, "-x", "--exec", 4)),
        "difftool" => found.extend(values(rest, "-x", "--extcmd", 5)),
        "filter-branch" => {
            for (index, word) in rest.iter().enumerate() {
                if word
                    .text
                    .as_deref()
                    .is_some_and(|text| text.ends_with("-filter") || text == "--setup")
                {
                    found.extend(text_of(rest.get(index + 1)));
                }
            }
        }
        _ => {}
    }
    found
}

/// Reads `-c alias.x=!TEXT`.
fn aliases(arguments: &[Word]) -> Vec<WrappedCommand> {
    arguments
        .iter()
        .filter_map(|word| word.text.as_deref())
        .filter_map(|text| text.split_once('='))
        .filter(|(key, _)| key.trim_start_matches("-c").to_ascii_lowercase().starts_with("alias."))
        .filter_map(|(_, value)| value.trim_start().strip_prefix('!'))
        .map(|text| WrappedCommand::Script { text: text.to_owned(), plain_sh: true })
        .collect()
}

fn text_of(word: Option<&Word>) -> Vec<WrappedCommand> {
    match word.and_then(|word| word.text.clone()) {
        Some(text) => vec![WrappedCommand::Script { text, plain_sh: true }],
        None => unclear_command("git runs text that is known only at run time"),
    }
}

/// Returns the values of an option, whose long name may be abbreviated to `shortest` bytes.
fn values(words: &[Word], short: &str, long: &str, shortest: usize) -> Vec<WrappedCommand> {
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let Some(text) = word.text.as_deref() else { continue };
        let (name, glued) = match text.split_once('=') {
            Some((name, glued)) => (name, Some(glued)),
            None => (text, None),
        };
        if name == short || (name.len() >= shortest && long.starts_with(name)) {
            match glued {
                Some(text) => {
                    found.push(WrappedCommand::Script { text: text.to_owned(), plain_sh: true })
                }
                None => found.extend(text_of(words.get(index + 1))),
            }
        } else if let Some(text) = text.strip_prefix(short) {
            found.push(WrappedCommand::Script { text: text.to_owned(), plain_sh: true });
        }
    }
    found
}
