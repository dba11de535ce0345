//! Tests of the model with a local server.
#![expect(clippy::expect_used, reason = "a broken test server must stop the test")]
mod errors;
mod recovery;
mod requests;
mod streams;
mod support;
