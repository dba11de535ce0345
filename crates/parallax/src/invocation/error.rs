//! Why a command line is not run.

use parallax_protocol::event::{Failure, FailureKind};

use crate::usage::UsageError;

/// Why nothing is run.
#[derive(Debug)]
pub(crate) enum InvocationError {
    Usage(UsageError),
    /// The help of a group of subcommands, when none of them is given.
    Group(String),
    Failure(Failure),
}

impl From<UsageError> for InvocationError {
    fn from(usage: UsageError) -> Self {
        Self::Usage(usage)
    }
}

/// Returns the error for an input that cannot be used.
pub(super) fn input_failure(message: impl Into<String>) -> InvocationError {
    InvocationError::Failure(Failure {
        kind: FailureKind::Input,
        message: message.into(),
        status: None,
    })
}

/// Returns the error for two flags that exclude each other.
pub(super) fn exclusive_flags_error(one: &str, other: &str) -> InvocationError {
    UsageError::new(format!("`{one}` and `{other}` cannot be used together"), "Omit one of them.")
        .into()
}
