//! The command line as clap parses it. `invocation` decides what it means.

use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand};
use parallax_policy::Tier;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;

use crate::argument_values::{
    Format, InputFormat, SANDBOXES, approval_modes, fallbacks, parse_dollars, tiers, time,
    work_modes,
};
use crate::extension_commands::ExtensionCommand;

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
    pub(crate) command: Option<CliCommand>,

    #[command(flatten)]
    pub(crate) session: SessionArguments,

    #[command(flatten)]
    pub(crate) printing: PrintingArguments,

    #[command(flatten)]
    pub(crate) doubles: ReplayArgs,

    /// Print the version
    #[arg(short = 'v', long)]
    pub(crate) version: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run an offline demo: a scripted answer with tool calls, no model or key needed
    Demo,
    /// Manage trusted folders
    Trust(TrustArguments),
    /// Undo the file changes of a turn
    Undo(UndoArguments),
    /// Show what the sandbox enforces here, or run a command in it
    Sandbox(SandboxArguments),
    /// List, search, show, export, copy, and move sessions of all projects
    #[command(alias = "session")]
    Sessions(crate::sessions_arguments::SessionsArguments),
    /// Manage MCP servers and sign in to them
    Mcp(crate::mcp_arguments::McpArguments),
    /// List policy rules, explain decisions, and check rule files
    Policy(PolicyArguments),
    /// Manage the API keys of model providers
    Auth(crate::auth_command::AuthArguments),
    /// List, show, and test the models of all providers
    Models(crate::models_command::ModelsArguments),
    /// Show usage statistics of all sessions: tokens, cost, tools
    Stats(crate::stats_command::StatsArguments),
    /// Inspect a session in the browser: requests, turns, context, cost, MCP
    #[command(name = "devtools")]
    DevTools(crate::devtools_command::DevToolsArguments),
    /// Evaluate models, prompts, and settings on cases with checks
    Eval(crate::eval_command::EvalArguments),
    /// Diagnose problems on this machine and suggest fixes
    Doctor(crate::doctor_command::DoctorArguments),
    /// Manage the git worktrees that sessions work in
    Worktrees(crate::worktrees_command::WorktreesArguments),
    /// Review changes: findings with severity, location, and suggestion
    Review(crate::review_command::ReviewArguments),
    /// List background sessions
    Ps(crate::background_arguments::PsArguments),
    /// Open a background session in the terminal interface
    Attach(crate::background_arguments::SessionArgument),
    /// Show what a background session did
    Logs(crate::background_arguments::LogsArguments),
    /// Show and answer the request that a background session is waiting for
    Answer(crate::background_arguments::AnswerArguments),
    /// Stop a background session
    Stop(crate::background_arguments::SessionArgument),
    /// Run many tasks, each with its own agent and git worktree
    Batch(Box<crate::batch_arguments::BatchArguments>),
    /// Serve sessions over HTTP
    Serve(crate::serve_command::ServeArguments),
    /// Print a completion script for a shell
    #[command(visible_alias = "completion")]
    Completions {
        /// The shell
        shell: crate::completion_shell::CompletionShell,
    },
    /// Print the man page, or write the pages of all commands into a directory
    Man {
        /// The directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Print a JSON Schema for programs that drive Parallax
    Schema {
        #[command(subcommand)]
        of: SchemaKind,
    },
    #[command(flatten)]
    Extending(ExtensionCommand),
}

/// `parallax schema`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum SchemaKind {
    /// The lines of stream-json: output lines, and input lines as the definition `InputLine`
    Events,
    /// The report of `parallax doctor --json`
    Doctor,
    /// The files `settings.json`
    Settings,
}

/// `parallax policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    pub(crate) action: PolicyAction,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum PolicyAction {
    /// List the rules in evaluation order
    List {
        #[command(flatten)]
        rules: RuleArguments,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the decision about a tool call and the rule behind it
    Explain(ExplainArguments),
    /// Check rule files; exits 1 if any is invalid
    Lint {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,

        /// Tier to check the rules for
        #[arg(long, value_name = "TIER", value_parser = tiers(), default_value = "user")]
        tier: Tier,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Accept the project's rules as they are now, so that they may also allow tool calls
    Accept,
}

/// The rules in effect, as for a session.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RuleArguments {
    /// Rule files or directories to use instead of the user's; comma-separated or repeated
    #[arg(long, value_name = "PATHS")]
    pub(crate) policy: Vec<String>,

    /// Administrator rules to use if the machine has none; comma-separated or repeated
    #[arg(long, value_name = "PATHS")]
    pub(crate) admin_policy: Vec<String>,
}

