//! Runs a small program for its output, without a shell, terminal, or input, and with limits on
//! time and size. Blocking.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use parallax_sandbox::Plan;

use crate::{ProcessExit, StartError};

/// How often a child is polled.
const POLL: Duration = Duration::from_millis(1);

/// Returns the standard output of a program that succeeded in time, or `None` otherwise. More than
/// `limit` bytes count as a failure. The program receives the environment of this process plus
/// `variables`.
pub fn output<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    directory: &Path,
    variables: &[(&str, &str)],
    limit: u64,
    time: Duration,
) -> Option<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    read_output(command, directory, variables, limit, time)
}

/// Like [`output`], for a program that never asks the user. Ctrl+C in the terminal does not reach
/// it: this process decides when it stops.
pub fn detached_output<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    directory: &Path,
    variables: &[(&str, &str)],
    limit: u64,
    time: Duration,
) -> Option<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let mut command = std::process::Command::new(program);
    command.args(arguments).process_group(0);
    read_output(command, directory, variables, limit, time)
}

fn read_output(
    mut command: Command,
    directory: &Path,
    variables: &[(&str, &str)],
    limit: u64,
    time: Duration,
) -> Option<Vec<u8>> {
    let mut child = command
        .current_dir(directory)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.take(limit + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    });
    let end = Instant::now() + time;
    let ended_well = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            _ => {
                // It may have exited already.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let bytes = reader.join().ok().flatten()?;
    ended_well.then_some(bytes)
}

/// The output and exit status of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    /// Whether the exit code was 0.
    pub succeeded: bool,
    /// The exit code; `None` if a signal terminated the program.
    pub code: Option<i32>,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

/// Number of bytes kept of standard error.
const MAX_STDERR: u64 = 16 * 1024;

/// Runs a program with exactly these variables and reads its output, without a shell, terminal, or
/// input: at most `limit` bytes, for at most `time`. Blocking.
///
/// # Errors
/// Returns an error if the program cannot be started, prints more, or takes longer.
pub fn capture<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    directory: &Path,
    environment: &[(OsString, OsString)],
    limit: u64,
    time: Duration,
) -> std::io::Result<ProgramOutput> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    capture_command(command, directory, environment, limit, time)
}

/// Like [`capture`], for a program that never asks the user. Ctrl+C in the terminal does not reach
/// it: this process decides when it stops.
///
/// # Errors
/// Returns an error if the program cannot be started, prints more, or takes longer.
pub fn detached_capture<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    directory: &Path,
    environment: &[(OsString, OsString)],
    limit: u64,
    time: Duration,
) -> std::io::Result<ProgramOutput> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let mut command = std::process::Command::new(program);
    command.args(arguments).process_group(0);
    capture_command(command, directory, environment, limit, time)
}

fn capture_command(
    mut command: Command,
    directory: &Path,
    environment: &[(OsString, OsString)],
    limit: u64,
    time: Duration,
) -> std::io::Result<ProgramOutput> {
    let mut child = command
        .current_dir(directory)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let read = |pipe: Option<Box<dyn Read + Send>>, keep: u64| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut pipe = pipe?;
            pipe.by_ref().take(keep).read_to_end(&mut bytes).ok()?;
            // Read the rest, so that the program does not block.
            let rest = std::io::copy(&mut pipe, &mut std::io::sink()).ok()?;
            Some((bytes, rest > 0))
        })
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _), limit);
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _), MAX_STDERR);
    let end = Instant::now() + time;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(POLL),
            None => {
                // It may have exited already.
                let _ = child.kill();
                let _ = child.wait();
                return Err(std::io::ErrorKind::TimedOut.into());
            }
        }
    };
    let lost = || std::io::Error::other("its output could not be read");
    let (stdout, is_more) = stdout.join().ok().flatten().ok_or_else(lost)?;
    if is_more {
        return Err(std::io::Error::other("its output exceeds the limit"));
    }
    let (stderr, _) = stderr.join().ok().flatten().ok_or_else(lost)?;
    Ok(ProgramOutput { succeeded: status.success(), code: status.code(), stdout, stderr })
}

/// Runs a program in a sandbox, with the input and output of this process. Returns its exit code,
/// or 128 plus the signal number. Blocking.
///
/// # Errors
/// Returns an error if the program does not exist or cannot be started.
pub fn run_confined(
    plan: &Plan,
    words: &[OsString],
    directory: &Path,
    environment: &[(OsString, OsString)],
) -> Result<u8, StartError> {
    let (program, arguments) = words.split_first().ok_or(StartError::NoShell)?;
    let (program, arguments) = parallax_sandbox::reexec(plan, program, arguments)
        .map_err(|error| StartError::Sandbox(error.to_string()))?;
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let status = std::process::Command::new(&program)
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .status()
        .map_err(|source| StartError::Spawn {
            program: program.to_string_lossy().into_owned(),
            source,
        })?;
    Ok(match ProcessExit::from(status) {
        ProcessExit::Exited { code } => u8::try_from(code).unwrap_or(1),
        ProcessExit::Signalled { signal } => {
            u8::try_from(signal.saturating_add(128)).unwrap_or(255)
        }
    })
}

/// Opens an http or https address in the user's browser, if there is one. Other addresses are
/// ignored.
pub fn open_address(address: &str) {
    let lower = address.to_ascii_lowercase();
    let is_web = lower.starts_with("https://") || lower.starts_with("http://");
    if !is_web || address.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return;
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let started = std::process::Command::new(opener)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // Reap it on a thread, because it may never end.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => tracing::debug!(%error, opener, "no browser"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_output_is_returned_only_on_success() {
        let run = |script: &str| {
            let root = Path::new("/");
            output("sh", ["-c", script], root, &[("WHO", "me")], 100, Duration::from_millis(300))
        };
        assert_eq!(run("echo $WHO").as_deref(), Some(&b"me\n"[..]));
        assert_eq!(run("echo x; exit 1"), None);
        assert_eq!(run("exec sleep 5"), None);
        assert_eq!(run("exec yes"), None);
        assert!(output("no-such-program", ["x"], Path::new("/"), &[], 1, POLL).is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn detached_program_leads_its_own_process_group() {
        // The fifth field of the process is its group.
        let (words, root) = (["-c", "read -r stat < /proc/$$/stat; echo $stat"], Path::new("/"));
        let time = Duration::from_secs(5);
        let is_leader = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let fields: Vec<&str> = text.split(' ').collect();
            fields[0] == fields[4]
        };
        assert!(!is_leader(&output("sh", words, root, &[], 999, time).expect("an output")));
        assert!(is_leader(&detached_output("sh", words, root, &[], 999, time).expect("an output")));
        let run = detached_capture("sh", words, root, &[], 999, time).expect("an output");
        assert!(is_leader(&run.stdout));
        let run = capture("sh", words, root, &[], 999, time).expect("an output");
        assert!(!is_leader(&run.stdout));
    }
}
