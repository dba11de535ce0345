//! The table of output formats.

use crate::json::JsonFormatter;
use crate::options::{OutputFormat, RunOptions};
use crate::output_formatter::OutputFormatter;
use crate::stream_json::StreamJsonFormatter;
use crate::text::TextFormatter;

/// Returns the output format of the options. `display_prompt` is shown instead of the first prompt.
pub(crate) fn create_formatter(
    options: &RunOptions,
    display_prompt: Option<String>,
) -> Box<dyn OutputFormatter> {
    match options.format {
        OutputFormat::Text => Box::new(TextFormatter::new(options)),
        OutputFormat::Json => Box::new(JsonFormatter::new(options, display_prompt)),
        OutputFormat::StreamJson => Box::new(StreamJsonFormatter::new(options, display_prompt)),
    }
}
