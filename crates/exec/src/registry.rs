//! The registry of all commands of a session, which ends them with it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::background::{BackgroundProcess, BackgroundState, History};
use crate::command::{Command, Control};
use crate::confined::SharedCell;
use crate::family::{self, Family, Table};
use crate::process::Running;
use crate::{Ending, StartError};

/// How long the end of a session waits for its commands.
const PARTING: Duration = Duration::from_secs(3);
/// A listener that lags more misses the oldest.
const REMEMBERED_ENDS: usize = 64;
/// How long a child may outlive its shell before it counts as left running.
const SETTLE: Duration = Duration::from_millis(20);
/// How often an ended process is polled.
const PARTING_STEPS: usize = 25;
/// How often orphans are checked.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often released processes are reaped.
const COLLECT_EVERY: Duration = Duration::from_secs(10);

/// The commands of a session. Cheap to clone; dropping the last clone ends everything that
/// still runs.
#[derive(Debug, Clone)]
pub struct Processes {
    shared: Arc<Shared>,
    /// `None` in the registry's own tasks, which do not keep it open.
    _owner: Option<Arc<Owner>>,
}

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Cancelled when the session is closing.
    closing: CancellationToken,
    tasks: TaskTracker,
    logs: PathBuf,
    marks: AtomicU64,
    /// Held while orphans are reaped: an end is reported only once, and a second reader must not
    /// mistake it for an end without a code.
    collecting: Mutex<()>,
    ended: broadcast::Sender<BackgroundProcess>,
    /// Counts additions to and ends of background processes.
    changed: watch::Sender<u64>,
    /// The namespaces that sandboxed commands share.
    cell: Arc<SharedCell>,
}

