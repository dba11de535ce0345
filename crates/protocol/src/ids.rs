//! Identifiers, as distinct types so that they cannot be confused.

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Creates an id from a string without checking it.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
            /// Returns the text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
    };
}

text_id! {
    /// A conversation and its journal. Allowed characters: `[A-Za-z0-9_-]`.
    SessionId
}
text_id! {
    /// A function call, unique within a session. The id of the service if it sent one, otherwise
    /// generated (see [`crate::content::FunctionCall::id`]).
    CallId
}
text_id! {
    /// A visible item (a message, a tool call, a notice).
    ItemId
}
text_id! {
    /// A steering message. The front end that sends it chooses an id that is unique in the session.
    SteerId
}
text_id! {
    /// An open approval request.
    ApprovalId
}

impl SessionId {
    /// Whether the text is a valid session id, and thus a valid file name.
    pub fn is_valid(text: &str) -> bool {
        !text.is_empty()
            && text.len() <= 128
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    }
}
