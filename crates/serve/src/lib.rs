//! `parallax serve`: sessions over HTTP.
//!
//! Every route requires a bearer token, and every request is checked for its `Host` and `Origin`, so
//! that a web page in the user's browser cannot reach a session. `/acp` is a WebSocket that carries
//! the Agent Client Protocol. [`DevToolsServer`] shows one session to one user's browser.

mod a2a;
mod access;
mod backend;
mod connections;
mod devtools;
mod remote_acp;
mod reply;
mod server;

pub use backend::Backend;
pub use devtools::{DevToolsFiles, DevToolsLinks, DevToolsMessage, DevToolsServer, DevToolsSource};
pub use server::{HttpServer, ServeError, ServeOptions};
