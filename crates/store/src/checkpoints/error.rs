//! Errors of checkpoints and undo.

use std::io;
use std::path::{Path, PathBuf};

/// Why a checkpoint could not be created or an undo could not start.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The session has no changes that are not undone.
    #[error("nothing to undo in this session")]
    NothingToUndo,
    /// The turn changed nothing or is already undone.
    #[error(
        "that prompt made no changes that can be undone; `parallax undo --list` lists the prompts \
         that did"
    )]
    UnknownTurn {
        /// The requested turn.
        turn: u64,
    },
    /// The session ID cannot be a file name.
    #[error("invalid session id `{session}`")]
    InvalidSession {
        /// The session ID.
        session: String,
    },
    /// An I/O operation failed.
    #[error("failed to {action} `{}`: {source}", .path.display())]
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
