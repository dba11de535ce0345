//! A long-running program that communicates over its standard input and output, such as a
//! server.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use parallax_sandbox::Plan;
use rustix::process::Signal;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use crate::command::Control;
use crate::process_tree::{self, ProcessTree, TreeProcesses};
use crate::registry::{Guard, Processes};
use crate::start::session_helper;
use crate::{ProcessExit, StartError, shared_sandbox};

/// Time limit for a server to end after its input was closed.
const STDIN_CLOSE_GRACE: Duration = Duration::from_millis(500);

/// A program to start.
#[derive(Debug, Clone)]
pub struct StdioProgram {
    /// The program: a path, or a name that is looked up in the `PATH` of `environment`.
    pub program: OsString,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// All environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// The sandbox; `None` starts it without one.
    pub sandbox: Option<Plan>,
}

/// The three streams of such a program.
#[derive(Debug)]
pub struct StdioStreams {
    /// The standard input.
    pub stdin: ChildStdin,
    /// The standard output.
    pub stdout: ChildStdout,
    /// Standard error. Must be read, or the program may block.
    pub stderr: ChildStderr,
}

/// A running program. Dropping it terminates the program and everything it started.
#[derive(Debug)]
pub struct StdioServer {
    child: Child,
    tree: ProcessTree,
    guard: Guard,
    processes: Processes,
}

impl Processes {
    /// Starts a program in its own process group, without a terminal.
    ///
    /// # Errors
    /// Returns an error if the program or directory does not exist, its sandbox cannot be set up,
    /// or the program cannot be started.
    pub async fn start_stdio(
        &self,
        program: StdioProgram,
    ) -> Result<(StdioServer, StdioStreams), StartError> {
        if self.closing_token().is_cancelled() {
            return Err(StartError::Closed);
        }
        let StdioProgram { program, arguments, directory, mut environment, sandbox } = program;
        let display_path = program.to_string_lossy().into_owned();
        let failed = |source| StartError::Spawn { program: display_path.clone(), source };
        let path =
            environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let (working_directory, name) = (directory.clone(), program.clone());
        let find = move || {
            (
                find(&name, path.as_deref(), &working_directory),
                working_directory.is_dir(),
                session_helper(),
            )
        };
        let looked = tokio::task::spawn_blocking(find).await;
        let (found, is_folder, helper) = looked.unwrap_or_default();
        if !is_folder {
            return Err(StartError::NoFolder(directory));
        }
        let found = found.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        // The supervisor of a sandboxed program creates its own session.
        let leads = sandbox.is_some();
        let helper = helper.filter(|_| !leads);
        let (found, arguments) = match sandbox {
            None => (found.into_os_string(), arguments),
            Some(plan) => {
                let session_namespaces = self.shared_namespaces();
                let sandbox_task =
                    move || shared_sandbox::wrap(plan, &session_namespaces, &found, &arguments);
                let wrapped = tokio::task::spawn_blocking(sandbox_task).await;
                wrapped.map_err(|error| StartError::Sandbox(error.to_string()))??
            }
        };
        let mark = self.new_mark();
        environment.retain(|(name, _)| name != process_tree::MARK);
        environment.push((process_tree::MARK.into(), mark.clone().into()));
        #[expect(clippy::disallowed_methods, reason = "this is where servers are started")]
        let mut command = match &helper {
            Some(helper) => {
                let mut command = tokio::process::Command::new(helper);
                command.arg(&found);
                command
            }
            None => tokio::process::Command::new(&found),
        };
        if helper.is_none() && !leads {
            command.process_group(0);
        }
        command
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let root = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        let tree = ProcessTree { root, mark, reaper: None };
        let guard = self.enter(tree.clone(), Control::new().0);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(io::Error::other("its pipes could not be opened")));
        };
        let processes = self.without_owner();
        processes.reap_orphans(tree.clone());
        Ok((StdioServer { child, tree, guard, processes }, StdioStreams { stdin, stdout, stderr }))
    }
}

