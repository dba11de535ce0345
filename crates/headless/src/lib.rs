//! The machine faces: one prompt answered as text, json or stream-json, and a
//! conversation over stdin and stdout in stream-json.
//!
//! Each face is a fold over the session's events that writes bytes; it sends
//! orders and knows neither the engine nor a tool. Reading arguments, settings
//! and sessions is not done here.

mod answer;
mod answer_schema;
mod conductor;
mod continuation;
mod exit;
mod face;
mod failure;
#[cfg(test)]
mod harness;
mod input_line;
mod json;
mod line_reader;
mod options;
mod output;
mod prompt;
mod sanitize;
mod schema;
mod signals;
mod slash;
mod stream_input;
mod stream_json;
mod stream_lines;
mod stream_schema;
mod telling;
mod text;
mod timestamp;
mod wire;

pub use exit::ExitCode;
pub use failure::{ErrorObject, report_error, report_failure, report_spent};
pub use options::{Io, OutputFormat, RunOptions};
pub use prompt::{run_on, run_prompt};
pub use sanitize::{Sanitizer, one_line};
pub use schema::OutputSchema;
pub use signals::Signals;
pub use slash::{Slash, classify};
pub use stream_input::{ConversationSession, Expand, run_stream_input};
pub use stream_schema::stream_schema;
pub use telling::print_told;
pub use wire::json_document;
