use std::path::{Path, PathBuf};

/// Why an evaluation cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A file or directory cannot be used.
    #[error("`{}`: {problem}", path.display())]
    Path {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Options that do not go together, or have no meaning here.
    #[error("{0}")]
    Usage(String),
}

impl EvalError {
    pub(crate) fn path(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Path { path: path.to_owned(), problem: problem.to_string() }
    }
}
