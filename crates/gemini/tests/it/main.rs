//! The model against a server on this machine, and from files.
#![expect(clippy::expect_used, reason = "a broken test server must stop the test")]
mod faults;
mod recorded;
mod requests;
mod scripts;
mod server;
mod streams;
