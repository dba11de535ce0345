//! The connection to the companion extension of an editor: finds its server, receives the open
//! files, and shows proposed edits as diffs in the editor.
//!
//! Everything runs in the background with time limits, so a companion that hangs or dies never
//! delays a prompt.

mod client;
mod companion;
mod context_message;
mod discovery;
mod doctor;
mod editor;
mod error;
mod open_files;
mod port_file;
mod process_chain;

pub use companion::{
    ClosedDiff, Companion, CompanionSnapshot, CompanionStatus, DiffDecision, OpenDiff,
};
pub use context_message::CompanionContext;
pub use discovery::{DiscoveryOptions, host_editor};
pub use doctor::{Diagnosis, diagnose, diagnose_blocking};
pub use editor::{HostEditor, detect};
pub use error::DisconnectReason;
pub use open_files::{CursorPosition, EditorFile, OpenFiles};
