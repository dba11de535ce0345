//! Options of the output of a run, and its streams.

use parallax_protocol::ids::SessionId;
use tokio::io::AsyncWrite;

use crate::schema::OutputSchema;

/// Format of stdout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// The text of the answer as it arrives.
    #[default]
    Text,
    /// A single JSON object at the end.
    Json,
    /// A JSON object per line for each event.
    StreamJson,
}

/// Options of the output of a run.
#[derive(Debug, Default)]
pub struct RunOptions {
    /// Format of stdout.
    pub format: OutputFormat,
    /// Version of stream-json: 1 (default; 0 counts as 1) or 2.
    pub stream_version: u8,
    /// Whether to keep control sequences in the model's text (text format only).
    pub raw_output: bool,
    /// Whether to print messages only when complete (text format only), so that the reader sees
    /// nothing from an answer that is cut off and sent again.
    pub whole_messages: bool,
    /// Whether json output includes `messages`, `tool_calls`, and `exit_reason`.
    pub verbose_json: bool,
    /// Whether stderr contains only errors.
    pub quiet: bool,
    /// Schema of the final answer.
    pub schema: Option<OutputSchema>,
    /// Id of the session.
    pub session_id: Option<SessionId>,
    /// The requested model.
    pub model: String,
    /// Warnings to print before the run.
    pub warnings: Vec<String>,
    /// Whether responses come from a script or a recording.
    pub scripted: bool,
    /// Whether stdin is a terminal, so that SIGINT means that the user pressed Ctrl+C.
    pub stdin_is_terminal: bool,
    /// Whether stderr may use color: it is a terminal, and color is not disabled.
    pub stderr_color: bool,
    /// Whether stdout and stderr are the same terminal, file, or pipe.
    pub shared_terminal: bool,
    /// Whether `SessionEnd` hooks will run. The JSON formats then end the session before their
    /// output, so that a failed hook can be reported in it.
    pub has_end_hooks: bool,
    /// Whether the process exits with 0 after a signal, as older scripts expect
    /// (`PARALLAX_COMPAT_SIGNALS=1`). Ctrl+C at a terminal still exits with 130.
    pub compatible_signals: bool,
    /// Whether the first SIGINT or SIGTERM waits for running tool calls.
    pub finishes_tool_calls: bool,
    /// Returns whether the reader of stdout is gone. A conversation whose input has ended calls
    /// this during a turn, because the client may have crashed.
    pub is_reader_gone: Option<fn() -> bool>,
}

impl RunOptions {
    /// Returns the session id as printed; empty if there is none.
    pub(crate) fn session_text(&self) -> &str {
        self.session_id.as_ref().map_or("", SessionId::as_str)
    }
}

/// The output streams of a run.
pub struct OutputWriters {
    /// Receives the answer.
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    /// Receives messages for the user, or the error object.
    pub stderr: Box<dyn AsyncWrite + Send + Unpin>,
}

impl OutputWriters {
    /// Returns the process's own streams.
    pub fn standard() -> Self {
        Self { stdout: Box::new(tokio::io::stdout()), stderr: Box::new(tokio::io::stderr()) }
    }
}
