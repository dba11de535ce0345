//! A start without `HOME` (a systemd unit, cron, a bare container): the user's entry in
//! the password database says where the home directory is.

use std::path::Path;
use std::process::Command;

/// Starts the program again with `HOME` set, where it is missing or not absolute and the system
/// knows it. Everything below, and every child process, then reads one variable.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "it replaces this process and starts no child")]
pub(crate) fn restore() {
    use std::os::unix::process::CommandExt as _;

    let set = std::env::var_os("HOME");
    // A relative one would put the homes into whatever directory the session is in.
    if set.as_ref().is_some_and(|home| Path::new(home).is_absolute()) {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    match set {
        // The standard library asks the system only where the variable is missing.
        Some(_) => command.env_remove("HOME"),
        None => match std::env::home_dir().filter(|home| home.is_absolute()) {
            Some(home) => command.env("HOME", home),
            None => return,
        },
    };
    // It returns only when it failed; the run then ends with the error for a missing home.
    let _ = command.exec();
}

/// Elsewhere the system's own variables name the home directory.
#[cfg(not(unix))]
pub(crate) fn restore() {}
