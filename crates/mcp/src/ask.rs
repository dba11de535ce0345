//! Questions of servers to the person: forms, addresses to open, and texts of
//! the model. A face that can ask gives an [`Asker`]; without one servers are
//! told that nobody can be asked.

use parallax_protocol::{BoxFuture, Object};
use serde_json::Value;

/// What a server asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Values for a form.
    Form {
        /// What it is for.
        message: String,
        /// JSON Schema of a flat object.
        schema: Value,
    },
    /// To open an address in a browser.
    Url {
        /// What it is for.
        message: String,
        /// The address.
        url: String,
    },
    /// To sign in to it. This program asks it, since the server wants that.
    SignIn {
        /// There was a sign-in, which no longer counts.
        again: bool,
    },
    /// To have the model answer for it.
    Sample {
        /// The system prompt of its own; may be empty.
        system: String,
        /// The texts of its messages.
        prompt: String,
        /// The most tokens that the answer may have.
        tokens: u64,
        /// How many tokens the server may still use in this session.
        left: u64,
    },
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Yes; for a form with its values.
    Accept(Object),
    /// No.
    Decline,
    /// They went away from it.
    Cancel,
    /// Yes, and to all others of its kind in this session ([`Question::Sample`]).
    Always,
    /// No, and to no other of its kind in this session: requests for the model
    /// are one kind, questions to the person the other.
    Never,
}

/// Puts questions of servers to a person.
pub trait Asker: Send + Sync {
    /// Asks. `server` is whose question it is.
    fn ask(&self, server: &str, question: Question) -> BoxFuture<'static, Answer>;
}
