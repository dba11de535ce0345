//! The configuration of MCP servers in settings, `mcp-config.json`, and extension manifests:
//! reading it, deciding which servers may start, and editing the files.
//!
//! This module does not communicate with servers.

mod confinement;
mod credentials;
mod edit;
mod enablement;
mod gather;
mod server;

pub use confinement::SandboxGrants;
pub use credentials::{AuthProvider, OAuthSettings, is_this_machine};
pub use edit::{Edited, McpScope, add_server, names_in, remove_server, scope_file};
pub use enablement::{EnablementFiles, same_name};
pub use gather::{ExtensionServers, McpChoice, McpServers};
pub(crate) use gather::{expand_servers, merged_with_extension, server_of_command};
pub use server::{EMBEDDER, Endpoint, Gate, McpServer, McpSource, ServerError, is_refused};
