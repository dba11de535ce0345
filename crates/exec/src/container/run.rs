//! Starts the planned containers and follows them to the end.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::loader::needs_loader;
use super::{ContainerPlan, NETWORK, PROXY, PROXY_PORT};
use crate::ProcessExit;
use crate::program_sandbox::{CommandLine, ProgramSandboxError};

/// Time limit for the proxy to listen.
const TIMEOUT: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(100);
/// Exit codes of an engine when nothing ran inside.
const NOT_STARTED: std::ops::RangeInclusive<i32> = 125..=127;

/// Exit codes when the program inside was not found or could not be started.
const NOT_FOUND: std::ops::RangeInclusive<i32> = 126..=127;

/// Runs the plan with stdin, stdout, and stderr of this process and forwards signals. Returns how
/// the program inside ended.
///
/// # Errors
/// Returns an error if it could not be started (exit code 44).
pub async fn run(plan: &ContainerPlan) -> Result<ProcessExit, ProgramSandboxError> {
    match start(plan).await {
        Err(ProgramSandboxError::Refused { program, code }) if NOT_FOUND.contains(&code) => {
            let executable = std::env::current_exe();
            let task = tokio::task::spawn_blocking(|| executable.is_ok_and(|it| needs_loader(&it)));
            Err(match task.await {
                Ok(true) => ProgramSandboxError::Loader { program, code },
                _ => ProgramSandboxError::Refused { program, code },
            })
        }
        ended => ended,
    }
}

async fn start(plan: &ContainerPlan) -> Result<ProcessExit, ProgramSandboxError> {
    let program = plan.main.program;
    for (name, closed) in &plan.networks {
        make_network(program, name, *closed).await?;
    }
    if let Some(proxy) = &plan.proxy {
        run_quietly(proxy).await?;
        let ended = match connect_proxy(program).await {
            Ok(()) => supervise(&plan.main, plan.terminal).await,
            Err(error) => Err(error),
        };
        // Created with `--rm`: stopping removes it. If it cannot be stopped, it has ended.
        let _ = run_quietly(&line(program, &["rm", "-f", PROXY])).await;
        return ended;
    }
    supervise(&plan.main, plan.terminal).await
}

async fn make_network(
    program: &'static str,
    name: &str,
    closed: bool,
) -> Result<(), ProgramSandboxError> {
    match run_quietly(&line(program, &["network", "inspect", name])).await {
        Err(ProgramSandboxError::Step { .. }) => {}
        known => return known,
    }
    let mut words = vec!["network", "create"];
    if closed {
        words.push("--internal");
    }
    words.push(name);
    run_quietly(&line(program, &words)).await
}

/// Waits until the proxy listens, and connects it to the internal network.
async fn connect_proxy(program: &'static str) -> Result<(), ProgramSandboxError> {
    let wait_for_port = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", PROXY_PORT)).await.is_err() {
            tokio::time::sleep(STEP).await;
        }
    };
    if tokio::time::timeout(TIMEOUT, wait_for_port).await.is_err() {
        return Err(ProgramSandboxError::Setting {
            name: "GEMINI_SANDBOX_PROXY_COMMAND",
            reason: format!(
                "nothing is listening on port {PROXY_PORT} after {} s",
                TIMEOUT.as_secs()
            ),
        });
    }
    run_quietly(&line(program, &["network", "connect", NETWORK, PROXY])).await
}

fn line(program: &'static str, words: &[&str]) -> CommandLine {
    CommandLine {
        program,
        arguments: words.iter().map(Into::into).collect(),
        variables: Vec::new(),
    }
}

fn command(line: &CommandLine) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the container engine is not a command of the agent: it gets our environment"
    )]
    let mut command = Command::new(line.program);
    command.args(&line.arguments).envs(line.variables.iter().map(|(name, value)| (name, value)));
    command
}

fn start_error(program: &'static str, source: std::io::Error) -> ProgramSandboxError {
    match source.kind() {
        std::io::ErrorKind::NotFound => ProgramSandboxError::Missing { program },
        _ => ProgramSandboxError::Start { program, source },
    }
}

/// Runs a preparation command whose output is shown only if it fails.
async fn run_quietly(line: &CommandLine) -> Result<(), ProgramSandboxError> {
    let mut command = command(line);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let finished = command.output().await.map_err(|source| start_error(line.program, source))?;
    if finished.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&finished.stderr);
    let last = output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no error message");
    let words = line.arguments.iter().take(2).map(|word| word.to_string_lossy());
    Err(ProgramSandboxError::Step {
        command: std::iter::once(line.program.into()).chain(words).collect::<Vec<_>>().join(" "),
        reason: last.chars().take(500).collect(),
    })
}

/// Runs the command line to completion. Without a terminal, it leads its own process group, so that
/// a signal arrives only once, forwarded by this process.
pub(crate) async fn supervise(
    line: &CommandLine,
    terminal: bool,
) -> Result<ProcessExit, ProgramSandboxError> {
    let mut command = command(line);
    if !terminal {
        command.process_group(0);
    }
    let failed = |source| start_error(line.program, source);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangups = signal(SignalKind::hangup()).map_err(failed)?;
    let mut child = command.spawn().map_err(failed)?;
    let status = loop {
        let number = tokio::select! {
            status = child.wait() => break status.map_err(failed)?,
            _ = interrupts.recv() => rustix::process::Signal::INT,
            _ = terminations.recv() => rustix::process::Signal::TERM,
            _ = hangups.recv() => rustix::process::Signal::HUP,
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            // It may have exited already.
            let _ = rustix::process::kill_process(pid, number);
        }
    };
    match ProcessExit::from(status) {
        ProcessExit::Exited { code } if NOT_STARTED.contains(&code) => {
            Err(ProgramSandboxError::Refused { program: line.program, code })
        }
        ended => Ok(ended),
    }
}
