//! The exit codes.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | success; also if a tool or hook stopped the run (`continue: false`) or the reader of stdout is gone |
//! | 1 | any other failure: invalid arguments, provider failure, no valid answer, denial by a hook |
//! | 41 | missing or invalid credentials |
//! | 42 | invalid input: no prompt, unknown session, unreadable schema |
//! | 44 | the requested sandbox is not available |
//! | 52 | invalid settings |
//! | 53 | the limit of model requests was reached |
//! | 54 | a tool failed permanently (disk full) |
//! | 55 | the directory is not trusted |
//! | 56 | loop detection stopped the run |
//! | 57 | a budget for cost, tokens, or time is used up |
//! | 75 | a quota or rate limit of the provider is used up; may work later |
//! | 128 + n | ended by signal n (130: Ctrl+C) |

use parallax_protocol::event::{Failure, FailureKind};

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(pub u8);

impl ExitCode {
    /// The run produced an answer.
    pub const SUCCESS: Self = Self(0);
    /// A failure without a code of its own.
    pub const GENERAL: Self = Self(1);
    /// Missing or invalid credentials.
    pub const AUTH: Self = Self(41);
    /// Invalid input.
    pub const INPUT: Self = Self(42);
    /// The requested sandbox is not available.
    pub const SANDBOX: Self = Self(44);
    /// Invalid settings.
    pub const CONFIG: Self = Self(52);
    /// The limit of model requests was reached.
    pub const TURN_LIMIT: Self = Self(53);
    /// A tool failed permanently.
    pub const TOOL: Self = Self(54);
    /// The directory is not trusted.
    pub const UNTRUSTED: Self = Self(55);
    /// Loop detection stopped the run.
    pub const LOOP: Self = Self(56);
    /// A budget is used up.
    pub const BUDGET: Self = Self(57);
    /// A quota or rate limit is used up.
    pub const QUOTA: Self = Self(75);
    /// Cancelled with Ctrl+C or by an operation.
    pub const CANCELLED: Self = Self(130);

    /// Returns the exit code of a run ended by a signal.
    pub fn signal(number: u8) -> Self {
        Self(number.saturating_add(128))
    }

    /// Returns the exit code of a failure.
    pub fn of(failure: &Failure) -> Self {
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
