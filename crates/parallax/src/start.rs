//! Opens and finds sessions: passes the options of the command line to the sdk.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_commands::Expander;
use parallax_commands::built_in::{COMMIT, COMMIT_NO_PUSH, COMMIT_PR, InitResult, coordination};
use parallax_commands::{
    Commands, ExpandedCommand, PreparedCommand, built_in_names, strip_parallax_prefix,
};
use parallax_headless::info_commands::{self, CommandOutput, EngineAnswer, plans};
use parallax_headless::{OutputFormat, SlashKind, classify, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::op::Prompt;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::typed_input::{CommandApprover, ExpandInput, TypedInput};
use parallax_protocol::{CancellationToken, Object};
use parallax_sdk::{EventReader, LaunchOptions, OpenSession, SessionConfig};
use parallax_sessions::SessionEntry;
use serde_json::Value;

use crate::session_flags::SessionFlags;

/// An open session with its output format.
pub(crate) struct StartedSession {
    pub(crate) session: OpenSession,
    pub(crate) events: EventReader,
}

/// Completes the options of a command line with what is read from the process and from disk.
///
/// # Errors
/// Returns an error if the working directory no longer exists, or if a file or directory that a
/// flag names cannot be read.
pub(crate) fn options(flags: &SessionFlags) -> Result<LaunchOptions, Failure> {
    let directory = std::env::current_dir().map_err(|error| Failure {
        kind: FailureKind::Input,
        message: format!("Failed to read the current directory: {error}"),
        status: None,
    })?;
    Ok(LaunchOptions {
        directory,
        variables: std::env::vars_os().collect(),
        mcp_servers: mcp_servers_of(&flags.mcp_config)?,
        skill_directories: skill_directories_of(&flags.options.skill_directories)?,
        version: env!("CARGO_PKG_VERSION"),
        calls_sandbox_main: true,
        highlighter: Some(parallax_tui::code_pieces),
        ..flags.options.clone()
    })
}

/// Returns the servers of the `--mcp-config` files; of several with the same name, the last is
/// used.
fn mcp_servers_of(files: &[PathBuf]) -> Result<Object, Failure> {
    let mut servers = Object::new();
    for file in files {
        let display_path = one_line(&file.display().to_string());
        let read = parallax_config::jsonc_object(file)
            .map_err(|error| input_failure(error.to_string()))?;
        let Some(mut read) = read else {
            return Err(input_failure(format!(
                "`--mcp-config {display_path}`: the file does not exist"
            )));
        };
        match read.shift_remove("mcpServers") {
            Some(Value::Object(more)) if more.values().all(Value::is_object) => {
                servers.extend(more);
            }
            _ => {
                return Err(input_failure(format!(
                    "`--mcp-config {display_path}`: the file must have an object `mcpServers` with an \
                     object for each server"
                )));
            }
        }
    }
    Ok(servers)
}

/// Returns the directories of `--skill-dir` as absolute paths.
fn skill_directories_of(directories: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let absolute = |directory: &PathBuf| {
        directory.canonicalize().ok().filter(|directory| directory.is_dir()).ok_or_else(|| {
            let display_path = one_line(&directory.display().to_string());
            input_failure(format!("`--skill-dir {display_path}`: the directory does not exist"))
        })
    };
    directories.iter().map(absolute).collect()
}

/// Returns the output format if the command line does not select one.
pub(crate) fn format_of(launch: &SessionConfig) -> OutputFormat {
    match launch.output_format() {
        parallax_sdk::OutputFormat::Text => OutputFormat::Text,
        parallax_sdk::OutputFormat::Json => OutputFormat::Json,
        parallax_sdk::OutputFormat::StreamJson => OutputFormat::StreamJson,
    }
}

/// Opens the session that the command line selects.
///
/// # Errors
/// Returns the reason if it cannot be opened.
pub(crate) fn start(launch: SessionConfig) -> Result<StartedSession, Failure> {
    let (session, events) = launch.open()?;
    Ok(StartedSession { session, events })
}

/// Returns a function that expands typed prompts: it includes the files named with `@` and expands
/// custom commands.
pub(crate) fn expand(session: &OpenSession) -> ExpandInput {
    let input_context = InputContext::for_session(session);
    let ledger = session.ledger();
    Arc::new(move |TypedInput { text, mode, approver }| {
        let (input_context, ledger) = (input_context.clone(), ledger.clone());
        let input_context = InputContext { mode, approver, ..input_context };
        Box::pin(async move {
            let expanded = ledger.run_within(input_context.expand(text)).await;
            let expanded = expanded.map_err(|spent| input_failure(spent.to_string()))??;
            for notice in expanded.notices {
                tracing::warn!("{notice}");
            }
            Ok(expanded.prompt)
        })
    })
}

/// Returns the output of a built-in informational command; `None` for any other text.
///
/// # Errors
/// Returns an error if the command needs a terminal.
pub(crate) async fn info_command(
    session: &OpenSession,
    text: &str,
) -> Result<Option<CommandOutput>, Failure> {
    let SlashKind::Command { name, arguments } = classify(text.trim_end()) else { return Ok(None) };
    // Reads files and queries the kernel for a few milliseconds, in which nothing else has to run.
    let tell = || {
        info_commands::run(session, name, arguments).transpose().map_err(|mut failure| {
            // The user may have meant their own command, which has another name.
            if let Some(new_name) = session.commands.catalog().moved_from(name) {
                failure.message.push_str(&format!("; your own command is `/{new_name}`"));
            }
            failure
        })
    };
    tokio::task::block_in_place(tell)
}

/// Runs a built-in command that the session executes, and returns its result with the events up to
/// then; `None` for any other text.
///
/// # Errors
/// Returns an error if the session ended.
pub(crate) async fn engine_command(
    session: &OpenSession,
    events: &mut EventReader,
    text: &str,
) -> Result<Option<EngineAnswer>, Failure> {
    let SlashKind::Command { name, arguments } = classify(text.trim_end()) else { return Ok(None) };
    // The first time, files of commands are read.
    if let Some(op) = tokio::task::block_in_place(|| session.command_record(name)) {
        // A session that has ended records nothing.
        let _ = session.ops().send(op).await;
    }
    info_commands::ask_engine(session, events, name, arguments).await.transpose()
}

/// Returns the prompt of a built-in command.
fn own_prompt(
    launch: &SessionConfig,
    name: &str,
    arguments: &str,
) -> Result<Option<Prompt>, Failure> {
    let text = match (name, arguments.trim()) {
        ("commit", _) => COMMIT.to_owned(),
        ("commit:no-push", _) => COMMIT_NO_PUSH.to_owned(),
        ("commit:pr", _) => COMMIT_PR.to_owned(),
        ("parallax", "") => {
            return Err(input_failure("No goal given: use `/parallax GOAL`".to_owned()));
        }
        ("parallax", goal) => coordination(goal),
        ("init", _) => match parallax_commands::built_in::init(launch.directory())? {
            InitResult::Prompt(text) => text.to_owned(),
            InitResult::AlreadyExists(path) => {
                return Err(input_failure(format!(
                    "`{}` already exists; nothing was changed",
                    path.display()
                )));
            }
        },
        _ => return Ok(None),
    };
    let typed_command = Some(format!("/{name} {}", arguments.trim()).trim_end().to_owned());
    Ok(Some(Prompt { text, typed_command, ..Prompt::default() }))
}

/// The built-in commands of [`own_prompt`].
const SENDS_A_PROMPT: [&str; 5] = ["commit", "commit:no-push", "commit:pr", "init", "parallax"];

/// Converts the text of a prompt to what is sent.
///
/// # Errors
/// Returns an error if a file that the prompt names cannot be read, or if a custom command cannot
/// be run.
pub(crate) async fn prompt(
    session: &OpenSession,
    text: String,
) -> Result<ExpandedCommand, Failure> {
    InputContext::for_session(session).expand(text).await
}

/// The state needed to interpret typed text.
#[derive(Clone)]
struct InputContext {
    expander: Expander,
    commands: Commands,
    mode: ApprovalMode,
    /// Asks about shell commands of custom commands.
    approver: Option<CommandApprover>,
    launch: SessionConfig,
}

impl InputContext {
    fn for_session(session: &OpenSession) -> Self {
        let (expander, commands) = (session.expander.clone(), session.commands.clone());
        let (mode, launch) = (session.mode, session.launch().clone());
        Self { expander, commands, mode, approver: None, launch }
    }

    async fn expand(self, text: String) -> Result<ExpandedCommand, Failure> {
        let Some(task) = plan_text(&text) else { return self.expand_text(text).await };
        if !self.launch.has_plan_mode() {
            let message = "Plan mode is disabled. Enable `general.plan.enabled` to use `/plan`.";
            return Err(input_failure(message.to_owned()));
        }
        if let SlashKind::Command { name, .. } = classify(task)
            && !self.commands.has_command(name)
            && !SENDS_A_PROMPT.contains(&name)
            && built_in_names().any(|known| known == name)
        {
            let message =
                format!("`/plan` needs a task to plan, and `/{name}` is a command: run it alone");
            return Err(input_failure(message));
        }
        let mut expanded = self.expand_text(task.to_owned()).await?;
        let overrides = expanded.prompt.overrides.get_or_insert_default();
        overrides.mode = Some(ApprovalMode::Plan);
        Ok(expanded)
    }

    async fn expand_text(self, text: String) -> Result<ExpandedCommand, Failure> {
        let Self { expander, commands, mode, approver, launch } = self;
        if classify(&text) == SlashKind::Text {
            let expand_task = tokio::task::spawn_blocking(move || expander.prompt(text));
            let prompt =
                expand_task.await.map_err(|error| internal_failure(&error.to_string()))??;
            return Ok(ExpandedCommand { prompt, notices: Vec::new() });
        }
        let prepare_task = tokio::task::spawn_blocking(move || {
            if let SlashKind::Command { name, arguments } = classify(&text)
                && !commands.has_command(name)
                && let Some(prompt) =
                    own_prompt(&launch, strip_parallax_prefix(name).unwrap_or(name), arguments)?
            {
                return Ok(StartupInput::Prompt(prompt));
            }
            commands.prepare(&text, mode).map(StartupInput::Command)
        });
        let read = prepare_task.await.map_err(|error| internal_failure(&error.to_string()))??;
        let mut prepared = match read {
            StartupInput::Prompt(prompt) => {
                return Ok(ExpandedCommand { prompt, notices: Vec::new() });
            }
            StartupInput::Command(prepared) => prepared,
        };
        if let Some(approver) = approver {
            prepared.ask(&approver).await?;
        }
        // Dropping the future stops the commands of an abandoned expansion.
        prepared.run(&CancellationToken::new()).await
    }
}

/// Returns the text of a line `/plan TEXT`.
fn plan_text(text: &str) -> Option<&str> {
    match classify(text) {
        SlashKind::Command { name: "plan", arguments } => {
            Some(arguments).filter(|task| plans(task))
        }
        _ => None,
    }
}

/// The interpretation of a line with a command.
enum StartupInput {
    /// The prompt of a built-in command.
    Prompt(Prompt),
    /// A custom command of the user.
    Command(PreparedCommand),
}

fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

fn internal_failure(message: &str) -> Failure {
    Failure { kind: FailureKind::Internal, message: message.to_owned(), status: None }
}

/// Formats the list of the project's sessions, oldest first, numbered from 1.
pub(crate) fn list_sessions(launch: &SessionConfig) -> String {
    let sessions = launch.session_library().sessions();
    if sessions.is_empty() {
        let others = match launch.session_library().all_sessions().len() {
            0 => String::new(),
            1 => "Another project has 1 session. Run `parallax sessions list` to list it.\n"
                .to_owned(),
            count => {
                format!(
                    "Other projects have {count} sessions. Run `parallax sessions list` to list \
                     them.\n"
                )
            }
        };
        return format!("No previous sessions found for this project.\n{others}");
    }
    let mut text = format!("\nAvailable sessions for this project ({}):\n", sessions.len());
    for entry in &sessions {
        text.push_str(&line(entry));
    }
    text
}

fn line(entry: &SessionEntry) -> String {
    let age = entry.age();
    format!("  {}. {} ({age}) [{}]\n", entry.index, one_line(&entry.title), one_line(&entry.id))
}

/// Deletes a session and returns a confirmation.
///
/// # Errors
/// Returns the reason if it cannot be deleted.
pub(crate) fn delete_session(which: &str, launch: &SessionConfig) -> Result<String, Failure> {
    let entry = launch.session_library().delete_session(which)?;
    Ok(format!("Deleted session {}: {}\n", entry.index, one_line(&entry.title)))
}
