//! Errors of building a confinement.

use std::fmt::Display;

use rustix::io::Errno;

/// Why a confinement failed. [`Self::Unsupported`] means that a weaker tier may work; the others
/// apply to every tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SandboxFailure {
    /// The kernel or the environment does not support something.
    Unsupported(String),
    /// The plan cannot be carried out.
    Refused(String),
    /// The confinement works, but the program could not be started: the exit code that a shell
    /// would return, and the message.
    NotStarted(u8, String),
}

pub(crate) type SandboxResult<T> = Result<T, SandboxFailure>;

/// Converts an error of a system call into a failure with a description of what was tried.
pub(crate) trait FailureContextExt<T> {
    fn unsupported(self, what: impl Display) -> SandboxResult<T>;
    fn refused(self, what: impl Display) -> SandboxResult<T>;
}

impl<T, E: Display> FailureContextExt<T> for Result<T, E> {
    fn unsupported(self, what: impl Display) -> SandboxResult<T> {
        self.map_err(|error| SandboxFailure::Unsupported(format!("{what}: {error}")))
    }

    fn refused(self, what: impl Display) -> SandboxResult<T> {
        self.map_err(|error| SandboxFailure::Refused(format!("{what}: {error}")))
    }
}

impl SandboxFailure {
    /// Encodes the kind as one byte followed by the message, for the pipe between child and
    /// supervisor.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, code, words) = match self {
            Self::Unsupported(words) => (b'u', 0, words),
            Self::Refused(words) => (b'r', 0, words),
            Self::NotStarted(code, words) => (b'n', *code, words),
        };
        let mut bytes = vec![kind, code];
        bytes.extend_from_slice(words.as_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, code, words) = match bytes {
            [kind, code, words @ ..] => (*kind, *code, String::from_utf8_lossy(words).into_owned()),
            _ => return None,
        };
        Some(match kind {
            b'u' => Self::Unsupported(words),
            b'n' => Self::NotStarted(code, words),
            _ => Self::Refused(words),
        })
    }
}

/// Whether the error means that the path does not exist (or has a file as a parent).
pub(crate) fn is_missing(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_round_trips_through_the_pipe() {
        for failure in [
            SandboxFailure::Unsupported("a".into()),
            SandboxFailure::Refused("no `b`".into()),
            SandboxFailure::NotStarted(127, "c".into()),
        ] {
            assert_eq!(SandboxFailure::decode(&failure.encode()), Some(failure));
        }
        assert_eq!(SandboxFailure::decode(b""), None);
    }
}
