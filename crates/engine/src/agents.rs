//! Sub-agents: sessions inside a session. Each runs the same loop with a
//! history, tools and a system prompt of its own; what it asks reaches the same
//! person, what it may do is judged by the same rules, and in the end only its
//! result is kept.

mod child;
mod clock;
mod family;
mod invoke;
mod progress;
mod quiet_hooks;
mod role;
mod shared_judge;

pub(crate) use child::{SUBAGENT, how_to_go_on};
pub(crate) use family::Family;
pub(crate) use invoke::{INVOKE_AGENT, InvokeAgent};
pub(crate) use role::AgentRole;
