//! Interprets the command line.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use parallax_headless::OutputFormat;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;
use parallax_sdk::RunLimits;
use parallax_worktrees::WorktreeRequest;

use crate::arguments::{
    Arguments, CliCommand, DoubleArguments, Format, InputFormat, PolicyAction, PrintingArguments,
    SandboxAction, SchemaOf, SessionArguments, TrustAction, UndoArguments,
};
use crate::auth_command::AuthArguments;
use crate::background_arguments::BackgroundAction;
use crate::batch_arguments::BatchArguments;
use crate::devtools_command::DevToolsArguments;
use crate::doctor_command::DoctorArguments;
use crate::eval_command::EvalArguments;
use crate::extending::{Extending, log_it};
use crate::man_command::CompletionShell;
use crate::mcp_arguments::McpAction;
use crate::models_command::ModelsArguments;
use crate::review_command::ReviewArguments;
use crate::serve_command::ServeArguments;
use crate::sessions_arguments::SessionsArguments;
use crate::stats_command::StatsArguments;
use crate::surroundings::StartupFacts;
use crate::usage::{self, Usage};
use crate::worktrees_command::{self, WorktreesAction};

/// The action to perform.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Serve an editor over stdin and stdout.
    Acp {
        settings: Settings,
    },
    /// Serve sessions over HTTP.
    Serve(ServeArguments),
    /// Serve the developer tools of a session.
    DevTools(DevToolsArguments),
    /// Print this text.
    Help(String),
    /// Print the completion script for a shell.
    Completions(CompletionShell),
    /// Print the man page, or write all into this directory.
    Man(Option<PathBuf>),
    /// Print the version.
    Version,
    /// Play the scripted demo session.
    Demo,
    /// List or change trusted folders.
    Trust {
        action: TrustAction,
        json: bool,
    },
    /// Undo the file changes of a turn.
    Undo(UndoArguments),
    /// Inspect or use the command sandbox.
    Sandbox(SandboxAction),
    /// List and change the MCP servers.
    Mcp(McpAction),
    /// List and check policy rules.
    Policy(PolicyAction),
    /// List and manage extensions, commands, skills, agents, and hooks.
    Extending(Extending),
    Sessions(SessionsArguments),
    /// Manage the keys of providers.
    Auth(AuthArguments),
    /// List and test models.
    Models(ModelsArguments),
    /// Show usage statistics of all sessions.
    Stats(StatsArguments),
    /// Manage worktrees of sessions.
    Worktrees(WorktreesAction),
    /// Run one prompt in the background.
    Background {
        prompt: Option<String>,
        settings: Box<Settings>,
        printing: OutputOptions,
    },
    /// List or control background sessions.
    BackgroundAction(BackgroundAction),
    /// Review changes.
    Review(Box<ReviewArguments>),
    /// Run a batch, or work with its results.
    Batch(Box<BatchArguments>),
    /// Run evaluation cases.
    Eval(Box<EvalArguments>),
    /// Check the machine.
    Doctor(DoctorArguments),
    /// List the sessions of the project.
    ListSessions {
        settings: Settings,
        format: Option<OutputFormat>,
    },
    /// Delete a session.
    DeleteSession {
        /// Its number in the list, or its ID.
        session: String,
        settings: Settings,
        format: Option<OutputFormat>,
    },
    /// Run one prompt.
    Prompt {
        /// The prompt on the command line; text of stdin is prepended.
        prompt: Option<String>,
        settings: Settings,
        printing: OutputOptions,
    },
    /// An interactive session in the terminal.
    Interactive {
        /// The first prompt.
        prompt: Option<String>,
        /// `--screen-reader`.
        screen_reader: bool,
        settings: Settings,
        /// Warnings to show to the user.
        warnings: Vec<String>,
    },
    /// Read prompts as JSON lines from stdin.
    StreamInput {
        settings: Settings,
        printing: OutputOptions,
    },
}

