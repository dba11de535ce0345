//! Why something cannot be done with a background session.

use std::io;
use std::path::PathBuf;

/// Why something cannot be done with a background session. The user can act on all of them.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// A file cannot be read or written.
    #[error("Failed to access `{}`: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No session has this id.
    #[error("Unknown background session `{0}`; `parallax ps --all` lists them")]
    Unknown(String),
    /// Several ids begin so.
    #[error("Several background sessions begin with `{0}`: {1}")]
    Ambiguous(String, String),
    /// It has ended.
    #[error("The session {0} is not running; continue it with `parallax --resume {0}`")]
    NotRunning(String),
    /// The session rejected a line.
    #[error("The session did not accept this: {0}")]
    Rejected(String),
}
