//! Tests of the session actor with a scripted model and tools.

#![expect(clippy::expect_used, reason = "a test says what it expects")]

mod agents;
mod approvals;
mod budget;
mod calls;
mod commands;
mod compaction;
mod compaction_frequency;
mod context;
mod planning;
mod prepared_call;
mod rejected_content;
mod resume_turn;
mod rewind;
mod routing;
mod steering;
mod stream;
mod support;
mod turns;
