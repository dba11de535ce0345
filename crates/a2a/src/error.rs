//! Why a task failed.

/// An error of a remote agent. Its text is for the model that called it, and names what the user
/// can do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum A2aError {
    /// The card cannot be read.
    #[error("the agent card ({source_name}) cannot be used: {reason}")]
    Card {
        /// Where the card comes from.
        source_name: String,
        /// The reason.
        reason: String,
    },
    /// There are no credentials to send.
    #[error("no credentials for the agent: {0}")]
    Credentials(String),
    /// The agent cannot be reached, or ends the connection.
    #[error("the agent at {url} cannot be reached: {reason}")]
    Connection {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The agent rejects the credentials.
    #[error("the agent at {url} rejected the request ({status}){hint}")]
    Refused {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What to check.
        hint: String,
    },
    /// The agent answers with an error.
    #[error("the agent at {url} returned an error: {message}")]
    Answer {
        /// The address.
        url: String,
        /// The code of the protocol, if it has one.
        code: Option<i64>,
        /// The message.
        message: String,
    },
    /// The agent answers with something other than the protocol specifies.
    #[error("the agent at {url} sent an invalid Agent2Agent response: {reason}")]
    Protocol {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The task ended without a result.
    #[error("{0}")]
    Task(String),
}

impl A2aError {
    /// Whether the agent no longer knows the task or the conversation.
    pub(crate) fn is_unknown_task(&self) -> bool {
        const TASK_NOT_FOUND: i64 = -32001;
        matches!(self, Self::Answer { code: Some(TASK_NOT_FOUND | 404), .. })
    }
}
