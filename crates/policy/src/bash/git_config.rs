//! Detects git commands that write the configuration of the repository.

use super::git::git_subcommand;
use super::line::{Command, ShellLine, Word};
use super::safe::is_harmless_redirection;

/// Whether the command is a git command that writes the configuration of its repository. Git
/// reports a blocked write only after the branch is created or the push is done, so a caller that
/// protects the file must check before it runs the command.
pub fn writes_git_configuration(command: &Command) -> bool {
    let Some(call) = git_subcommand(command).filter(|call| !call.selects_other_repository) else {
        return false;
    };
    let words: Vec<&str> = call.words.iter().filter_map(|word| word.text.as_deref()).collect();
    let has =
        |names: &[&str]| words.iter().any(|word| names.iter().any(|name| is_option(word, name)));
    let operands = words.iter().filter(|word| !word.starts_with('-'));
    let first = operands.clone().next().copied();
    match call.name {
        "config" => config(&words),
        "remote" => {
            let writing = ["add", "rename", "remove", "rm", "set-url", "set-branches"];
            first.is_some_and(|first| writing.contains(&first))
        }
        "branch" => {
            // Deleting a branch also removes its section of the configuration.
            let sections = [
                "-m",
                "-M",
                "--move",
                "-c",
                "-C",
                "--copy",
                "-d",
                "-D",
                "--delete",
                "--edit-description",
            ];
            has(&["-u", "--set-upstream-to", "--unset-upstream", "-t", "--track"])
                || has(&sections)
                || !has(&["--no-track"]) && operands.clone().nth(1).is_some_and(is_remote)
        }
        "checkout" | "switch" => {
            let makes = ["-b", "-B", "-c", "-C", "--create", "--force-create"];
            has(&["-t", "--track"])
                || has(&makes) && !has(&["--no-track"]) && operands.skip(1).any(is_remote)
        }
        "push" => has(&["-u", "--set-upstream"]),
        "pull" | "fetch" => has(&["--set-upstream"]),
        // The start point follows the directory.
        "worktree" if first == Some("add") => {
            has(&["--track", "--guess-remote"])
                || !has(&["--no-track", "--detach", "-d"])
                    && operands_of(call.words).get(2).is_some_and(is_remote)
        }
        // In an existing repository, `init` writes the values for this file system again.
        "init" => {
            let here = |directory: &&str| matches!(*directory, "." | "./");
            operands_of(call.words).iter().all(here) && !has(&["--separate-git-dir"])
        }
        "submodule" => match first {
            Some("update") => has(&["--init"]),
            Some(first) => {
                ["add", "init", "deinit", "sync", "set-url", "set-branch", "absorbgitdirs"]
                    .contains(&first)
            }
            None => false,
        },
        "sparse-checkout" => first.is_some_and(|first| first != "list" && first != "check-rules"),
        "maintenance" => matches!(first, Some("start" | "register" | "unregister")),
        _ => false,
    }
}

/// Whether the command changes the sparse-checkout patterns of a repository: a list in the `info`
/// directory of the repository, and a configuration file next to the common one.
pub fn writes_sparse_patterns(command: &Command) -> bool {
    let Some(call) = git_subcommand(command).filter(|call| !call.selects_other_repository) else {
        return false;
    };
    call.name == "sparse-checkout" && writes_git_configuration(command)
}

/// Whether the command creates or reinitializes a repository.
pub fn makes_repository(command: &Command) -> bool {
    git_subcommand(command).is_some_and(|call| call.name == "init")
}

/// Whether the line removes or moves working trees of a repository, and no command other than git
/// writes a file.
pub fn moves_worktrees(line: &ShellLine) -> bool {
    const HARMLESS_COMMANDS: [&str; 11] =
        ["[", "cat", "cd", "echo", "git", "head", "ls", "printf", "pwd", "tail", "test"];
    let moves = |command: &Command| {
        let call =
            git_subcommand(command).filter(|call| call.name == "worktree" && !call.configured);
        let verb = call.and_then(|call| operands_of(call.words).first().copied());
        verb.is_some_and(|verb| ["remove", "move", "prune"].contains(&verb))
    };
    let is_plain = |command: &Command| {
        command.name().is_some_and(|name| HARMLESS_COMMANDS.contains(&name))
            && command.assignments.is_empty()
    };
    line.unanalyzable_reason.is_none()
        && line.commands.iter().all(is_plain)
        && line.redirections.iter().all(is_harmless_redirection)
        && line.commands.iter().any(moves)
}

