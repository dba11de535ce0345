//! Tests of the model with a local server.
#![expect(clippy::expect_used, reason = "a broken test server must stop the test")]
mod faults;
mod requests;
mod server;
mod streams;
