//! Errors that occur before a command runs.

use std::io;
use std::path::PathBuf;

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Neither `bash` nor `sh` was found.
    #[error("no shell found: neither `bash` nor `sh` is on `PATH`")]
    NoShell,
    /// The working directory does not exist.
    #[error("the directory `{}` does not exist or is not a directory", .0.display())]
    NoFolder(PathBuf),
    /// The program could not be started.
    #[error("failed to start `{program}`: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The sandbox cannot be set up.
    #[error("failed to set up the sandbox of the command: {0}")]
    Sandbox(String),
    /// The session is ending, so no further commands are started.
    #[error("the session is ending; no more commands can be started")]
    Closed,
}
