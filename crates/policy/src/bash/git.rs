//! Parses git command lines.

use super::line::{Command, ShellLine, Word};

/// A git command after its global options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitCall<'c> {
    /// The subcommand: `log`, `commit`, …
    pub name: &'c str,
    /// The words after the subcommand.
    pub words: &'c [Word],
    /// Whether global options select another repository or directory (`-C`, `--git-dir`,
    /// `--work-tree`, `--namespace`).
    pub selects_other_repository: bool,
    /// Whether global options set configuration or programs (`-c`, `--config-env`, `--exec-path`,
    /// `-p`) or are unknown.
    pub configured: bool,
}

/// Whether the line runs git.
pub fn uses_git(line: &ShellLine) -> bool {
    line.commands
        .iter()
        .any(|command| command.name().is_none_or(|name| name == "git" || name.starts_with("git-")))
}

/// Returns the subcommand of a git command and the words around it. Returns `None` if the command
/// is not git or the subcommand is known only at run time.
pub fn git_subcommand(command: &Command) -> Option<GitCall<'_>> {
    if command.name()? != "git" {
        return None;
    }
    subcommand(command.arguments())
}

pub(super) fn subcommand(arguments: &[Word]) -> Option<GitCall<'_>> {
    let mut selects_other_repository = false;
    let mut configured = false;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let text = word.text.as_deref().filter(|_| !word.glob)?;
        at += 1;
        let (name, glued) = match text.split_once('=') {
            Some((name, _)) => (name, true),
            None => (text, false),
        };
        match name {
            "--no-pager"
            | "-P"
            | "--no-optional-locks"
            | "--no-replace-objects"
            | "--literal-pathspecs"
            | "--glob-pathspecs"
            | "--noglob-pathspecs"
            | "--icase-pathspecs"
            | "--no-lazy-fetch"
            | "--no-advice"
            | "--bare" => {}
            "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--attr-source" => {
                selects_other_repository = true;
                at += usize::from(!glued);
            }
            "-c" | "--config-env" => {
                configured = true;
                at += usize::from(!glued);
            }
            "--super-prefix" | "--list-cmds" => configured = true,
            _ if name.starts_with('-') => {
                configured = true;
                if matches!(
                    name,
                    "--version"
                        | "-v"
                        | "--help"
                        | "-h"
                        | "--html-path"
                        | "--man-path"
                        | "--info-path"
                ) {
                    return None;
                }
            }
            _ => {
                let words = arguments.get(at..).unwrap_or_default();
                return Some(GitCall { name: text, words, selects_other_repository, configured });
            }
        }
    }
    None
}
