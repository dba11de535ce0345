//! A command that is given a text and gives one back: no terminal, a limit on
//! time and on what is kept.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use parallax_sandbox::Plan;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use crate::registry::Processes;
use crate::served::{Served, ServedProgram, ServedStreams};
use crate::shell::Shell;
use crate::{Ending, StartError};

/// Bytes of each output that are kept where nothing else is said.
pub const KEPT: usize = 1024 * 1024;
/// After the end of the shell its output is read on for at most this long.
const DRAIN: Duration = Duration::from_millis(100);
/// What takes too long is asked to end, and killed after this.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// A command and what it is given.
#[derive(Debug, Clone)]
pub struct Fed {
    /// The text for the shell.
    pub text: String,
    /// Where it runs.
    pub directory: PathBuf,
    /// All variables it gets.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads.
    pub input: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
    /// Bytes of each output that are kept; the rest is read and forgotten.
    pub kept: usize,
    /// What confines it; `None` starts it as it is.
    pub sandbox: Option<Plan>,
    /// What it left in the background when it ended by itself is nobody's business
    /// here, if it gave the streams back: it goes on, also when the session is over.
    /// Not so in a sandbox, whose files and network end with the session.
    pub lets_go: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FedEnd {
    /// How it ended; `None`: it was ended.
    pub ending: Option<Ending>,
    /// Whether it took too long.
    pub timed_out: bool,
    /// The beginning of its output.
    pub stdout: Vec<u8>,
    /// The beginning of its complaints.
    pub stderr: Vec<u8>,
}

impl Processes {
    /// Starts a command that is talked to.
    ///
    /// # Errors
    /// There is no shell or folder, or the system refuses.
    pub async fn serve_shell(
        &self,
        text: String,
        directory: PathBuf,
        environment: Vec<(OsString, OsString)>,
        sandbox: Option<Plan>,
    ) -> Result<(Served, ServedStreams), StartError> {
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|it| it.1.clone());
        let looking = tokio::task::spawn_blocking(move || Shell::find(path.as_deref()));
        let shell = looking.await.ok().flatten().ok_or(StartError::NoShell)?;
        let program = shell.program.into_os_string();
        let arguments: Vec<OsString> = vec!["-c".into(), text.into()];
        self.serve(ServedProgram { program, arguments, directory, environment, sandbox }).await
    }

    /// Runs a command to its end, and ends all that it started and may not leave.
    ///
    /// # Errors
    /// There is no shell or folder, or the system refuses.
    pub async fn feed(
        &self,
        command: Fed,
        cancel: &CancellationToken,
    ) -> Result<FedEnd, StartError> {
        let Fed { text, directory, environment, input, timeout, kept, sandbox, lets_go } = command;
        let lets_go = lets_go && sandbox.is_none();
        let (mut served, streams) = self.serve_shell(text, directory, environment, sandbox).await?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut stdin = streams.stdin;
        let feed = async {
            // A command that does not read its input is none the worse.
            let _ = stdin.write_all(&input).await;
            drop(stdin);
        };
        let (ending, timed_out, closed) = {
            let talk = async {
                tokio::join!(
                    feed,
                    keep(streams.stdout, &mut stdout, kept),
                    keep(streams.stderr, &mut stderr, kept)
                )
            };
            tokio::pin!(talk);
            let mut talks = true;
            let work = async {
                tokio::select! {
                    _ = &mut talk => talks = false,
                    ending = served.wait() => {
                        // A child left behind may hold the pipes open for ever.
                        talks = tokio::time::timeout(DRAIN, &mut talk).await.is_err();
                        return ending;
                    }
                }
                served.wait().await
            };
            let done = tokio::select! {
                biased;
                () = cancel.cancelled() => (None, false),
                ending = work => (Some(ending), false),
                () = tokio::time::sleep(timeout) => (None, true),
            };
            if done.1 {
                // Its pipes stay open: last words into a closed one would kill it.
                let listen = async {
                    if talks {
                        (&mut talk).await;
                    }
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => {}
                    _ = served.ask_to_end(CLEAN_UP) => {}
                    () = listen => {}
                }
            }
            (done.0, done.1, !talks)
        };
        match lets_go && closed && ending.is_some() {
            true => served.let_go(),
            false => drop(served.end().await),
        }
        Ok(FedEnd { ending, timed_out, stdout, stderr })
    }
}

/// Reads to the end and keeps the beginning.
async fn keep(mut source: impl AsyncRead + Unpin, kept: &mut Vec<u8>, most: usize) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length) = source.read(&mut buffer).await {
        if length == 0 {
            return;
        }
        let room = most.saturating_sub(kept.len()).min(length);
        kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(text: &str, input: &[u8], milliseconds: u64) -> FedEnd {
        let folder = tempfile::tempdir().expect("a folder");
        let processes = Processes::new(folder.path().to_owned());
        let command = Fed {
            text: text.to_owned(),
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            input: input.to_owned(),
            timeout: Duration::from_millis(milliseconds),
            kept: KEPT,
            sandbox: None,
            lets_go: false,
        };
        processes.feed(command, &CancellationToken::new()).await.expect("started")
    }

    #[tokio::test]
    async fn a_text_goes_in_and_another_comes_out() {
        let end = run("read a; echo \"$a!\"; echo oh >&2; exit 3", b"hi\n", 10_000).await;
        assert_eq!(end.ending, Some(Ending::Exited { code: 3 }));
        assert_eq!((end.stdout.as_slice(), end.stderr.as_slice()), (&b"hi!\n"[..], &b"oh\n"[..]));
    }

    #[tokio::test]
    async fn what_takes_too_long_may_clean_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("clean");
        let text = format!(
            "trap 'sleep 1; touch {}; exit' TERM; while :; do sleep .05; done",
            mark.display()
        );
        let end = run(&text, b"", 1_000).await;
        assert!(end.timed_out && mark.exists(), "{end:?}");
    }

    #[tokio::test]
    async fn hangs_end_and_floods_are_bounded() {
        let end = run("sleep 60", b"", 50).await;
        assert_eq!((end.ending, end.timed_out), (None, true));
        // Neither reads its input nor stops; a child keeps the pipe open.
        let end =
            run("head -c 3000000 /dev/zero; sleep 60 & exit 0", &[b'x'; 300_000], 20_000).await;
        assert_eq!(end.ending, Some(Ending::Exited { code: 0 }));
        assert_eq!(end.stdout.len(), KEPT);
    }

    #[tokio::test]
    async fn what_gave_the_streams_back_may_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = |name: &str| folder.path().join(name);
        let late = |name: &str| format!("(sleep 1; touch {})", mark(name).display());
        let fed = |text: String, lets_go: bool| Fed {
            text,
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            input: Vec::new(),
            timeout: Duration::from_millis(500),
            kept: KEPT,
            sandbox: None,
            lets_go,
        };
        let away = ">/dev/null 2>&1 </dev/null &";
        let processes = Processes::new(folder.path().to_owned());
        for (text, lets_go) in [
            (format!("{} {away} echo well", late("stays")), true),
            (format!("{} {away} echo well", late("not-asked")), false),
            (format!("{} & echo well", late("holds")), true),
            (format!("{} {away} sleep 9", late("hangs")), true),
        ] {
            processes.feed(fed(text, lets_go), &CancellationToken::new()).await.expect("started");
        }
        processes.shutdown().await;
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        while !mark("stays").exists() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let there = ["stays", "not-asked", "holds", "hangs"].map(|name| mark(name).exists());
        assert_eq!(there, [true, false, false, false]);
    }
}