/// The options of the session.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) model: Option<String>,
    pub(crate) approval_mode: Option<ApprovalMode>,
    pub(crate) plan_exit_mode: Option<ApprovalMode>,
    /// `None` keeps the setting.
    pub(crate) allowed_tools: Option<Vec<String>>,
    pub(crate) exclude_tools: Option<Vec<String>>,
    /// Empty keeps the setting.
    pub(crate) allowed_mcp_servers: Vec<String>,
    pub(crate) mcp_config: Vec<PathBuf>,
    pub(crate) skill_directories: Vec<PathBuf>,
    pub(crate) extensions: Vec<String>,
    pub(crate) skip_trust: bool,
    /// Empty keeps the setting; this also applies to the other paths.
    pub(crate) policy_paths: Vec<PathBuf>,
    pub(crate) admin_policy_paths: Vec<PathBuf>,
    /// `None` uses the variable and the setting.
    pub(crate) sandbox: Option<String>,
    /// The worktree to work in.
    pub(crate) worktree: Option<WorktreeRequest>,
    pub(crate) include_directories: Vec<PathBuf>,
    pub(crate) append_system_prompt: Option<String>,
    pub(crate) max_turns: Option<NonZeroU32>,
    pub(crate) limits: RunLimits,
    /// `None` keeps the setting.
    pub(crate) fallback: Option<FallbackPolicy>,
    pub(crate) session: SessionChoice,
    pub(crate) source: ModelSource,
    pub(crate) recording: Option<Recording>,
    pub(crate) ignore_env: bool,
    pub(crate) debug: bool,
    /// Whether a user can respond to requests.
    pub(crate) interactive: bool,
    /// Whether the first prompt waits for MCP servers that never connected before, even though a
    /// user is present.
    pub(crate) waits_for_servers: bool,
}

/// The session to use.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum SessionChoice {
    #[default]
    New,
    /// A new one with this ID.
    WithId(SessionId),
    /// An earlier one: `latest`, a number, or an ID.
    Resume(String),
    /// A copy of an earlier one, truncated before a prompt, counted from 1.
    Fork { from: String, before: u64 },
    /// A new one with the contents of this file.
    Import(PathBuf),
}

/// The source of the model's responses.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum ModelSource {
    #[default]
    Live,
    /// Scripted replies, in order.
    Fake { file: PathBuf, strict: bool },
    /// A recording.
    Replay { file: PathBuf, strict: bool },
}

/// How the model's responses are recorded.
#[derive(Debug, PartialEq)]
pub(crate) enum Recording {
    /// Requests and responses, for replay.
    Exchange(PathBuf),
    /// Responses only, as scripted replies.
    Responses(PathBuf),
}

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

/// Why nothing is run.
#[derive(Debug)]
pub(crate) enum InvocationError {
    Usage(Usage),
    /// The help of a group of subcommands, when none of them is given.
    Group(String),
    Failure(Failure),
}

impl From<Usage> for InvocationError {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

const PIPED: &str =
    "The --prompt-interactive flag cannot be used when input is piped from stdin; use `--prompt`";

fn input_failure(message: impl Into<String>) -> InvocationError {
    InvocationError::Failure(Failure {
        kind: FailureKind::Input,
        message: message.into(),
        status: None,
    })
}

impl Invocation {
    /// Parses a command line that starts with the program name.
    ///
    /// # Errors
    /// Returns the reason if the command line is invalid.
    pub(crate) fn read(argv: &[OsString], around: &StartupFacts) -> Result<Self, InvocationError> {
        if let Some(usage) = usage::flag_as_prompt(argv) {
            return Err(usage.into());
        }
        match Arguments::try_parse_from(argv) {
            Ok(typed) => understand(typed, around),
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                Ok(Self::Help(error.to_string()))
            }
            Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Err(InvocationError::Group(error.to_string()))
            }
            Err(error)
                if usage::lacks_value(&error, "--prompt-interactive")
                    && !around.stdin_is_terminal =>
            {
                Err(input_failure(PIPED))
            }
            Err(error) => {
                let is_text = usage::format_wanted(argv) == OutputFormat::Text;
                let usage = usage::from_clap(&error, argv);
                let of_group = || usage::unknown_in_group(&error, argv).filter(|_| is_text);
                // `trust` may be the first word of a prompt and has its own hint.
                let is_trust = argv.get(1).is_some_and(|word| word == "trust");
                let group = if is_trust { None } else { of_group() };
                Err(group.map_or_else(|| usage.into(), InvocationError::Group))
            }
        }
    }
}

