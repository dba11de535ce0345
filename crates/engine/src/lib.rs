//! The session actor: turn loop, scheduler, and context management.
//!
//! It does not depend on any provider, tool, or front end: these are accessed through the traits of
//! `parallax-protocol`.

mod agents;
mod approval;
mod availability;
mod background_reports;
mod budget;
mod call_arguments;
mod changed_definitions;
mod checkpointed_call;
mod compaction;
mod context_breakdown;
mod context_manager;
mod conversation;
mod coordinator_mode;
mod current_turn;
mod directories;
mod event_bus;
mod fallback;
mod function_response;
mod history;
mod hook_events;
mod hook_views;
mod inbox;
pub mod invariants;
mod loop_approval;
mod loop_detection;
mod model_client;
mod model_hooks;
mod model_request;
mod planning;
pub mod prompt;
mod prompt_input;
mod prompts;
mod registry;
mod response_builder;
mod response_validation;
mod resume_turn;
mod rewind;
mod routing;
mod running_processes;
mod scheduler;
mod session;
mod taint;
pub mod tokens;
mod tool_batch;
mod tool_output_limits;
mod turn;
mod turn_overrides;
mod usage_tracking;
mod user_commands;
mod view;

pub use approval::Approvals;
pub use budget::{Budget, BudgetLimits, Ledger, Spending};
pub use compaction::{CompactionOptions, KeepOutput};
pub use event_bus::{EventBus, EventReader};
pub use inbox::{AddDirectory, ModelChanged};
pub use planning::ApprovedPlan;
pub use routing::RoutingOptions;
pub use session::{DescribeDirectories, SessionHandle, SessionOptions, SystemPrompt, start};
pub use usage_tracking::UsageTrackingModel;
