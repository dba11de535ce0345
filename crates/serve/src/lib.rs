//! `parallax serve`: sessions over HTTP.
//!
//! Every route requires a bearer token, and every request is checked for its `Host` and `Origin`, so
//! that a web page in the user's browser cannot reach a session. `/acp` is a WebSocket that carries
//! the Agent Client Protocol.

mod a2a;
mod access;
mod remote_acp;
mod reply;
mod server;

pub use server::{Backend, HttpServer, ServeError, ServeOptions};
