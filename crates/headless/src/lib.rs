//! The non-interactive front ends: answers one prompt as text, json, or stream-json, or holds a
//! conversation over stdin and stdout in stream-json.
//!
//! Each output format converts the session's events to bytes. This crate sends operations and does
//! not depend on the engine or on tools; arguments, settings, and sessions are read elsewhere.

mod answer;
mod answer_schema;
mod command_output;
mod continuation;
#[cfg(test)]
mod event_reference;
mod exit;
#[cfg(test)]
mod exit_reference;
mod failure;
mod formats;
#[cfg(test)]
mod harness;
pub mod info_commands;
mod input_line;
mod json;
mod line_reader;
mod options;
mod output;
mod output_formatter;
mod prompt;
mod repeated_notices;
mod runner;
mod sanitize;
mod schema;
mod signals;
mod slash;
mod stream_input;
mod stream_json;
mod stream_lines;
mod stream_schema;
mod text;
mod timestamp;
mod wire;

pub use command_output::print_command_output;
pub use exit::ExitCode;
pub use failure::{ErrorObject, report_error, report_exhausted_budget, report_failure};
pub use options::{OutputFormat, OutputWriters, RunOptions};
pub use prompt::{continue_turn, run_prompt};
pub use sanitize::{Sanitizer, one_line};
pub use schema::OutputSchema;
pub use signals::Signals;
pub use slash::{SlashKind, classify};
pub use stream_input::{ConversationSession, run_stream_input};
pub use stream_schema::stream_schema;
pub use wire::json_document;
