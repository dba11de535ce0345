//! Why a session cannot be loaded.

use std::io;
use std::path::PathBuf;

use crate::cipher::CipherError;

/// Why a session cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An I/O operation failed.
    #[error("failed to read the session file `{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The session is encrypted and cannot be decrypted.
    #[error("the session file `{}` is encrypted and cannot be decrypted: {reason}", .path.display())]
    Encrypted {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: CipherError,
    },
    /// The file does not contain a session.
    #[error("`{}` is not a session file: {reason}", .path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}
