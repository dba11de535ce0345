//! The session actor: turn loop, scheduler, and context management.
//!
//! It does not depend on any provider, tool, or front end: these are accessed through the traits of
//! `parallax-protocol`.

mod agents;
mod approvals;
mod approved_plan;
mod budget;
mod call_arguments;
mod call_progress;
mod checkpoints;
mod closing_notes;
mod context;
mod conversation;
mod environment;
mod event_bus;
mod function_response;
mod history;
mod hooks;
mod inbox;
pub mod invariants;
mod loop_detection;
mod model_client;
mod model_request;
mod notices;
mod options;
mod part_text;
pub mod prompt;
mod prompts;
mod registry;
mod routing;
mod running_processes;
mod session;
mod session_handle;
mod shared_policy;
#[cfg(test)]
mod test_parts;
pub mod tokens;
mod tool_call;
mod tool_calls;
mod tool_notes;
mod usage_tracking;
mod user_commands;
mod view;

pub use approved_plan::ApprovedPlan;
pub use budget::{Budget, BudgetLimits, Ledger, Spending};
pub use event_bus::{EventBus, EventReader};
pub use options::{
    AddDirectory, ApprovalPersistence, CompactionOptions, DescribeDirectories, ModelChanged,
    RoutingOptions, SaveOutput, SessionOptions, SystemPrompt,
};
pub use session::start;
pub use session_handle::SessionHandle;
pub use shared_policy::SharedPolicyEngine;
pub use usage_tracking::UsageTrackingModel;
