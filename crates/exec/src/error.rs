//! Errors before a command runs.

use std::io;
use std::path::PathBuf;

/// A command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Neither `bash` nor `sh` was found.
    #[error("no shell found: neither `bash` nor `sh` is on the path")]
    NoShell,
    /// The working directory does not exist.
    #[error("the folder `{}` does not exist or is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// The system refused.
    #[error("`{program}` could not be started: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The sandbox cannot be set up.
    #[error("the sandbox of the command cannot be built: {0}")]
    Sandbox(String),
    /// The session is ending: nothing more is started.
    #[error("the session is ending, no command is started any more")]
    Closed,
}
