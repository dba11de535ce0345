//! The table of output formats.

use crate::face::Face;
use crate::json::JsonFormatter;
use crate::options::{OutputFormat, RunOptions};
use crate::stream_json::StreamJsonFormatter;
use crate::text::TextFormatter;

/// Returns the output format of the options. `display_prompt` is shown instead of the first prompt.
pub(crate) fn face_for(options: &RunOptions, display_prompt: Option<String>) -> Box<dyn Face> {
    match options.format {
        OutputFormat::Text => Box::new(TextFormatter::new(options)),
        OutputFormat::Json => Box::new(JsonFormatter::new(options, display_prompt)),
        OutputFormat::StreamJson => Box::new(StreamJsonFormatter::new(options, display_prompt)),
    }
}
