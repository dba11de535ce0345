//! Starts the shell in a pipe or a terminal, separated from the terminal of this process.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::command::{Command, Mode};
use crate::shared_sandbox::{self, SharedNamespaces};
use crate::shell::{Shell, arguments_for};
use crate::spawn_request::{SessionLeader, SpawnRequest};
use crate::terminal::CommandTerminal;
use crate::terminal_size::TerminalSize;
use crate::waiter::Waiter;
use crate::{StartError, process_tree, terminal};

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

/// Starts the shell with a command and marks its descendants.
pub(crate) async fn start(
    command: &mut Command,
    mark: &str,
    session_namespaces: Arc<SharedNamespaces>,
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
            let inner = shell.program.clone();
            let sandbox_task = tokio::task::spawn_blocking(move || {
                shared_sandbox::wrap(plan, &session_namespaces, &inner, &arguments)
            });
            let (program, arguments) =
                sandbox_task.await.map_err(|error| StartError::Sandbox(error.to_string()))??;
            // The supervisor of the command also leads its session.
            (program, arguments, SessionLeader::Supervisor)
        }
    };
    let spawn = SpawnRequest { program, arguments, directory, environment };
    let mode = command.mode;
    let failed =
        |source| StartError::Spawn { program: shell.program.display().to_string(), source };
    let start_task = tokio::task::spawn_blocking(move || start_in_mode(&spawn, &leader, mode));
    match start_task.await {
        Ok(started) => started.map_err(failed),
        Err(error) => Err(failed(std::io::Error::other(error))),
    }
}

/// Returns a program that creates a session without a terminal, so that nothing can prompt the user
/// in the terminal of this process.
pub(crate) fn session_helper() -> Option<PathBuf> {
    ["/usr/bin/setsid", "/bin/setsid"].map(PathBuf::from).into_iter().find(|file| file.is_file())
}

/// Starts the command with a pipe for its output. Blocks until its program is loaded; the thread
/// must belong to a runtime.
fn start_in_pipe(spawn: &SpawnRequest, leader: &SessionLeader) -> std::io::Result<StartedShell> {
    let (reader, writer) = std::io::pipe()?;
    let second = writer.try_clone()?;
    let mut command = leader.command(spawn);
    command.stdin(Stdio::null()).stdout(writer).stderr(second);
    let child = command.spawn()?;
    // Dropping the command drops its copies of the write end of the pipe, so the output ends when
    // the last child closes its own.
    drop(command);
    Ok(StartedShell {
        root: child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default(),
        waiter: Waiter::Child(child),
        source: OutputSource::Pipe(pipe::Receiver::from_owned_fd(reader.into())?),
        terminal: None,
    })
}

/// Starts the command in a terminal, or with a pipe if there is none. Blocking.
fn start_in_mode(
    spawn: &SpawnRequest,
    leader: &SessionLeader,
    mode: Mode,
) -> std::io::Result<StartedShell> {
    let Mode::Terminal(size) = mode else { return start_in_pipe(spawn, leader) };
    match terminal::start(spawn, leader, size) {
        Ok(CommandTerminal { pid, waiter, output, handle }) => Ok(StartedShell {
            root: pid,
            waiter,
            source: OutputSource::Terminal(output),
            terminal: Some((handle, size)),
        }),
        Err(error) => {
            tracing::warn!(%error, "no terminal for a command; using a pipe");
            start_in_pipe(spawn, leader)
        }
    }
}