impl StdioServer {
    /// Returns the process ID, which is also the process group ID.
    pub fn pid(&self) -> i32 {
        self.tree.root
    }

    /// Waits for the program to end. Cancel-safe.
    pub async fn wait(&mut self) -> ProcessExit {
        self.child.wait().await.map_or(ProcessExit::Exited { code: -1 }, ProcessExit::from)
    }

    /// Terminates its process group and waits for the given time.
    pub async fn terminate(&mut self, timeout: Duration) -> Option<ProcessExit> {
        self.tree.signal(&TreeProcesses::default(), Signal::TERM);
        tokio::time::timeout(timeout, self.wait()).await.ok()
    }

    /// Releases the processes that the program, which has ended, left running.
    pub(crate) fn release(mut self) {
        self.guard.mark_ended();
        self.processes.reap_later(self.tree);
    }

    /// Terminates the program and everything it started. Close its input first: it has half a
    /// second to end by itself, then it is terminated, and finally killed.
    pub async fn end(mut self) -> Option<ProcessExit> {
        let exit = tokio::time::timeout(STDIN_CLOSE_GRACE, self.wait()).await.ok();
        let tree = self.tree.clone();
        let ended = tokio::task::spawn_blocking(move || process_tree::terminate(&[tree])).await;
        self.guard.mark_ended();
        match exit {
            Some(exit) => Some(exit),
            None if ended.is_ok() => tokio::time::timeout(STDIN_CLOSE_GRACE, self.child.wait())
                .await
                .ok()?
                .ok()
                .map(ProcessExit::from),
            None => None,
        }
    }
}

/// Resolves a program name: with a slash it is a path, otherwise the first match in `path` that is
/// executable. Blocking.
fn find(program: &OsStr, path: Option<&OsStr>, directory: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let as_path = Path::new(program);
    if as_path.components().count() > 1 {
        return Some(directory.join(as_path)).filter(runs);
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(path).map(|folder| directory.join(folder).join(program)).find(runs)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;

    fn program(script: &str) -> StdioProgram {
        StdioProgram {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            sandbox: None,
        }
    }

    #[tokio::test]
    async fn stdio_server_answers_and_stubborn_server_is_terminated() {
        let directory = tempfile::tempdir().expect("a directory");
        let processes = Processes::new(directory.path().to_owned());
        let script = "trap '' TERM; read a; echo got $a; while :; do sleep 60; done";
        let (mut stdio_server, mut streams) =
            processes.start_stdio(program(script)).await.expect("started");
        streams.stdin.write_all(b"x\n").await.expect("written");
        let mut line = String::new();
        BufReader::new(streams.stdout).read_line(&mut line).await.expect("read");
        assert_eq!(line, "got x\n");
        drop(streams.stdin);
        let pid = stdio_server.pid();
        assert!(tokio::time::timeout(Duration::from_millis(1), stdio_server.wait()).await.is_err());
        assert_eq!(stdio_server.end().await, Some(ProcessExit::Signalled { signal: 9 }));
        assert!(!process_tree::is_alive(pid));
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn orphan_of_a_running_program_is_reaped() {
        let directory = tempfile::tempdir().expect("a directory");
        let processes = Processes::new(directory.path().to_owned());
        let script = "(sleep 0.2 & echo $!); exec cat";
        let (stdio_server, streams) =
            processes.start_stdio(program(script)).await.expect("started");
        let mut line = String::new();
        BufReader::new(streams.stdout).read_line(&mut line).await.expect("read");
        let orphan = format!("/proc/{}", line.trim());
        let reaped = async {
            while std::path::Path::new(&orphan).exists() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reaped).await.expect("a reaped orphan");
        drop(streams.stdin);
        stdio_server.end().await;
    }

    #[tokio::test]
    async fn missing_program_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let processes = Processes::new(directory.path().to_owned());
        let missing = StdioProgram { program: "no-such-program".into(), ..program("") };
        let error = processes.start_stdio(missing).await.expect_err("nothing there").to_string();
        assert!(error.contains("no-such-program"), "{error}");
    }
}
