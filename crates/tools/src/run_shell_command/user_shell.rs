//! Commands that the user types: they need no approval, run without a sandbox, and inherit all
//! variables of this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream;
use parallax_exec::background::{self, read_log};
use parallax_exec::{
    Command, CommandOutcome, FinishedCommand, Limits, LiveOutput, Mode, ProcessExit, Processes,
    StopReason, TerminalSize,
};
use parallax_files::Workspace;
use parallax_protocol::shell::{
    BackgroundCompletion, BackgroundProcess, BackgroundState, Shell, ShellCommand, ShellEnding,
    ShellOutcome,
};
use parallax_protocol::tool::RunContext;
use parallax_protocol::{BoxFuture, BoxStream};
use parallax_sandbox::{Network, Plan};

use super::control::{CommandControl, show};
use super::report;
use crate::shell_options::ShellOptions;

/// How long a background command is watched before it is detached.
const WATCHED: Duration = Duration::from_millis(200);

/// The user's shell in the project directory.
#[derive(Debug)]
pub struct UserShell {
    options: Arc<ShellOptions>,
    workspace: Arc<Workspace>,
    processes: Processes,
    started: AtomicU64,
}

impl UserShell {
    /// Creates the shell; its commands belong to `processes`.
    pub fn new(options: ShellOptions, workspace: Arc<Workspace>, processes: Processes) -> Self {
        Self { options: Arc::new(options), workspace, processes, started: AtomicU64::new(0) }
    }

    /// Returns a plan that only supervises the command, so that it does not outlive this program.
    fn plan(&self) -> Option<Plan> {
        let options = self.options.sandbox.as_ref()?;
        Some(Plan {
            confine: false,
            network: Network::Host,
            overlay_store: options.overlays.clone(),
            tier: options.tier,
            ..Plan::new(options.temporary.clone())
        })
    }
}

impl Shell for UserShell {
    fn run(&self, command: ShellCommand, run: RunContext) -> BoxFuture<'static, ShellOutcome> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("shell-{}-{number}", std::process::id());
        let outputs = &self.options.output_dir;
        let (plan, directory) = (self.plan(), self.workspace.root().to_owned());
        let mode = match (command.background, command.size) {
            (true, _) => Mode::Pipe,
            (false, None) => Mode::Terminal(self.options.terminal_size),
            (false, Some(size)) => Mode::Terminal(TerminalSize::new(size.columns, size.rows)),
        };
        let end = outputs.join(format!("{name}.directory"));
        let errand = UserCommand {
            command: Command {
                text: command.command,
                before: Some(with_directory_report(&end)),
                directory,
                environment: self.options.user_command_environment(),
                mode,
                copy: Some(outputs.join(format!("{name}.txt"))),
                redact: self.options.redact.clone(),
                // The user sees whether it hangs, and can stop it.
                limits: Limits { inactivity: None, runtime: None, ..self.options.limits() },
                color: self.options.show_color,
                sandbox: plan,
            },
            detach_after: command.background.then_some(WATCHED),
            end,
        };
        Box::pin(errand.run(self.processes.clone(), run))
    }

    fn background(&self, lines: usize) -> Vec<BackgroundProcess> {
        let processes = self.processes.background().into_iter();
        processes.map(|process| with_output(process, lines)).collect()
    }

    fn terminate_background(&self, pid: i32) -> bool {
        self.processes.terminate_background(pid)
    }

    fn completion(&self) -> BackgroundCompletion {
        self.options.background_completion
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        Box::pin(stream::unfold(self.processes.changes(), |mut changes| async move {
            changes.changed().await.ok()?;
            Some(((), changes))
        }))
    }
}

