//! How the result of a run is printed.

use std::path::PathBuf;

use parallax_headless::OutputFormat;

/// How the result is printed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OutputOptions {
    /// `None` uses the setting.
    pub(crate) format: Option<OutputFormat>,
    pub(crate) stream_version: u8,
    pub(crate) verbose_json: bool,
    pub(crate) raw_output: bool,
    pub(crate) stream_text: bool,
    pub(crate) quiet: bool,
    pub(crate) schema: Option<PathBuf>,
    pub(crate) warnings: Vec<String>,
}
