//! Runs a command with piped input and output, without a terminal and with limits on time and
//! output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use parallax_sandbox::Plan;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use crate::registry::Processes;
use crate::shell::Shell;
use crate::stdio_server::{StdioProgram, StdioServer, StdioStreams};
use crate::{ProcessExit, StartError};

/// Default limit of each output in bytes.
pub const MAX_PIPED_OUTPUT: usize = 1024 * 1024;
/// After the shell ends, its output is read for at most this long.
const DRAIN: Duration = Duration::from_millis(100);
/// How long a command that timed out may take to clean up before it is killed.
const CLEANUP_GRACE: Duration = Duration::from_secs(5);

/// A command with its input.
#[derive(Debug, Clone)]
pub struct PipedCommand {
    /// The text for the shell.
    pub text: String,
    /// The working directory.
    pub directory: PathBuf,
    /// All environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// The input.
    pub input: Vec<u8>,
    /// The time limit.
    pub timeout: Duration,
    /// Number of bytes to keep of each output stream; the rest is discarded.
    pub max_bytes: usize,
    /// The sandbox; `None` starts it without one.
    pub sandbox: Option<Plan>,
    /// Whether background processes that it leaves may continue, even after the session, if they
    /// closed the streams. Ignored in a sandbox, whose files and network end with the session.
    pub allows_background: bool,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipedOutput {
    /// How the command ended; `None` if Parallax ended it.
    pub exit: Option<ProcessExit>,
    /// Whether the command timed out.
    pub timed_out: bool,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

impl Processes {
    /// Starts a shell command with piped streams.
    ///
    /// # Errors
    /// Returns an error if the shell or the directory does not exist, or the command cannot be
    /// started.
    pub async fn start_stdio_shell(
        &self,
        text: String,
        directory: PathBuf,
        environment: Vec<(OsString, OsString)>,
        sandbox: Option<Plan>,
    ) -> Result<(StdioServer, StdioStreams), StartError> {
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|it| it.1.clone());
        let task = tokio::task::spawn_blocking(move || Shell::find(path.as_deref()));
        let shell = task.await.ok().flatten().ok_or(StartError::NoShell)?;
        let program = shell.program.into_os_string();
        let arguments: Vec<OsString> = vec!["-c".into(), text.into()];
        self.start_stdio(StdioProgram { program, arguments, directory, environment, sandbox }).await
    }

    /// Runs a command to completion, and ends everything it started that may not continue.
    ///
    /// # Errors
    /// Returns an error if the shell or the directory does not exist, or the command cannot be
    /// started.
    pub async fn run_piped(
        &self,
        command: PipedCommand,
        cancel: &CancellationToken,
    ) -> Result<PipedOutput, StartError> {
        let PipedCommand {
            text,
            directory,
            environment,
            input,
            timeout,
            max_bytes,
            sandbox,
            allows_background,
        } = command;
        let leaves_background = allows_background && sandbox.is_none();
        let (mut process, streams) =
            self.start_stdio_shell(text, directory, environment, sandbox).await?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut stdin = streams.stdin;
        let feed = async {
            // A command may ignore its input.
            let _ = stdin.write_all(&input).await;
            drop(stdin);
        };
        let (exit, timed_out, closed) = {
            let talk = async {
                tokio::join!(
                    feed,
                    read_bounded(streams.stdout, &mut stdout, max_bytes),
                    read_bounded(streams.stderr, &mut stderr, max_bytes)
                )
            };
            tokio::pin!(talk);
            let mut talks = true;
            let work = async {
                tokio::select! {
                    _ = &mut talk => talks = false,
                    exit = process.wait() => {
                        // A background child may hold the pipes open forever.
                        talks = tokio::time::timeout(DRAIN, &mut talk).await.is_err();
                        return exit;
                    }
                }
                process.wait().await
            };
            let done = tokio::select! {
                biased;
                () = cancel.cancelled() => (None, false),
                exit = work => (Some(exit), false),
                () = tokio::time::sleep(timeout) => (None, true),
            };
            if done.1 {
                // Keep the pipes open, because writing to a closed pipe would kill the process.
                let listen = async {
                    if talks {
                        (&mut talk).await;
                    }
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => {}
                    _ = process.terminate(CLEANUP_GRACE) => {}
                    () = listen => {}
                }
            }
            (done.0, done.1, !talks)
        };
        match leaves_background && closed && exit.is_some() {
            true => process.release(),
            false => drop(process.end().await),
        }
        Ok(PipedOutput { exit, timed_out, stdout, stderr })
    }
}

/// Reads to the end and keeps the beginning.
async fn read_bounded(mut source: impl AsyncRead + Unpin, bytes: &mut Vec<u8>, max_bytes: usize) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length) = source.read(&mut buffer).await {
        if length == 0 {
            return;
        }
        let room = max_bytes.saturating_sub(bytes.len()).min(length);
        bytes.extend_from_slice(buffer.get(..room).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(text: &str, input: &[u8], milliseconds: u64) -> PipedOutput {
        let directory = tempfile::tempdir().expect("a directory");
        let processes = Processes::new(directory.path().to_owned());
        let command = PipedCommand {
            text: text.to_owned(),
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            input: input.to_owned(),
            timeout: Duration::from_millis(milliseconds),
            max_bytes: MAX_PIPED_OUTPUT,
            sandbox: None,
            allows_background: false,
        };
        processes.run_piped(command, &CancellationToken::new()).await.expect("started")
    }

    #[tokio::test]
    async fn piped_command_transforms_text() {
        let end = run("read a; echo \"$a!\"; echo oh >&2; exit 3", b"hi\n", 10_000).await;
        assert_eq!(end.exit, Some(ProcessExit::Exited { code: 3 }));
        assert_eq!((end.stdout.as_slice(), end.stderr.as_slice()), (&b"hi!\n"[..], &b"oh\n"[..]));
    }

    #[tokio::test]
    async fn timed_out_command_can_clean_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let mark = directory.path().join("clean");
        let text = format!(
            "trap 'sleep 1; touch {}; exit' TERM; while :; do sleep .05; done",
            mark.display()
        );
        let end = run(&text, b"", 1_000).await;
        assert!(end.timed_out && mark.exists(), "{end:?}");
    }

    #[tokio::test]
    async fn hanging_command_is_terminated_and_output_is_bounded() {
        let end = run("sleep 60", b"", 50).await;
        assert_eq!((end.exit, end.timed_out), (None, true));
        // Neither reads its input nor stops, and a child keeps the pipe open.
        let end =
            run("head -c 3000000 /dev/zero; sleep 60 & exit 0", &[b'x'; 300_000], 20_000).await;
        assert_eq!(end.exit, Some(ProcessExit::Exited { code: 0 }));
        assert_eq!(end.stdout.len(), MAX_PIPED_OUTPUT);
    }

    #[tokio::test]
    async fn process_that_closed_its_streams_may_keep_running() {
        let directory = tempfile::tempdir().expect("a directory");
        let mark = |name: &str| directory.path().join(name);
        let late = |name: &str| format!("(sleep 1; touch {})", mark(name).display());
        let command = |text: String, allows_background: bool| PipedCommand {
            text,
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            input: Vec::new(),
            timeout: Duration::from_millis(500),
            max_bytes: MAX_PIPED_OUTPUT,
            sandbox: None,
            allows_background,
        };
        let away = ">/dev/null 2>&1 </dev/null &";
        let processes = Processes::new(directory.path().to_owned());
        for (text, leaves_background) in [
            (format!("{} {away} echo well", late("stays")), true),
            (format!("{} {away} echo well", late("not-asked")), false),
            (format!("{} & echo well", late("holds")), true),
            (format!("{} {away} sleep 9", late("hangs")), true),
        ] {
            processes
                .run_piped(command(text, leaves_background), &CancellationToken::new())
                .await
                .expect("started");
        }
        processes.shutdown().await;
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        while !mark("stays").exists() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let exists = ["stays", "not-asked", "holds", "hangs"].map(|name| mark(name).exists());
        assert_eq!(exists, [true, false, false, false]);
    }
}
