//! Flags that select how a result is printed.

use parallax_headless::OutputFormat;

use super::error::InvocationError;
use crate::argument_values::{Format, InputFormat};
use crate::arguments::PrintingArguments;
use crate::output_options::OutputOptions;
use crate::usage::UsageError;

/// Interprets the flags of the output.
///
/// # Errors
/// Returns an error if flags exclude each other.
pub(super) fn output_options(
    arguments: &PrintingArguments,
) -> Result<OutputOptions, InvocationError> {
    let streams_in = arguments.input_format == Some(InputFormat::StreamJson);
    // Flags that only one format supports select that format.
    let implied = [
        ("--input-format stream-json", streams_in, Format::StreamJson),
        ("--stream-version", arguments.stream_version.is_some(), Format::StreamJson),
        ("--verbose-json", arguments.verbose_json, Format::Json),
        ("--stream-text", arguments.stream_text, Format::Text),
    ];
    let mut format = arguments.output_format;
    let mut asked_by = "--output-format";
    for (flag, provided, needs) in implied {
        match format {
            _ if !provided => {}
            None => {
                format = Some(needs);
                asked_by = flag;
            }
            Some(format) if format == needs => {}
            Some(_) => {
                return Err(UsageError::new(
                    format!("`{flag}` cannot be used with `{asked_by}`"),
                    match needs {
                        Format::Json => "It requires `--output-format json`.",
                        Format::Text => "It requires `--output-format text`.",
                        _ => "It requires `--output-format stream-json`.",
                    },
                )
                .into());
            }
        }
    }
    let mut warnings = Vec::new();
    if arguments.raw_output && !arguments.accept_raw_output_risk {
        warnings.push(
            "`--raw-output` lets the model's text control your terminal; use \
             `--accept-raw-output-risk` to hide this warning"
                .to_owned(),
        );
    }
    Ok(OutputOptions {
        format: format.map(|format| match format {
            Format::Text => OutputFormat::Text,
            Format::Json => OutputFormat::Json,
            Format::StreamJson => OutputFormat::StreamJson,
        }),
        stream_version: arguments.stream_version.unwrap_or(1),
        verbose_json: arguments.verbose_json,
        raw_output: arguments.raw_output || arguments.accept_raw_output_risk,
        stream_text: arguments.stream_text,
        quiet: arguments.quiet,
        schema: arguments.output_schema.clone(),
        warnings,
    })
}
