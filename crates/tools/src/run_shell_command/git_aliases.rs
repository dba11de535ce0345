//! The git aliases that a command line may call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parallax_policy::bash::{self, ShellLine};

use super::git;

/// Maximum number of directories whose configuration is read.
const MAX_COUNT: usize = 4;

/// Common git commands. An alias cannot override them.
const OWN: &[&str] = &[
    "add",
    "am",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "cat-file",
    "check-ignore",
    "checkout",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "config",
    "describe",
    "diff",
    "difftool",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "mergetool",
    "mv",
    "name-rev",
    "notes",
    "pull",
    "push",
    "range-diff",
    "rebase",
    "reflog",
    "remote",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "version",
    "worktree",
];

/// Returns the effective aliases where the line runs. Looks up none if all git commands in the text
/// are git's own. Blocking.
pub(super) fn effective_aliases(
    text: &str,
    line: &ShellLine,
    directory: &Path,
) -> BTreeMap<String, String> {
    let is_own = |command: &&bash::Command| {
        bash::git_subcommand(command).is_some_and(|call| OWN.contains(&call.name))
    };
    if text.matches("git").count() == line.commands.iter().filter(is_own).count() {
        return BTreeMap::new();
    }
    let mut directories = vec![directory.to_owned()];
    directories.extend(named_directories(line).map(|named| directory.join(named)));
    let found = directories.iter().take(MAX_COUNT).filter(|directory| directory.is_dir());
    found.flat_map(|directory| git::aliases(directory)).collect()
}

/// Returns the directories that `cd` and `git -C` name.
fn named_directories(line: &ShellLine) -> impl Iterator<Item = PathBuf> {
    line.commands.iter().filter_map(|command| {
        let words = command.arguments();
        let named = match command.name()? {
            "cd" => words.first(),
            "git" => {
                let option = words.iter().position(|word| word.text.as_deref() == Some("-C"))?;
                words.get(option + 1)
            }
            _ => None,
        };
        Some(PathBuf::from(named?.text.as_deref()?))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn aliases_are_looked_up_only_when_one_may_be_called() {
        let directory = tempfile::tempdir().expect("a directory");
        let git = |arguments: &[&str]| {
            let time = Duration::from_secs(10);
            let output = parallax_exec::program::output(
                "git",
                arguments,
                directory.path(),
                &[],
                1 << 20,
                time,
            );
            assert!(output.is_some(), "{arguments:?}");
        };
        git(&["init", "-q", "sub"]);
        git(&["-C", "sub", "config", "alias.zap", "reset --hard"]);
        let called = |text: &str| effective_aliases(text, &bash::analyze(text), directory.path());
        for line in ["cd sub && git zap", "git -C sub zap", "cd sub; G=git; $G zap"] {
            assert_eq!(called(line).get("zap").map(String::as_str), Some("reset --hard"), "{line}");
        }
        assert!(called("cd sub && git status && git log -5").is_empty());
    }
}
