//! Opens and finds sessions: passes the options of the command line to the sdk.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_commands::Expander;
use parallax_commands::built_in::{COMMIT, COMMIT_NO_PUSH, COMMIT_PR, Init, coordination};
use parallax_commands::{Commands, Expanded, PreparedCommand, built_in_names, own_of};
use parallax_headless::info_commands::{self, CommandOutput, EngineAnswer, plans};
use parallax_headless::{Expand, OutputFormat, Slash, classify, one_line};
use parallax_protocol::editor_files::SessionEditor;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::op::Prompt;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::{CancellationToken, Object};
use parallax_sdk::{
    Answers, EmbeddedTools, EventReader, Launch, LaunchOptions, OpenSession, Recording,
};
use parallax_sessions::{SessionChoice, SessionEntry};
use serde_json::Value;

use crate::invocation::{self, ModelSource, Settings};

/// An open session with its output format.
pub(crate) struct Started {
    pub(crate) session: OpenSession,
    pub(crate) events: EventReader,
}

/// Converts the options of a command line for the sdk.
///
/// # Errors
/// Returns an error if the working directory no longer exists.
pub(crate) fn options(settings: &Settings) -> Result<LaunchOptions, Failure> {
    let directory = std::env::current_dir().map_err(|error| Failure {
        kind: FailureKind::Input,
        message: format!("Failed to read the current directory: {error}"),
        status: None,
    })?;
    Ok(LaunchOptions {
        auth_method: None,
        exact_session: false,
        tools: EmbeddedTools::default(),
        directory,
        variables: std::env::vars_os().collect(),
        skip_trust: settings.skip_trust,
        policy_paths: settings.policy_paths.clone(),
        admin_policy_paths: settings.admin_policy_paths.clone(),
        sandbox: settings.sandbox.clone(),
        ignore_env: settings.ignore_env,
        model: settings.model.clone(),
        approval_mode: settings.approval_mode,
        plan_exit_mode: settings.plan_exit_mode,
        include_directories: settings.include_directories.clone(),
        allowed_tools: settings.allowed_tools.clone().unwrap_or_default(),
        mcp_servers: mcp_servers_of(&settings.mcp_config)?,
        skill_directories: skill_directories_of(&settings.skill_directories)?,
        exclude_tools: settings.exclude_tools.clone().unwrap_or_default(),
        allowed_mcp_servers: settings.allowed_mcp_servers.clone(),
        append_system_prompt: settings.append_system_prompt.clone(),
        extensions: settings.extensions.clone(),
        max_turns: settings.max_turns.map(std::num::NonZeroU32::get),
        limits: settings.limits,
        fallback: settings.fallback,
        session: match &settings.session {
            invocation::SessionChoice::New => SessionChoice::New,
            invocation::SessionChoice::WithId(id) => SessionChoice::WithId(id.0.clone()),
            invocation::SessionChoice::Resume(which) => SessionChoice::Resume(which.clone()),
            invocation::SessionChoice::Fork { from, before } => {
                SessionChoice::ForkBefore { from: from.clone(), prompt: *before }
            }
            invocation::SessionChoice::Import(file) => SessionChoice::Import(file.clone()),
        },
        interactive: settings.interactive,
        waits_for_servers: settings.waits_for_servers,
        budget_questions: false,
        keeps_file_texts: false,
        editor: SessionEditor::default(),
        companion: None,
        answers: match &settings.source {
            ModelSource::Live => Answers::Service,
            ModelSource::Fake { file, strict: true } => Answers::Fake(file.clone()),
            ModelSource::Fake { file, strict: false } => Answers::FakeNonStrict(file.clone()),
            ModelSource::Replay { file, strict } => {
                Answers::Replay { file: file.clone(), strict: *strict }
            }
        },
        recording: settings.recording.as_ref().map(|recording| match recording {
            invocation::Recording::Exchange(file) => Recording::Ours(file.clone()),
            invocation::Recording::Responses(file) => Recording::Reference(file.clone()),
        }),
        version: env!("CARGO_PKG_VERSION"),
        ephemeral: false,
        look_only: false,
        supervises: true,
        colourist: Some(parallax_tui::code_pieces),
    })
}

