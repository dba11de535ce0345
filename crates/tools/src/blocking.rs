//! Runs blocking work outside of the async runtime.

use parallax_protocol::CancellationToken;
use parallax_protocol::tool::{ToolError, ToolErrorKind, ToolResult};

/// Runs `work` on a blocking thread. A panic becomes a failed call.
pub(crate) async fn blocking(
    cancel: CancellationToken,
    work: impl FnOnce(&CancellationToken) -> ToolResult + Send + 'static,
) -> ToolResult {
    match tokio::task::spawn_blocking(move || work(&cancel)).await {
        Ok(outcome) => outcome,
        Err(error) => ToolResult::failure(ToolError::new(
            ToolErrorKind::UnhandledException,
            format!("The tool crashed: {error}"),
        )),
    }
}
