//! The model against a server on this machine.
#![expect(clippy::expect_used, reason = "a broken test server must stop the test")]
mod errors;
mod recovery;
mod requests;
mod streams;
mod support;
