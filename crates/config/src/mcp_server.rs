//! MCP servers as settings, files, and extensions define them.

mod confinement;
mod credentials;
mod definition;
mod enablement;
mod endpoint;
mod server;
mod values;

pub use confinement::SandboxGrants;
pub use credentials::{AuthProvider, OAuthSettings, is_local_url};
pub use definition::ExtensionServers;
pub(crate) use definition::{expand_servers, merged_with_extension, server_of_command};
pub(crate) use enablement::legacy_name;
pub use enablement::{EnablementFiles, is_same_name};
pub use endpoint::{Endpoint, McpSource};
pub use server::{EMBEDDER, McpServer, ServerError, StartBlock, is_rejected_variable};
