//! Tests one server at a time, used as the engine does, with the server in `tests/mcp/server.py`.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "a test says what it expects")]

mod sampling;
mod servers;
mod support;
