//! Background sessions. Each is a separate process with a socket, and with a directory in which
//! other processes can read its state. There is no daemon.
//!
//! This crate handles stream-json lines and files; it does not run sessions itself.

mod client;
mod directory;
mod error;
mod host;
mod log_view;
mod record;

pub use client::Client;
pub use directory::{BackgroundDirectory, BackgroundSession};
pub use error::BackgroundError;
pub use host::{Host, SessionStreams};
pub use log_view::LogView;
pub use record::{SessionRecord, SessionState};
