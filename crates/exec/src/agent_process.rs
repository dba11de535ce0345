//! A separate process for an agent or a command of the user that runs unattended. Its output goes
//! to files, and it leads its own process group, so that Ctrl+C in the terminal reaches only this
//! process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Child;

use crate::ProcessExit;
use crate::start::session_helper;

/// The program to start. It receives the environment of this process plus `variables`.
#[derive(Debug)]
pub struct AgentProgram {
    /// The program.
    pub program: OsString,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// Variables to add.
    pub variables: Vec<(OsString, OsString)>,
    /// Standard input; `None` for an empty one.
    pub stdin: Option<File>,
    /// The file for standard output.
    pub stdout: File,
    /// The file for standard error.
    pub stderr: File,
    /// The memory limits.
    pub limits: MemoryLimits,
}

/// Memory limits of a process and its children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Address space of each process in bytes; `None` for no limit.
    pub address_space: Option<u64>,
    /// A cgroup to run in.
    pub cgroup: Option<PathBuf>,
}

/// A running process. Dropping it kills its process group.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    pid: Option<Pid>,
}

/// A shell script that applies limits to itself, then executes the program.
const LIMITER: &str = r#"if [ -n "$1" ]; then echo $$ > "$1/cgroup.procs" || exit 125; fi
if [ -n "$2" ]; then ulimit -v "$2" || exit 125; fi
shift 2; exec "$@""#;

impl AgentProcess {
    /// Starts the program. Must be called in a runtime.
    ///
    /// # Errors
    /// Returns an error if the program or directory does not exist, or the program cannot be
    /// started.
    pub fn start(program: AgentProgram) -> io::Result<Self> {
        let AgentProgram {
            program,
            arguments,
            directory,
            variables,
            stdin,
            stdout,
            stderr,
            limits,
        } = program;
        let (program, arguments) = with_memory_limits(program, arguments, &limits);
        #[expect(clippy::disallowed_methods, reason = "this is where agents are started")]
        let child = tokio::process::Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .envs(variables)
            .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr))
            .process_group(0)
            .spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Ok(Self { child, pid })
    }

    /// Returns the process ID, which is also the process group ID.
    pub fn pid(&self) -> Option<i32> {
        self.pid.map(|pid| pid.as_raw_nonzero().get())
    }

    /// Waits for the process to end. Cancel-safe.
    pub async fn wait(&mut self) -> ProcessExit {
        let exit =
            self.child.wait().await.map_or(ProcessExit::Exited { code: -1 }, ProcessExit::from);
        // Kill the processes that it left in its group.
        self.kill();
        self.pid = None;
        exit
    }

    /// Terminates the process, but not its group.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal to the process, not its group.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // It may have ended already.
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills the process group.
    pub fn kill(&self) {
        if let Some(pid) = self.pid {
            // It may have ended already.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a Parallax process that outlives this one: in its own session, without a terminal or
/// input, and with its output in `log`. Blocking.
///
/// # Errors
/// Returns an error if it cannot be started.
pub fn start_detached(
    program: &OsStr,
    arguments: &[OsString],
    variables: &[(OsString, OsString)],
    log: &File,
) -> io::Result<std::process::Child> {
    let helper = session_helper();
    #[expect(clippy::disallowed_methods, reason = "this is where agents are started")]
    let mut command = match &helper {
        Some(helper) => {
            let mut command = std::process::Command::new(helper);
            command.arg(program);
            command
        }
        None => {
            let mut command = std::process::Command::new(program);
            command.process_group(0);
            command
        }
    };
    command
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log.try_clone()?))
        .spawn()
}

/// Runs a shell line with the streams and the process group of this process. Returns its exit code,
/// or 128 plus the signal number. Blocking.
///
/// # Errors
/// Returns an error if there is no shell.
pub fn run_line(line: &str) -> io::Result<u8> {
    #[expect(clippy::disallowed_methods, reason = "this is where commands are started")]
    let status = std::process::Command::new("/bin/sh").args(["-c", line]).status()?;
    Ok(match ProcessExit::from(status) {
        ProcessExit::Exited { code } => u8::try_from(code).unwrap_or(1),
        ProcessExit::Signalled { signal } => {
            u8::try_from(signal.saturating_add(128)).unwrap_or(255)
        }
    })
}

