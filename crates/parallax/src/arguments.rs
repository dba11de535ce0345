//! What was typed: the command line as clap reads it. What it means is decided
//! in `invocation`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use parallax_protocol::policy::ApprovalMode;

/// A terminal AI agent.
#[derive(Debug, Default, Parser)]
#[command(
    name = "parallax",
    about = "A terminal AI agent",
    override_usage = "parallax [OPTIONS] [PROMPT]...\n       parallax [COMMAND]",
    disable_version_flag = true,
    disable_help_subcommand = true,
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// The prompt; words are joined with blanks
    #[arg(value_name = "PROMPT")]
    pub(crate) words: Vec<String>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) session: SessionArguments,

    #[command(flatten)]
    pub(crate) printing: PrintingArguments,

    #[command(flatten)]
    pub(crate) doubles: DoubleArguments,

    /// Print the version
    #[arg(short = 'v', long)]
    pub(crate) version: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what an answer with tool calls looks like, without a model or a key
    Demo,
}

/// What the session is to be.
#[derive(Debug, Default, Args)]
pub(crate) struct SessionArguments {
    /// Answer this prompt and exit; text piped to stdin goes before it
    // A prompt may begin with a dash (a list, say); a flag that was taken for
    // one by accident is found afterwards.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// Ask this model
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Allow every tool call without asking, as `--approval-mode yolo` does
    #[arg(short, long)]
    pub(crate) yolo: bool,

    /// What may be done without asking
    #[arg(long, value_name = "MODE", value_parser = approval_modes())]
    pub(crate) approval_mode: Option<ApprovalMode>,

    /// Tools that run without asking, comma-separated or repeated (deprecated)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) allowed_tools: Vec<String>,

    /// Tools the model is not given, comma-separated or repeated
    #[arg(long, value_name = "TOOLS")]
    pub(crate) exclude_tools: Vec<String>,

    /// Trust this folder for this run
    #[arg(long)]
    pub(crate) skip_trust: bool,

    /// More folders to work in, comma-separated or repeated
    #[arg(long, value_name = "FOLDERS")]
    pub(crate) include_directories: Vec<String>,

    /// Stop after this many requests to the model
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<NonZeroU32>,

    /// Go on with a session: `latest`, its number in the list, or its id
    #[arg(short, long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "latest")]
    pub(crate) resume: Option<String>,

    /// Go on with a session from this file, as a new session
    #[arg(long, value_name = "FILE")]
    pub(crate) session_file: Option<PathBuf>,

    /// Give the new session this id
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,

    /// List the sessions of this project and exit
    #[arg(long)]
    pub(crate) list_sessions: bool,

    /// Delete a session, by its number in the list or its id, and exit
    #[arg(long, value_name = "SESSION")]
    pub(crate) delete_session: Option<String>,

    /// Read no `.env` file of the project
    #[arg(long)]
    pub(crate) ignore_env: bool,

    /// Write a detailed log
    #[arg(short, long)]
    pub(crate) debug: bool,
}

/// How it is printed.
#[derive(Debug, Default, Args)]
pub(crate) struct PrintingArguments {
    /// How the answer is printed
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output_format: Option<Format>,

    /// Where prompts come from: the command line and stdin as text, or JSON
    /// lines on stdin, several prompts in one run
    #[arg(long, value_name = "FORMAT")]
    pub(crate) input_format: Option<InputFormat>,

    /// The version of stream-json; 2 tells more and sooner
    #[arg(long, value_name = "VERSION", value_parser = PossibleValuesParser::new(["1", "2"]).map(|text| if text == "2" { 2u8 } else { 1 }))]
    pub(crate) stream_version: Option<u8>,

    /// Add `messages`, `tool_calls` and `exit_reason` to the json output
    #[arg(long)]
    pub(crate) verbose_json: bool,

    /// The final answer must be JSON that matches the JSON Schema in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,

    /// Keep control sequences in the model's text
    #[arg(long)]
    pub(crate) raw_output: bool,

    /// Keep them, and do not warn
    #[arg(long)]
    pub(crate) accept_raw_output_risk: bool,

    /// Print nothing but errors on stderr
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Stand-ins for the model.
#[derive(Debug, Default, Args)]
pub(crate) struct DoubleArguments {
    /// Record all requests and answers of the model in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Answer from such a recording instead of a model
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,

    /// The same, also where requests differ from the recorded ones
    #[arg(long, value_name = "FILE")]
    pub(crate) replay_non_strict: Option<PathBuf>,

    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) fake_responses: Option<PathBuf>,

    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) fake_responses_non_strict: Option<PathBuf>,

    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) record_responses: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    StreamJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    Text,
    StreamJson,
}

fn approval_modes() -> impl TypedValueParser<Value = ApprovalMode> {
    PossibleValuesParser::new(["default", "auto_edit", "yolo", "plan"])
        .map(|text| ApprovalMode::parse(&text).unwrap_or_default())
}
