//! The session actor: turn loop, scheduler, context.
//!
//! It knows no provider, no tool and no face: those come through the traits of
//! `parallax-protocol`.

mod agents;
mod answer;
mod approval;
mod ask;
mod availability;
mod background;
mod board;
mod budget;
mod changed_files;
mod compaction;
mod coordinating;
mod cut_off;
mod directories;
mod fallback;
mod guarded;
mod history;
mod hook_views;
mod hooking;
mod hub;
mod inbox;
pub mod invariants;
mod loop_guard;
mod meter;
mod model_hooks;
mod picture;
mod planning;
pub mod prompt;
mod prompts;
mod reach;
mod registry;
mod respond;
mod results;
mod rewind;
mod routing;
mod scheduler;
mod session;
mod shells;
mod taint;
pub mod tokens;
mod turn;
mod unwatched;
mod verdict;
mod view;
mod wishes;

pub use approval::Approvals;
pub use budget::{Budget, BudgetLimits, Ledger, Spent};
pub use compaction::{KeepOutput, Room};
pub use hub::{EventHub, EventReader};
pub use inbox::{AddDirectory, ModelChanged};
pub use meter::Metered;
pub use planning::AgreedPlan;
pub use routing::RoutingOptions;
pub use session::{DescribeDirectories, SessionHandle, SessionOptions, SystemPrompt, start};
