//! Errors of requests to servers.

use std::time::Duration;

/// Why a request to a server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The server could not be started or reached.
    #[error("it failed to start: {reason}")]
    Start {
        /// The reason.
        reason: String,
    },
    /// The server requires a sign-in.
    #[error("{}", match is_renewal {
        true => "its sign-in is no longer valid",
        false => "it requires authentication",
    })]
    SignIn {
        /// Whether an earlier sign-in is no longer valid.
        is_renewal: bool,
    },
    /// The server is not running and will not be started.
    #[error("{reason}")]
    Closed {
        /// The reason.
        reason: String,
    },
    /// The connection was lost.
    #[error("the connection to it was lost")]
    Lost,
    /// The request did not arrive, or the server could not answer it now: it may be sent again.
    #[error("the request failed: {reason}")]
    Sending {
        /// The reason.
        reason: String,
    },
    /// The request arrived and was rejected.
    #[error("it rejected the request: {reason}")]
    Refused {
        /// The message from the server, or its meaning.
        reason: String,
    },
    /// The server did not answer in time.
    #[error("no response within {} ms", after.as_millis())]
    Timeout {
        /// The timeout.
        after: Duration,
    },
    /// The server returned an error.
    #[error("{message}")]
    Server {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
    },
    /// The answer could not be parsed.
    #[error("its response is invalid: {message}")]
    Protocol {
        /// What is invalid.
        message: String,
    },
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
}

impl McpError {
    /// Whether the text quotes the server.
    pub(crate) fn is_quoted(&self) -> bool {
        matches!(
            self,
            Self::Start { .. }
                | Self::Sending { .. }
                | Self::Refused { .. }
                | Self::Server { .. }
                | Self::Protocol { .. }
        )
    }

    /// Formats the error for the user, with a command that helps. `server` is the name of the
    /// server.
    pub(crate) fn with_command(&self, server: &str) -> String {
        match self {
            Self::SignIn { is_renewal } => format!(
                "{self}: sign in{} with `/mcp auth {server}` or `parallax mcp auth {server}`",
                if *is_renewal { " again" } else { "" }
            ),
            other => other.to_string(),
        }
    }
}
