//! Tests with real commands in real shells.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod output;
mod processes;
mod support;
mod terminal;