fn with_output(process: background::BackgroundProcess, lines: usize) -> BackgroundProcess {
    let background::BackgroundProcess { pid, command, log, state } = process;
    let last_lines = match lines {
        0 => Vec::new(),
        // Without a log there is no output.
        lines => read_log(&log, lines).map(|end| end.lines).unwrap_or_default(),
    };
    let state = match state {
        background::BackgroundState::Running => BackgroundState::Running,
        background::BackgroundState::Exited(Some(ProcessExit::Signalled { signal })) => {
            BackgroundState::Signalled { signal }
        }
        background::BackgroundState::Exited(Some(ProcessExit::Exited { code })) => {
            BackgroundState::Exited { code: Some(code) }
        }
        background::BackgroundState::Exited(None) => BackgroundState::Exited { code: None },
    };
    BackgroundProcess { pid, command, state, log, last_lines }
}

/// A running command of the user.
struct UserCommand {
    command: Command,
    detach_after: Option<Duration>,
    /// The file to which the shell writes its final working directory.
    end: PathBuf,
}

impl UserCommand {
    async fn run(self, processes: Processes, run: RunContext) -> ShellOutcome {
        let Self { command, detach_after, end } = self;
        let directories: Vec<PathBuf> = end
            .parent()
            .map(Path::to_owned)
            .into_iter()
            .chain(command.sandbox.as_ref().map(|plan| plan.temporary.clone()))
            .collect();
        let file_task = tokio::task::spawn_blocking(move || {
            directories
                .iter()
                .try_for_each(|directory| parallax_exec::create_private_folder(directory))
        });
        if let Err(reason) =
            file_task.await.map_err(|error| error.to_string()).and_then(|created| {
                created.map_err(|error| {
                    format!("failed to create the directory for its output: {error}")
                })
            })
        {
            return failure_outcome(reason);
        }
        let began = command.directory.clone();
        let running = match processes.start(command).await {
            Ok(running) => running,
            Err(error) => return failure_outcome(error.to_string()),
        };
        run.progress.process_group(running.pid());
        run.progress.control(Arc::new(CommandControl(running.control())));
        let progress = Arc::clone(&run.progress);
        let mut live = move |piece: LiveOutput<'_>| show(progress.as_ref(), piece);
        match running.follow(&run.cancel, detach_after, &mut live).await {
            CommandOutcome::Finished(done) => {
                let task = tokio::task::spawn_blocking(move || changed_directory(&end, &began));
                finished_outcome(&done, task.await.ok().flatten())
            }
            CommandOutcome::Detached(detached) => ShellOutcome {
                ending: ShellEnding::Background { pid: detached.pid },
                output: report::output_text(&detached.output),
                display: report::display_output(&detached.output),
                directory: None,
            },
        }
    }
}

fn failure_outcome(message: String) -> ShellOutcome {
    ShellOutcome {
        ending: ShellEnding::Failed { message },
        output: String::new(),
        display: String::new(),
        directory: None,
    }
}

fn finished_outcome(done: &FinishedCommand, directory: Option<PathBuf>) -> ShellOutcome {
    let ending = match (done.stop, done.exit) {
        (Some(StopReason::Cancelled | StopReason::Inactive(_) | StopReason::Runtime(_)), _) => {
            ShellEnding::Cancelled
        }
        (None, ProcessExit::Exited { code }) => ShellEnding::Exited { code },
        (None, ProcessExit::Signalled { signal }) => ShellEnding::Signalled { signal },
    };
    ShellOutcome {
        ending,
        output: report::output_text(&done.output),
        display: report::display_output(&done.output),
        directory,
    }
}

/// Makes the shell write its final working directory.
fn with_directory_report(end: &Path) -> String {
    let note = format!("{{ pwd -P >{}; }} 2>/dev/null", shell_words::quote(&end.to_string_lossy()));
    format!("trap {} EXIT", shell_words::quote(&note))
}

