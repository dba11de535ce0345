//! The session actor: turn loop, scheduler, context.
//!
//! It knows no provider, no tool and no face: those come through the traits of
//! `parallax-protocol`.

mod answer;
mod approval;
mod ask;
mod board;
mod guarded;
mod history;
mod hub;
mod inbox;
pub mod invariants;
mod loop_guard;
mod meter;
pub mod prompt;
mod registry;
mod respond;
mod scheduler;
mod session;
mod taint;
pub mod tokens;
mod turn;
mod verdict;

pub use approval::Approvals;
pub use hub::{EventHub, EventReader};
pub use inbox::{AddDirectory, ModelChanged};
pub use meter::Metered;
pub use session::{SessionHandle, SessionOptions, start};
