//! Why a batch cannot be run, read, or applied.

use std::io;
use std::path::PathBuf;

use parallax_protocol::event::Failure;

/// Why a batch cannot be run, read, or applied. A failed task is not an error of the batch.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The plan is invalid. The user can correct it.
    #[error("Invalid plan `{}`: {message}", file.display())]
    Plan {
        /// The plan.
        file: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A file cannot be read.
    #[error("Failed to read `{}`: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("Failed to write `{}`: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file exists that must not be replaced.
    #[error("`{}` already exists with other contents; choose another name, or replace it with `--force`", .0.display())]
    Exists(PathBuf),
    /// Another process runs a batch with the same directory.
    #[error("Another batch is running with `{}`; wait for it, or use another `--out`", .0.display())]
    Busy(PathBuf),
    /// Another process runs the task. It can be tried again later.
    #[error("Another process is running the task in `{}`", .0.display())]
    TaskBusy(PathBuf),
    /// The input is wrong in another way.
    #[error("{0}")]
    Input(String),
    /// What git or the worktree reports.
    #[error("{}", .0.message)]
    Git(Failure),
}

impl From<Failure> for BatchError {
    fn from(failure: Failure) -> Self {
        Self::Git(failure)
    }
}
