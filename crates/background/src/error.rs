//! Errors of background sessions.

use std::io;
use std::path::PathBuf;

/// Why an operation on a background session failed. The user can act on every variant.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// A file cannot be read or written.
    #[error("Failed to access `{}`: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No session has this id.
    #[error("Unknown background session `{0}`; `parallax ps --all` lists them")]
    Unknown(String),
    /// Several sessions match this ID prefix.
    #[error("Several background sessions match `{0}`: {1}")]
    Ambiguous(String, String),
    /// The session has ended.
    #[error("The session {0} is not running; continue it with `parallax --resume {0}`")]
    NotRunning(String),
    /// The session runs in another version of the program, so that its events cannot be shown.
    #[error("The session {0} was started by another version of Parallax")]
    OtherVersion(String),
    /// The session rejected a line.
    #[error("The session rejected the input: {0}")]
    Rejected(String),
}