fn understand(typed: Arguments, around: &StartupFacts) -> Result<Invocation, InvocationError> {
    if typed.version {
        return Ok(Invocation::Version);
    }
    let printing = printing(&typed.printing)?;
    match typed.command {
        Some(CliCommand::Trust(trust)) => {
            let action = trust.action.unwrap_or(TrustAction::Status { path: None });
            return Ok(Invocation::Trust { action, json: trust.json });
        }
        Some(CliCommand::Undo(undo)) => return Ok(Invocation::Undo(undo)),
        Some(CliCommand::Sessions(sessions)) => return Ok(Invocation::Sessions(sessions)),
        Some(CliCommand::Mcp(mcp)) => {
            if mcp.debug {
                log_it();
            }
            return Ok(Invocation::Mcp(mcp.action));
        }
        Some(CliCommand::Auth(auth)) => return Ok(Invocation::Auth(auth)),
        Some(CliCommand::Serve(serve)) => return Ok(Invocation::Serve(serve)),
        Some(CliCommand::Worktrees(worktrees)) => return worktrees_of(worktrees.action, around),
        Some(CliCommand::Review(review)) => return Ok(Invocation::Review(Box::new(review))),
        Some(CliCommand::Ps(ps)) => {
            return Ok(Invocation::BackgroundAction(BackgroundAction::Ps(ps)));
        }
        Some(CliCommand::Attach(typed)) => {
            return Ok(Invocation::BackgroundAction(BackgroundAction::Attach(typed)));
        }
        Some(CliCommand::Logs(logs)) => {
            return Ok(Invocation::BackgroundAction(BackgroundAction::Logs(logs)));
        }
        Some(CliCommand::Answer(answer)) => {
            return Ok(Invocation::BackgroundAction(BackgroundAction::Answer(answer)));
        }
        Some(CliCommand::Stop(typed)) => {
            return Ok(Invocation::BackgroundAction(BackgroundAction::Stop(typed)));
        }
        Some(CliCommand::Batch(batch)) => return Ok(Invocation::Batch(batch)),
        Some(CliCommand::DevTools(devtools)) => return Ok(Invocation::DevTools(devtools)),
        Some(CliCommand::Models(models)) => return Ok(Invocation::Models(models)),
        Some(CliCommand::Stats(stats)) => return Ok(Invocation::Stats(stats)),
        Some(CliCommand::Eval(eval)) => return Ok(Invocation::Eval(Box::new(eval))),
        Some(CliCommand::Doctor(doctor)) => return Ok(Invocation::Doctor(doctor)),
        Some(CliCommand::Schema { of }) => {
            let schema = match of {
                SchemaOf::Events => parallax_headless::stream_schema(),
                SchemaOf::Doctor => parallax_doctor::report_schema(),
            };
            return Ok(Invocation::Help(parallax_headless::json_document(&schema)));
        }
        Some(CliCommand::Completions { shell }) => return Ok(Invocation::Completions(shell)),
        Some(CliCommand::Man { out }) => return Ok(Invocation::Man(out)),
        Some(CliCommand::Policy(policy)) => return Ok(Invocation::Policy(policy.action)),
        Some(CliCommand::Extending(action)) => {
            if action.is_logged() {
                log_it();
            }
            return Ok(Invocation::Extending(action));
        }
        Some(CliCommand::Sandbox(sandbox)) => return Ok(Invocation::Sandbox(sandbox.action)),
        Some(CliCommand::Demo) | None => {}
    }
    let is_demo = typed.words.iter().map(String::as_str).eq(["demo"]);
    if matches!(typed.command, Some(CliCommand::Demo)) || is_demo {
        return Ok(Invocation::Demo);
    }
    if typed.session.list_extensions {
        return Ok(Invocation::Extending(Extending::list_extensions(
            typed.printing.output_format.is_some_and(|format| format != Format::Text),
        )));
    }
    if typed.session.list_sessions && typed.session.delete_session.is_some() {
        return Err(exclusive("--list-sessions", "--delete-session"));
    }
    let mut session = typed.session;
    let first = session.prompt_interactive.take();
    let screen_reader = session.screen_reader;
    if first.is_some() && session.prompt.is_some() {
        return Err(exclusive("--prompt", "--prompt-interactive"));
    }
    if first.is_some() && !typed.words.is_empty() {
        return Err(input_failure(
            "Cannot use both a positional prompt and the --prompt-interactive (-i) flag \
             together\nQuote the prompt: parallax -i \"…\"",
        ));
    }
    if session.prompt.is_none()
        && let Some(text) = help_of(&typed.words)
    {
        return Ok(Invocation::Help(text));
    }
    if let [first, second] = typed.words.as_slice()
        && session.prompt.is_none()
        && let Some(message) = usage::unknown_second(first, second)
    {
        let as_prompt = format!("to send the words to the model: parallax -p \"{first} {second}\"");
        return Err(Usage::new(message, as_prompt).into());
    }
    if let [word] = typed.words.as_slice()
        && session.prompt.is_none()
        && let Some(message) = usage::unknown_word(word)
    {
        let as_prompt = format!("To send the word to the model: parallax -p {word}");
        return Err(Usage::new(message, as_prompt).into());
    }
    if let Some(directory) = session.cd.take() {
        std::env::set_current_dir(&directory).map_err(|error| {
            input_failure(format!(
                "Failed to change to the directory `{}`: {error}",
                directory.display()
            ))
        })?;
    }
    let is_printed = session.prompt.is_some() || printing.format.is_some();
    let as_words = !typed.words.is_empty();
    let prompt = prompt_of(&mut session, typed.words)?;
    let delete = session.delete_session.take();
    let list = session.list_sessions;
    let streams = typed.printing.input_format == Some(InputFormat::StreamJson);
    let (is_acp, is_setup, is_background) = (session.acp, session.setup, session.bg);
    let mut settings = settings(session, typed.doubles, around)?;
    let mut printing = printing;
    if settings.allowed_tools.is_some() {
        printing
            .warnings
            .push("`--allowed-tools` is deprecated; use the setting `tools.allowed`".to_owned());
    }
    if list {
        return Ok(Invocation::ListSessions { settings, format: printing.format });
    }
    if let Some(session) = delete {
        let format = printing.format;
        return Ok(Invocation::DeleteSession { session, settings, format });
    }
    if is_setup {
        let prompt = Some("/auth".to_owned());
        return Ok(Invocation::Interactive {
            prompt,
            screen_reader: false,
            settings,
            warnings: printing.warnings,
        });
    }
    if settings.worktree.is_some() && (is_acp || streams) {
        let hint = "Omit it, and start the program in a worktree.";
        return Err(Usage::new("`--worktree` requires a prompt or a terminal", hint).into());
    }
    if is_background {
        if is_acp || streams || first.is_some() {
            let hint = "Use it as in `parallax --bg -p \"…\"`.";
            return Err(Usage::new("`--bg` requires a prompt and no other input", hint).into());
        }
        settings.interactive = true;
        settings.waits_for_servers = true;
        return Ok(Invocation::Background { prompt, settings: Box::new(settings), printing });
    }
    if is_acp {
        if prompt.is_some() {
            return Err(Usage::new(
                "`--acp` reads its prompts from stdin",
                "Omit the prompt or the option.",
            )
            .into());
        }
        settings.interactive = true;
        return Ok(Invocation::Acp { settings });
    }
    if streams {
        if prompt.is_some() {
            return Err(Usage::new(
                "`--input-format stream-json` reads its prompts from stdin",
                "Omit the prompt or the option.",
            )
            .into());
        }
        settings.interactive = true;
        settings.waits_for_servers = true;
        return Ok(Invocation::StreamInput { settings, printing });
    }
    if first.is_some() && !around.stdin_is_terminal {
        return Err(input_failure(PIPED));
    }
    if first.is_some() && !around.stdout_is_terminal {
        return Err(input_failure(
            "The --prompt-interactive flag requires a terminal on stdout; use `--prompt`",
        ));
    }
    if first.is_some() || (!is_printed && !around.is_headless()) {
        let mut warnings = printing.warnings;
        if as_words {
            warnings.push(
                "Words on the command line start an interactive session; use `-p` to print an \
                 answer and exit"
                    .to_owned(),
            );
        }
        settings.interactive = true;
        let prompt = first.or(prompt).filter(|text| !text.trim().is_empty());
        return Ok(Invocation::Interactive { prompt, screen_reader, settings, warnings });
    }
    // The last turn of a resumed session may have been interrupted.
    let goes_on = matches!(settings.session, SessionChoice::Resume(_));
    if prompt.is_none() && !around.is_headless() && !goes_on {
        return Err(input_failure(
            "No prompt given\nUse `parallax -p \"…\"`, pipe a prompt to stdin, or start an \
             interactive session with `parallax`.",
        ));
    }
    Ok(Invocation::Prompt { prompt, settings, printing })
}

