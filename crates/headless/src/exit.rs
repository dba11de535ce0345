//! The one table of exit codes.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | an answer is there; also: stopped by a tool or hook, reader of stdout gone |
//! | 1 | anything not named below: bad arguments, the service failed, no valid answer |
//! | 41 | no or wrong credentials |
//! | 42 | bad input: no prompt, unknown session, unreadable schema |
//! | 52 | settings that cannot be used |
//! | 53 | the limit of model requests is reached |
//! | 54 | a tool failed for good (disk full) |
//! | 55 | the folder is not trusted |
//! | 56 | the loop guard stopped the run |
//! | 57 | a budget of money, tokens or time is spent |
//! | 75 | a quota or rate limit of the service is spent; later it may work |
//! | 128 + n | ended by signal n (130: Ctrl-C) |

use parallax_protocol::event::{Failure, FailureKind};

/// A process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(pub u8);

impl ExitCode {
    /// An answer is there.
    pub const SUCCESS: Self = Self(0);
    /// Anything without a code of its own.
    pub const GENERAL: Self = Self(1);
    /// No or wrong credentials.
    pub const AUTH: Self = Self(41);
    /// Bad input.
    pub const INPUT: Self = Self(42);
    /// The sandbox that was asked for cannot be had.
    pub const SANDBOX: Self = Self(44);
    /// Settings that cannot be used.
    pub const CONFIG: Self = Self(52);
    /// The limit of model requests is reached.
    pub const TURN_LIMIT: Self = Self(53);
    /// A tool failed for good.
    pub const TOOL: Self = Self(54);
    /// The folder is not trusted.
    pub const UNTRUSTED: Self = Self(55);
    /// The loop guard stopped the run.
    pub const LOOP: Self = Self(56);
    /// A budget is spent.
    pub const BUDGET: Self = Self(57);
    /// A quota or rate limit is spent.
    pub const QUOTA: Self = Self(75);
    /// Cancelled with Ctrl-C, or by an order.
    pub const CANCELLED: Self = Self(130);

    /// The code of a run that the given signal ended.
    pub fn signal(number: u8) -> Self {
        Self(number.saturating_add(128))
    }

    /// The code of a failure.
    pub fn of(failure: &Failure) -> Self {
        match failure.kind {
            // The key is one; what it asks for is not for it.
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
