//! Completes words of shell lines.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Programs whose first argument is a subcommand.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "add",
            "bisect",
            "blame",
            "branch",
            "checkout",
            "cherry-pick",
            "clean",
            "clone",
            "commit",
            "config",
            "diff",
            "fetch",
            "grep",
            "init",
            "log",
            "merge",
            "mv",
            "pull",
            "push",
            "rebase",
            "reflog",
            "remote",
            "reset",
            "restore",
            "revert",
            "rm",
            "show",
            "stash",
            "status",
            "submodule",
            "switch",
            "tag",
            "worktree",
        ],
    ),
    (
        "npm",
        &[
            "audit",
            "ci",
            "exec",
            "init",
            "install",
            "link",
            "list",
            "outdated",
            "pack",
            "publish",
            "rebuild",
            "run",
            "start",
            "test",
            "uninstall",
            "update",
            "version",
            "view",
        ],
    ),
];

/// What kind of word is at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordKind {
    /// A program name.
    Program,
    /// An argument: one of these subcommands, or a path.
    Argument(&'static [&'static str]),
}

/// The word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellWord {
    /// The byte range in the line, up to the cursor.
    pub range: Range<usize>,
    /// The text without quotes and escapes.
    pub text: String,
    /// The kind of word.
    pub kind: WordKind,
}

/// Returns the word that ends at `cursor`.
pub fn word(line: &str, cursor: usize) -> ShellWord {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut start = None;
    let mut quote = None;
    let mut escaped = false;
    for (offset, char) in line.get(..cursor).unwrap_or("").char_indices() {
        let ends = char.is_whitespace() || "|;&(".contains(char);
        if escaped {
            word.push(char);
            escaped = false;
        } else if char == '\\' && quote != Some('\'') {
            start.get_or_insert(offset);
            escaped = true;
        } else if quote == Some(char) {
            quote = None;
        } else if quote.is_none() && matches!(char, '"' | '\'') {
            start.get_or_insert(offset);
            quote = Some(char);
        } else if quote.is_none() && ends {
            if start.take().is_some() {
                words.push(std::mem::take(&mut word));
            }
            // A new command starts after these.
            if !char.is_whitespace() {
                words.clear();
            }
        } else {
            start.get_or_insert(offset);
            word.push(char);
        }
    }
    // Skip `NAME=value` assignments before a command.
    words.retain(|word| !word.contains('='));
    let kind = match words.as_slice() {
        [] => WordKind::Program,
        [program] => {
            let known = SUBCOMMANDS.iter().find(|(name, _)| name == program);
            WordKind::Argument(known.map_or(&[], |(_, subcommands)| subcommands))
        }
        _ => WordKind::Argument(&[]),
    };
    ShellWord { range: start.unwrap_or(cursor)..cursor, text: word, kind }
}

/// Returns the programs on the path with this prefix, in alphabetical order. Reads the directories.
pub fn programs(prefix: &str, path: &str, limit: usize) -> Vec<String> {
    let mut found = BTreeSet::new();
    for directory in path.split(':').filter(|directory| !directory.is_empty()) {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(prefix) && !found.contains(&name) && is_program(&entry.path()) {
                found.insert(name);
            }
        }
    }
    found.into_iter().take(limit).collect()
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Escapes a word for the shell.
pub fn escape(word: &str) -> String {
    let mut escaped = String::with_capacity(word.len());
    for char in word.chars() {
        if char.is_whitespace() || "\\'\"`$&|;<>()[]{}*?!#".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_word_and_its_kind_are_found() {
        let argument = WordKind::Argument(&[]);
        for (line, text, start, place) in [
            ("gi", "gi", 0, WordKind::Program),
            ("ls src/ma", "src/ma", 3, argument.clone()),
            ("ls ", "", 3, argument.clone()),
            (r"cat a\ b", "a b", 4, argument.clone()),
            ("cat 'a b", "a b", 4, argument.clone()),
            ("a | gre", "gre", 4, WordKind::Program),
            ("a && b; c", "c", 8, WordKind::Program),
            ("X=1 ma", "ma", 4, WordKind::Program),
            ("git add x", "x", 8, argument),
        ] {
            let word = word(line, line.len());
            assert_eq!(
                (word.text.as_str(), word.range.start, word.kind),
                (text, start, place),
                "{line}"
            );
        }
        assert!(
            matches!(word("git st", 6).kind, WordKind::Argument(known) if known.contains(&"stash"))
        );
    }

    #[test]
    fn only_executables_are_completed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, mode) in [("run-a", 0o755), ("run-b", 0o644), ("other", 0o755)] {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!("/nowhere:{}", directory.path().display());
        assert_eq!(programs("run", &path, 9), ["run-a"]);
    }
}
