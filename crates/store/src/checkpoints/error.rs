//! What can go wrong with a checkpoint or an undo.

use std::io;
use std::path::{Path, PathBuf};

/// A checkpoint that could not be made, or an undo that could not start.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The session changed nothing that is not undone already.
    #[error("there is nothing to undo in this session")]
    NothingToUndo,
    /// That turn changed nothing, or is undone already.
    #[error(
        "that prompt made no changes that could be undone; `parallax undo --list` shows those that did"
    )]
    UnknownTurn {
        /// The turn that was asked for.
        turn: u64,
    },
    /// The id cannot be a file name.
    #[error("`{session}` is no session id")]
    InvalidSession {
        /// The text.
        session: String,
    },
    /// The disk refuses.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl CheckpointError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
