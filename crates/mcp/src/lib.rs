//! MCP servers as tools: connections over standard streams, streamable HTTP, and the older HTTP
//! with server-sent events; a cache of what servers offer, so that a session does not wait for
//! them; tool calls and their results; sign-in.
//!
//! `config` reads which servers exist, the policy engine decides whether a call may run, and the
//! front end asks the user through an [`UserRequestHandler`].

mod blocks;
mod bounds;
mod cache;
mod call;
mod catalog;
mod connect;
mod connection_errors;
mod elicitation_queue;
mod error;
mod files;
mod google;
mod handler;
mod inbound;
mod instructions;
mod lines;
mod listing;
mod media;
mod messages;
mod multiline_object;
mod names;
mod oauth;
mod pages;
mod prompts;
mod readable;
mod resource_tools;
mod resources;
mod restart_backoff;
mod sampling;
mod schema;
mod schema_names;
mod search_tool;
mod server;
mod servers;
mod shared_servers;
mod sse;
mod status;
mod stderr_tail;
mod stdio;
mod tool;
mod tool_pinning;
mod tool_source;
mod user_requests;
pub mod view;
mod wire;

pub use catalog::{Catalog, PromptArgument, PromptEntry, ResourceEntry, ToolEntry};
pub use connect::{ConfineFn, EndWatch, Watch};
pub use error::McpError;
pub use names::tool_name;
pub use oauth::{SignInUi, TokenFiles, sign_in};
pub use prompts::{PromptArguments, parse_prompt_line};
pub use sampling::Sampling;
pub use schema::SchemaFormat;
pub use search_tool::SEARCH_TOOLS;
pub use servers::{ChangeNotifier, PendingSignIn, Servers, ServersOptions, ToolBudget};
pub use status::{ServerStatus, Status};
pub use user_requests::{UserRequest, UserRequestHandler, UserResponse};

/// The name of this client, as reported to servers.
pub(crate) const CLIENT_NAME: &str = "parallax";
