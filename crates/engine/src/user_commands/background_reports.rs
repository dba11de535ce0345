//! Reports background processes that ended to the user and, if configured, to the model.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::ids::ItemId;
use parallax_protocol::shell::{BackgroundCompletion, BackgroundProcess, BackgroundState, Shell};
use parallax_protocol::untrusted;

use crate::event_bus::EventBus;

/// Maximum number of characters of output that the model reads.
const MAX_OUTPUT: usize = 5_000;
/// Maximum number of log lines read for it.
const LINES: usize = 1_000;

/// Reports that are waiting for the model.
#[derive(Clone, Default)]
pub(crate) struct BackgroundReports {
    texts: Arc<Mutex<Vec<String>>>,
}

impl BackgroundReports {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Detects ended background processes.
pub(crate) struct BackgroundWatcher {
    shell: Arc<dyn Shell>,
    bus: EventBus,
    reports: BackgroundReports,
    /// Processes whose end is already known.
    ended_processes: BTreeSet<i32>,
}

impl BackgroundWatcher {
    pub(crate) fn new(shell: Arc<dyn Shell>, bus: EventBus, reports: BackgroundReports) -> Self {
        Self { shell, bus, reports, ended_processes: BTreeSet::new() }
    }

    /// Checks for processes that ended.
    pub(crate) async fn check_processes(&mut self) {
        let completion = self.shell.completion();
        let lines = match completion {
            BackgroundCompletion::Silent => return,
            BackgroundCompletion::Notify => 0,
            BackgroundCompletion::Inject => LINES,
        };
        let shell = Arc::clone(&self.shell);
        let task = tokio::task::spawn_blocking(move || shell.background(lines));
        // A panic there is a bug; the next check may succeed.
        let Ok(processes) = task.await else { return };
        for process in processes {
            match process.state {
                // The PID may have been reused.
                BackgroundState::Running => drop(self.ended_processes.remove(&process.pid)),
                _ if !self.ended_processes.insert(process.pid) => {}
                _ => self.report_end(&process, completion),
            }
        }
    }

    fn report_end(&self, process: &BackgroundProcess, completion: BackgroundCompletion) {
        let line = line(process);
        let item = ItemId::new(format!("background-{}", process.pid));
        let done = ItemDone::notice(Level::Info, line.clone());
        self.bus.send(EventBody::ItemDone { item, done });
        let mut text = format!("[System] {line}");
        if completion == BackgroundCompletion::Inject {
            let output = process.last_lines.join("\n");
            let skipped = output.chars().count().saturating_sub(MAX_OUTPUT);
            let end: String = output.chars().skip(skipped).collect();
            let what = if skipped > 0 { "The end of its output" } else { "Its output" };
            match end.trim().is_empty() {
                true => text.push_str(" It produced no output."),
                false => text.push_str(&format!(" {what}:\n{}", untrusted::wrap(&end))),
            }
        }
        self.reports.texts.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// Returns how the process ended, and where its log is.
fn line(process: &BackgroundProcess) -> String {
    let BackgroundProcess { pid, command, state, log, .. } = process;
    let how = match state {
        BackgroundState::Signalled { signal } => format!("was terminated by signal {signal}"),
        BackgroundState::Exited { code: Some(code) } => format!("exited with code {code}"),
        BackgroundState::Exited { code: None } | BackgroundState::Running => "ended".to_owned(),
    };
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = command.chars().take(150).collect();
    let dots = if short.len() < command.len() { "…" } else { "" };
    let log = log.display();
    format!("Background command `{short}{dots}` (PID {pid}) {how}. Log: `{log}`")
}