/// Interprets `parallax worktrees`; `open` in a terminal starts a session in that directory.
fn worktrees_of(
    action: WorktreesAction,
    around: &StartupFacts,
) -> Result<Invocation, InvocationError> {
    let WorktreesAction::Open { name } = &action else {
        return Ok(Invocation::Worktrees(action));
    };
    if around.is_headless() || !around.stdout_is_terminal {
        return Ok(Invocation::Worktrees(action));
    }
    let (path, has_session) = worktrees_command::open(name).map_err(InvocationError::Failure)?;
    std::env::set_current_dir(&path).map_err(|error| {
        input_failure(format!("Failed to change to the directory `{}`: {error}", path.display()))
    })?;
    let session = match has_session {
        true => SessionChoice::Resume("latest".to_owned()),
        false => SessionChoice::New,
    };
    let settings = Settings { session, interactive: true, ..Settings::default() };
    Ok(Invocation::Interactive {
        prompt: None,
        screen_reader: false,
        settings,
        warnings: Vec::new(),
    })
}

/// Returns the help that `help` and names of subcommands request; `None` if the words are a prompt.
fn help_of(words: &[String]) -> Option<String> {
    let is_help = |word: &String| word.trim().eq_ignore_ascii_case("help");
    let (_, names) = words.split_first().filter(|(first, _)| is_help(first))?;
    let mut all = Arguments::command();
    all.build();
    let mut command = &mut all;
    for name in names {
        command = command.find_subcommand_mut(name.trim())?;
    }
    Some(command.render_help().to_string())
}

