//! Runs blocking work outside the asynchronous tasks.

use crate::error::BatchError;

/// Runs a blocking function on another thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BatchError> + Send + 'static,
) -> Result<T, BatchError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(BatchError::Input(format!("A task of the batch crashed: {error}"))),
    }
}
