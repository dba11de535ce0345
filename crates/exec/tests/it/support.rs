//! A registry in a separate directory, and helpers to run a command.

use std::time::Duration;

use parallax_exec::capture::CaptureLimits;
use parallax_exec::{
    Command, CommandOutcome, DetachedCommand, FinishedCommand, Limits, Mode, Processes,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) struct TestProject {
    pub(crate) folder: TempDir,
    pub(crate) processes: Processes,
}

impl TestProject {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let processes = Processes::new(folder.path().join("logs"));
        Self { folder, processes }
    }

    pub(crate) fn command(&self, text: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Command {
            text: text.to_owned(),
            before: None,
            directory: self.folder.path().to_owned(),
            environment: vec![("PATH".into(), path)],
            mode: Mode::Pipe,
            redact: None,
            copy: Some(self.folder.path().join("outputs/copy.txt")),
            limits: Limits { capture: CaptureLimits::from_threshold(40_000), ..Limits::default() },
            color: false,
            sandbox: None,
        }
    }

    pub(crate) async fn run(&self, command: Command) -> FinishedCommand {
        let running = self.processes.start(command).await.unwrap();
        let cancel = CancellationToken::new();
        finished(running.follow(&cancel, None, &mut |_| {}).await)
    }

    pub(crate) async fn run_text(&self, text: &str) -> FinishedCommand {
        self.run(self.command(text)).await
    }

    pub(crate) async fn detach(&self, text: &str, after: Duration) -> CommandOutcome {
        let running = self.processes.start(self.command(text)).await.unwrap();
        let cancel = CancellationToken::new();
        running.follow(&cancel, Some(after), &mut |_| {}).await
    }
}

pub(crate) fn finished(ended: CommandOutcome) -> FinishedCommand {
    match ended {
        CommandOutcome::Finished(finished) => *finished,
        CommandOutcome::Detached(detached) => panic!("still runs: {detached:?}"),
    }
}

pub(crate) fn detached(ended: CommandOutcome) -> DetachedCommand {
    match ended {
        CommandOutcome::Detached(detached) => *detached,
        CommandOutcome::Finished(finished) => panic!("ended: {finished:?}"),
    }
}

/// Waits until the condition holds; fails after two seconds.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came: {what}");
}

pub(crate) fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}

/// Returns the process IDs that commands wrote to a file, one per line.
pub(crate) fn pids(project: &TestProject, file: &str) -> Vec<i32> {
    std::fs::read_to_string(project.folder.path().join(file))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}
