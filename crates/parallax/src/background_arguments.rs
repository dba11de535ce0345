//! The command lines of background sessions.

use clap::Args;
use parallax_headless::OutputFormat;

/// What can be done with background sessions.
#[derive(Debug)]
pub(crate) enum BackgroundAction {
    Ps(PsArguments),
    Attach(SessionArgument),
    Logs(LogsArguments),
    Answer(AnswerArguments),
    Stop(SessionArgument),
}

impl BackgroundAction {
    /// Returns how errors are printed.
    pub(crate) fn format(&self) -> Option<OutputFormat> {
        let is_json = matches!(self, Self::Ps(PsArguments { json: true, .. }));
        is_json.then_some(OutputFormat::Json)
    }
}

/// `parallax ps`.
#[derive(Debug, Args)]
pub(crate) struct PsArguments {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Include sessions that ended more than a day ago
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// A session.
#[derive(Debug, Args)]
pub(crate) struct SessionArgument {
    /// Its id, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// `parallax logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    /// Id of the session, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Follow the log until the session ends
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// `parallax answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArguments {
    /// Id of the session, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// `allow`, `deny`, the number of a choice, or the answer to a question; without it, the
    /// request is shown
    #[arg(value_name = "ANSWER")]
    pub(crate) answer: Option<String>,

    /// With `deny`: a message for the model; with several questions: the other answers
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Vec<String>,
}
