//! Subagents: nested sessions. Each runs the same loop with its own history, tools, and system
//! prompt. Its approval requests go to the same user, the same policy engine evaluates its calls,
//! and only its result is kept.

mod deadline;
mod invoke_tool;
mod manager;
mod progress;
mod remote_run;
mod role;
mod run;
mod subagent_hooks;

pub(crate) use invoke_tool::{INVOKE_AGENT, InvokeAgent};
pub(crate) use manager::SubagentManager;
pub(crate) use role::AgentRole;
pub(crate) use run::{SUBAGENT, resume_hint};
