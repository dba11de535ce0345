//! Detects commands that read or copy a whole directory with secrets in it, and programs that print
//! secrets.

use std::path::{Path, PathBuf};

use parallax_protocol::protected_names::SECRETS_OF_HOME;

use crate::bash::{self, Command, Word};
use crate::call::ShellCall;
use crate::paths;

/// Programs that copy or search whole directories.
const WALKERS: &[&str] =
    &["7z", "ag", "cp", "cpio", "ditto", "grep", "mv", "rg", "rsync", "scp", "tar", "zip"];

/// Programs that print keys or passwords, with the words that make them do so.
const PRINTERS: &[(&str, &[&str])] = &[
    ("gpg", &["--export-secret-keys"]),
    ("gpg", &["--export-secret-subkeys"]),
    ("gh", &["auth", "token"]),
    ("gcloud", &["print-access-token"]),
    ("aws", &["export-credentials"]),
    ("security", &["find-generic-password"]),
    ("security", &["find-internet-password"]),
    ("pass", &["show"]),
    ("secret-tool", &["lookup"]),
    ("kubectl", &["get", "secret"]),
    ("kubectl", &["get", "secrets"]),
];

/// Returns the directories above secrets of the home directory that the line copies or searches.
pub(crate) fn copied(shell: &ShellCall<'_>, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(home) = home else { return Vec::new() };
    let walkers = shell
        .line
        .commands
        .iter()
        .filter(|command| command.name().is_some_and(|name| WALKERS.contains(&name)));
    let holds_secrets = |path: &PathBuf| {
        path.strip_prefix(home).is_ok_and(|below| {
            SECRETS_OF_HOME.iter().any(|secret| Path::new(secret).starts_with(below))
        })
    };
    walkers.flat_map(|command| sources(shell, command, home)).filter(holds_secrets).collect()
}

/// Returns the paths that a command copies or searches.
fn sources(shell: &ShellCall<'_>, command: &Command, home: &Path) -> Vec<PathBuf> {
    let written = bash::placed(command);
    let (mut found, mut base) = (Vec::new(), None::<PathBuf>);
    let mut words = command.arguments().iter();
    while let Some(word) = words.next() {
        if command.name() == Some("tar") && word.text.as_deref() == Some("-C") {
            let folder = words.next().map(|folder| places(shell, folder, home, None));
            base = folder.into_iter().flatten().next();
            continue;
        }
        if !written.contains(word) {
            found.extend(places(shell, word, home, base.as_deref()));
        }
    }
    found
}

/// Returns the paths that the word may name, relative to `base` if there is one.
fn places(shell: &ShellCall<'_>, word: &Word, home: &Path, base: Option<&Path>) -> Vec<PathBuf> {
    if matches!(word.source.as_str(), "~" | "$HOME" | "\"$HOME\"" | "${HOME}" | "\"${HOME}\"") {
        return vec![home.to_owned()];
    }
    match (base, word.text.as_deref()) {
        (Some(base), Some(text)) if !word.glob => vec![paths::resolve(base, Path::new(text))],
        _ => shell.place_of(word).iter().filter_map(|place| place.path().cloned()).collect(),
    }
}

/// Returns the commands of the line that print keys or passwords.
pub(crate) fn printed<'a>(shell: &'a ShellCall<'_>) -> impl Iterator<Item = &'a str> {
    let prints = |command: &&Command| {
        let has =
            |text: &str| command.arguments().iter().any(|it| it.text.as_deref() == Some(text));
        PRINTERS.iter().any(|(name, words)| {
            command.name() == Some(*name) && words.iter().all(|word| has(word))
        })
    };
    shell.line.commands.iter().filter(prints).map(|command| command.source.as_str())
}
