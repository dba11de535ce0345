//! Runs a child process with a time limit and measures its resource use.

use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A finished child process.
#[derive(Debug)]
pub struct FinishedProcess {
    /// The exit status.
    pub status: ExitStatus,
    /// Its stdout.
    pub stdout: Vec<u8>,
    /// Its stderr.
    pub stderr: Vec<u8>,
    /// Whether it was killed at the time limit.
    pub timed_out: bool,
    /// The elapsed time.
    pub elapsed: Duration,
    /// User and system CPU time of the process and of the children that it waited for, in the
    /// kernel's steps of 10 ms.
    pub cpu: Duration,
    /// The peak resident memory in bytes, sampled every 5 ms.
    pub peak_rss: u64,
    /// The peak total resident memory of the process and all its descendants in bytes, as sampled.
    pub peak_tree_rss: u64,
}

impl FinishedProcess {
    /// Returns the exit code as a shell reports it: 128 + n for signal n.
    pub fn code(&self) -> i32 {
        self.status.code().or(self.status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
    }
    /// Returns stdout as text.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
    /// Returns stderr as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A running child process in its own process group.
#[derive(Debug)]
pub struct MeasuredProcess {
    child: Child,
    pid: Pid,
    start: Instant,
    stdout: PipeReader,
    stderr: PipeReader,
}

/// Reads a pipe on a thread.
#[derive(Debug)]
struct PipeReader {
    bytes: Arc<Mutex<Vec<u8>>>,
    finished: mpsc::Receiver<()>,
}

impl PipeReader {
    fn new(source: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, finished) = mpsc::channel();
        if let Some(mut source) = source {
            let bytes = bytes.clone();
            thread::spawn(move || {
                let mut buffer = [0; 16 * 1024];
                while let Ok(read @ 1..) = source.read(&mut buffer) {
                    let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                    bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
                }
                drop(sender);
            });
        }
        Self { bytes, finished }
    }

    /// Waits until the pipe has ended; returns `false` after the time limit.
    fn wait_for_end(&self, limit: Duration) -> bool {
        !matches!(self.finished.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs a command to its end. Kills its whole process group after `limit`. With `None`, stdin is
/// closed.
///
/// # Errors
/// Returns an error if it cannot be started.
pub fn run(command: Command, stdin: Option<&[u8]>, limit: Duration) -> io::Result<FinishedProcess> {
    MeasuredProcess::start(command, stdin)?.finish(limit)
}

impl MeasuredProcess {
    /// Starts a command.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn start(mut command: Command, stdin: Option<&[u8]>) -> io::Result<Self> {
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let start = Instant::now();
        let mut child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("no process id"))?;
        if let (Some(mut pipe), Some(bytes)) = (child.stdin.take(), stdin) {
            let bytes = bytes.to_owned();
            thread::spawn(move || pipe.write_all(&bytes));
        }
        let (stdout, stderr) =
            (PipeReader::new(child.stdout.take()), PipeReader::new(child.stderr.take()));
        Ok(Self { child, pid, start, stdout, stderr })
    }

    /// Returns the process ID, with which another thread can send signals.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns what was printed to standard output so far.
    pub fn output(&self) -> String {
        let bytes = self.stdout.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for its end and samples its memory.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report its end.
    pub fn finish(mut self, limit: Duration) -> io::Result<FinishedProcess> {
        let (sender, ended) = mpsc::channel();
        let pid = self.pid;
        thread::spawn(move || {
            // Waits without reaping it, so that its counters can be read.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
            let _ = sender.send(Instant::now());
        });
        let raw = pid.as_raw_nonzero().get();
        let (mut peak_rss, mut peak_tree_rss, mut timed_out) = (0, 0, false);
        let end = loop {
            match ended.recv_timeout(Duration::from_millis(5)) {
                Ok(end) => break end,
                Err(RecvTimeoutError::Disconnected) => break Instant::now(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (high, now) = memory(raw);
            peak_rss = high.max(peak_rss);
            peak_tree_rss = tree_memory(raw, now, 0).max(peak_tree_rss);
            if !timed_out && self.start.elapsed() > limit {
                timed_out = true;
                let _ = kill_process_group(pid, Signal::KILL);
            }
        };
        let cpu = processor_time(raw);
        let status = self.child.wait()?;
        // Its remaining child processes may hold the pipes open.
        if !(self.stdout.wait_for_end(Duration::from_secs(2))
            && self.stderr.wait_for_end(Duration::from_secs(2)))
        {
            let _ = kill_process_group(pid, Signal::KILL);
            self.stdout.wait_for_end(Duration::from_secs(1));
            self.stderr.wait_for_end(Duration::from_secs(1));
        }
        Ok(FinishedProcess {
            status,
            stdout: self.stdout.take(),
            stderr: self.stderr.take(),
            timed_out,
            elapsed: end.duration_since(self.start),
            cpu,
            peak_rss,
            peak_tree_rss,
        })
    }
}

/// Returns the peak and current resident memory of a process in bytes.
fn memory(pid: i32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    (field("VmHWM:"), field("VmRSS:"))
}

fn tree_memory(pid: i32, own: u64, depth: u32) -> u64 {
    let mut sum = own;
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks.filter(|_| depth < 16) {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            sum += tree_memory(child, memory(child).1, depth + 1);
        }
    }
    sum
}

/// Returns utime, stime, cutime, and cstime of a process that has ended but was not reaped.
fn processor_time(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may contain spaces, so count the fields after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(4).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