/// Returns the words of `worktree add` or `init` that are neither options nor values of options.
fn operands_of(words: &[Word]) -> Vec<&str> {
    const VALUED: [&str; 7] = [
        "-b",
        "-B",
        "--reason",
        "--initial-branch",
        "--template",
        "--object-format",
        "--ref-format",
    ];
    let mut words = words.iter().filter_map(|word| word.text.as_deref());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if VALUED.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            found.push(word);
        }
    }
    found
}

/// Whether the word is the option, with or without a value after `=`. A short option may be
/// combined with others (`-fu`).
fn is_option(word: &str, name: &str) -> bool {
    let long = name.starts_with("--");
    if long || word.starts_with("--") {
        return word.split('=').next() == Some(name);
    }
    let letter = name.chars().nth(1);
    word.starts_with('-') && word.chars().skip(1).any(|other| Some(other) == letter)
}

/// Whether a start point looks like a remote branch (`origin/main`), which git records as the
/// upstream of the new branch.
fn is_remote(word: &&str) -> bool {
    word.split_once('/').is_some_and(|(remote, branch)| !remote.is_empty() && !branch.is_empty())
}

/// Whether `git config` with these words writes: it reads if it has a reading option or verb, or a
/// name without a value.
fn config(words: &[&str]) -> bool {
    const OTHER_SCOPE_FLAGS: [&str; 6] =
        ["--global", "--system", "-f", "--file", "--blob", "--worktree"];
    const READING: [&str; 9] = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--get-color",
        "--get-colorbool",
        "--list",
        "-l",
        "--name-only",
    ];
    let any =
        |names: &[&str]| words.iter().any(|word| names.iter().any(|name| is_option(word, name)));
    if any(&OTHER_SCOPE_FLAGS) || any(&READING) {
        return false;
    }
    let mut operands = words.iter().filter(|word| !word.starts_with('-'));
    match operands.next() {
        Some(&("set" | "unset" | "rename-section" | "remove-section" | "edit")) => true,
        Some(&("get" | "list")) | None => any(&["--edit", "-e"]),
        Some(_) => {
            let changing =
                ["--unset", "--unset-all", "--add", "--replace-all", "--remove-section", "--edit"];
            operands.next().is_some() || any(&changing)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bash::analyze;

    #[test]
    fn git_config_writes_are_distinguished_from_reads() {
        let writes = |line: &str| analyze(line).commands.iter().any(writes_git_configuration);
        for line in [
            "git checkout -b f --track main",
            "git checkout -b f origin/main",
            "git checkout -t origin/f",
            "git switch -c f --track=direct main",
            "git branch --set-upstream-to=origin/main",
            "git branch -u main",
            "git branch -m old new",
            "git branch -D f",
            "git branch f origin/main",
            "git remote add x http://x/y",
            "git remote set-url origin x",
            "git push -u origin f",
            "git push -fu origin f",
            "git push --set-upstream origin f",
            "git config user.name me",
            "git config --unset core.pager",
            "git config set core.pager less",
            "git -c core.pager=cat config user.name me",
            "git submodule update --init",
            "cd src && git remote add x y",
            "git init . --initial-branch=x",
            "git worktree add --track -b z1 wz up/main",
            "git worktree add -b z2 wz2 up/main",
            "git worktree add ../a/b origin/main",
            "git sparse-checkout set a",
            "git init -q",
            "git init -b main",
        ] {
            assert!(writes(line), "{line}");
        }
        for line in [
            "git checkout -b f",
            "git checkout -b f main",
            "git checkout -b a/b",
            "git checkout main -- src/main.rs",
            "git checkout --no-track -b f origin/main",
            "git branch --list",
            "git remote -v",
            "git remote show origin",
            "git push origin f",
            "git config --get user.name",
            "git config user.name",
            "git config --global user.name me",
            "git config list",
            "git -C other remote add x y",
            "git submodule status",
            "git worktree add ../w/t",
            "git worktree add -b feature/x ../w/t main",
            "git worktree add --no-track -b x wz up/main",
            "git worktree list",
            "git sparse-checkout list",
            "git init other",
            "git status",
            "echo git remote add x y",
        ] {
            assert!(!writes(line), "{line}");
        }
    }

    #[test]
    fn worktree_move_lines_are_recognized() {
        let moves = |line: &str| moves_worktrees(&analyze(line));
        for line in
            ["git worktree remove w", "cd a && git worktree move --force w x; git worktree list"]
        {
            assert!(moves(line), "{line}");
        }
        for line in [
            "git worktree add w",
            "git worktree remove w; echo x > w/.git",
            "git worktree remove w && sh x",
            "git -c alias.worktree=x worktree remove w",
            "GIT_DIR=x git worktree prune",
        ] {
            assert!(!moves(line), "{line}");
        }
    }
}
