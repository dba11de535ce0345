//! What can go wrong before a command runs.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A plan that cannot be handed to the supervisor.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A path of the plan is relative or climbs with `..`.
    #[error("the sandbox needs real paths, and `{}` is not one", .0.display())]
    NotReal(PathBuf),
    /// A writable tree that would leave nothing confined.
    #[error("`{}` cannot be a writable tree: it holds the whole system", .0.display())]
    TooWide(PathBuf),
    /// The plan could not be written down for the supervisor.
    #[error("the sandbox plan could not be written to `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The plan could not be turned into JSON (a path that is not UTF-8).
    #[error("the sandbox plan could not be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

/// The cell of a session, or a probe, could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The process could not be started.
    #[error("the sandbox could not start itself from `{}`: {source}", program.display())]
    Spawn {
        /// The program that was started.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not give what a cell needs.
    #[error("no namespaces of its own for the session: {0}")]
    Unsupported(String),
}