#[derive(Debug, Default)]
struct State {
    families: HashMap<i32, Family>,
    controls: HashMap<i32, Control>,
    history: History,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processes {
    /// Creates an empty registry. `logs` is the directory for logs of background processes; it is
    /// created when needed, for the user only.
    ///
    /// Makes this process the subreaper of its descendants.
    pub fn new(logs: PathBuf) -> Self {
        family::hide_from_children();
        if let Err(error) = family::become_subreaper() {
            tracing::warn!(%error, "orphans of commands will not be found");
        }
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            logs,
            marks: AtomicU64::new(0),
            collecting: Mutex::default(),
            ended: broadcast::channel(REMEMBERED_ENDS).0,
            changed: watch::Sender::new(0),
            cell: Arc::default(),
        });
        let owner = Owner { shared: Arc::clone(&shared) };
        Self { shared, _owner: Some(Arc::new(owner)) }
    }

    /// For a task of the registry itself.
    pub(crate) fn unowned(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), _owner: None }
    }

    /// Starts a command.
    ///
    /// # Errors
    /// When the shell or the directory does not exist, or the system refuses.
    pub async fn start(&self, command: Command) -> Result<Running, StartError> {
        if self.shared.closing.is_cancelled() {
            return Err(StartError::Closed);
        }
        Running::start(self, command).await
    }

    /// The control of the running command with this process (and group).
    pub fn control(&self, pid: i32) -> Option<Control> {
        self.shared.state().controls.get(&pid).cloned()
    }

    /// The background processes, oldest first. Blocking: it reads the system's processes.
    pub fn background(&self) -> Vec<BackgroundProcess> {
        self.refresh();
        self.shared.state().history.list()
    }

    /// One background process.
    pub fn background_process(&self, pid: i32) -> Option<BackgroundProcess> {
        self.background().into_iter().rev().find(|process| process.pid == pid)
    }

    /// Ends a background process and everything it started. `false` if no such process of this
    /// session is running. Blocking: at most half a second.
    pub fn end_background(&self, pid: i32) -> bool {
        let running = self
            .background_process(pid)
            .is_some_and(|process| process.state == BackgroundState::Running);
        if !running {
            return false;
        }
        match self.control(pid) {
            Some(control) => control.stop(),
            None => family::end_tree(pid),
        }
        // Wait until the end is detected, so that the next listing does not show it.
        for _ in 0..PARTING_STEPS {
            self.refresh();
            let noted = self
                .background_process(pid)
                .is_none_or(|process| process.state != BackgroundState::Running);
            if noted && !family::is_alive(pid) {
                break;
            }
            std::thread::sleep(SETTLE);
        }
        true
    }

    /// Reports each background process when it has ended: at once if it was detached, within a
    /// second if it was left behind.
    pub fn ends(&self) -> broadcast::Receiver<BackgroundProcess> {
        self.shared.ended.subscribe()
    }

    /// Signals that a background process was added or has ended; closed when the session is over.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    fn note_change(&self) {
        self.shared.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Ends everything that runs and waits at most three seconds.
    pub async fn shutdown(&self) {
        self.shared.closing.cancel();
        let families = self.families();
        if !families.is_empty() {
            drop(tokio::task::spawn_blocking(move || family::end(&families)).await);
        }
        self.shared.tasks.close();
        drop(tokio::time::timeout(PARTING, self.shared.tasks.wait()).await);
        let cell = self.cell();
        drop(tokio::task::spawn_blocking(move || cell.end()).await);
        self.refresh();
        self.shared.state().families.clear();
    }

    fn families(&self) -> Vec<Family> {
        self.shared.state().families.values().cloned().collect()
    }

    /// Updates the states of orphans and reaps the dead.
    fn refresh(&self) {
        let _collecting = self.collecting();
        let orphans = self.shared.state().history.running_orphans();
        for pid in orphans {
            let ending = family::collect(pid);
            if ending.is_some() || !family::is_alive(pid) {
                // It may have died between the two checks.
                self.note_end(pid, ending.or_else(|| family::collect(pid)));
            }
        }
    }

    fn collecting(&self) -> MutexGuard<'_, ()> {
        self.shared.collecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_end(&self, pid: i32, ending: Option<Ending>) {
        let ended = self.shared.state().history.ended(pid, ending);
        if let Some(process) = ended {
            // There may be no listener.
            let _ = self.shared.ended.send(process);
            self.note_change();
        }
    }

    pub(crate) fn new_mark(&self) -> String {
        let number = self.shared.marks.fetch_add(1, Ordering::Relaxed);
        let own = rustix::process::getpid().as_raw_nonzero();
        // Registries of one process have different addresses.
        format!("{own}-{:x}-{number}", Arc::as_ptr(&self.shared).addr())
    }

    pub(crate) fn enter(&self, family: Family, control: Control) -> Guard {
        let mut state = self.shared.state();
        state.controls.insert(family.root, control);
        state.families.insert(family.root, family.clone());
        Guard { shared: Arc::clone(&self.shared), family, open: true }
    }

    pub(crate) fn cell(&self) -> Arc<SharedCell> {
        Arc::clone(&self.shared.cell)
    }

    /// Whether sandboxed commands share namespaces here; starts them if so. Blocking: some
    /// milliseconds once.
    pub fn has_cell(&self) -> bool {
        self.shared.cell.get().is_some()
    }

    /// The process that adopts orphans of sandboxed commands.
    pub(crate) fn cell_pid(&self) -> Option<i32> {
        self.shared.cell.started().map(|cell| cell.pid())
    }

    /// How often sandboxed commands of the session tried to reach an address without a route.
    /// Compared before and after a command, it tells whether the command needed the network.
    pub fn missed_network(&self) -> u64 {
        self.shared.cell.started().map_or(0, |cell| cell.unroutable())
    }

    pub(crate) fn closing(&self) -> CancellationToken {
        self.shared.closing.clone()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn(task);
    }

    fn log_of(&self, pid: i32) -> PathBuf {
        self.shared.logs.join(format!("background-{pid}.log"))
    }

    pub(crate) fn add_background(&self, pid: i32, command: &str) -> PathBuf {
        let log = self.log_of(pid);
        self.shared.state().history.add(pid, command, &log, false);
        self.note_change();
        log
    }

    pub(crate) fn background_ended(&self, pid: i32, ending: Ending) {
        self.note_end(pid, Some(ending));
    }

    /// What a command left running after its shell ended.
    pub(crate) async fn left_running(&self, family: &Family) -> Vec<i32> {
        let roots = self.look(family.clone()).await;
        if roots.is_empty() {
            return roots;
        }
        // Some just take longer to exit than their shell.
        tokio::time::sleep(SETTLE).await;
        self.look(family.clone()).await
    }

    /// The processes left of a command; dead ones are reaped.
    async fn look(&self, family: Family) -> Vec<i32> {
        let processes = self.unowned();
        let look = move || {
            let census = family.census(&Table::read());
            let _collecting = processes.collecting();
            for pid in census.dead {
                if let Some(ending) = family::collect(pid) {
                    processes.note_end(pid, Some(ending));
                }
            }
            census.roots
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Adopts what a command left running; the processes share one log.
    pub(crate) fn adopt(
        &self,
        family: &Family,
        pids: &[i32],
        command: &str,
        log: Option<PathBuf>,
    ) -> PathBuf {
        let first = pids.first().copied().unwrap_or(family.root);
        let log = log.unwrap_or_else(|| self.log_of(first));
        {
            let mut state = self.shared.state();
            for pid in pids {
                state.history.add(*pid, command, &log, true);
            }
        }
        self.note_change();
        let (processes, family) = (self.unowned(), family.clone());
        self.spawn(async move { processes.watch(family).await });
        log
    }

    /// Reaps released processes as long as the session lasts. Nothing else is done to them.
    pub(crate) fn collect_later(&self, family: Family) {
        let processes = self.unowned();
        self.spawn(async move {
            let mut known = HashSet::new();
            loop {
                known.extend(processes.look(family.clone()).await);
                known.retain(|pid| family::collect(*pid).is_none() && family::is_alive(*pid));
                let closing = processes.shared.closing.cancelled();
                let over = tokio::time::timeout(COLLECT_EVERY, closing).await.is_ok();
                if over || known.is_empty() {
                    return;
                }
            }
        });
    }

    /// Watches orphans until the last is gone: then their group's number may be reused and must be
    /// forgotten.
    async fn watch(&self, family: Family) {
        while !self.shared.closing.is_cancelled() {
            let closing = self.shared.closing.cancelled();
            if tokio::time::timeout(WATCH_EVERY, closing).await.is_ok() {
                return;
            }
            self.refresh();
            if self.look(family.clone()).await.is_empty() {
                self.shared.state().families.remove(&family.root);
                return;
            }
        }
    }
}

impl Drop for Owner {
    /// Only when the session did not end properly: blocking, at most half a second.
    fn drop(&mut self) {
        self.shared.closing.cancel();
        let families: Vec<Family> =
            self.shared.state().families.drain().map(|(_, one)| one).collect();
        if !families.is_empty() {
            family::end(&families);
        }
    }
}

/// Registers a command; dropping it too early ends the command.
#[derive(Debug)]
pub(crate) struct Guard {
    shared: Arc<Shared>,
    family: Family,
    open: bool,
}

impl Guard {
    /// No process of the command is left.
    pub(crate) fn leave(&mut self) {
        self.open = false;
        let mut state = self.shared.state();
        state.controls.remove(&self.family.root);
        state.families.remove(&self.family.root);
    }

    /// Some processes continue: they end with the session.
    pub(crate) fn stay(&mut self) {
        self.open = false;
        self.shared.state().controls.remove(&self.family.root);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        self.shared.state().controls.remove(&self.family.root);
        let (shared, family) = (Arc::clone(&self.shared), self.family.clone());
        // Not on this thread, which may belong to the runtime.
        let end = move || {
            family::end(std::slice::from_ref(&family));
            shared.state().families.remove(&family.root);
        };
        if let Err(error) = std::thread::Builder::new().name("end-of-command".into()).spawn(end) {
            tracing::warn!(%error, "a command could not be ended");
        }
    }
}
