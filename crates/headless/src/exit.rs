//! The exit codes. Their table is the invocation of `exit_codes!`; `docs/reference/exit-codes.md`
//! is generated from it.

use parallax_protocol::event::{Failure, FailureKind};

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(pub u8);

/// Declares the exit codes. Their documentation is also the text of the reference page.
macro_rules! exit_codes {
    ($($(#[doc = $line:literal])+ $name:ident = $code:literal;)+) => {
        impl ExitCode {
            $($(#[doc = $line])+ pub const $name: Self = Self($code);)+
        }

        /// The codes with their documentation, in ascending order.
        #[cfg(test)]
        pub(crate) const EXIT_CODES: &[(ExitCode, &str)] =
            &[$((ExitCode::$name, concat!($($line),+))),+];
    };
}

exit_codes! {
    /// The run produced an answer, a tool or hook stopped it (`continue: false`), or the reader of
    /// standard output went away.
    SUCCESS = 0;
    /// Any other failure: the service failed, the answer was invalid or blocked for safety, a hook
    /// denied the prompt, the request, or the answer, or the arguments were wrong.
    GENERAL = 1;
    /// Credentials are missing or wrong. A key without permission (HTTP 403) exits with 1.
    AUTH = 41;
    /// Invalid input: no prompt, an unknown session, or a schema that cannot be read.
    INPUT = 42;
    /// The requested sandbox is not available.
    SANDBOX = 44;
    /// Settings or rules cannot be used.
    CONFIG = 52;
    /// The limit of model requests (`--max-turns`, `model.maxSessionTurns`) was reached.
    TURN_LIMIT = 53;
    /// A tool failed permanently, for example because the disk is full.
    TOOL = 54;
    /// The directory is not trusted.
    UNTRUSTED = 55;
    /// Loop detection stopped the run.
    LOOP = 56;
    /// A budget for cost, tokens, or time was used up, or a hook continued the agent 100 times.
    BUDGET = 57;
    /// A quota or rate limit of the provider was reached; a later run may succeed.
    QUOTA = 75;
    /// The run was cancelled with Ctrl+C or by an operation.
    CANCELLED = 130;
}

impl ExitCode {
    /// Returns the exit code of a run ended by a signal.
    pub fn signal(number: u8) -> Self {
        Self(number.saturating_add(128))
    }

    /// Returns the exit code of a failure.
    pub fn for_failure(failure: &Failure) -> Self {
        match failure.kind {
            // The key is valid but lacks a permission.
            FailureKind::Auth if failure.status == Some(403) => Self::GENERAL,
            FailureKind::Auth => Self::AUTH,
            FailureKind::Input => Self::INPUT,
            FailureKind::Config => Self::CONFIG,
            FailureKind::Sandbox => Self::SANDBOX,
            FailureKind::Untrusted => Self::UNTRUSTED,
            FailureKind::Tool => Self::TOOL,
            FailureKind::Quota => Self::QUOTA,
            FailureKind::Continuations => Self::BUDGET,
            FailureKind::Api if failure.status == Some(429) => Self::QUOTA,
            FailureKind::Api
            | FailureKind::InvalidStream
            | FailureKind::Blocked
            | FailureKind::Overflow
            | FailureKind::Internal => Self::GENERAL,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.0)
    }
}
