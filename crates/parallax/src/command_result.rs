//! The results of subcommands, and how they are printed.

use std::io::{self, Write as _};
use std::path::Path;

use parallax_headless::{ExitCode, OutputFormat, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::{Value, json};

/// The result of a subcommand, as text and as JSON.
pub(crate) struct CommandResult {
    pub(crate) text: String,
    pub(crate) json: Value,
    /// Errors for the text format.
    pub(crate) errors: String,
    /// A note on stderr next to a JSON document that has no field for it.
    pub(crate) note: String,
    pub(crate) code: ExitCode,
    /// Whether the text is a document, which is printed unchanged in every format.
    pub(crate) raw: bool,
}

impl CommandResult {
    /// Creates the result of a success.
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self {
            text: text.into(),
            json,
            errors: String::new(),
            note: String::new(),
            code: ExitCode::SUCCESS,
            raw: false,
        }
    }
}

/// Returns the result of enabling or disabling something in a file.
pub(crate) fn switch_result(kind: &str, name: &str, on: bool, file: &Path) -> CommandResult {
    let word = if on { "on" } else { "off" };
    let path = one_line(&file.display().to_string());
    let text = format!("The {kind} `{}` is {word} ({path}).\n", one_line(name));
    CommandResult::new(text, json!({"name": name, "enabled": on, "file": file.to_string_lossy()}))
}

/// Prints a result. A closed pipe is not a failure.
pub(crate) fn print_result(output: &CommandResult, format: OutputFormat) -> ExitCode {
    let mut stdout = io::stdout();
    // In the other formats, the document contains the errors. A failed write cannot be reported.
    if format == OutputFormat::Text {
        let _ = io::stderr().write_all(output.errors.as_bytes());
    }
    let written = match format {
        OutputFormat::Json | OutputFormat::StreamJson if !output.raw => {
            let _ = io::stderr().write_all(output.note.as_bytes());
            stdout.write_all(json_document(&output.json).as_bytes())
        }
        _ => stdout.write_all(output.text.as_bytes()),
    };
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::GENERAL,
        _ => output.code,
    }
}

/// Returns a failure that the user can fix.
pub(crate) fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
