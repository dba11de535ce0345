//! Runs blocking work outside of the async runtime.

use parallax_protocol::CancellationToken;
use parallax_protocol::tool::{Outcome, ToolError, ToolErrorKind};

/// Runs `work` on a blocking thread. A panic becomes a failed call.
pub(crate) async fn blocking(
    cancel: CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Outcome + Send + 'static,
) -> Outcome {
    match tokio::task::spawn_blocking(move || work(&cancel)).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::failure(ToolError::new(
            ToolErrorKind::UnhandledException,
            format!("The tool crashed: {error}"),
        )),
    }
}
