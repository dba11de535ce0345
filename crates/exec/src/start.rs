//! Starts the shell in a pipe or a terminal, separated from the terminal of this process.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use crate::command::{Command, Mode};
use crate::shared_sandbox::{self, SharedNamespaces};
use crate::shell::{Shell, arguments_for};
use crate::spawn_request::SpawnRequest;
use crate::terminal_size::TerminalSize;
use crate::{Ending, StartError, process_tree, terminal};

/// A running shell.
pub(crate) struct StartedShell {
    /// The process ID, which is also the process group ID.
    pub(crate) root: i32,
    pub(crate) waiter: Waiter,
    pub(crate) source: OutputSource,
    pub(crate) terminal: Option<(terminal::TerminalHandle, TerminalSize)>,
}

/// The source of the output.
pub(crate) enum OutputSource {
    Pipe(pipe::Receiver),
    Terminal(mpsc::Receiver<Vec<u8>>),
}

impl OutputSource {
    /// Reads the next bytes and returns their number; 0 at the end. Cancel-safe.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> usize {
        match self {
            Self::Pipe(receiver) => receiver.read(buffer).await.unwrap_or(0),
            Self::Terminal(chunks) => {
                let Some(chunk) = chunks.recv().await else { return 0 };
                // Chunks are smaller than the buffer.
                let length = chunk.len().min(buffer.len());
                if let (Some(to), Some(from)) = (buffer.get_mut(..length), chunk.get(..length)) {
                    to.copy_from_slice(from);
                }
                length
            }
        }
    }
}

/// How to wait for the end of the shell.
pub(crate) enum Waiter {
    Child(tokio::process::Child),
    Thread(oneshot::Receiver<Ending>),
}

impl Waiter {
    /// Waits for the end. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> Ending {
        let lost = Ending::Exited { code: -1 };
        match self {
            Self::Child(child) => child.wait().await.map_or(lost, Ending::from),
            Self::Thread(ended) => ended.await.unwrap_or(lost),
        }
    }
}

/// Starts the shell with a command and marks its descendants.
pub(crate) async fn start(
    command: &mut Command,
    mark: &str,
    cell: Arc<SharedNamespaces>,
) -> Result<StartedShell, StartError> {
    let directory = command.directory.clone();
    let mut environment = std::mem::take(&mut command.environment);
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let folder = directory.clone();
    let found = tokio::task::spawn_blocking(move || {
        (Shell::find(path.as_deref()), folder.is_dir(), session_helper())
    });
    let (shell, is_folder, helper) = found.await.unwrap_or_default();
    let shell = shell.ok_or(StartError::NoShell)?;
    if !is_folder {
        return Err(StartError::NoFolder(directory));
    }
    environment.retain(|(name, _)| name != process_tree::MARK);
    environment.push((process_tree::MARK.into(), mark.into()));
    let text = match &command.before {
        Some(before) => format!("{before}; {}", command.text),
        None => command.text.clone(),
    };
    let arguments = arguments_for(&shell, &text);
    let (program, arguments, leader) = match command.sandbox.take() {
        None => (shell.program.clone().into(), arguments, SessionLeader::from_helper(helper)),
        Some(plan) => {
            let with_terminal = matches!(command.mode, Mode::Terminal(_));
            let inner = shell.program.clone();
            let wrapping = tokio::task::spawn_blocking(move || {
                shared_sandbox::wrap(plan, &cell, with_terminal, &inner, &arguments)
            });
            let (program, arguments) =
                wrapping.await.map_err(|error| StartError::Sandbox(error.to_string()))??;
            // The supervisor of the command also leads its session.
            (program, arguments, SessionLeader::Watcher)
        }
    };
    let mut spawn = SpawnRequest { program, arguments, directory, environment };

    let mut opened = None;
    if let Mode::Terminal(size) = command.mode {
        let (given_back, result) = tokio::task::spawn_blocking(move || {
            let result = terminal::start(&spawn, size);
            (spawn, result)
        })
        .await
        .map_err(|error| StartError::Spawn {
            program: shell.program.display().to_string(),
            source: std::io::Error::other(error),
        })?;
        spawn = given_back;
        match result {
            Ok(terminal) => opened = Some((terminal, size)),
            Err(problem) => tracing::warn!(problem, "no terminal for a command, a pipe instead"),
        }
    }

    Ok(match opened {
        Some((terminal, size)) => StartedShell {
            root: terminal.pid,
            waiter: Waiter::Thread(terminal.end_receiver),
            source: OutputSource::Terminal(terminal.output),
            terminal: Some((terminal.handle, size)),
        },
        None => {
            let (child, source) = start_in_pipe(spawn, &leader)?;
            let root = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
            let (waiter, source) = (Waiter::Child(child), OutputSource::Pipe(source));
            StartedShell { root, waiter, source, terminal: None }
        }
    })
}

/// Returns a program that creates a session without a terminal, so that nothing can prompt the user
/// in the terminal of this process.
pub(crate) fn session_helper() -> Option<PathBuf> {
    ["/usr/bin/setsid", "/bin/setsid"].map(PathBuf::from).into_iter().find(|file| file.is_file())
}

/// Which process creates the session of a command without a terminal.
enum SessionLeader {
    /// The supervisor of the sandboxed command.
    Watcher,
    /// A helper program.
    Helper(PathBuf),
    /// No session: the command only leads a process group.
    GroupOnly,
}

impl SessionLeader {
    fn from_helper(helper: Option<PathBuf>) -> Self {
        helper.map_or(Self::GroupOnly, Self::Helper)
    }
}

fn start_in_pipe(
    spawn: SpawnRequest,
    leader: &SessionLeader,
) -> Result<(tokio::process::Child, pipe::Receiver), StartError> {
    let program = spawn.program.to_string_lossy().into_owned();
    let failed = |source| StartError::Spawn { program: program.clone(), source };
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let second = writer.try_clone().map_err(failed)?;
    #[expect(clippy::disallowed_methods, reason = "this is where commands are started")]
    let mut command = match leader {
        SessionLeader::Helper(helper) => {
            let mut command = tokio::process::Command::new(helper);
            command.arg(&spawn.program);
            command
        }
        SessionLeader::Watcher | SessionLeader::GroupOnly => {
            tokio::process::Command::new(&spawn.program)
        }
    };
    if matches!(leader, SessionLeader::GroupOnly) {
        command.process_group(0);
    }
    command
        .args(&spawn.arguments)
        .current_dir(&spawn.directory)
        .env_clear()
        .envs(spawn.environment)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(second);
    let child = command.spawn().map_err(failed)?;
    // Dropping the command drops its copies of the write end of the pipe, so the output ends when
    // the last child closes its own.
    drop(command);
    let receiver = pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?;
    Ok((child, receiver))
}
