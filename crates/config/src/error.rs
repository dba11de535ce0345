//! Errors that make the configuration unusable. Every variant ends the program with exit code 52:
//! the user must correct a file.

use std::path::PathBuf;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Invalid JSON.
    #[error(
        "Error in {path}:{line}:{column}: {message}; correct the file (comments and trailing commas are allowed) and try again"
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
        /// The message of the parser.
        message: String,
    },
    /// JSON that is not an object.
    #[error(
        "Error in {path}: the file must contain one JSON object, at least `{{}}`; correct it and \
         try again"
    )]
    NotAnObject {
        /// The file.
        path: PathBuf,
    },
    /// An invalid key bindings file of an editor.
    #[error(
        "Error in {path}: the file must contain a JSON array of key bindings ({reason}); correct it \
         and try again"
    )]
    NotKeyBindings {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file exists but cannot be read.
    #[error(
        "Error in {path}: failed to read the file: {source}; check its permissions and try \
        again"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The path is a directory, a pipe, or a device.
    #[error("Error in {path}: not a regular file; replace it and try again")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A project file that is a symlink to a path outside of the project.
    #[error("`{path}` is ignored: it is a link to a file outside the project")]
    OutsideProject {
        /// The path.
        path: PathBuf,
    },
    /// The file is much larger than any valid file.
    #[error("Error in {path}: the file is larger than {limit} bytes; shorten it and try again")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A trust rule with an unknown value.
    #[error(
        "Error in {path}: the value {value} of `{folder}` is not `TRUST_FOLDER`, `TRUST_PARENT` or `DO_NOT_TRUST`; correct it and try again"
    )]
    TrustValue {
        /// The file.
        path: PathBuf,
        /// The rule's folder.
        folder: String,
        /// The value as JSON.
        value: String,
    },
    /// The stored key cannot be used.
    #[error("Error in {path}: {reason}; remove the file and enter the key again")]
    Credentials {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file of Parallax cannot be written.
    #[error(
        "Failed to write {path}: {source}; check the permissions of its directory and try \
        again"
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another process holds the lock of the file for too long.
    #[error(
        "Failed to write {path}: another process holds `{lock}`; wait until it has ended and try \
         again"
    )]
    Locked {
        /// The file.
        path: PathBuf,
        /// The lock file.
        lock: PathBuf,
    },
    /// A folder for which no rule can be written.
    #[error("Cannot create a rule for the folder {path}: {reason}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A variable with a relative path, which would let the working directory control it.
    #[error("`{variable}` must be an absolute path, not `{value}`; correct it and try again")]
    RelativePath {
        /// The variable.
        variable: &'static str,
        /// The value.
        value: String,
    },
    /// There is no home directory.
    #[error("Cannot determine the home directory; set `HOME` (or `GEMINI_CLI_HOME`) and try again")]
    NoHome,
}
