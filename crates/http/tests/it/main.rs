//! Tests of clients with a local server.
#![expect(clippy::expect_used, reason = "a broken test server must stop the test")]
mod redirects;
