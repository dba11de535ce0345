//! A program that is started, with its arguments and environment, and what leads its session.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use tokio::process::Command;

/// A program to start.
pub(crate) struct SpawnRequest {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// Which process creates the session of a command, so that nothing can prompt the user in the
/// terminal of this process.
pub(crate) enum SessionLeader {
    /// The program itself: the supervisor of a sandboxed command.
    Supervisor,
    /// A helper program, `setsid`.
    Helper(PathBuf),
    /// No session: the command only leads a process group.
    GroupOnly,
}

impl SessionLeader {
    pub(crate) fn from_helper(helper: Option<PathBuf>) -> Self {
        helper.map_or(Self::GroupOnly, Self::Helper)
    }

    /// Returns the command that runs the program without a terminal.
    pub(crate) fn command(&self, spawn: &SpawnRequest) -> Command {
        let mut command = match self {
            Self::Helper(helper) => helper_command(helper, &[], spawn),
            Self::Supervisor | Self::GroupOnly => direct_command(spawn),
        };
        if matches!(self, Self::GroupOnly) {
            command.process_group(0);
        }
        command
    }

    /// Returns the command that runs the program in the terminal that is its standard input.
    ///
    /// # Errors
    /// Returns an error if nothing would take the terminal.
    #[cfg(target_os = "linux")]
    pub(crate) fn command_in_terminal(&self, spawn: &SpawnRequest) -> std::io::Result<Command> {
        match self {
            Self::Helper(helper) => Ok(helper_command(helper, &["-c"], spawn)),
            Self::Supervisor => Ok(direct_command(spawn)),
            Self::GroupOnly => Err(std::io::Error::other("the program `setsid` is not installed")),
        }
    }
}

fn direct_command(spawn: &SpawnRequest) -> Command {
    let mut command = base_command(&spawn.program, spawn);
    command.args(&spawn.arguments);
    command
}

/// Returns the command that starts `helper` with the program as its arguments.
fn helper_command(helper: &Path, options: &[&str], spawn: &SpawnRequest) -> Command {
    let mut command = base_command(helper.as_os_str(), spawn);
    command.args(options).arg(&spawn.program).args(&spawn.arguments);
    command
}

fn base_command(program: &OsStr, spawn: &SpawnRequest) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is where commands are started")]
    let mut command = Command::new(program);
    command
        .current_dir(&spawn.directory)
        .env_clear()
        .envs(spawn.environment.iter().map(|(name, value)| (name, value)));
    command
}
