//! Why a confinement could not be built.

use std::fmt::Display;

use rustix::io::Errno;

/// The two kinds of failure: one makes a weaker tier worth trying, the other
/// is about the plan and holds in every tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel, or what surrounds us, does not give this.
    Unsupported(String),
    /// The plan cannot be carried out.
    Refused(String),
    /// The confinement stands, but the program could not be started: the exit
    /// code that a shell would give, and the words.
    NotStarted(u8, String),
}

pub(crate) type Outcome<T> = Result<T, Failure>;

/// Turns an error of a system call into a failure that says what was tried.
pub(crate) trait Explain<T> {
    fn unsupported(self, what: impl Display) -> Outcome<T>;
    fn refused(self, what: impl Display) -> Outcome<T>;
}

impl<T, E: Display> Explain<T> for Result<T, E> {
    fn unsupported(self, what: impl Display) -> Outcome<T> {
        self.map_err(|error| Failure::Unsupported(format!("{what}: {error}")))
    }

    fn refused(self, what: impl Display) -> Outcome<T> {
        self.map_err(|error| Failure::Refused(format!("{what}: {error}")))
    }
}

impl Failure {
    /// One byte of kind and the words, for the pipe between child and supervisor.
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

/// Whether the path is simply not there (or leads through a file).
pub(crate) fn is_missing(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_the_pipe() {
        for failure in [
            Failure::Unsupported("a".into()),
            Failure::Refused("no `b`".into()),
            Failure::NotStarted(127, "c".into()),
        ] {
            assert_eq!(Failure::decode(&failure.encode()), Some(failure));
        }
        assert_eq!(Failure::decode(b""), None);
    }
}
