//! What was typed: the command line as clap reads it. What it means is decided
//! in `invocation`.

use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use parallax_policy::Tier;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;

use crate::extending::Extending;

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
    /// The prompt; words are joined with spaces
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
    /// See and say which folders are trusted
    Trust(TrustArguments),
    /// Give files back what they were before a turn of the last session
    Undo(UndoArguments),
    /// See what the sandbox of commands holds here, or run a command in it
    Sandbox(SandboxArguments),
    /// List, search, show, export, copy and move sessions of all projects
    #[command(alias = "session")]
    Sessions(crate::sessions_arguments::SessionsArguments),
    /// See the MCP servers, add and remove them, sign in to them
    Mcp(crate::mcp_arguments::McpArguments),
    /// See the rules, what they decide, and what is wrong with a rule file
    Policy(PolicyArguments),
    /// Print a script that completes commands and flags in a shell
    #[command(visible_alias = "completion")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    #[command(flatten)]
    Extending(Extending),
}

/// `parallax policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    pub(crate) action: PolicyAction,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum PolicyAction {
    /// List the rules in the order in which they are tried
    List {
        #[command(flatten)]
        rules: RuleArguments,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is decided about a call, and by which rule
    Explain(ExplainArguments),
    /// Look rule files over; the exit code is 1 when one has an error
    Lint {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,

        /// Whose rules they are to be
        #[arg(long, value_name = "TIER", value_parser = tiers(), default_value = "user")]
        tier: Tier,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take the project's rules as they are now for your own, so that they may
    /// also allow
    Accept,
}

/// Which rules count, as for a session.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RuleArguments {
    /// Files or folders of rules, in place of the user's; comma-separated or
    /// repeated
    #[arg(long, value_name = "PATHS")]
    pub(crate) policy: Vec<String>,

    /// Rules of the administrator, where the machine has none of its own
    #[arg(long, value_name = "PATHS")]
    pub(crate) admin_policy: Vec<String>,
}

