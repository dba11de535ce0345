//! How a run is printed, and where to.

use parallax_protocol::ids::SessionId;
use tokio::io::AsyncWrite;

use crate::schema::OutputSchema;

/// What stdout carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// The answer's text as it comes.
    #[default]
    Text,
    /// One object at the end.
    Json,
    /// One object a line as things happen.
    StreamJson,
}

/// How a run is printed.
#[derive(Debug, Default)]
pub struct RunOptions {
    /// What stdout carries.
    pub format: OutputFormat,
    /// The version of stream-json: 1 (default; 0 counts as 1) or 2.
    pub stream_version: u8,
    /// Whether control sequences of the model's text are kept (text only).
    pub raw_output: bool,
    /// Whether a message is printed only when it is whole (text only), so that a
    /// reader gets nothing of one that breaks off and comes again.
    pub whole_messages: bool,
    /// Whether json also carries `messages`, `tool_calls` and `exit_reason`.
    pub verbose_json: bool,
    /// Whether stderr is silent but for errors.
    pub quiet: bool,
    /// What the final answer must look like.
    pub schema: Option<OutputSchema>,
    /// The session's id.
    pub session_id: Option<SessionId>,
    /// The model as asked for.
    pub model: String,
    /// Warnings to print before the run.
    pub warnings: Vec<String>,
    /// Whether the model's words are scripted or replayed.
    pub scripted: bool,
    /// Whether stdin is a terminal, so that SIGINT means that the user pressed Ctrl+C.
    pub stdin_is_terminal: bool,
    /// Whether stderr may use color: it is a terminal, and color is not disabled.
    pub stderr_colour: bool,
    /// Whether stdout and stderr are the same terminal.
    pub shared_terminal: bool,
    /// Whether `SessionEnd` hooks will run. The json formats then end the session
    /// before their output, so that a failed hook can be reported in it.
    pub has_end_hooks: bool,
    /// Whether a signal ends the run with exit code 0, as older scripts expect
    /// (`PARALLAX_COMPAT_SIGNALS=1`). Ctrl-C on a terminal stays 130.
    pub compatible_signals: bool,
    /// Whether the first SIGINT or SIGTERM waits for the tool calls that run.
    pub finishes_tool_calls: bool,
    /// Says whether nothing reads stdout any more. A conversation whose input has ended asks it
    /// while a turn runs: the program at the other end may have crashed.
    pub is_reader_gone: Option<fn() -> bool>,
}

impl RunOptions {
    /// The session's id as printed; empty while there is none.
    pub(crate) fn session_text(&self) -> &str {
        self.session_id.as_ref().map_or("", SessionId::as_str)
    }
}

/// Where a run is printed to.
pub struct Io {
    /// The answer.
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    /// Messages for the user, or the error object.
    pub stderr: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Io {
    /// The process's own streams.
    pub fn standard() -> Self {
        Self { stdout: Box::new(tokio::io::stdout()), stderr: Box::new(tokio::io::stderr()) }
    }
}
