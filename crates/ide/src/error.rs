//! Errors of the connection and of requests to the companion.

use std::path::PathBuf;

/// Why there is no connection to the companion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// No companion was found, and this is not the terminal of a known editor.
    #[error(
        "no companion found, and this is not the integrated terminal of a supported editor. \
         Supported: VS Code and its variants, JetBrains IDEs, Zed, Sublime Text, Xcode"
    )]
    NotSupported,
    /// The editor is known, but no companion runs in it.
    #[error(
        "no companion found in {editor}. Install the extension with /ide install, then reload \
         the editor window"
    )]
    CompanionMissing {
        /// The editor's name.
        editor: String,
    },
    /// The editor has no folder open.
    #[error("no folder is open in {editor}. Open this project's folder in it")]
    NoWorkspace {
        /// The editor's name.
        editor: String,
    },
    /// The working directory is in none of the folders that are open in the editor.
    #[error(
        "the directory is not in a folder that is open in the editor. Start in one of: {}",
        folders.iter().map(|directory| directory.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    DirectoryMismatch {
        /// The folders of all editor windows.
        folders: Vec<PathBuf>,
    },
    /// A companion was found but did not accept the connection.
    #[error("{reason}. Run /ide doctor for details")]
    Failed {
        /// What happened.
        reason: String,
    },
    /// The connection ended.
    #[error("the connection to {editor} was lost")]
    Lost {
        /// The editor's name.
        editor: String,
    },
    /// The user turned the connection off.
    #[error("turned off. Connect with /ide enable")]
    Disabled,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("no response within {seconds} s")]
    TimedOut { seconds: u64 },
    #[error("the server rejected the token (HTTP 401)")]
    Unauthorized,
    #[error("the server responded with HTTP {status}")]
    Status { status: u16 },
    #[error("{reason}")]
    Connection { reason: String },
    #[error("the response is not valid: {reason}")]
    Invalid { reason: String },
    #[error("{message}")]
    Rpc { message: String },
}
