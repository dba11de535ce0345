//! What a git command line says.

use super::line::{Command, Line, Word};

/// A call of git, its global options gone over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitCall<'c> {
    /// `log`, `commit`, …
    pub name: &'c str,
    /// The words behind it.
    pub rest: &'c [Word],
    /// Options in front of it name another repository or folder (`-C`,
    /// `--git-dir`, `--work-tree`, `--namespace`).
    pub elsewhere: bool,
    /// Options in front of it set configuration or programs (`-c`,
    /// `--config-env`, `--exec-path`, `-p`), or are not known.
    pub configured: bool,
}

/// Whether git runs anywhere in the line.
pub fn uses_git(line: &Line) -> bool {
    line.commands
        .iter()
        .any(|command| command.name().is_none_or(|name| name == "git" || name.starts_with("git-")))
}

/// The subcommand of a git call and what stands around it. Nothing when it is
/// no git call, or only the run tells the subcommand.
pub fn git_subcommand(command: &Command) -> Option<GitCall<'_>> {
    if command.name()? != "git" {
        return None;
    }
    subcommand(command.arguments())
}

pub(super) fn subcommand(arguments: &[Word]) -> Option<GitCall<'_>> {
    let mut elsewhere = false;
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
                elsewhere = true;
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
                let rest = arguments.get(at..).unwrap_or_default();
                return Some(GitCall { name: text, rest, elsewhere, configured });
            }
        }
    }
    None
}
