//! Programs that tasks run.

use std::process::{Command, Stdio};

/// A command of this machine.
#[expect(
    clippy::disallowed_methods,
    reason = "`exec` is for children of a session; a task has none"
)]
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Returns what a tool prints, if it runs and succeeds.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let done = command(program).args(arguments).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}
