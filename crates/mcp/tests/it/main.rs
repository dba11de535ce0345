//! One server at a time, as the engine would use it, with the server of
//! `tests/mcp/server.py`.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "a test says what it expects")]

mod sampling;
mod servers;
mod support;
