//! How a supervisor reports that it did not run a command.

use std::io::Write as _;
use std::process::ExitCode;

/// The exit code of a supervisor that could not build the confinement. A command may return it as
/// well; [`SupervisorError::read`] distinguishes them.
pub const REFUSED: u8 = 121;

/// The message of a supervisor that did not run a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupervisorError {
    /// The reason, for display.
    pub message: String,
}

impl SupervisorError {
    pub(crate) const MARK: &str = "parallax-sandbox: refused: ";

    /// Returns the rejection message in the output of a supervisor that ended with `code`, if there
    /// is one. The supervisor writes it as the last line of stderr.
    pub fn read(code: i32, stderr: &str) -> Option<Self> {
        if code != i32::from(REFUSED) {
            return None;
        }
        let line = stderr.lines().next_back()?;
        Some(Self { message: line.strip_prefix(Self::MARK)?.to_owned() })
    }
}

/// Reports why nothing was run.
pub(crate) fn refuse(message: &str) -> ExitCode {
    let line = format!("{}{}\n", SupervisorError::MARK, message.replace('\n', " "));
    // If stderr is closed, only the exit code remains.
    let _ = std::io::stderr().write_all(line.as_bytes());
    ExitCode::from(REFUSED)
}