fn exclusive(one: &str, other: &str) -> InvocationError {
    Usage::new(format!("`{one}` and `{other}` cannot be used together"), "Omit one of them.").into()
}

fn prompt_of(
    session: &mut SessionArguments,
    words: Vec<String>,
) -> Result<Option<String>, InvocationError> {
    match (session.prompt.take(), words.is_empty()) {
        (Some(_), false) => Err(Usage::new(
            "The prompt cannot be given both with `--prompt` and as words",
            "If the words belong to the prompt, quote it: parallax -p \"…\"",
        )
        .into()),
        (Some(prompt), true) => Ok(Some(prompt)),
        (None, false) => Ok(Some(words.join(" "))),
        (None, true) => Ok(None),
    }
}

fn settings(
    typed: SessionArguments,
    doubles: DoubleArguments,
    around: &StartupFacts,
) -> Result<Settings, InvocationError> {
    if typed.yolo && typed.approval_mode.is_some() {
        return Err(exclusive("--yolo", "--approval-mode"));
    }
    let recording = match (doubles.record, doubles.record_responses) {
        (Some(_), Some(_)) => return Err(exclusive("--record", "--record-responses")),
        (Some(file), None) => Some(Recording::Exchange(file)),
        (None, Some(file)) => Some(Recording::Responses(file)),
        (None, None) => None,
    };
    let sources = [
        ("--replay", doubles.replay.map(|file| ModelSource::Replay { file, strict: true })),
        (
            "--replay-non-strict",
            doubles.replay_non_strict.map(|file| ModelSource::Replay { file, strict: false }),
        ),
        (
            "--fake-responses",
            doubles.fake_responses.map(|file| ModelSource::Fake { file, strict: true }),
        ),
        (
            "--fake-responses-non-strict",
            doubles.fake_responses_non_strict.map(|file| ModelSource::Fake { file, strict: false }),
        ),
    ];
    let session_id = typed
        .session_id
        .map(|id| {
            if SessionId::is_valid(&id) {
                Ok(SessionChoice::WithId(SessionId::new(id)))
            } else {
                Err(input_failure(format!(
                    "Invalid session id `{id}`: use at most 128 letters, digits, `-`, and `_`"
                )))
            }
        })
        .transpose()?;
    if typed.at.is_some() && typed.resume.is_none() {
        let hint = "Use it as in `--resume SESSION --at PROMPT`.";
        return Err(Usage::new("`--at` requires `--resume`", hint).into());
    }
    let resumed = typed.resume.map(|from| match typed.at {
        Some(before) => SessionChoice::Fork { from, before: before.get() },
        None => SessionChoice::Resume(from),
    });
    let sessions = [
        ("--resume", resumed),
        ("--session-id", session_id),
        ("--session-file", typed.session_file.map(SessionChoice::Import)),
    ];
    Ok(Settings {
        model: typed.model.filter(|model| !model.trim().is_empty()),
        approval_mode: if typed.yolo { Some(ApprovalMode::Yolo) } else { typed.approval_mode },
        plan_exit_mode: typed.plan_exit_mode,
        allowed_tools: list(&typed.allowed_tools),
        exclude_tools: list(&typed.exclude_tools),
        allowed_mcp_servers: list(&typed.allowed_mcp_server_names).unwrap_or_default(),
        mcp_config: typed.mcp_config,
        skill_directories: typed.skill_dir,
        extensions: list(&typed.extensions).unwrap_or_default(),
        skip_trust: typed.skip_trust,
        policy_paths: paths(&typed.rules.policy),
        admin_policy_paths: paths(&typed.rules.admin_policy),
        sandbox: typed.sandbox,
        worktree: typed.worktree.map(|name| WorktreeRequest {
            name,
            from: typed.from,
            carry: typed.carry,
        }),
        include_directories: paths(&typed.include_directories),
        append_system_prompt: typed.append_system_prompt.clone(),
        max_turns: typed.max_turns,
        fallback: typed.fallback,
        limits: RunLimits {
            cost: typed.max_cost,
            tokens: typed.max_tokens.map(std::num::NonZeroU64::get),
            time: typed.timeout,
        },
        session: at_most_one(sessions)?,
        source: at_most_one(sources)?,
        recording,
        ignore_env: typed.ignore_env,
        debug: typed.debug || around.debug,
        interactive: false,
        waits_for_servers: false,
    })
}

