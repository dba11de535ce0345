//! Handles a start without `HOME` (a systemd unit, cron, or a bare container) by looking up the
//! home directory in the password database.

use std::path::Path;
use std::process::Command;

/// Restarts the program with `HOME` set if it is missing or not absolute and the system knows the
/// home directory, so that all code and all child processes see the same value.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "it replaces this process and starts no child")]
pub(crate) fn restore() {
    use std::os::unix::process::CommandExt as _;

    let set = std::env::var_os("HOME");
    // A relative home directory would depend on the working directory.
    if set.as_ref().is_some_and(|home| Path::new(home).is_absolute()) {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    match set {
        // The standard library asks the system only if the variable is missing.
        Some(_) => command.env_remove("HOME"),
        None => match std::env::home_dir().filter(|home| home.is_absolute()) {
            Some(home) => command.env("HOME", home),
            None => return,
        },
    };
    // Returns only on failure; the run then ends with the error about a missing home directory.
    let _ = command.exec();
}

/// Does nothing: on other systems, the system's own variables name the home directory.
#[cfg(not(unix))]
pub(crate) fn restore() {}
