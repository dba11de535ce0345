use std::path::{Path, PathBuf};

/// Why an evaluation cannot run.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A file or directory cannot be used.
    #[error("`{}`: {problem}", path.display())]
    Path {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong and how to fix it.
        problem: String,
    },
    /// Options that contradict each other or do not apply.
    #[error("{0}")]
    Usage(String),
}

impl EvalError {
    pub(crate) fn path(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Path { path: path.to_owned(), problem: problem.to_string() }
    }
}
