//! Fixed words for completing command arguments.

use std::sync::Arc;

use parallax_sdk::agents::AgentSetting;

use super::names;
use crate::app::App;
use crate::completion::{ArgumentValue, CommandInfo, Completer};
use crate::theme_choice as theme;

/// Commands with fixed argument words, by their full names.
const WITH_WORDS: &[&str] = &[
    "agents config",
    "budget",
    "extensions disable",
    "extensions enable",
    "extensions update",
    "mcp disable",
    "mcp enable",
    "model set",
    "quit",
    "skills",
    "skills link",
    "skills list",
    "undo",
];

type Word = (&'static str, &'static str);

const KINDS: [Word; 3] = [
    ("cost", "in dollars, such as `cost 2`"),
    ("tokens", "such as `tokens 500k`"),
    ("time", "such as `time 10m`"),
];
const SCOPES: [Word; 2] = [("session", "for the whole session"), ("prompt", "for each prompt")];
const OFF: [Word; 1] = [("off", "no limit")];

/// Returns the words that may follow the given words.
fn next(command: &str, before: &[&str]) -> Vec<Word> {
    let is_kind = |word: &&str| KINDS.iter().any(|(kind, _)| kind == word);
    let open = |words: &[Word]| -> Vec<Word> {
        words.iter().filter(|(word, _)| !before.contains(word)).copied().collect()
    };
    match (command, before) {
        ("agents config", [_]) => AgentSetting::ALL.map(|it| (it.as_str(), "")).to_vec(),
        ("agents config", [_, "enabled"]) => vec![("true", ""), ("false", "")],
        ("undo", [] | [_]) => open(&[("--force", "also revert files that changed since")]),
        ("budget", []) => KINDS.into_iter().chain(SCOPES).collect(),
        ("budget", ["session" | "prompt"]) => KINDS.to_vec(),
        ("budget", [kind] | ["session" | "prompt", kind]) if is_kind(kind) => OFF.to_vec(),
        ("extensions disable" | "extensions enable", [_]) => {
            vec![("workspace", "only for this project")]
        }
        ("extensions update", []) => vec![("--all", "all extensions")],
        ("mcp disable" | "mcp enable", [_]) => vec![("--session", "only for this session")],
        ("model set", [_]) => vec![("--persist", "also for later sessions")],
        ("quit", []) => vec![("--delete", "also delete the session")],
        ("skills" | "skills list", _) => {
            open(&[("nodesc", "names only"), ("all", "include disabled skills")])
        }
        ("skills link", [_]) => vec![("--scope", "where to use them")],
        ("skills link", [_, "--scope"]) => {
            vec![("user", "for all your projects"), ("workspace", "for this project")]
        }
        _ => Vec::new(),
    }
}

/// Completes the words that may follow the words before the cursor, after the given completions.
fn completer(command: &'static str, others: Option<Completer>) -> Completer {
    Arc::new(move |typed| {
        let (before, last) = match typed.rfind(' ') {
            Some(at) => typed.split_at(at + 1),
            None => ("", typed),
        };
        let mut matches = others.as_ref().map(|others| others(typed)).unwrap_or_default();
        let provided: Vec<&str> = before.split_whitespace().collect();
        let words = next(command, &provided).into_iter().filter(|(word, _)| word.starts_with(last));
        matches.extend(words.map(|(word, description)| ArgumentValue {
            value: format!("{before}{word}"),
            description: description.to_owned(),
        }));
        matches
    })
}

/// Adds the fixed words to the completions of the commands, in addition to names.
pub(crate) fn add_words(app: &App, commands: &mut [CommandInfo]) {
    for path in WITH_WORDS {
        let (name, sub) = path.split_once(' ').map_or((*path, None), |(a, b)| (a, Some(b)));
        let found = commands.iter_mut().find(|command| command.name == name);
        let found = found.and_then(|command| match sub {
            Some(sub) => command.subcommands.iter_mut().find(|it| it.name == sub),
            None => Some(command),
        });
        if let Some(command) = found {
            command.completer = Some(completer(path, command.completer.take()));
        }
    }
    if let Some(command) = commands.iter_mut().find(|command| command.name == "theme") {
        let names = theme::names(&app.settings.custom_themes);
        let names = names.into_iter().map(|(name, light)| ArgumentValue {
            value: name,
            description: if light { "light" } else { "dark" }.to_owned(),
        });
        command.completer = Some(names::complete_names(names.collect()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_words_are_completed_in_sequence() {
        let offered = |command: &'static str, input: &str| -> Vec<String> {
            let others: Completer = Arc::new(|typed| {
                let name = ArgumentValue { value: "docs".to_owned(), ..ArgumentValue::default() };
                if "docs".starts_with(typed) { vec![name] } else { Vec::new() }
            });
            completer(command, Some(others))(input).into_iter().map(|it| it.value).collect()
        };
        assert_eq!(offered("budget", "c"), ["cost"]);
        assert_eq!(offered("budget", "prompt t"), ["prompt tokens", "prompt time"]);
        assert_eq!(offered("budget", "prompt cost o"), ["prompt cost off"]);
        assert_eq!(offered("mcp enable", ""), ["docs"]);
        assert_eq!(offered("mcp enable", "docs -"), ["docs --session"]);
        assert_eq!(offered("skills", "all "), ["all nodesc"]);
        assert_eq!(offered("agents config", "docs max").len(), 2);
        assert_eq!(offered("undo", "3 "), ["3 --force"]);
    }

    #[test]
    fn every_completed_command_takes_arguments() {
        for path in WITH_WORDS {
            let (name, sub) = path.split_once(' ').unwrap_or((path, ""));
            let command = crate::commands::TABLE.iter().find(|it| it.name == name);
            let found = match sub {
                "" => command,
                sub => command.and_then(|it| it.subcommands.iter().find(|it| it.name == sub)),
            };
            assert!(found.is_some_and(|it| !it.arguments.is_empty()), "/{path}");
        }
    }
}
