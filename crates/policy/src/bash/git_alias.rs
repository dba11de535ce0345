//! Git aliases from the configuration and from the line.

use std::collections::BTreeMap;

use super::expand::append_words;
use super::git::git_subcommand;
use super::line::Command;

/// Git aliases with their definitions. Names are lowercase.
#[derive(Debug, Default)]
pub(super) struct GitAliases(Vec<(String, String)>);

impl GitAliases {
    /// Returns the aliases of the effective configuration.
    pub(super) fn new(configured: &BTreeMap<String, String>) -> Self {
        let entries = configured.iter();
        Self(entries.map(|(name, text)| (name.to_ascii_lowercase(), text.clone())).collect())
    }

    /// Records the aliases that the command sets: `git -c alias.NAME=TEXT`, `git config alias.NAME
    /// TEXT`, `GIT_CONFIG_KEY_0=alias.NAME GIT_CONFIG_VALUE_0=TEXT`.
    pub(super) fn learn(&mut self, command: &Command) {
        for assignment in &command.assignments {
            let number = assignment.name.strip_prefix("GIT_CONFIG_KEY_");
            let Some((number, key)) = number.zip(assignment.value.text.as_deref()) else {
                continue;
            };
            let value = format!("GIT_CONFIG_VALUE_{number}");
            let value = command.assignments.iter().find(|other| other.name == value);
            self.add(key, value.and_then(|value| value.value.text.as_deref()));
        }
        if command.name() != Some("git") {
            return;
        }
        let words: Vec<&str> =
            command.arguments().iter().map(|it| it.text.as_deref().unwrap_or_default()).collect();
        for (index, word) in words.iter().enumerate() {
            let pair = word.strip_prefix("-c").unwrap_or(word);
            match pair.split_once('=') {
                Some((key, value)) => self.add(key, Some(value)),
                None => self.add(word, words.get(index + 1).copied()),
            }
        }
    }

    fn add(&mut self, key: &str, text: Option<&str>) {
        let key = key.to_ascii_lowercase();
        if let Some((name, text)) = key.strip_prefix("alias.").zip(text) {
            self.0.push((name.to_owned(), text.to_owned()));
        }
    }

    /// Returns the alias that the command calls, and the text that the shell would run instead.
    pub(super) fn text(&self, command: &Command) -> Option<(String, String)> {
        let call = git_subcommand(command)?;
        let name = call.name.to_ascii_lowercase();
        let (_, text) = self.0.iter().rfind(|(alias, _)| *alias == name)?;
        let text = match text.trim_start().strip_prefix('!') {
            Some(script) => append_words(script, call.words),
            None => append_words(&format!("git {text}"), call.words),
        };
        Some((format!("git {name}"), text))
    }
}
