//! A program run to its end: a text on its input, its outputs, a limit on time.

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Bytes of each output.
const LIMIT: u64 = 256 * 1024;
/// How often an ended program is looked for.
const POLL: Duration = Duration::from_millis(1);
/// What it started may hold its outputs open: they are waited for only so long.
const DRAIN: Duration = Duration::from_millis(100);

/// What came of it.
pub(crate) struct Ended {
    /// Its exit code; `None`: a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs it with the variables of this process. Blocking.
pub(crate) fn run(
    program: &Path,
    words: &[&str],
    input: &str,
    limit: Duration,
) -> Result<Ended, String> {
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
        .map_err(|error| format!("`{}` cannot be started: {error}", program.display()))?;
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        // One that does not read it is told of by its end.
        std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            _ => {
                // Gone already is as good as killed.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it gave no answer within {} ms", limit.as_millis()));
            }
        }
    };
    let text = |output: Receiver<String>| output.recv_timeout(DRAIN).unwrap_or_default();
    Ok(Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) })
}

/// Reads an output to its end, on a thread.
fn read(output: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            // What came before it broke is all there is.
            let _ = output.take(LIMIT).read_to_end(&mut bytes);
        }
        // Nobody waits for it any more.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