/// Returns the servers of the `--mcp-config` files; of several with the same name, the last is
/// used.
fn mcp_servers_of(files: &[PathBuf]) -> Result<Object, Failure> {
    let mut servers = Object::new();
    for file in files {
        let shown = one_line(&file.display().to_string());
        let read = parallax_config::jsonc_object(file).map_err(|error| input(error.to_string()))?;
        let Some(mut read) = read else {
            return Err(input(format!("`--mcp-config {shown}`: the file does not exist")));
        };
        match read.shift_remove("mcpServers") {
            Some(Value::Object(more)) if more.values().all(Value::is_object) => {
                servers.extend(more);
            }
            _ => {
                return Err(input(format!(
                    "`--mcp-config {shown}`: the file must have an object `mcpServers` with an \
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
            let shown = one_line(&directory.display().to_string());
            input(format!("`--skill-dir {shown}`: the directory does not exist"))
        })
    };
    directories.iter().map(absolute).collect()
}

/// Returns the output format if the command line does not select one.
pub(crate) fn format_of(launch: &Launch) -> OutputFormat {
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
pub(crate) fn start(launch: Launch) -> Result<Started, Failure> {
    let (session, events) = launch.open()?;
    Ok(Started { session, events })
}

/// Returns a function that expands typed prompts: it includes the files named with `@` and expands
/// custom commands.
pub(crate) fn expand(session: &OpenSession) -> Expand {
    let typed = InputContext::of(session);
    let ledger = session.ledger();
    Arc::new(move |text| {
        let (typed, ledger) = (typed.clone(), ledger.clone());
        Box::pin(async move {
            let expanded = ledger.run_within(typed.expand(text)).await;
            let expanded = expanded.map_err(|spent| input(spent.to_string()))??;
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
    let Slash::Command { name, arguments } = classify(text.trim_end()) else { return Ok(None) };
    // Reads files and queries the kernel for a few milliseconds, in which nothing else has to run.
    let tell = || info_commands::run(session, name, arguments).transpose();
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
    let Slash::Command { name, arguments } = classify(text.trim_end()) else { return Ok(None) };
    info_commands::ask_engine(session, events, name, arguments).await.transpose()
}

/// Returns the prompt of a built-in command.
fn own_prompt(launch: &Launch, name: &str, arguments: &str) -> Result<Option<Prompt>, Failure> {
    let text = match (name, arguments.trim()) {
        ("commit", _) => COMMIT.to_owned(),
        ("commit:no-push", _) => COMMIT_NO_PUSH.to_owned(),
        ("commit:pr", _) => COMMIT_PR.to_owned(),
        ("parallax", "") => return Err(input("No goal given: use `/parallax GOAL`".to_owned())),
        ("parallax", goal) => coordination(goal),
        ("init", _) => match parallax_commands::built_in::init(launch.directory())? {
            Init::Prompt(text) => text.to_owned(),
            Init::There(path) => {
                return Err(input(format!(
                    "`{}` already exists; nothing was changed",
                    path.display()
                )));
            }
        },
        _ => return Ok(None),
    };
    let typed = Some(format!("/{name} {}", arguments.trim()).trim_end().to_owned());
    Ok(Some(Prompt { text, typed, ..Prompt::default() }))
}

/// The built-in commands of [`own_prompt`].
const SENDS_A_PROMPT: [&str; 5] = ["commit", "commit:no-push", "commit:pr", "init", "parallax"];

/// Converts the text of a prompt to what is sent.
///
/// # Errors
/// Returns an error if a file that the prompt names cannot be read, or if a custom command cannot
/// be run.
pub(crate) async fn prompt(session: &OpenSession, text: String) -> Result<Expanded, Failure> {
    InputContext::of(session).expand(text).await
}

/// The state needed to interpret typed text.
#[derive(Clone)]
struct InputContext {
    expander: Expander,
    commands: Commands,
    mode: ApprovalMode,
    launch: Launch,
}

impl InputContext {
    fn of(session: &OpenSession) -> Self {
        let (expander, commands) = (session.expander.clone(), session.commands.clone());
        Self { expander, commands, mode: session.mode, launch: session.launch().clone() }
    }

    async fn expand(self, text: String) -> Result<Expanded, Failure> {
        let Some(task) = planned(&text) else { return self.expand_text(text).await };
        if !self.launch.has_plan_mode() {
            let message = "Plan mode is disabled. Enable `general.plan.enabled` to use `/plan`.";
            return Err(input(message.to_owned()));
        }
        if let Slash::Command { name, .. } = classify(task)
            && !self.commands.takes(name)
            && !SENDS_A_PROMPT.contains(&name)
            && built_in_names().any(|known| known == name)
        {
            let message =
                format!("`/plan` needs a task to plan, and `/{name}` is a command: run it alone");
            return Err(input(message));
        }
        let mut expanded = self.expand_text(task.to_owned()).await?;
        let wishes = expanded.prompt.overrides.get_or_insert_default();
        wishes.mode = Some(ApprovalMode::Plan);
        Ok(expanded)
    }

    async fn expand_text(self, text: String) -> Result<Expanded, Failure> {
        let Self { expander, commands, mode, launch } = self;
        if classify(&text) == Slash::Text {
            let reading = tokio::task::spawn_blocking(move || expander.prompt(text));
            let prompt = reading.await.map_err(|error| internal(&error.to_string()))??;
            return Ok(Expanded { prompt, notices: Vec::new() });
        }
        let preparing = tokio::task::spawn_blocking(move || {
            if let Slash::Command { name, arguments } = classify(&text)
                && !commands.takes(name)
                && let Some(prompt) = own_prompt(&launch, own_of(name).unwrap_or(name), arguments)?
            {
                return Ok(TypedLine::Prompt(prompt));
            }
            commands.prepare(&text, mode).map(TypedLine::Command)
        });
        let read = preparing.await.map_err(|error| internal(&error.to_string()))??;
        let prepared = match read {
            TypedLine::Prompt(prompt) => return Ok(Expanded { prompt, notices: Vec::new() }),
            TypedLine::Command(prepared) => prepared,
        };
        // Dropping the future stops the commands of an abandoned expansion.
        prepared.run(&CancellationToken::new()).await
    }
}

/// Returns the text of a line `/plan TEXT`.
fn planned(text: &str) -> Option<&str> {
    match classify(text) {
        Slash::Command { name: "plan", arguments } => Some(arguments).filter(|task| plans(task)),
        _ => None,
    }
}

/// The interpretation of a line with a command.
enum TypedLine {
    /// The prompt of a built-in command.
    Prompt(Prompt),
    /// A custom command of the user.
    Command(PreparedCommand),
}

fn input(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

fn internal(message: &str) -> Failure {
    Failure { kind: FailureKind::Internal, message: message.to_owned(), status: None }
}

/// Formats the list of the project's sessions, oldest first, numbered from 1.
pub(crate) fn list_sessions(launch: &Launch) -> String {
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
pub(crate) fn delete_session(which: &str, launch: &Launch) -> Result<String, Failure> {
    let entry = launch.session_library().delete_session(which)?;
    Ok(format!("Deleted session {}: {}\n", entry.index, one_line(&entry.title)))
}