/// Returns the final working directory of a shell if it changed. Blocking.
fn changed_directory(end: &Path, began: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(end).ok()?;
    if let Err(error) = std::fs::remove_file(end) {
        tracing::debug!(%error, "a note of a shell stays");
    }
    let ended = PathBuf::from(text.strip_suffix('\n')?);
    let began = began.canonicalize().unwrap_or_else(|_| began.to_owned());
    (ended != began && ended.is_absolute()).then_some(ended)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use futures_util::StreamExt as _;
    use parallax_files::WorkspaceOptions;
    use parallax_protocol::CancellationToken;
    use parallax_protocol::shell::{ProcessControl, Screen, TerminalSize as Size};
    use parallax_protocol::tool::Progress;
    use tempfile::TempDir;
    use tokio::sync::Notify;

    use super::*;

    struct TestProject {
        directory: TempDir,
        processes: Processes,
        shell: UserShell,
    }

    fn test_project() -> TestProject {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("it's a project");
        std::fs::create_dir(&root).expect("the project");
        let options = WorkspaceOptions { root, ..WorkspaceOptions::default() };
        let workspace = Arc::new(Workspace::new(options).expect("a workspace"));
        let options = ShellOptions::new(
            directory.path().join("it's output"),
            directory.path().join("background"),
        );
        let processes = Processes::new(options.background_dir.clone());
        let shell = UserShell::new(options, workspace, processes.clone());
        TestProject { directory, processes, shell }
    }

    /// The events that a front end would receive.
    #[derive(Default)]
    struct RecordedShellEvents {
        control: Mutex<Option<Arc<dyn ProcessControl>>>,
        screen: Mutex<Screen>,
        news: Notify,
    }

    impl RecordedShellEvents {
        /// Waits until the screen shows a text, and returns the control of the process.
        async fn wait_for_text(&self, text: &str) -> Arc<dyn ProcessControl> {
            let seen = async {
                while !self.screen.lock().expect("screen").rows.concat().contains(text) {
                    self.news.notified().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(10), seen).await.expect("the text in time");
            self.control.lock().expect("control").clone().expect("a process")
        }
    }

    impl Progress for RecordedShellEvents {
        fn output(&self, _text: &str) {}
        fn screen(&self, screen: Screen) {
            *self.screen.lock().expect("screen") = screen;
            self.news.notify_one();
        }
        fn control(&self, control: Arc<dyn ProcessControl>) {
            *self.control.lock().expect("control") = Some(control);
        }
    }

    fn command(text: &str) -> ShellCommand {
        ShellCommand { command: text.into(), background: false, size: None }
    }

    async fn run(project: &TestProject, text: &str) -> ShellOutcome {
        let run =
            RunContext::new(CancellationToken::new(), Arc::new(RecordedShellEvents::default()));
        project.shell.run(command(text), run).await
    }

    #[tokio::test]
    async fn user_command_has_a_terminal_all_variables_and_an_exit_code() {
        let project = test_project();
        let output =
            run(&project, "test -t 0 && stty size; echo $GEMINI_CLI$PARALLAX; exit 3 # x").await;
        assert_eq!(output.output, "30 80\n11");
        assert_eq!((output.ending, output.directory), (ShellEnding::Exited { code: 3 }, None));
        let output = run(&project, "printf '\\033[31mred'").await;
        assert_eq!((output.output.as_str(), output.display.as_str()), ("red", "\x1b[31mred"));
        let size = Some(Size { columns: 100, rows: 40 });
        let wide = ShellCommand { size, ..command("stty size") };
        let run =
            RunContext::new(CancellationToken::new(), Arc::new(RecordedShellEvents::default()));
        assert_eq!(project.shell.run(wide, run).await.output, "40 100");
    }

    #[tokio::test]
    async fn final_directory_is_reported_and_not_kept() {
        let project = test_project();
        let output = run(&project, "mkdir -p sub && cd sub; false").await;
        let sub = project.directory.path().canonicalize().expect("real").join("it's a project/sub");
        assert_eq!(output.directory.as_deref(), Some(sub.as_path()));
        assert_eq!(output.ending, ShellEnding::Exited { code: 1 });
        assert_eq!(run(&project, "pwd").await.directory, None);
        // No temporary file remains.
        let left =
            std::fs::read_dir(project.directory.path().join("it's output")).expect("a directory");
        assert_eq!(left.count(), 0);
    }

    #[tokio::test]
    async fn user_command_receives_keys_and_shows_its_screen() {
        let project = test_project();
        let heard = Arc::new(RecordedShellEvents::default());
        let text = "stty -echo; printf '10%%\\r20%%\\r'; printf 'name? '; read name; \
                    printf '\\033[?1049hhello %s' \"$name\"; read end";
        let run = RunContext::new(CancellationToken::new(), heard.clone());
        let running = tokio::spawn(project.shell.run(command(text), run));
        let control = heard.wait_for_text("name?").await;
        assert_eq!(heard.screen.lock().expect("screen").rows, ["name?"]);
        control.input(b"Jo\n".to_vec());
        heard.wait_for_text("hello Jo").await;
        assert!(heard.screen.lock().expect("screen").full_screen);
        control.resize(Size { columns: 0, rows: 0 });
        control.input(b"\n".to_vec());
        let done = running.await.expect("an outcome");
        assert_eq!(done.ending, ShellEnding::Exited { code: 0 });
    }

    #[tokio::test]
    async fn user_command_moves_to_the_background_and_is_stopped_there() {
        let project = test_project();
        let mut changes = project.shell.changes();
        let heard = Arc::new(RecordedShellEvents::default());
        let run = RunContext::new(CancellationToken::new(), heard.clone());
        let running = tokio::spawn(project.shell.run(command("echo serving; sleep 60"), run));
        heard.wait_for_text("serving").await.to_background();
        let done = running.await.expect("an outcome");
        let ShellEnding::Background { pid } = done.ending else { panic!("{done:?}") };
        assert_eq!(done.output, "serving");
        changes.next().await.expect("a change");

        let run = RunContext::new(CancellationToken::new(), heard.clone());
        let started = ShellCommand { background: true, ..command("echo second; sleep 60") };
        let second = project.shell.run(started, run).await;
        assert!(matches!(second.ending, ShellEnding::Background { .. }), "{second:?}");

        let list = project.shell.background(1);
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].pid, list[0].last_lines.as_slice()), (pid, &["serving".into()][..]));
        assert_eq!(list[0].command, "echo serving; sleep 60");
        assert_eq!(list[0].state, BackgroundState::Running);
        let shell = Arc::new(project.shell);
        let shell_handle = Arc::clone(&shell);
        let ended =
            tokio::task::spawn_blocking(move || shell_handle.terminate_background(pid)).await;
        assert!(ended.expect("an answer"));
        project.processes.shutdown().await;
        assert!(shell.background(0).iter().all(|known| known.state != BackgroundState::Running));
    }

    fn is_alive(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z"))
        })
    }

    #[tokio::test]
    async fn cancelled_user_command_ends_within_500_ms_and_background_stays() {
        let project = test_project();
        let staying = ShellCommand { background: true, ..command("sleep 60") };
        let run =
            RunContext::new(CancellationToken::new(), Arc::new(RecordedShellEvents::default()));
        let staying = project.shell.run(staying, run).await.ending;
        let ShellEnding::Background { pid: stays } = staying else { panic!("{staying:?}") };
        let heard = Arc::new(RecordedShellEvents::default());
        // One process in the group, one in its own group and session, and one that ignores SIGTERM.
        let text = "sleep 60 & echo $! >> pids
            (setsid sh -c 'echo $$ >> pids; exec sleep 60' &)
            sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 1; done' &
            while [ $(wc -l < pids) -lt 3 ]; do sleep 0.01; done
            echo ready; wait";
        let cancel = CancellationToken::new();
        let run = RunContext::new(cancel.clone(), heard.clone());
        let running = tokio::spawn(project.shell.run(command(text), run));
        heard.wait_for_text("ready").await;
        let started_at = Instant::now();
        cancel.cancel();
        let done = running.await.expect("an outcome");
        let took = started_at.elapsed();
        assert_eq!(done.ending, ShellEnding::Cancelled);
        let pids = std::fs::read_to_string(project.directory.path().join("it's a project/pids"));
        let pids: Vec<i32> =
            pids.expect("pids").lines().filter_map(|line| line.trim().parse().ok()).collect();
        assert_eq!(pids.len(), 3);
        assert!(pids.iter().all(|pid| !is_alive(*pid)));
        assert!(took < Duration::from_millis(500), "{took:?}");
        assert!(is_alive(stays));
    }
}
