//! The session actor against a model and tools made for the test.

#![expect(clippy::expect_used, reason = "a test says what it expects")]

mod approvals;
mod calls;
mod commands;
mod compaction;
mod rewind;
mod steering;
mod stream;
mod support;
mod turns;
