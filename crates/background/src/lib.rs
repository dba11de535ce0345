//! Background sessions. Each is a separate process with a socket, and with a directory in which
//! other processes can read its state. There is no daemon.
//!
//! This crate handles stream-json lines, events, and files; it does not run sessions itself.

mod client;
mod directory;
mod error;
mod host;
mod live_feed;
mod log_view;
mod record;
mod retained_events;
mod view_protocol;
mod viewer;
mod viewer_connection;

pub use client::Client;
pub use directory::{BackgroundDirectory, BackgroundSession, StartLock};
pub use error::BackgroundError;
pub use host::{AttachChannels, Host, PromptCounter, SessionStreams};
pub use live_feed::LiveFeed;
pub use log_view::LogView;
pub use record::{SessionRecord, SessionState};
pub use retained_events::InitialState;
pub use view_protocol::{FeedLine, VIEW_VERSION, ViewerLine};
pub use viewer::{ViewerHandle, ViewerRequest};
pub use viewer_connection::{FeedReader, ViewerWriter, attach_viewer};
