//! Identifiers, as types of their own so that they cannot be mixed up.

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Wraps a text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
            /// The text of the id.
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
    /// One conversation and its journal. Charset `[A-Za-z0-9_-]`.
    SessionId
}
text_id! {
    /// One function call, unique inside a session. It is the server's id where
    /// it sent one, else ours (see [`crate::content::FunctionCall::id`]).
    CallId
}
text_id! {
    /// One visible item (a message, a tool call, a notice).
    ItemId
}
text_id! {
    /// One message for a running turn, named by the face that sends it. A face
    /// uses each name once in a session.
    SteerId
}
text_id! {
    /// One open question to the user.
    AskId
}

impl SessionId {
    /// Whether the text may serve as a session id (and so as a file name).
    pub fn is_valid(text: &str) -> bool {
        !text.is_empty()
            && text.len() <= 128
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    }
}
