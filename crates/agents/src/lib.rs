//! Subagents and skills: their definitions, and what a session offers of them.
//!
//! [`AgentLibrary`] and [`SkillLibrary`] list and change definitions. A session opens them as
//! [`SessionAgents`] and [`SessionSkills`], which reload when files change. What only a session
//! has, such as its system prompt, comes from an [`AgentEnvironment`].

mod agent_setting;
mod built_in;
mod changes;
mod internal_docs;
mod journals;
mod library;
mod prompt;
mod session_agents;
pub mod skills;

use std::sync::Arc;

use parallax_protocol::event::Failure;

pub use agent_setting::AgentSetting;
pub use internal_docs::PAGES as GUIDE;
pub use journals::SubagentJournals;
pub use library::{AgentLibrary, rules, trusted_servers};
pub use parallax_config::agents::{Agent, AgentSet, AgentTier};
pub use session_agents::{
    AgentEnvironment, AgentMemory, AgentsSetup, IsolatedAgent, SessionAgents,
};
pub use skills::{SessionSkills, SkillLibrary};

/// Reads the settings again and returns a library that follows them.
pub type ReloadFn<T> = Arc<dyn Fn() -> Result<T, Failure> + Send + Sync>;
