//! Runs Parallax in other programs: [`agent`] is the interface for them.
//!
//! Everything else here is hidden: it serves the front ends of Parallax itself, which need no other
//! of its crates to run a session, and may change at any time. It connects the model, tools, policy,
//! and store to the engine. [`SessionConfig::prepare`] reads settings and checks that the directory
//! is trusted ([`SessionConfig::prepare_or_ask`] asks the user when it can).
//! [`SessionConfig::open`] then returns an [`OpenSession`], which takes operations and emits events.

#[doc(hidden)]
pub mod about;
pub mod agent;
mod agent_environment;
mod budget;
mod closing_notice;
mod command_sources;
#[doc(hidden)]
pub mod demo;
mod directories;
mod discovery;
mod home_directories;
mod hook_test;
#[doc(hidden)]
pub mod ide;
mod mcp;
#[doc(hidden)]
pub mod mcp_view;
mod model;
mod open;
mod options;
#[doc(hidden)]
pub mod plan_file;
mod plans;
mod policy;
mod program_sandbox;
#[doc(hidden)]
pub mod rewind_preview;
mod routing;
mod running_session;
mod sandbox;
mod sandboxed_command;
mod services;
mod session_config;
mod session_info;
mod session_model;
mod session_names;
mod session_settings;
#[doc(hidden)]
pub mod settings;
mod system;
mod toolbox;
#[doc(hidden)]
pub mod trust;
mod web_search;

#[doc(hidden)]
pub use closing_notice::ClosingNotice;
#[doc(hidden)]
pub use hook_test::try_hooks;
#[doc(hidden)]
pub use mcp::{McpManager, McpProbe, ProbeState};
#[doc(hidden)]
pub use open::OpenSession;
#[doc(hidden)]
pub use options::{EmbeddedTools, LaunchOptions, Recording, ResponseSource, RunLimits};
#[doc(hidden)]
pub use parallax_agents as agents;
#[doc(hidden)]
pub use parallax_agents::skills;
#[doc(hidden)]
pub use parallax_config::OutputFormat;
#[doc(hidden)]
pub use parallax_context_files::{ContextFile, ContextTier};
#[doc(hidden)]
pub use parallax_engine::{EventBus, EventReader};
#[doc(hidden)]
pub use parallax_exec::program_sandbox::ProgramSandbox;
#[doc(hidden)]
pub use parallax_hooks::HookInfo;
#[doc(hidden)]
pub use parallax_models::hosted_providers;
#[doc(hidden)]
pub use parallax_policy::yolo_reasons;
#[doc(hidden)]
pub use parallax_policy_sources::{PolicyUpdate, RuleRow, rule_rows};
use parallax_protocol::op::Op;
#[doc(hidden)]
pub use policy::{policy, policy_rules};
#[doc(hidden)]
pub use session_info::{SessionInfo, ShellHistory};

#[doc(hidden)]
pub use parallax_providers::{credential, model_listing, model_test, provider_credentials};
#[doc(hidden)]
pub use program_sandbox::{SandboxedProgram, sandboxed_program};
#[doc(hidden)]
pub use routing::fallback_policy;
#[doc(hidden)]
pub use running_session::RunningSessionRecords;
#[doc(hidden)]
pub use sandboxed_command::{SandboxedCommand, sandboxed_command};
#[doc(hidden)]
pub use session_config::SessionConfig;

/// Sends operations to the session. The channel is bounded, so a front end that sends too much
/// waits.
#[doc(hidden)]
pub type OpSender = tokio::sync::mpsc::Sender<Op>;
