//! A program that is controlled through pipes, without a shell or terminal. It has its own process
//! group, so that Ctrl+C in the terminal reaches only this process, and everything in the group can
//! be killed.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use crate::ProcessExit;

/// A running program. Dropping it kills its process group.
#[derive(Debug)]
pub struct PipedChild {
    child: Child,
    pid: Option<Pid>,
    /// Standard input.
    pub stdin: Option<ChildStdin>,
    /// Standard output.
    pub stdout: Option<ChildStdout>,
    /// Standard error.
    pub stderr: Option<ChildStderr>,
}

/// How a program ended, and what it printed.
#[derive(Debug)]
pub struct ChildOutput {
    /// How it ended.
    pub exit: ProcessExit,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

impl PipedChild {
    /// Starts a program with the environment of this process. Must be called in a runtime.
    ///
    /// # Errors
    /// Returns an error if the program or directory does not exist, or the program cannot be
    /// started.
    pub fn start<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        directory: &Path,
    ) -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Self { child, pid, stdin, stdout, stderr })
    }

    /// Waits for the program to end. Cancel-safe.
    pub async fn wait(&mut self) -> ProcessExit {
        let exit =
            self.child.wait().await.map_or(ProcessExit::Exited { code: -1 }, ProcessExit::from);
        // Kill the processes that it left in its group.
        self.kill();
        self.pid = None;
        exit
    }

    /// Closes standard input and reads each output stream to its end, keeping at most `limit`
    /// bytes.
    ///
    /// # Errors
    /// Returns an error if it takes longer than `time`; the program is then killed.
    pub async fn output(mut self, limit: usize, time: Duration) -> io::Result<ChildOutput> {
        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let all = async {
            tokio::join!(read_prefix(stdout, limit), read_prefix(stderr, limit), self.wait())
        };
        let (stdout, stderr, exit) = tokio::time::timeout(time, all)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        Ok(ChildOutput { exit, stdout, stderr })
    }

    /// Kills the process group.
    pub fn kill(&self) {
        if let Some(pid) = self.pid {
            // It may have ended already.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for PipedChild {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the beginning of a stream. The rest is read and discarded, so that the program does not
/// block.
async fn read_prefix(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut stream) = stream else { return bytes };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let room = limit.saturating_sub(bytes.len()).min(read);
        bytes.extend_from_slice(buffer.get(..room).unwrap_or_default());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_is_bounded_in_size_and_time() {
        let start =
            |line: &str| PipedChild::start("sh", ["-c", line], Path::new("/")).expect("started");
        let limit = Duration::from_secs(20);
        let done = start("seq 100000; echo bad >&2; exit 3").output(10, limit).await.expect("done");
        assert_eq!(done.exit, ProcessExit::Exited { code: 3 });
        assert_eq!((done.stdout.len(), done.stderr.as_slice()), (10, b"bad\n".as_slice()));
        let late = start("sleep 60 & sleep 60").output(10, Duration::from_millis(50)).await;
        assert_eq!(late.expect_err("late").kind(), io::ErrorKind::TimedOut);
    }
}
