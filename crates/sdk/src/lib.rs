//! Connects the model, tools, policy, and store to the engine, and provides the handle of a running
//! session. A front end needs no other crate of Parallax.
//!
//! [`SessionConfig::prepare`] reads settings and checks that the directory is trusted
//! ([`SessionConfig::prepare_or_ask`] asks the user when it can). [`SessionConfig::open`] then
//! returns an [`OpenSession`], which takes operations and emits events.

pub mod about;
pub mod agent;
mod agent_environment;
mod budget;
mod closing_notice;
mod command_sources;
pub mod demo;
mod directories;
mod discovery;
mod home_directories;
mod hook_test;
pub mod ide;
mod mcp;
pub mod mcp_view;
mod model;
mod open;
mod options;
pub mod plan_file;
mod plans;
mod policy;
mod program_sandbox;
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
pub mod settings;
mod system;
mod toolbox;
pub mod trust;
mod web_search;

pub use closing_notice::ClosingNotice;
pub use hook_test::try_hooks;
pub use mcp::{McpManager, McpProbe, ProbeState};
pub use open::OpenSession;
pub use options::{Answers, EmbeddedTools, LaunchOptions, Recording, RunLimits};
pub use parallax_agents as agents;
pub use parallax_agents::skills;
pub use parallax_config::OutputFormat;
pub use parallax_context_files::{ContextFile, ContextTier};
pub use parallax_engine::{EventBus, EventReader};
pub use parallax_exec::program_sandbox::ProgramSandbox;
pub use parallax_hooks::HookInfo;
pub use parallax_models::hosted_providers;
pub use parallax_policy::yolo_reasons;
pub use parallax_policy_sources::{PolicyUpdate, RuleRow, rule_rows};
use parallax_protocol::op::Op;
pub use policy::{policy, policy_rules};
pub use session_info::{SessionFacts, ShellHistory};

pub use parallax_providers::{credential, model_listing, model_test, provider_credentials};
pub use program_sandbox::{SandboxedProgram, sandboxed_program};
pub use routing::fallback_policy;
pub use running_session::RunningSessionRecords;
pub use sandboxed_command::{SandboxedCommand, sandboxed_command};
pub use session_config::SessionConfig;

/// Sends operations to the session. The channel is bounded, so a front end that sends too much
/// waits.
pub type OpSender = tokio::sync::mpsc::Sender<Op>;
