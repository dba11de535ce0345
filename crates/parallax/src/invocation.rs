//! Interprets the command line.

mod error;
mod output_flags;
mod session_flags;

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use parallax_headless::OutputFormat;
use parallax_sdk::LaunchOptions;
use parallax_sessions::SessionChoice;

use self::error::{exclusive_flags_error, input_failure};
use self::output_flags::output_options;
use self::session_flags::session_flags;
use crate::argument_values::{Format, InputFormat};
use crate::arguments::{Arguments, CliCommand, SchemaKind, SessionArguments, TrustAction};
use crate::async_command::AsyncCommand;
use crate::background_arguments::BackgroundAction;
use crate::blocking_command::BlockingCommand;
use crate::command_line;
use crate::extension_commands::{ExtensionCommand, enable_log};
use crate::session_flags::SessionFlags;
use crate::startup_info::StartupInfo;
use crate::usage::{self, UsageError};
use crate::worktrees_command::{self, WorktreesAction};

pub(crate) use self::error::InvocationError;

/// The action to perform.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per process")]
pub(crate) enum Invocation {
    /// Starts no async runtime.
    Blocking(BlockingCommand),
    /// Starts an async runtime.
    Async(AsyncCommand),
}

impl From<BlockingCommand> for Invocation {
    fn from(command: BlockingCommand) -> Self {
        Self::Blocking(command)
    }
}

impl From<AsyncCommand> for Invocation {
    fn from(command: AsyncCommand) -> Self {
        Self::Async(command)
    }
}

const PIPED: &str =
    "The --prompt-interactive flag cannot be used when input is piped from stdin; use `--prompt`";

impl Invocation {
    /// Parses a command line that starts with the program name.
    ///
    /// # Errors
    /// Returns the reason if the command line is invalid.
    pub(crate) fn read(argv: &[OsString], startup: &StartupInfo) -> Result<Self, InvocationError> {
        if let Some(usage) = usage::flag_as_prompt(argv) {
            return Err(usage.into());
        }
        match command_line::parse(argv) {
            Ok(arguments) => to_invocation(arguments, startup),
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                Ok(BlockingCommand::Help(error.to_string()).into())
            }
            Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Err(InvocationError::Group(error.to_string()))
            }
            Err(error)
                if usage::is_missing_value(&error, "--prompt-interactive")
                    && !startup.stdin_is_terminal =>
            {
                Err(input_failure(PIPED))
            }
            Err(error) => {
                let is_text = usage::requested_format(argv) == OutputFormat::Text;
                let usage = usage::from_clap(&error, argv);
                let group_error = || usage::unknown_in_group(&error, argv).filter(|_| is_text);
                // `trust` may be the first word of a prompt and has its own hint.
                let is_trust = argv.get(1).is_some_and(|word| word == "trust");
                let group = if is_trust { None } else { group_error() };
                Err(group.map_or_else(|| usage.into(), InvocationError::Group))
            }
        }
    }
}

