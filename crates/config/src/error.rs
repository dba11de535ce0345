//! What makes a configuration unusable. Every variant ends the program with
//! exit code 52: the user must correct a file.

use std::path::PathBuf;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Broken JSON.
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
        /// What the parser says.
        message: String,
    },
    /// JSON, but no object.
    #[error(
        "Error in {path}: the file must hold one JSON object, at least `{{}}`; correct it and try again"
    )]
    NotAnObject {
        /// The file.
        path: PathBuf,
    },
    /// An editor's file of keys that is none.
    #[error(
        "Error in {path}: it must hold one JSON list of key bindings ({why}); correct it and try again"
    )]
    NotKeyBindings {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The file is there and cannot be read.
    #[error("Error in {path}: cannot read the file: {source}; check its permissions and try again")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder, a pipe, a device.
    #[error("Error in {path}: this is not a regular file; replace it and try again")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A file of a project that is a link to one outside of it.
    #[error("`{path}` is not read: it is a link to what lies outside the project")]
    LeadsOut {
        /// The path.
        path: PathBuf,
    },
    /// Far larger than anything a person writes.
    #[error("Error in {path}: the file is larger than {limit} bytes; shorten it and try again")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A trust rule that says nothing known.
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
    /// The kept key cannot be used.
    #[error("Error in {path}: {why}; remove the file and give the key anew")]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file of ours that cannot be written.
    #[error("Cannot write {path}: {source}; check the permissions of its folder and try again")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process is writing the file and does not come to an end.
    #[error(
        "Cannot write {path}: another process holds `{lock}`; wait until it has ended and try again"
    )]
    Locked {
        /// The file.
        path: PathBuf,
        /// The lock file.
        lock: PathBuf,
    },
    /// A folder that no rule can name.
    #[error("Cannot name the folder {path} in a rule: {why}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A variable that would let the working directory speak for itself.
    #[error("`{variable}` must be an absolute path, not `{value}`; correct it and try again")]
    RelativePath {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// No home directory.
    #[error("Cannot tell the home directory; set `HOME` (or `GEMINI_CLI_HOME`) and try again")]
    NoHome,
}
