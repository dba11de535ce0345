//! Why a request to a server came to nothing.

use std::time::Duration;

/// Why a request to a server came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// It could not be started or reached.
    #[error("it cannot be started: {why}")]
    Start {
        /// Why.
        why: String,
    },
    /// It wants a sign-in.
    #[error("{}", match again {
        true => "its sign-in no longer counts",
        false => "it wants a sign-in",
    })]
    SignIn {
        /// There was one.
        again: bool,
    },
    /// It does not run and is not started.
    #[error("{why}")]
    Closed {
        /// Why not.
        why: String,
    },
    /// The connection broke.
    #[error("the connection to it was lost")]
    Lost,
    /// A message could not be sent.
    #[error("it could not be asked: {why}")]
    Sending {
        /// Why.
        why: String,
    },
    /// The network brought the request there, and it was refused.
    #[error("it refused the request: {why}")]
    Refused {
        /// Its words, or what they mean.
        why: String,
    },
    /// It did not answer in time.
    #[error("it gave no answer within {} ms", after.as_millis())]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// It answered with an error.
    #[error("{message}")]
    Server {
        /// The number of the error.
        code: i64,
        /// Its words.
        message: String,
    },
    /// Its answer was not understood.
    #[error("its answer was not understood: {message}")]
    Protocol {
        /// What is wrong with it.
        message: String,
    },
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
}

impl McpError {
    /// Whether its text holds words of the server's.
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

    /// The same for people, with what to do about it: `server` is whose it is.
    pub(crate) fn with_command(&self, server: &str) -> String {
        match self {
            Self::SignIn { again } => format!(
                "{self}: sign in{} with `/mcp auth {server}` or `parallax mcp auth {server}`",
                if *again { " again" } else { "" }
            ),
            other => other.to_string(),
        }
    }
}
