//! Prints the results of commands and reports their failures.

use std::io::{self, Write as _};

use parallax_headless::{ExitCode, OutputFormat, report_failure};
use parallax_protocol::event::Failure;
use parallax_protocol::ids::SessionId;

/// A failure and the format in which to print it.
pub(crate) struct LaunchFailure {
    pub(crate) failure: Failure,
    pub(crate) format: OutputFormat,
    pub(crate) session: Option<SessionId>,
}

impl LaunchFailure {
    /// Returns the failure of a command that opened no session.
    pub(crate) fn new(failure: Failure, format: Option<OutputFormat>) -> Self {
        Self { failure, format: format.unwrap_or_default(), session: None }
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
        let session = self.session.as_ref();
        report_failure(self.format, session, &self.failure, &mut stdout, &mut stderr)
    }
}

/// Prints text. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::GENERAL,
        _ => ExitCode::SUCCESS,
    }
}
