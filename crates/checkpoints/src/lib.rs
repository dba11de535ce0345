//! Files as they were before a session changed them: checkpoints for the engine, the watch over
//! protected files while programs run, and undo.
//!
//! Not in this crate: how the previous contents are stored (`store`).

mod checkpoint_manager;
mod protected_changes;
pub mod undo;

pub use checkpoint_manager::{CheckpointManager, WorkspaceWatch, open};