pub(crate) fn paths(values: &[String]) -> Vec<PathBuf> {
    list(values).unwrap_or_default().into_iter().map(PathBuf::from).collect()
}

fn at_most_one<T: Default, const N: usize>(
    choices: [(&'static str, Option<T>); N],
) -> Result<T, InvocationError> {
    let mut chosen: Option<(&str, T)> = None;
    for (flag, choice) in choices {
        match (choice, &chosen) {
            (Some(_), Some((first, _))) => return Err(exclusive(first, flag)),
            (Some(value), None) => chosen = Some((flag, value)),
            (None, _) => {}
        }
    }
    Ok(chosen.map(|(_, value)| value).unwrap_or_default())
}

/// Splits values at commas outside of brackets: `run_shell_command(a, b)` is one value. Returns
/// `None` if the flag is not given.
fn list(values: &[String]) -> Option<Vec<String>> {
    if values.is_empty() {
        return None;
    }
    let mut items = Vec::new();
    for value in values {
        let mut depth = 0usize;
        let parts = value.split(|char| {
            match char {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            char == ',' && depth == 0
        });
        items.extend(parts.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned));
    }
    Some(items)
}

fn printing(typed: &PrintingArguments) -> Result<OutputOptions, InvocationError> {
    let streams_in = typed.input_format == Some(InputFormat::StreamJson);
    // Flags that only one format supports select that format.
    let implied = [
        ("--input-format stream-json", streams_in, Format::StreamJson),
        ("--stream-version", typed.stream_version.is_some(), Format::StreamJson),
        ("--verbose-json", typed.verbose_json, Format::Json),
        ("--stream-text", typed.stream_text, Format::Text),
    ];
    let mut format = typed.output_format;
    let mut asked_by = "--output-format";
    for (flag, given, needs) in implied {
        match format {
            _ if !given => {}
            None => {
                format = Some(needs);
                asked_by = flag;
            }
            Some(format) if format == needs => {}
            Some(_) => {
                return Err(Usage::new(
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
    if typed.raw_output && !typed.accept_raw_output_risk {
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
        stream_version: typed.stream_version.unwrap_or(1),
        verbose_json: typed.verbose_json,
        raw_output: typed.raw_output || typed.accept_raw_output_risk,
        stream_text: typed.stream_text,
        quiet: typed.quiet,
        schema: typed.output_schema.clone(),
        warnings,
    })
}

#[cfg(test)]
mod tests;
