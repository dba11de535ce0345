//! Requests from servers to the user: forms, URLs to open, and sampling requests. A front end that
//! can show them provides an [`UserRequestHandler`]; without one, servers are informed that elicitation is not
//! supported.

use std::time::Duration;

use parallax_protocol::{BoxFuture, Object};
use serde_json::Value;

/// How long the user may take to respond.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// A request from a server to the user.
#[derive(Debug, Clone, PartialEq)]
pub enum UserRequest {
    /// Fill in a form.
    Form {
        /// The purpose.
        message: String,
        /// JSON Schema of a flat object.
        schema: Value,
    },
    /// Open a URL in a browser.
    Url {
        /// The purpose.
        message: String,
        /// The URL.
        url: String,
    },
    /// Sign in to the server. Parallax sends this request because the server requires it.
    SignIn {
        /// Whether an earlier sign-in is no longer valid.
        is_renewal: bool,
    },
    /// Let the model answer a sampling request from the server.
    Sample {
        /// The system prompt of the request; may be empty.
        system: String,
        /// The text of its messages.
        prompt: String,
        /// The maximum tokens of the answer.
        tokens: u64,
        /// The tokens that the server may still use in this session.
        remaining_tokens: u64,
    },
}

/// The response from the user.
#[derive(Debug, Clone, PartialEq)]
pub enum UserResponse {
    /// Accepted; for a form, with its values.
    Accept(Object),
    /// Declined.
    Decline,
    /// Dismissed.
    Cancel,
    /// Accepted, together with all later requests of this kind in this session
    /// ([`Question::Sample`]).
    Always,
    /// Declined, together with all later requests of this kind in this session. Sampling requests
    /// are one kind, elicitation requests the other.
    Never,
}

/// Shows requests from servers to the user.
pub trait UserRequestHandler: Send + Sync {
    /// Asks the user. `server` is the name of the server that asks.
    fn ask(&self, server: &str, question: UserRequest) -> BoxFuture<'static, UserResponse>;
}
