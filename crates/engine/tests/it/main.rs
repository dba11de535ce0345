//! The session actor against a model and tools made for the test.

#![expect(clippy::expect_used, reason = "a test says what it expects")]

mod agents;
mod approvals;
mod budget;
mod calls;
mod commands;
mod compaction;
mod context;
mod cut_off;
mod pace;
mod planning;
mod rejected;
mod rewind;
mod routing;
mod routing_ahead;
mod steering;
mod stream;
mod support;
mod turns;
