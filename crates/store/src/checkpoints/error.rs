//! Errors of checkpoints and undo.

use std::io;
use std::path::{Path, PathBuf};

/// Why a checkpoint could not be created or an undo could not start.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The session has no changes that are not undone.
    #[error("there is nothing to undo in this session")]
    NothingToUndo,
    /// The turn changed nothing or is already undone.
    #[error(
        "that prompt made no changes that could be undone; `parallax undo --list` shows those that did"
    )]
    UnknownTurn {
        /// The requested turn.
        turn: u64,
    },
    /// The session ID cannot be a file name.
    #[error("`{session}` is no session id")]
    InvalidSession {
        /// The session ID.
        session: String,
    },
    /// An I/O operation failed.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl CheckpointError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
