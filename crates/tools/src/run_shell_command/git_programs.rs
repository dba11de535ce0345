//! Whether a line leaves the programs that git runs as they are. In yolo mode, only such a line may
//! write the configuration of a repository whose git directory is outside of the workspace: others
//! work in that repository, too.

use std::path::{Path, PathBuf};

use parallax_policy::bash::{self, Command, ShellLine};
use parallax_protocol::protected_names::OF_GIT;

use super::printing::may_write_beside_git;
use super::repository;

/// Options and verbs of `git config` with which the changed entries are not in the words.
const UNCLEAR: [&str; 9] = [
    "--blob",
    "--edit",
    "--file",
    "--rename-section",
    "--worktree",
    "-e",
    "-f",
    "edit",
    "rename-section",
];

/// Verbs of `git config` before the key.
const VERBS: [&str; 4] = ["get", "remove-section", "set", "unset"];

/// Returns the files of a git directory outside of the workspace that a line may not write in yolo
/// mode: hooks, and unless the line sets no programs, the others that run programs or redirect git.
pub(super) fn closed_files(line: &ShellLine, directory: &Path) -> Vec<PathBuf> {
    if !directory.join("HEAD").is_file() {
        // A directory of objects.
        return Vec::new();
    }
    let hooks = directory.join("hooks");
    if keeps_programs(line) {
        return vec![hooks];
    }
    let files = OF_GIT.iter().map(|name| directory.join(name));
    files.chain(Some(directory.join("modules")).filter(|modules| modules.is_dir())).collect()
}

/// Whether the line runs only git, and programs that print, and sets no program that git runs.
pub(super) fn keeps_programs(line: &ShellLine) -> bool {
    let git = |command: &&Command| command.name() == Some("git");
    !may_write_beside_git(line) && !line.commands.iter().filter(git).any(sets_program)
}

fn sets_program(command: &Command) -> bool {
    let Some(call) = bash::git_subcommand(command) else { return true };
    let may_run_programs = bash::danger_reason(command).is_some();
    if call.name != "config" || call.configured || !may_run_programs {
        return may_run_programs;
    }
    if call.words.iter().any(|word| word.text.is_none()) {
        return true;
    }
    let words = || call.words.iter().filter_map(|word| word.text.as_deref());
    let unclear = |word: &str| UNCLEAR.contains(&word.split('=').next().unwrap_or(word));
    let key = words().find(|word| !word.starts_with('-') && !VERBS.contains(word));
    words().any(unclear)
        || key.is_none_or(|key| !key.contains('.') || repository::may_name_program(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_may_set_programs_of_git_are_recognized() {
        let keeps = |line: &str| keeps_programs(&bash::analyze(line));
        for line in [
            "git add -A && git commit -m 'one'",
            "git checkout -b f origin/main",
            "git push -u origin f 2>&1 | tail -3",
            "git branch -u origin/main",
            "git remote add up https://example.com/x",
            "git config user.email a@example.com",
            "git config --get core.hooksPath",
            "git config set pull.rebase true",
            "git worktree add ../w; git stash",
            "cd sub && git status",
        ] {
            assert!(keeps(line), "{line}");
        }
        for line in [
            "git config core.hooksPath /tmp/h",
            "git config --add alias.st '!sh -c x'",
            "git config --local core.sshCommand x",
            "git config set core.fsmonitor x",
            "git config --unset core.fsmonitor",
            "git config include.path ../x",
            "git config --edit",
            "git config -f ../.git/config user.name x",
            "git config \"$K\" x",
            "git config --type path core.hooksPath x",
            "git config --rename-section user alias",
            "git -c core.editor=x commit",
            "git $C",
            "echo x > .git/hooks/pre-commit; git status",
            "D=$(git rev-parse --git-common-dir); echo x >> $D/config",
            "python3 x.py && git commit -am x",
            "make",
        ] {
            assert!(!keeps(line), "{line}");
        }
    }
}
