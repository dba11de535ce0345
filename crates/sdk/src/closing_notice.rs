//! Notices at the end of a session.

use std::fmt::{Display, Formatter};

/// What the user should know after a session closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosingNotice {
    /// The message.
    pub text: String,
    /// Whether something was lost. Formats for programs report only such notices.
    pub is_failure: bool,
}

impl ClosingNotice {
    pub(crate) fn info(text: String) -> Self {
        Self { text, is_failure: false }
    }

    pub(crate) fn failure(text: String) -> Self {
        Self { text, is_failure: true }
    }
}

impl Display for ClosingNotice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
