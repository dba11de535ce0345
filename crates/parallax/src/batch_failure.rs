//! Blocking work of batches, and how its failures are reported.

use std::io::Write as _;

use parallax_batch::BatchError;
use parallax_protocol::event::{Failure, FailureKind};

pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BatchError> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| input_failure(error.to_string()))?.map_err(|error| failure(&error))
}

/// Prints a line for the user. A closed pipe is not an error here.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(crate) fn failure(error: &BatchError) -> Failure {
    match error {
        BatchError::Git(failure) => failure.clone(),
        BatchError::TaskBusy(_) => {
            Failure { kind: FailureKind::Internal, message: error.to_string(), status: None }
        }
        error => input_failure(error.to_string()),
    }
}

pub(crate) fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
