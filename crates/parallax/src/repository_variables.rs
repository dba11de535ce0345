//! Keeps variables of a git hook (`GIT_DIR`, `GIT_INDEX_FILE`) out of worktrees: every git command
//! there, of setup commands, checks, and agents, would use the repository of the hook.

use std::process::Command;

use parallax_config::{Environment, UserDirs};
use parallax_tools::is_repository_variable;

use crate::async_command::AsyncCommand;
use crate::invocation::Invocation;

/// Restarts the program without these variables if it will work in a worktree that Parallax
/// creates, so that all code and all child processes see the same values.
#[expect(clippy::disallowed_methods, reason = "it replaces this process and starts no child")]
pub(crate) fn remove(invocation: &Invocation) {
    use std::os::unix::process::CommandExt as _;

    let names: Vec<_> = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| is_repository_variable(name))
        .collect();
    if names.is_empty() || !(uses_worktree(invocation) || is_in_worktree()) {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    for name in names {
        command.env_remove(name);
    }
    // Returns only on failure, for example because the program was deleted.
    let error = command.exec();
    tracing::warn!(%error, "failed to remove the variables of a git hook");
}

fn uses_worktree(invocation: &Invocation) -> bool {
    match invocation {
        Invocation::Async(AsyncCommand::Batch(_)) => true,
        Invocation::Async(AsyncCommand::Background { flags, .. }) => flags.worktree.is_some(),
        Invocation::Async(
            AsyncCommand::Prompt { flags, .. } | AsyncCommand::Interactive { flags, .. },
        ) => flags.worktree.is_some(),
        Invocation::Async(_) | Invocation::Blocking(_) => false,
    }
}

/// Whether the working directory is in a worktree that Parallax created.
fn is_in_worktree() -> bool {
    let Ok(directory) = std::env::current_dir() else { return false };
    let dirs = UserDirs::find(&Environment::new(std::env::vars_os()), &directory);
    dirs.is_ok_and(|dirs| parallax_config::worktrees::worktree_of(&dirs, &directory).is_some())
}
