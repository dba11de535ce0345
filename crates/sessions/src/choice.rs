//! Which session to open.

use std::path::PathBuf;

/// Which session to start or resume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new session with a generated id.
    #[default]
    New,
    /// A new session that replaces the open one.
    Clear,
    /// A new session with this id.
    WithId(String),
    /// Resumes a session, given as `latest`, an index, an id, or an unambiguous id prefix.
    Resume(String),
    /// A new session imported from a file of Parallax or another tool.
    Import(PathBuf),
    /// A new session that starts with a copy of another session's history.
    Fork {
        /// The session to copy, in the format of [`SessionChoice::Resume`].
        from: String,
        /// Number of contents to copy; `None` copies all.
        keep_contents: Option<usize>,
    },
    /// A new session that starts with another session's history up to a prompt.
    ForkBefore {
        /// The session to copy, in the format of [`SessionChoice::Resume`].
        from: String,
        /// Number of the prompt, counted from 1. The prompt itself is not copied.
        prompt: u64,
    },
    /// Resumes a session after removing the end of its history.
    Rewind {
        /// Id of the session.
        id: String,
        /// Number of contents to keep.
        keep_contents: usize,
    },
}
