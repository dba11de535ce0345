//! Files as they were before a session changed them: checkpoints for the engine, the watch over
//! protected files while programs run, and undo.
//!
//! Not in this crate: how the previous contents are stored (`store`).

mod protected_changes;
pub mod undo;
mod versions;

pub use versions::{Versions, Watch, open};
