//! MCP servers as people write them: in settings, in `mcp-config.json`, in
//! manifests of extensions; which of them may start; and changing those files.
//!
//! Nothing here talks to a server.

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
pub(crate) use gather::expand_servers;
pub use gather::{ExtensionServers, McpChoice, McpServers};
pub use server::{EMBEDDER, Endpoint, Gate, McpServer, McpSource, ServerError, is_refused};
