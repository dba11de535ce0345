//! How a server stands, for people.

use std::time::Duration;

use parallax_config::mcp::{Gate, McpServer};

/// How a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Not started: what it offered earlier is declared.
    Cached,
    /// Starting.
    Connecting,
    /// Ready.
    Connected,
    /// Gone, or never came.
    Disconnected,
    /// Switched off.
    Disabled,
    /// Not allowed.
    Blocked,
    /// The folder is not trusted.
    Untrusted,
    /// It wants a sign-in.
    NeedsSignIn,
}

impl Status {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cached => "ready (starts when it is called)",
            Self::Connecting => "starting",
            Self::Connected => "ready",
            Self::Disconnected => "disconnected",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Untrusted => "disabled (the folder is not trusted)",
            Self::NeedsSignIn => "needs a sign-in",
        }
    }

    pub(crate) fn of_gate(gate: Gate) -> Self {
        match gate {
            Gate::Open => Self::Disconnected,
            Gate::Blocked => Self::Blocked,
            Gate::Disabled => Self::Disabled,
            Gate::Untrusted => Self::Untrusted,
        }
    }
}

/// A server for people.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// As it is configured.
    pub config: McpServer,
    /// How it stands.
    pub status: Status,
    /// What went wrong last.
    pub error: Option<String>,
    /// How long the start took.
    pub handshake: Option<Duration>,
    /// Its own name and version.
    pub implementation: Option<String>,
    /// What it wrote on standard error, the end of it.
    pub tail: String,
    /// What it offers; tools that do not count are left out.
    pub catalog: crate::Catalog,
    /// What people should hear about it.
    pub notes: Vec<String>,
}