/// `parallax policy explain`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) rules: RuleArguments,

    /// The tool that is called
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) tool: Option<String>,

    /// Its arguments
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) args: Option<String>,

    /// A shell command, instead of a tool and its arguments
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) command: Option<String>,

    /// The approval mode
    #[arg(long, value_name = "MODE", value_parser = approval_modes(), default_value = "default")]
    pub(crate) mode: ApprovalMode,

    /// Details of a run in the terminal, where the user can be asked
    #[arg(long)]
    pub(crate) interactive: bool,

    /// Also list the rules that do not match, and why
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `parallax undo`.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct UndoArguments {
    /// The turn of this prompt, counted from 1; without it, the last that changed a file
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<u64>,

    /// List what the turns changed, and change nothing
    #[arg(long)]
    pub(crate) list: bool,

    /// Also files that changed since; what is there now is lost
    #[arg(long)]
    pub(crate) force: bool,

    /// Ask nothing; files that changed since are left alone
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,

    /// Take the last undo back
    #[arg(long, conflicts_with_all = ["prompt", "list"])]
    pub(crate) redo: bool,

    /// The session; without it, the last that changed a file of this project
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `parallax sandbox`.
#[derive(Debug, Args)]
pub(crate) struct SandboxArguments {
    #[command(subcommand)]
    pub(crate) action: SandboxAction,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum SandboxAction {
    /// Say what holds on this machine, what is weaker, and why
    Explain {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command as the agent's commands are run
    Run {
        /// The approval mode whose sandbox it gets
        #[arg(long, value_name = "MODE", value_parser = approval_modes(), default_value = "default")]
        mode: ApprovalMode,

        /// Let it reach the network
        #[arg(long)]
        network: bool,

        /// Let it reach servers of this machine
        #[arg(long)]
        host_loopback: bool,

        /// Let it write this file or folder; repeated
        #[arg(long, value_name = "PATH")]
        write: Vec<PathBuf>,

        /// Let it read this hidden file or folder; repeated
        #[arg(long, value_name = "PATH")]
        read: Vec<PathBuf>,

        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

/// `parallax trust`.
#[derive(Debug, Default, Args)]
pub(crate) struct TrustArguments {
    #[command(subcommand)]
    pub(crate) action: Option<TrustAction>,

    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum TrustAction {
    /// Say whether a folder is trusted, and why
    Status {
        /// The folder; without it, the working folder
        path: Option<PathBuf>,
    },
    /// Show what a folder would bring if it were trusted; nothing of it is run
    Show {
        /// The folder; without it, the working folder
        path: Option<PathBuf>,
    },
    /// Trust a folder and all below it
    Add {
        /// The folder; without it, the working folder
        path: Option<PathBuf>,
        /// Trust the folder above it
        #[arg(long)]
        parent: bool,
        /// Accept its settings that lower security, as they are now
        #[arg(long)]
        settings: bool,
    },
    /// Forget what was said of a folder
    Remove {
        /// The folder; without it, the working folder
        path: Option<PathBuf>,
    },
    /// Never trust a folder and what is below it
    Deny {
        /// The folder; without it, the working folder
        path: Option<PathBuf>,
    },
    /// List all rules
    List,
}

/// What the session is to be.
#[derive(Debug, Default, Args)]
pub(crate) struct SessionArguments {
    /// Answer this prompt and exit; text piped to stdin goes before it
    // A prompt may begin with a dash (a list, say); a flag that was taken for
    // one by accident is found afterwards.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, alias = "print")]
    pub(crate) prompt: Option<String>,

    /// Begin an interactive session with this prompt
    #[arg(short = 'i', long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt_interactive: Option<String>,

    /// Show plain lines that a screen reader can follow
    #[arg(long)]
    pub(crate) screen_reader: bool,

    /// Ask this model
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Allow every tool call without asking, as `--approval-mode yolo` does
    #[arg(short, long)]
    pub(crate) yolo: bool,

    /// What may be done without asking
    #[arg(long, value_name = "MODE", value_parser = approval_modes())]
    pub(crate) approval_mode: Option<ApprovalMode>,

    /// The mode of the work on a plan where nobody can be asked about it
    #[arg(long, value_name = "MODE", value_parser = work_modes())]
    pub(crate) plan_exit_mode: Option<ApprovalMode>,

    /// Tools that run without asking, comma-separated or repeated (deprecated)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) allowed_tools: Vec<String>,

    /// Tools the model is not given, comma-separated or repeated
    #[arg(long, value_name = "TOOLS", alias = "disallowed-tools")]
    pub(crate) exclude_tools: Vec<String>,

    /// The only MCP servers that start, comma-separated or repeated
    #[arg(long, value_name = "N")]
    pub(crate) allowed_mcp_server_names: Vec<String>,

    /// The only extensions that count, comma-separated or repeated; `none` for
    /// none
    #[arg(short, long, value_name = "NAMES")]
    pub(crate) extensions: Vec<String>,

    /// List the extensions and exit
    #[arg(short, long)]
    pub(crate) list_extensions: bool,

    #[command(flatten)]
    pub(crate) rules: RuleArguments,

    /// Require the sandbox, or name one for the whole program: `--sandbox=docker`
    // The value needs `=`: `-s fix it` has a prompt.
    #[arg(
        short,
        long,
        value_name = "SANDBOX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = PossibleValuesParser::new(SANDBOXES)
    )]
    pub(crate) sandbox: Option<String>,

    /// Work in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,

    /// Trust this folder for this run
    #[arg(long)]
    pub(crate) skip_trust: bool,

    /// More directories to work in, comma-separated or repeated
    #[arg(long, value_name = "DIRS", alias = "add-dir")]
    pub(crate) include_directories: Vec<String>,

    /// Stop after this many requests to the model
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<NonZeroU32>,

    /// Whether another model may answer when one cannot
    #[arg(long, value_name = "WHEN", value_parser = fallbacks())]
    pub(crate) fallback: Option<FallbackPolicy>,

    /// Stop when the run has cost this many US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Stop when the run has used this many tokens, cached ones included
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<NonZeroU64>,

    /// Stop when the turns of the run have taken this long: `90`, `90s`, `10m`, `1h`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,

    /// Go on with a session: `latest` (also `-c`, `--continue`), its number in the list, its id,
    /// or `pick` to choose
    #[arg(short, long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "latest")]
    pub(crate) resume: Option<String>,

    /// With `--resume`: go on in a copy that ends before this prompt, counted from 1
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) at: Option<NonZeroU64>,

    /// Go on with a session from this file, as a new session
    #[arg(long, value_name = "FILE")]
    pub(crate) session_file: Option<PathBuf>,

    /// Give the new session this id
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,

    /// List the sessions of this project and exit
    #[arg(long)]
    pub(crate) list_sessions: bool,

    /// Text to put behind the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,

    /// Delete a session, by its number in the list or its id, and exit
    #[arg(long, value_name = "SESSION")]
    pub(crate) delete_session: Option<String>,

    /// Read no plain `.env` file of the project (only those in `.parallax` and `.gemini`)
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

    /// Print the model's text as it comes where stdout is no terminal, too; else
    /// a message is printed when it is whole
    #[arg(long)]
    pub(crate) stream_text: bool,

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

/// What `--sandbox` may be; not all of them work everywhere.
const SANDBOXES: [&str; 8] =
    ["true", "false", "docker", "podman", "runsc", "sandbox-exec", "lxc", "windows-native"];

fn tiers() -> impl TypedValueParser<Value = Tier> {
    PossibleValuesParser::new(["extension", "workspace", "user", "admin"]).map(|text| {
        match text.as_str() {
            "extension" => Tier::Extension,
            "workspace" => Tier::Workspace,
            "admin" => Tier::Admin,
            _ => Tier::User,
        }
    })
}

fn fallbacks() -> impl TypedValueParser<Value = FallbackPolicy> {
    PossibleValuesParser::new(["ask", "auto", "off"])
        .map(|text| parallax_sdk::fallback_policy(&text).unwrap_or_default())
}

fn approval_modes() -> impl TypedValueParser<Value = ApprovalMode> {
    PossibleValuesParser::new(["default", "auto_edit", "yolo", "plan"])
        .map(|text| ApprovalMode::parse(&text).unwrap_or_default())
}

fn work_modes() -> impl TypedValueParser<Value = ApprovalMode> {
    PossibleValuesParser::new(["default", "auto_edit", "yolo"])
        .map(|text| ApprovalMode::parse(&text).unwrap_or_default())
}

fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim().trim_start_matches('$').parse::<f64>().ok();
    let amount = amount.filter(|amount| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| "give an amount of US dollars above zero, as `0.50`".to_owned())
}

/// A length of time: seconds, or a number with `s`, `m` or `h`.
fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0)];
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    let seconds = number.parse::<f64>().ok().map(|number| number * factor);
    let time = seconds.filter(|seconds| *seconds > 0.0);
    let time = time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "give a length of time above zero, as `90s`, `10m` or `1h`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_times_are_read() {
        assert_eq!((dollars("0.5"), dollars("$2")), (Ok(0.5), Ok(2.0)));
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "-1", "NaN", "inf", "x", "1d", "s", "1e999"] {
            assert!(dollars(text).is_err() && time(text).is_err(), "{text}");
        }
    }
}
