//! The Agent Client Protocol, version 1: editors run Parallax as their agent over stdin and stdout.
//!
//! Messages are JSON-RPC 2.0, one per line. [`serve`] answers `initialize` before it reads any
//! settings. Each session is a task with its own directory, settings, and MCP servers.
//! Specification: <https://agentclientprotocol.com>.

mod authentication;
mod busy_sessions;
mod client_files;
mod client_terminal;
mod clients;
mod connection;
mod consent;
mod dispatch;
mod elicitation_answer;
mod history;
mod host;
mod mcp_servers;
mod options;
mod permission;
mod prompt_blocks;
mod rpc;
mod server_questions;
mod session;
mod tool_updates;
mod updates;

pub use authentication::Authentication;
pub use dispatch::{SharedSessions, serve, serve_shared};
pub use host::{CommandReply, Host, ManagementCommand, OpenRequest, SlashReply};
