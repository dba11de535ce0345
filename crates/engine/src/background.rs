//! Processes in the background that have ended: what people and the model hear
//! of them, if they are to.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::ids::ItemId;
use parallax_protocol::shell::{BackgroundCompletion, BackgroundProcess, BackgroundState, Shell};
use parallax_protocol::untrusted;

use crate::hub::EventHub;

/// Characters of an output that the model reads.
const MOST_OUTPUT: usize = 5_000;
/// Lines of a log that are looked at for that.
const LINES: usize = 1_000;

/// What the model is still to be told.
#[derive(Clone, Default)]
pub(crate) struct Ended {
    texts: Arc<Mutex<Vec<String>>>,
}

impl Ended {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notices ends.
pub(crate) struct Watch {
    shell: Arc<dyn Shell>,
    hub: EventHub,
    ended: Ended,
    /// Processes whose end is known.
    known: BTreeSet<i32>,
}

impl Watch {
    pub(crate) fn new(shell: Arc<dyn Shell>, hub: EventHub, ended: Ended) -> Self {
        Self { shell, hub, ended, known: BTreeSet::new() }
    }

    /// Something may have changed.
    pub(crate) async fn look(&mut self) {
        let completion = self.shell.completion();
        let lines = match completion {
            BackgroundCompletion::Silent => return,
            BackgroundCompletion::Notify => 0,
            BackgroundCompletion::Inject => LINES,
        };
        let shell = Arc::clone(&self.shell);
        let looking = tokio::task::spawn_blocking(move || shell.background(lines));
        // A panic there is a defect of ours, and the next look may be better.
        let Ok(processes) = looking.await else { return };
        for process in processes {
            match process.state {
                // The number may be another process's by now.
                BackgroundState::Running => drop(self.known.remove(&process.pid)),
                _ if !self.known.insert(process.pid) => {}
                _ => self.tell(&process, completion),
            }
        }
    }

    fn tell(&self, process: &BackgroundProcess, completion: BackgroundCompletion) {
        let line = line(process);
        let item = ItemId::new(format!("background-{}", process.pid));
        let done = ItemDone::Notice { level: Level::Info, text: line.clone() };
        self.hub.send(EventBody::ItemDone { item, done });
        let mut text = format!("[System] {line}");
        if completion == BackgroundCompletion::Inject {
            let output = process.last_lines.join("\n");
            let skipped = output.chars().count().saturating_sub(MOST_OUTPUT);
            let end: String = output.chars().skip(skipped).collect();
            let what = if skipped > 0 { "The end of its output" } else { "Its output" };
            match end.trim().is_empty() {
                true => text.push_str(" It wrote nothing."),
                false => text.push_str(&format!(" {what}:\n{}", untrusted::wrap(&end))),
            }
        }
        self.ended.texts.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// How it ended, and where its log is.
fn line(process: &BackgroundProcess) -> String {
    let BackgroundProcess { pid, command, state, log, .. } = process;
    let how = match state {
        BackgroundState::Signalled { signal } => format!("was ended by signal {signal}"),
        BackgroundState::Exited { code: Some(code) } => format!("ended with exit code {code}"),
        BackgroundState::Exited { code: None } | BackgroundState::Running => "ended".to_owned(),
    };
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = command.chars().take(150).collect();
    let dots = if short.len() < command.len() { "…" } else { "" };
    let log = log.display();
    format!("The background command `{short}{dots}` (PID {pid}) {how}. Its log: `{log}`")
}
