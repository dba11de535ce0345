//! A client of the Agent2Agent protocol, for agents that other programs run. It speaks version 1.0
//! and 0.3 (<https://a2a-protocol.org>), as JSON-RPC and as HTTP with JSON.
//!
//! [`A2aAgent`] implements [`parallax_protocol::agent::RemoteAgent`]. It fetches the card of the
//! agent with the first task and remembers the conversation for the tasks that follow.

mod agent;
mod answer;
mod card;
mod credentials;
mod error;
mod request;
mod transport;

pub use agent::{A2aAgent, A2aAgentOptions};
pub use credentials::VariableLookup;