/// Kills all processes that were started with this variable, including those that left the group
/// and session of their command. Without `/proc`, this does nothing. Blocking.
pub fn kill_marked(name: &str, value: &str) {
    crate::process_tree::kill_marked(name, value);
}

/// Returns the command line that applies the limits first.
fn with_memory_limits(
    program: OsString,
    arguments: Vec<OsString>,
    limits: &MemoryLimits,
) -> (OsString, Vec<OsString>) {
    if *limits == MemoryLimits::default() {
        return (program, arguments);
    }
    let kibibytes = limits.address_space.map(|bytes| (bytes / 1024).max(1).to_string());
    let cgroup = limits.cgroup.clone().unwrap_or_default().into_os_string();
    let mut all: Vec<OsString> = vec![
        "-c".into(),
        LIMITER.into(),
        "sh".into(),
        cgroup,
        kibibytes.unwrap_or_default().into(),
    ];
    all.push(program);
    all.extend(arguments);
    ("/bin/sh".into(), all)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn shell(directory: &std::path::Path, line: &str, limits: MemoryLimits) -> AgentProgram {
        let file = |name: &str| File::create(directory.join(name)).expect("a file");
        AgentProgram {
            program: "sh".into(),
            arguments: vec!["-c".into(), line.into()],
            directory: directory.to_owned(),
            variables: vec![("WHO".into(), "me".into())],
            stdin: None,
            stdout: file("out"),
            stderr: file("err"),
            limits,
        }
    }

    #[tokio::test]
    async fn output_is_written_to_a_file_and_limits_apply() {
        let directory = tempfile::tempdir().expect("a directory");
        let limits = MemoryLimits { address_space: Some(512 << 20), cgroup: None };
        let program = shell(directory.path(), "ulimit -v; echo $WHO; exit 7", limits);
        let mut process = AgentProcess::start(program).expect("started");
        assert_eq!(process.wait().await, ProcessExit::Exited { code: 7 });
        let mut text = String::new();
        File::open(directory.path().join("out"))
            .expect("out")
            .read_to_string(&mut text)
            .expect("read");
        assert_eq!(text, "524288\nme\n");
    }

    #[test]
    fn detached_process_is_killed_by_its_variable() {
        let directory = tempfile::tempdir().expect("a directory");
        let pid = directory.path().join("pid");
        // Another process group and session, and no parent.
        let line = format!(
            "setsid -f sh -c 'echo $$ > {}.part; mv {0}.part {0}; exec sleep 60'",
            pid.display()
        );
        #[expect(clippy::disallowed_methods, reason = "only the variable tells what it belongs to")]
        let status = std::process::Command::new("sh")
            .args(["-c", &line])
            .env("PARALLAX_TEST_MARK", directory.path())
            .status();
        assert!(status.expect("a shell").success());
        let mut text = String::new();
        while text.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(2));
            text = std::fs::read_to_string(&pid).unwrap_or_default();
        }
        let pid = text.trim().parse().expect("a number");
        kill_marked("PARALLAX_TEST_MARK", "other");
        assert!(crate::process_tree::is_alive(pid));
        kill_marked("PARALLAX_TEST_MARK", &directory.path().to_string_lossy());
        assert!(!crate::process_tree::is_alive(pid));
    }

    #[tokio::test]
    async fn process_group_ends_with_its_leader() {
        let directory = tempfile::tempdir().expect("a directory");
        let line = "sleep 60 & echo $! > pid";
        let mut process =
            AgentProcess::start(shell(directory.path(), line, MemoryLimits::default()))
                .expect("started");
        assert_eq!(process.wait().await, ProcessExit::Exited { code: 0 });
        let pid = std::fs::read_to_string(directory.path().join("pid")).expect("a number");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
        for _ in 0..1000 {
            // A killed orphan may wait for its reaper.
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            if stat.map_or(true, |stat| stat.contains(") Z ")) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        panic!("the child of the group is alive");
    }
}
