//! Lines of git and programs that only print.

use parallax_policy::bash::{self, ShellLine};

/// Whether a command is often used together with git and only prints text.
pub(super) fn only_prints(name: Option<&str>) -> bool {
    matches!(
        name,
        Some(
            "cd" | "echo"
                | "printf"
                | "cat"
                | "head"
                | "tail"
                | "grep"
                | "wc"
                | "sort"
                | "true"
                | "pwd"
                | "ls"
                | "test"
                | "["
        )
    )
}

/// Whether a command of the line other than git may write a file.
pub(super) fn may_write_beside_git(line: &ShellLine) -> bool {
    let quiet =
        |command: &bash::Command| command.name() == Some("git") || only_prints(command.name());
    line.unanalyzable_reason.is_some()
        || !line.commands.iter().all(quiet)
        || !line.redirections.iter().all(bash::is_harmless_redirection)
}
