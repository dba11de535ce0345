//! The MCP servers of an open session, for display and control by a front end.

use std::sync::Arc;

pub use parallax_exec::program::open_address;
pub use parallax_mcp::view::{
    McpAccess, McpItem, McpRow, McpState, McpUpdate, McpUpdates, McpView,
};
pub use parallax_mcp::{PendingSignIn, UserRequest, UserRequestHandler, UserResponse};

use crate::open::OpenSession;

impl OpenSession {
    /// Returns the view of the MCP servers, if there are any.
    pub fn mcp_view(&self) -> Option<McpView> {
        let servers = self.mcp()?.clone();
        let launch = self.launch.clone();
        let access = McpAccess {
            dirs: launch.config.dirs.clone(),
            tokens: launch.mcp_manager().token_files(),
            port: launch.mcp_manager().oauth_port(),
            http: launch.client_options(),
            opens_browser: !launch.mcp_manager().without_browser(),
            configured: Arc::new(move || launch.mcp_manager().servers()),
        };
        Some(McpView::new(servers, access))
    }
}
