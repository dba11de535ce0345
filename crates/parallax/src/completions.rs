//! `parallax completions`: scripts for shells. A script calls the program for the candidates of a
//! word, so models, sessions, agents, and other names are those that exist now. The script for
//! Nushell is complete in itself and knows only commands and flags.

use std::ffi::OsString;
use std::io::Write as _;

use clap::{Arg, Command, CommandFactory as _, ValueEnum};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use parallax_headless::{ExitCode, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::{LaunchOptions, SessionConfig};

use crate::arguments::Arguments;
use crate::background_session;
use crate::completion_shell::CompletionShell;
use crate::program_name::called_name;
use crate::session_flags::SessionFlags;
use crate::start;

/// The variable by which a script asks for candidates; its value is the name of the shell.
const VARIABLE: &str = "_PARALLAX_COMPLETE";
/// Maximum number of sessions that are offered; the newest come first.
const SESSIONS: usize = 50;

/// Returns the script that completes commands, flags, and their values.
///
/// # Errors
/// Returns an error if the script cannot be written.
pub(crate) fn script(shell: CompletionShell) -> Result<String, Failure> {
    let name = called_name();
    let mut script = Vec::new();
    match shell.completer() {
        Some(completer) => {
            completer
                .write_registration(VARIABLE, &name, &name, &name, &mut script)
                .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
            if shell == CompletionShell::Zsh {
                // A file in `$fpath` is itself the function that completes the first time.
                let call = format!(
                    "\nif [ \"$funcstack[1]\" = \"_{name}\" ]; then\n    \
                     _clap_dynamic_completer_{} \"$@\"\nfi\n",
                    name.replace('-', "_")
                );
                script.extend_from_slice(call.as_bytes());
            }
        }
        None => {
            let shell = clap_complete_nushell::Nushell;
            clap_complete::generate(shell, &mut Arguments::command(), name, &mut script);
        }
    }
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Prints the candidates for the word under the cursor if a script asks for them; `None` for any
/// other start.
pub(crate) fn answer(argv: &[OsString]) -> Option<ExitCode> {
    let shell = std::env::var(VARIABLE).ok().filter(|shell| !shell.is_empty())?;
    let shell = CompletionShell::from_str(&shell, true).ok()?;
    let mut words =
        argv.iter().skip_while(|word| *word != "--").skip(1).cloned().collect::<Vec<_>>();
    if words.is_empty() {
        words.push(called_name().into());
    }
    let mut command = with_candidates(Arguments::command());
    command.build();
    let directory = std::env::current_dir().ok();
    let mut candidates = Vec::new();
    let written = shell.completer().map(|completer| {
        completer.write_complete(&mut command, words, directory.as_deref(), &mut candidates)
    });
    // A shell shows nothing other than candidates.
    let is_done =
        matches!(written, Some(Ok(()))) && std::io::stdout().write_all(&candidates).is_ok();
    Some(if is_done { ExitCode::SUCCESS } else { ExitCode::GENERAL })
}

/// Adds the names that exist now to the arguments that take them.
fn with_candidates(command: Command) -> Command {
    let parent = command.get_name().to_owned();
    command
        .mut_args(|argument| match candidates_of(&parent, &argument) {
            Some(names) => argument.add(ArgValueCandidates::new(move || existing_names(names))),
            None => argument,
        })
        .mut_subcommands(move |inner| in_group(&parent, inner))
}

/// Like [`with_candidates`], for the subcommands of `group`: `sessions show`.
fn in_group(group: &str, command: Command) -> Command {
    let (group, name) = (group.to_owned(), command.get_name().to_owned());
    command
        .mut_args(|argument| {
            let names =
                candidates_of(&name, &argument).or_else(|| candidates_of(&group, &argument));
            match names {
                Some(names) => argument.add(ArgValueCandidates::new(move || existing_names(names))),
                None => argument,
            }
        })
        .mut_subcommands(move |inner| in_group(&name, inner))
}

/// The kinds of names that arguments take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Model,
    Session,
    /// A session, or a word that chooses one.
    ResumedSession,
    /// A background session; of those that ended, only with `has_ended`.
    BackgroundSession {
        has_ended: bool,
    },
    Answer,
    Agent,
    Server,
    Skill,
    Extension,
}

/// Returns the kind of name that an argument of a command takes.
fn candidates_of(command: &str, argument: &Arg) -> Option<NameKind> {
    let is_name = matches!(argument.get_id().as_str(), "name" | "names");
    Some(match (command, argument.get_id().as_str()) {
        ("mcp", _) if is_name => NameKind::Server,
        ("skills", _) if is_name => NameKind::Skill,
        ("extensions", _) if is_name => NameKind::Extension,
        ("agents", _) if is_name => NameKind::Agent,
        (_, "agent") => NameKind::Agent,
        (_, "model") => NameKind::Model,
        ("models", "models") => NameKind::Model,
        ("logs", "id") => NameKind::BackgroundSession { has_ended: true },
        ("attach" | "answer" | "stop", "id") => NameKind::BackgroundSession { has_ended: false },
        ("answer", "answer") => NameKind::Answer,
        (_, "resume") => NameKind::ResumedSession,
        (_, "session" | "delete_session") => NameKind::Session,
        (_, "allowed_mcp_server_names") => NameKind::Server,
        _ => return None,
    })
}

/// Returns the candidate with this name.
fn candidate(name: &str, help: &str) -> CompletionCandidate {
    let help = Some(one_line(help)).filter(|help| !help.is_empty());
    CompletionCandidate::new(one_line(name)).help(help.map(Into::into))
}

/// Returns the candidates in their own order.
fn in_order(candidates: impl Iterator<Item = CompletionCandidate>) -> Vec<CompletionCandidate> {
    candidates.enumerate().map(|(at, one)| one.display_order(Some(at))).collect()
}

/// Returns the names that exist now, in the current directory.
fn existing_names(kind: NameKind) -> Vec<CompletionCandidate> {
    match kind {
        NameKind::Answer => in_order(
            [candidate("allow", "Allow the request"), candidate("deny", "Deny the request")]
                .into_iter(),
        ),
        NameKind::BackgroundSession { has_ended } => background_sessions(has_ended),
        _ => launch().map(|launch| names_in_project(kind, &launch)).unwrap_or_default(),
    }
}

fn background_sessions(has_ended: bool) -> Vec<CompletionCandidate> {
    let Ok(directory) = background_session::all() else { return Vec::new() };
    let sessions = directory.list();
    let offered =
        sessions.iter().map(|(_, record)| record).filter(|it| has_ended || it.state.is_running());
    in_order(offered.take(SESSIONS).map(|record| {
        let state = record.state.as_str();
        candidate(&record.id, &format!("{state}: {}", record.last_line))
    }))
}

/// Returns the sessions of the project, newest first, those without a terminal last.
fn sessions(launch: &SessionConfig) -> impl Iterator<Item = CompletionCandidate> {
    let sessions = launch.session_library().sessions();
    let (one_shot, interactive): (Vec<_>, Vec<_>) =
        sessions.into_iter().rev().partition(|entry| entry.one_shot);
    let offered = interactive.into_iter().chain(one_shot).take(SESSIONS);
    offered.map(|entry| candidate(&entry.id, &entry.title))
}

/// Returns the names in the settings, files, and sessions of the project.
fn names_in_project(kind: NameKind, launch: &SessionConfig) -> Vec<CompletionCandidate> {
    let of = candidate;
    match kind {
        NameKind::Answer | NameKind::BackgroundSession { .. } => Vec::new(),
        NameKind::Model => {
            let choices = launch.provider_manager().model_choices().into_iter();
            choices.map(|choice| of(&choice.name, &choice.doc)).collect()
        }
        NameKind::Session => in_order(sessions(launch)),
        NameKind::ResumedSession => {
            let words =
                [candidate("latest", "The newest session"), candidate("pick", "Choose one")];
            in_order(words.into_iter().chain(sessions(launch)))
        }
        NameKind::Agent => {
            let agents = launch.agent_library().agents().agents;
            agents.iter().map(|agent| of(&agent.name, &agent.description)).collect()
        }
        NameKind::Server => {
            let servers = launch.mcp_manager().servers().servers;
            servers.iter().map(|server| of(&server.name, &server.endpoint.target())).collect()
        }
        NameKind::Skill => {
            let skills = launch.skill_library().skills().skills;
            skills.iter().map(|skill| of(&skill.name, &skill.description)).collect()
        }
        NameKind::Extension => {
            let extensions = launch.extensions();
            let all = extensions.all.iter();
            all.map(|it| of(it.name(), &it.manifest.description)).collect()
        }
    }
}

/// Prepares a session that starts nothing.
fn launch() -> Result<SessionConfig, Failure> {
    let options = start::options(&SessionFlags::default())?;
    SessionConfig::prepare(LaunchOptions { is_read_only: true, ..options })
}
