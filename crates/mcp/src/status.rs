//! The status of a server, for the user.

use std::time::Duration;

use parallax_config::mcp::{McpServer, StartBlock};

/// The status of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Not started; its cached tools are declared.
    Cached,
    /// Starting.
    Connecting,
    /// Ready.
    Connected,
    /// The connection was lost or never established.
    Disconnected,
    /// Disabled.
    Disabled,
    /// Not allowed by the settings.
    Blocked,
    /// The directory is not trusted.
    Untrusted,
    /// It requires a sign-in.
    NeedsSignIn,
}

impl Status {
    /// Returns the description.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cached => "ready (starts when called)",
            Self::Connecting => "starting",
            Self::Connected => "ready",
            Self::Disconnected => "disconnected",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Untrusted => "disabled (untrusted folder)",
            Self::NeedsSignIn => "requires authentication",
        }
    }

    pub(crate) fn for_start_block(start_block: StartBlock) -> Self {
        match start_block {
            StartBlock::Open => Self::Disconnected,
            StartBlock::Blocked => Self::Blocked,
            StartBlock::Disabled => Self::Disabled,
            StartBlock::Untrusted => Self::Untrusted,
        }
    }
}

/// A server and its status, for the user.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The configuration.
    pub config: McpServer,
    /// The status.
    pub status: Status,
    /// The last error.
    pub error: Option<String>,
    /// How long the handshake took.
    pub handshake: Option<Duration>,
    /// The name and version that the server reports.
    pub implementation: Option<String>,
    /// The end of its standard error output.
    pub stderr_tail: String,
    /// What it offers, without excluded tools.
    pub catalog: crate::Catalog,
    /// Notices for the user.
    pub notes: Vec<String>,
}
