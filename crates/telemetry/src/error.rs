//! What goes wrong with telemetry.

use std::sync::{Arc, Mutex};

use crate::file::FileError;

/// Telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The HTTP client cannot be built.
    #[error("cannot set up the export of telemetry: {0}")]
    Http(#[from] parallax_http::HttpError),
    /// The system starts no thread.
    #[error("cannot start the telemetry thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// What the user should know at the end.
pub(crate) type Problems = Arc<Mutex<Vec<String>>>;
