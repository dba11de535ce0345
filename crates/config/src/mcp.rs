//! The configuration of MCP servers in settings, `mcp-config.json`, and extension manifests:
//! deciding which servers may start, and editing the files.
//!
//! This module does not communicate with servers.

mod edit;
mod gather;

pub use crate::mcp_server::{
    AuthProvider, EMBEDDER, EnablementFiles, Endpoint, ExtensionServers, McpServer, McpSource,
    OAuthSettings, SandboxGrants, ServerError, StartBlock, is_local_url, is_rejected_variable,
    is_same_name,
};
pub use edit::{EditResult, McpScope, add_server, remove_server, scope_file, server_names};
pub use gather::{McpChoice, McpServers};