/// `parallax policy explain`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) rules: RuleArguments,

    /// Tool to evaluate
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) tool: Option<String>,

    /// Arguments of the tool call
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) args: Option<String>,

    /// Shell command, instead of a tool and its arguments
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) command: Option<String>,

    /// Approval mode
    #[arg(long, value_name = "MODE", value_parser = approval_modes(), default_value = "default")]
    pub(crate) mode: ApprovalMode,

    /// Show details for an interactive run, where the user can approve calls
    #[arg(long)]
    pub(crate) interactive: bool,

    /// Also list rules that do not match, and why
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `parallax undo`.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct UndoArguments {
    /// Number of the prompt that started the turn, from 1 [default: the last turn that
    /// changed a file]
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<u64>,

    /// List the file changes by turn without undoing anything
    #[arg(long)]
    pub(crate) list: bool,

    /// Also revert files that changed since, discarding their current contents
    #[arg(long)]
    pub(crate) force: bool,

    /// Do not ask; skip files that changed since
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,

    /// Redo the last undo
    #[arg(long, conflicts_with_all = ["prompt", "list"])]
    pub(crate) redo: bool,

    /// Session to use: an id, the beginning of an id, a number of the list, or `latest` [default:
    /// the last one that changed a file of this project]
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
    /// Show what the sandbox enforces on this machine, what is weaker, and why
    Explain {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command in the same sandbox as the agent's commands
    Run {
        /// Approval mode that selects the sandbox
        #[arg(long, value_name = "MODE", value_parser = approval_modes(), default_value = "default")]
        mode: ApprovalMode,

        /// Allow access to the network
        #[arg(long)]
        network: bool,

        /// Allow access to servers on this machine
        #[arg(long)]
        host_loopback: bool,

        /// Allow writing this file or directory; can be repeated
        #[arg(long, value_name = "PATH")]
        write: Vec<PathBuf>,

        /// Allow reading this hidden file or directory; can be repeated
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
    /// Show whether a folder is trusted, and why
    Status {
        /// The folder [default: the current directory]
        path: Option<PathBuf>,
    },
    /// Show what a folder would add if it were trusted, without running any of it
    Show {
        /// The folder [default: the current directory]
        path: Option<PathBuf>,
    },
    /// Trust a folder and everything in it
    Add {
        /// The folder [default: the current directory]
        path: Option<PathBuf>,
        /// Trust the parent folder instead
        #[arg(long)]
        parent: bool,
        /// Accept the folder's current settings that loosen restrictions
        #[arg(long)]
        settings: bool,
    },
    /// Remove the trust rule of a folder
    Remove {
        /// The folder [default: the current directory]
        path: Option<PathBuf>,
    },
    /// Never trust a folder or anything in it
    Deny {
        /// The folder [default: the current directory]
        path: Option<PathBuf>,
    },
    /// List all trust rules
    List,
}

/// Options of a session.
#[derive(Debug, Default, Args)]
pub(crate) struct SessionArguments {
    /// Run the prompt in the background and print the session ID
    #[arg(long)]
    pub(crate) bg: bool,

    /// Run this prompt and exit; text piped to stdin is prepended
    // A prompt may begin with a dash, as a list does. A flag that was taken for the prompt
    // by accident is detected afterwards.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, alias = "print")]
    pub(crate) prompt: Option<String>,

    /// Start an interactive session with this prompt
    #[arg(short = 'i', long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt_interactive: Option<String>,

    /// Run as the agent of an editor over stdin and stdout (Agent Client Protocol)
    #[arg(long, alias = "experimental-acp")]
    pub(crate) acp: bool,

    /// Choose a provider and enter its key
    #[arg(long)]
    pub(crate) setup: bool,

    /// Print plain lines for screen readers
    #[arg(long)]
    pub(crate) screen_reader: bool,

    /// Model to use
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Approve every tool call; the same as `--approval-mode yolo`
    #[arg(short, long)]
    pub(crate) yolo: bool,

    /// Approval mode: what runs without approval
    #[arg(long, value_name = "MODE", value_parser = approval_modes())]
    pub(crate) approval_mode: Option<ApprovalMode>,

    /// Mode after an approved plan in a headless run
    #[arg(long, value_name = "MODE", value_parser = work_modes())]
    pub(crate) plan_exit_mode: Option<ApprovalMode>,

    /// Tools that need no approval, comma-separated or repeated (deprecated)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) allowed_tools: Vec<String>,

    /// Tools that are not available to the model, comma-separated or repeated
    #[arg(long, value_name = "TOOLS", alias = "disallowed-tools")]
    pub(crate) exclude_tools: Vec<String>,

    /// MCP servers to start, and no others; comma-separated or repeated
    #[arg(long, value_name = "N")]
    pub(crate) allowed_mcp_server_names: Vec<String>,

    /// Add the servers of `mcpServers` in this JSON file for this run; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,

    /// Add the skills in this directory for this run; can be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) skill_dir: Vec<PathBuf>,

    /// Extensions to load, and no others; comma-separated or repeated; `none` for none
    #[arg(short, long, value_name = "NAMES")]
    pub(crate) extensions: Vec<String>,

    /// List the extensions and exit
    #[arg(short, long)]
    pub(crate) list_extensions: bool,

    #[command(flatten)]
    pub(crate) rules: RuleArguments,

    /// Require the built-in sandbox, or run all of Parallax in a container: `--sandbox=docker`
    // The value needs `=`, because `-s fix it` has a prompt.
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

    /// Work in a new git worktree below `~/.parallax/worktrees`, on the branch `parallax/NAME`
    // The value needs `=`, so that a prompt may follow; `spelled` adds it before a valid name.
    #[arg(short, long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    pub(crate) worktree: Option<Option<String>>,

    /// With `--worktree`: start from this commit instead of `HEAD`
    #[arg(long, value_name = "REF", requires = "worktree")]
    pub(crate) from: Option<String>,

    /// With `--worktree`: include the uncommitted changes
    #[arg(long, requires = "worktree")]
    pub(crate) carry: bool,

    /// Trust this folder for this run
    #[arg(long)]
    pub(crate) skip_trust: bool,

    /// Additional workspace directories, comma-separated or repeated
    #[arg(long, value_name = "DIRS", alias = "add-dir")]
    pub(crate) include_directories: Vec<String>,

    /// Stop after this many model requests
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<NonZeroU32>,

    /// Fallback policy when the model is unavailable
    #[arg(long, value_name = "WHEN", value_parser = fallbacks())]
    pub(crate) fallback: Option<FallbackPolicy>,

    /// Stop when the run has cost this many US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Stop when the run has used this many tokens, including cached ones
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<NonZeroU64>,

    /// Stop when the turns of the run have taken this long: `90`, `90s`, `10m`, `1h`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,

    /// Resume a session: `latest` (also `-c`, `--continue`), its number in the list, its
    /// id, or `pick` to choose
    #[arg(short, long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "latest")]
    pub(crate) resume: Option<String>,

    /// With `--resume`: continue in a copy that ends before this prompt, counted from 1
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) at: Option<NonZeroU64>,

    /// Start a new session with the contents of this session file
    #[arg(long, value_name = "FILE")]
    pub(crate) session_file: Option<PathBuf>,

    /// Give the new session this id
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,

    /// List the sessions of this project and exit
    #[arg(long)]
    pub(crate) list_sessions: bool,

    /// Text to append to the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,

    /// Delete a session by its number in the list or its id, and exit
    #[arg(long, value_name = "SESSION")]
    pub(crate) delete_session: Option<String>,

    /// Ignore the project's plain `.env` file (those in `.parallax` and `.gemini` are still
    /// read)
    #[arg(long)]
    pub(crate) ignore_env: bool,

    /// Write a detailed log
    #[arg(short, long)]
    pub(crate) debug: bool,
}

/// Output options.
#[derive(Debug, Default, Args)]
pub(crate) struct PrintingArguments {
    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output_format: Option<Format>,

    /// Input format: a text prompt from the command line and stdin, or JSON lines on stdin
    /// with several prompts in one run
    #[arg(long, value_name = "FORMAT")]
    pub(crate) input_format: Option<InputFormat>,

    /// stream-json version; 2 adds more detailed, earlier events
    #[arg(long, value_name = "VERSION", value_parser = PossibleValuesParser::new(["1", "2"]).map(|text| if text == "2" { 2u8 } else { 1 }))]
    pub(crate) stream_version: Option<u8>,

    /// Add `messages`, `tool_calls`, and `exit_reason` to the JSON output
    #[arg(long)]
    pub(crate) verbose_json: bool,

    /// Require the final answer to be JSON that matches the JSON Schema in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,

    /// Print text as it arrives instead of complete messages, even if stdout is not a terminal
    #[arg(long)]
    pub(crate) stream_text: bool,

    /// Keep control sequences in the model's text
    #[arg(long)]
    pub(crate) raw_output: bool,

    /// Keep control sequences in the model's text without a warning
    #[arg(long)]
    pub(crate) accept_raw_output_risk: bool,

    /// Print only errors on stderr
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Options that record the model's responses or replay them.
#[derive(Debug, Default, Args)]
pub(crate) struct ReplayArgs {
    /// Record all model requests and responses in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Replay the responses of a recording instead of calling a model
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,

    /// Replay a recording even if requests differ from the recorded ones
    #[arg(long, value_name = "FILE")]
    pub(crate) replay_non_strict: Option<PathBuf>,

    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) fake_responses: Option<PathBuf>,

    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) fake_responses_non_strict: Option<PathBuf>,

    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) record_responses: Option<PathBuf>,
}
