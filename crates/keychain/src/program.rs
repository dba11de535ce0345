//! Runs a program to completion with input, captured output, and a time limit.

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Maximum number of bytes read from each output stream.
const LIMIT: u64 = 256 * 1024;
/// How often the program is polled.
const POLL: Duration = Duration::from_millis(1);
/// How long to wait for output streams that children of the program may hold open.
const DRAIN: Duration = Duration::from_millis(100);

/// The result of a program.
pub(crate) struct ProgramResult {
    /// The exit code; `None` if a signal terminated the program.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program with the environment of this process. Blocking.
pub(crate) fn run(
    program: &Path,
    words: &[&str],
    input: &str,
    limit: Duration,
) -> Result<ProgramResult, String> {
    let end = Instant::now() + limit;
    #[expect(
        clippy::disallowed_methods,
        reason = "two fixed programs of the system, by their path"
    )]
    let mut child = std::process::Command::new(program)
        .args(words)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("failed to start `{}`: {error}", program.display()))?;
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        // A program that does not read its input fails by itself.
        std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            _ => {
                // It may have exited already.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no response within {} ms", limit.as_millis()));
            }
        }
    };
    let text = |output: Receiver<String>| output.recv_timeout(DRAIN).unwrap_or_default();
    Ok(ProgramResult { code: status.code(), stdout: text(stdout), stderr: text(stderr) })
}

/// Reads an output stream to its end on a thread.
fn read(output: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            // Keep what was read before an error.
            let _ = output.take(LIMIT).read_to_end(&mut bytes);
        }
        // The receiver may be gone.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