fn to_invocation(
    arguments: Arguments,
    startup: &StartupInfo,
) -> Result<Invocation, InvocationError> {
    if arguments.version {
        return Ok(BlockingCommand::Version.into());
    }
    let printing = output_options(&arguments.printing)?;
    match arguments.command {
        Some(CliCommand::Trust(trust)) => {
            let action = trust.action.unwrap_or(TrustAction::Status { path: None });
            return Ok(BlockingCommand::Trust { action, json: trust.json }.into());
        }
        Some(CliCommand::Undo(undo)) => return Ok(BlockingCommand::Undo(undo).into()),
        Some(CliCommand::Sessions(sessions)) => {
            return Ok(BlockingCommand::Sessions(sessions).into());
        }
        Some(CliCommand::Mcp(mcp)) => {
            if mcp.debug {
                enable_log();
            }
            return Ok(AsyncCommand::Mcp(mcp.action).into());
        }
        Some(CliCommand::Auth(auth)) => return Ok(AsyncCommand::Auth(auth).into()),
        Some(CliCommand::Serve(serve)) => return Ok(AsyncCommand::Serve(serve).into()),
        Some(CliCommand::Worktrees(worktrees)) => return worktrees_of(worktrees.action, startup),
        Some(CliCommand::Review(review)) => {
            return Ok(AsyncCommand::Review(Box::new(review)).into());
        }
        Some(CliCommand::Ps(ps)) => {
            return Ok(AsyncCommand::BackgroundAction(BackgroundAction::Ps(ps)).into());
        }
        Some(CliCommand::Attach(typed)) => {
            return Ok(AsyncCommand::BackgroundAction(BackgroundAction::Attach(typed)).into());
        }
        Some(CliCommand::Logs(logs)) => {
            return Ok(AsyncCommand::BackgroundAction(BackgroundAction::Logs(logs)).into());
        }
        Some(CliCommand::Answer(answer)) => {
            return Ok(AsyncCommand::BackgroundAction(BackgroundAction::Answer(answer)).into());
        }
        Some(CliCommand::Stop(typed)) => {
            return Ok(AsyncCommand::BackgroundAction(BackgroundAction::Stop(typed)).into());
        }
        Some(CliCommand::Batch(batch)) => return Ok(AsyncCommand::Batch(batch).into()),
        Some(CliCommand::DevTools(devtools)) => return Ok(AsyncCommand::DevTools(devtools).into()),
        Some(CliCommand::Models(models)) => return Ok(AsyncCommand::Models(models).into()),
        Some(CliCommand::Stats(stats)) => return Ok(BlockingCommand::Stats(stats).into()),
        Some(CliCommand::Eval(eval)) => return Ok(AsyncCommand::Eval(Box::new(eval)).into()),
        Some(CliCommand::Doctor(doctor)) => return Ok(AsyncCommand::Doctor(doctor).into()),
        Some(CliCommand::Schema { of }) => {
            let schema = match of {
                SchemaKind::Events => parallax_headless::stream_schema(),
                SchemaKind::Doctor => parallax_doctor::report_schema(),
                SchemaKind::Settings => parallax_config::settings_schema(),
            };
            return Ok(BlockingCommand::Help(parallax_headless::json_document(&schema)).into());
        }
        Some(CliCommand::Completions { shell }) => {
            return Ok(BlockingCommand::Completions(shell).into());
        }
        Some(CliCommand::Man { out }) => return Ok(BlockingCommand::Man(out).into()),
        Some(CliCommand::Policy(policy)) => {
            return Ok(BlockingCommand::Policy(policy.action).into());
        }
        Some(CliCommand::Extending(action)) => {
            if action.is_logged() {
                enable_log();
            }
            return Ok(BlockingCommand::Extending(action).into());
        }
        Some(CliCommand::Sandbox(sandbox)) => {
            return Ok(BlockingCommand::Sandbox(sandbox.action).into());
        }
        Some(CliCommand::Demo) | None => {}
    }
    let is_demo = arguments.words.iter().map(String::as_str).eq(["demo"]);
    if matches!(arguments.command, Some(CliCommand::Demo)) || is_demo {
        return Ok(AsyncCommand::Demo.into());
    }
    if arguments.session.list_extensions {
        return Ok(BlockingCommand::Extending(ExtensionCommand::list_extensions(
            arguments.printing.output_format.is_some_and(|format| format != Format::Text),
        ))
        .into());
    }
    if arguments.session.list_sessions && arguments.session.delete_session.is_some() {
        return Err(exclusive_flags_error("--list-sessions", "--delete-session"));
    }
    let mut session = arguments.session;
    let first = session.prompt_interactive.take();
    let screen_reader = session.screen_reader;
    if first.is_some() && session.prompt.is_some() {
        return Err(exclusive_flags_error("--prompt", "--prompt-interactive"));
    }
    if first.is_some() && !arguments.words.is_empty() {
        return Err(input_failure(
            "Cannot use both a positional prompt and the --prompt-interactive (-i) flag \
             together\nQuote the prompt: parallax -i \"…\"",
        ));
    }
    if session.prompt.is_none()
        && let Some(text) = help_of(&arguments.words)
    {
        return Ok(BlockingCommand::Help(text).into());
    }
    if let [first, second] = arguments.words.as_slice()
        && session.prompt.is_none()
        && let Some(message) = usage::unknown_second_word(first, second)
    {
        let as_prompt = format!("to send the words to the model: parallax -p \"{first} {second}\"");
        return Err(UsageError::new(message, as_prompt).into());
    }
    if let [word] = arguments.words.as_slice()
        && session.prompt.is_none()
        && let Some(message) = usage::unknown_word(word)
    {
        let as_prompt = format!("To send the word to the model: parallax -p {word}");
        return Err(UsageError::new(message, as_prompt).into());
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
    let as_words = !arguments.words.is_empty();
    let prompt = prompt_of(&mut session, arguments.words)?;
    let delete = session.delete_session.take();
    let list = session.list_sessions;
    let streams = arguments.printing.input_format == Some(InputFormat::StreamJson);
    let (is_acp, is_setup, is_background) = (session.acp, session.setup, session.bg);
    let has_allowed_tools = !session.allowed_tools.is_empty();
    let mut flags = session_flags(session, arguments.doubles, startup)?;
    let mut printing = printing;
    if has_allowed_tools {
        printing
            .warnings
            .push("`--allowed-tools` is deprecated; use the setting `tools.allowed`".to_owned());
    }
    if list {
        return Ok(AsyncCommand::ListSessions { flags, format: printing.format }.into());
    }
    if let Some(session) = delete {
        let format = printing.format;
        return Ok(AsyncCommand::DeleteSession { session, flags, format }.into());
    }
    if is_setup {
        let prompt = Some("/auth".to_owned());
        return Ok(AsyncCommand::Interactive {
            prompt,
            screen_reader: false,
            flags,
            warnings: printing.warnings,
        }
        .into());
    }
    if flags.worktree.is_some() && (is_acp || streams) {
        let hint = "Omit it, and start the program in a worktree.";
        return Err(UsageError::new("`--worktree` requires a prompt or a terminal", hint).into());
    }
    if is_background {
        if is_acp || streams || first.is_some() {
            let hint = "Example: `parallax --bg -p \"…\"`.";
            return Err(UsageError::new("`--bg` requires a prompt and no other input", hint).into());
        }
        flags.options.interactive = true;
        flags.options.waits_for_servers = true;
        return Ok(AsyncCommand::Background { prompt, flags: Box::new(flags), printing }.into());
    }
    if is_acp {
        if prompt.is_some() {
            return Err(UsageError::new(
                "`--acp` reads its prompts from stdin",
                "Omit the prompt or the option.",
            )
            .into());
        }
        flags.options.interactive = true;
        return Ok(AsyncCommand::Acp { flags }.into());
    }
    if streams {
        if prompt.is_some() {
            return Err(UsageError::new(
                "`--input-format stream-json` reads its prompts from stdin",
                "Omit the prompt or the option.",
            )
            .into());
        }
        flags.options.interactive = true;
        flags.options.waits_for_servers = true;
        return Ok(AsyncCommand::StreamInput { flags, printing }.into());
    }
    if first.is_some() && !startup.stdin_is_terminal {
        return Err(input_failure(PIPED));
    }
    if first.is_some() && !startup.stdout_is_terminal {
        return Err(input_failure(
            "The --prompt-interactive flag requires a terminal on stdout; use `--prompt`",
        ));
    }
    if first.is_some() || (!is_printed && !startup.is_headless()) {
        let mut warnings = printing.warnings;
        if as_words {
            warnings.push(
                "Words on the command line start an interactive session; use `-p` to print an \
                 answer and exit"
                    .to_owned(),
            );
        }
        flags.options.interactive = true;
        let prompt = first.or(prompt).filter(|text| !text.trim().is_empty());
        return Ok(AsyncCommand::Interactive { prompt, screen_reader, flags, warnings }.into());
    }
    // The last turn of a resumed session may have been interrupted.
    let goes_on = matches!(flags.options.session, SessionChoice::Resume(_));
    if prompt.is_none() && !startup.is_headless() && !goes_on {
        return Err(input_failure(
            "No prompt given\nUse `parallax -p \"…\"`, pipe a prompt to stdin, or start an \
             interactive session with `parallax`.",
        ));
    }
    Ok(AsyncCommand::Prompt { prompt, flags, printing }.into())
}

/// Interprets `parallax worktrees`; `open` in a terminal starts a session in that directory.
fn worktrees_of(
    action: WorktreesAction,
    startup: &StartupInfo,
) -> Result<Invocation, InvocationError> {
    let WorktreesAction::Open { name } = &action else {
        return Ok(BlockingCommand::Worktrees(action).into());
    };
    if startup.is_headless() || !startup.stdout_is_terminal {
        return Ok(BlockingCommand::Worktrees(action).into());
    }
    let (path, has_session) = worktrees_command::open(name).map_err(InvocationError::Failure)?;
    std::env::set_current_dir(&path).map_err(|error| {
        input_failure(format!("Failed to change to the directory `{}`: {error}", path.display()))
    })?;
    let session = match has_session {
        true => SessionChoice::Resume("latest".to_owned()),
        false => SessionChoice::New,
    };
    let options = LaunchOptions { session, interactive: true, ..LaunchOptions::default() };
    let flags = SessionFlags { options, ..SessionFlags::default() };
    Ok(AsyncCommand::Interactive {
        prompt: None,
        screen_reader: false,
        flags,
        warnings: Vec::new(),
    }
    .into())
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

fn prompt_of(
    session: &mut SessionArguments,
    words: Vec<String>,
) -> Result<Option<String>, InvocationError> {
    match (session.prompt.take(), words.is_empty()) {
        (Some(_), false) => Err(UsageError::new(
            "The prompt cannot be given both with `--prompt` and as words",
            "If the words belong to the prompt, quote it: parallax -p \"…\"",
        )
        .into()),
        (Some(prompt), true) => Ok(Some(prompt)),
        (None, false) => Ok(Some(words.join(" "))),
        (None, true) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
