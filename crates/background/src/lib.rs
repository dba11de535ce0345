//! Sessions in the background: each is a process of its own with a socket, and a directory in
//! which other processes see what it does. There is no daemon.
//!
//! This crate knows stream-json lines and files; it does not run a session itself.

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
