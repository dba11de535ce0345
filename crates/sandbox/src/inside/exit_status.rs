//! How a command ended.

use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, Signal, WaitStatus};

use crate::inside::kernel;

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Code(u8),
    Signal(i32),
}

impl From<WaitStatus> for ExitStatus {
    fn from(status: WaitStatus) -> Self {
        match (status.terminating_signal(), status.exit_status()) {
            (Some(signal), _) => Self::Signal(signal),
            (None, Some(code)) => Self::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, None) => Self::Code(u8::MAX),
        }
    }
}

impl ExitStatus {
    /// Ends this process with the same signal, or returns the exit code to end with.
    pub(crate) fn mirror(self) -> ExitCode {
        let signal = match self {
            Self::Code(code) => return ExitCode::from(code),
            Self::Signal(signal) => signal,
        };
        // Do not write a second core file for the same crash.
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        let _ = rustix::process::setrlimit(Resource::Core, none);
        kernel::unblock_signals();
        kernel::set_signal(signal, false);
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
        // Report a signal that cannot be raised in this way as shells do.
        ExitCode::from(u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX))
    }

    /// Encodes the status in two bytes, for the pipe between reaper and supervisor.
    pub(crate) fn encode(self) -> [u8; 2] {
        match self {
            Self::Code(code) => [b'c', code],
            Self::Signal(signal) => [b's', u8::try_from(signal).unwrap_or(0)],
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'c', code] => Some(Self::Code(*code)),
            [b's', signal] => Some(Self::Signal(i32::from(*signal))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_round_trips_through_the_pipe() {
        for ended in [ExitStatus::Code(0), ExitStatus::Code(255), ExitStatus::Signal(9)] {
            assert_eq!(ExitStatus::decode(&ended.encode()), Some(ended));
        }
        assert_eq!(ExitStatus::decode(b"u\0x"), None);
    }
}
