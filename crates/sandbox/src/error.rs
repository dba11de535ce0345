//! Errors that occur before a command runs.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a plan cannot be passed to the supervisor.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A path of the plan is relative or contains `..`.
    #[error("the sandbox requires resolved paths, but `{}` is not resolved", .0.display())]
    NotReal(PathBuf),
    /// A writable tree is so large that nothing would be confined.
    #[error("`{}` cannot be a writable directory: it contains the whole system", .0.display())]
    TooBroad(PathBuf),
    /// The plan could not be written to a file for the supervisor.
    #[error("the sandbox plan could not be written to `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The plan could not be serialized to JSON, for example because a path is not UTF-8.
    #[error("the sandbox plan could not be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

/// Why session namespaces or a probe could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The process could not be started.
    #[error("the sandbox could not start itself from `{}`: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kernel does not support what session namespaces require.
    #[error("failed to create namespaces for the session: {0}")]
    Unsupported(String),
}
