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
use crate::process::RunningCommand;
use crate::process_tree::{self, ProcessTree, Table};
use crate::shared_sandbox::SharedNamespaces;
use crate::{Ending, StartError};

/// How long the end of a session waits for its commands.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// A listener that lags more misses the oldest.
const END_QUEUE: usize = 64;
/// How long a child may outlive its shell before it counts as left running.
const SETTLE: Duration = Duration::from_millis(20);
/// How often an ended process is polled.
const END_POLLS: usize = 25;
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
    cell: Arc<SharedNamespaces>,
}

#[derive(Debug, Default)]
struct State {
    trees: HashMap<i32, ProcessTree>,
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
        process_tree::hide_from_children();
        if let Err(error) = process_tree::become_subreaper() {
            tracing::warn!(%error, "orphans of commands will not be found");
        }
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            logs,
            marks: AtomicU64::new(0),
            collecting: Mutex::default(),
            ended: broadcast::channel(END_QUEUE).0,
            changed: watch::Sender::new(0),
            cell: Arc::default(),
        });
        let owner = Owner { shared: Arc::clone(&shared) };
        Self { shared, _owner: Some(Arc::new(owner)) }
    }

    /// For a task of the registry itself.
    pub(crate) fn without_owner(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), _owner: None }
    }

    /// Starts a command.
    ///
    /// # Errors
    /// Returns an error if the shell or the directory does not exist, or the system refuses.
    pub async fn start(&self, command: Command) -> Result<RunningCommand, StartError> {
        if self.shared.closing.is_cancelled() {
            return Err(StartError::Closed);
        }
        RunningCommand::start(self, command).await
    }

    /// Returns the control of the running command with this process (and group).
    pub fn control(&self, pid: i32) -> Option<Control> {
        self.shared.state().controls.get(&pid).cloned()
    }

    /// Returns the background processes, oldest first. Blocking: it reads the system's processes.
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
            None => process_tree::end_tree(pid),
        }
        // Wait until the end is detected, so that the next listing does not show it.
        for _ in 0..END_POLLS {
            self.refresh();
            let noted = self
                .background_process(pid)
                .is_none_or(|process| process.state != BackgroundState::Running);
            if noted && !process_tree::is_alive(pid) {
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

    fn notify_change(&self) {
        self.shared.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Ends everything that runs and waits at most three seconds.
    pub async fn shutdown(&self) {
        self.shared.closing.cancel();
        let trees = self.trees();
        if !trees.is_empty() {
            drop(tokio::task::spawn_blocking(move || process_tree::end(&trees)).await);
        }
        self.shared.tasks.close();
        drop(tokio::time::timeout(SHUTDOWN_TIMEOUT, self.shared.tasks.wait()).await);
        let cell = self.cell();
        drop(tokio::task::spawn_blocking(move || cell.end()).await);
        self.refresh();
        self.shared.state().trees.clear();
    }

    fn trees(&self) -> Vec<ProcessTree> {
        self.shared.state().trees.values().cloned().collect()
    }

    /// Updates the states of orphans and reaps the dead.
    fn refresh(&self) {
        let _collecting = self.collecting();
        let orphans = self.shared.state().history.running_orphans();
        for pid in orphans {
            let ending = process_tree::collect(pid);
            if ending.is_some() || !process_tree::is_alive(pid) {
                // It may have died between the two checks.
                self.record_end(pid, ending.or_else(|| process_tree::collect(pid)));
            }
        }
    }

    fn collecting(&self) -> MutexGuard<'_, ()> {
        self.shared.collecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_end(&self, pid: i32, ending: Option<Ending>) {
        let ended = self.shared.state().history.ended(pid, ending);
        if let Some(process) = ended {
            // There may be no listener.
            let _ = self.shared.ended.send(process);
            self.notify_change();
        }
    }

    pub(crate) fn new_mark(&self) -> String {
        let number = self.shared.marks.fetch_add(1, Ordering::Relaxed);
        let own = rustix::process::getpid().as_raw_nonzero();
        // Registries of one process have different addresses.
        format!("{own}-{:x}-{number}", Arc::as_ptr(&self.shared).addr())
    }

    pub(crate) fn enter(&self, tree: ProcessTree, control: Control) -> Guard {
        let mut state = self.shared.state();
        state.controls.insert(tree.root, control);
        state.trees.insert(tree.root, tree.clone());
        Guard { shared: Arc::clone(&self.shared), tree, open: true }
    }

    pub(crate) fn cell(&self) -> Arc<SharedNamespaces> {
        Arc::clone(&self.shared.cell)
    }

    /// Whether sandboxed commands share namespaces here; starts them if so. Blocking: some
    /// milliseconds once.
    pub fn has_namespaces(&self) -> bool {
        self.shared.cell.get().is_some()
    }

    /// Returns the process that adopts orphans of sandboxed commands.
    pub(crate) fn namespaces_pid(&self) -> Option<i32> {
        self.shared.cell.started().map(|cell| cell.pid())
    }

    /// Returns how often sandboxed commands of the session tried to reach an address without a
    /// route. Compared before and after a command, it tells whether the command needed the network.
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
        self.notify_change();
        log
    }

    pub(crate) fn background_ended(&self, pid: i32, ending: Ending) {
        self.record_end(pid, Some(ending));
    }

    /// Returns what a command left running after its shell ended.
    pub(crate) async fn left_running(&self, tree: &ProcessTree) -> Vec<i32> {
        let roots = self.look(tree.clone()).await;
        if roots.is_empty() {
            return roots;
        }
        // Some just take longer to exit than their shell.
        tokio::time::sleep(SETTLE).await;
        self.look(tree.clone()).await
    }

    /// Returns the processes left of a command; dead ones are reaped.
    async fn look(&self, tree: ProcessTree) -> Vec<i32> {
        let processes = self.without_owner();
        let look = move || {
            let processes_in = tree.processes_in(&Table::read());
            let _collecting = processes.collecting();
            for pid in processes_in.dead {
                if let Some(ending) = process_tree::collect(pid) {
                    processes.record_end(pid, Some(ending));
                }
            }
            processes_in.roots
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Adopts what a command left running; the processes share one log.
    pub(crate) fn adopt(
        &self,
        tree: &ProcessTree,
        pids: &[i32],
        command: &str,
        log: Option<PathBuf>,
    ) -> PathBuf {
        let first = pids.first().copied().unwrap_or(tree.root);
        let log = log.unwrap_or_else(|| self.log_of(first));
        {
            let mut state = self.shared.state();
            for pid in pids {
                state.history.add(*pid, command, &log, true);
            }
        }
        self.notify_change();
        let (processes, tree) = (self.without_owner(), tree.clone());
        self.spawn(async move { processes.watch(tree).await });
        log
    }

    /// Reaps released processes as long as the session lasts. Nothing else is done to them.
    pub(crate) fn reap_later(&self, tree: ProcessTree) {
        let processes = self.without_owner();
        self.spawn(async move {
            let mut known = HashSet::new();
            loop {
                known.extend(processes.look(tree.clone()).await);
                known.retain(|pid| {
                    process_tree::collect(*pid).is_none() && process_tree::is_alive(*pid)
                });
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
    async fn watch(&self, tree: ProcessTree) {
        while !self.shared.closing.is_cancelled() {
            let closing = self.shared.closing.cancelled();
            if tokio::time::timeout(WATCH_EVERY, closing).await.is_ok() {
                return;
            }
            self.refresh();
            if self.look(tree.clone()).await.is_empty() {
                self.shared.state().trees.remove(&tree.root);
                return;
            }
        }
    }
}

impl Drop for Owner {
    /// Only when the session did not end properly: blocking, at most half a second.
    fn drop(&mut self) {
        self.shared.closing.cancel();
        let trees: Vec<ProcessTree> =
            self.shared.state().trees.drain().map(|(_, one)| one).collect();
        if !trees.is_empty() {
            process_tree::end(&trees);
        }
    }
}

/// Registers a command; dropping it too early ends the command.
#[derive(Debug)]
pub(crate) struct Guard {
    shared: Arc<Shared>,
    tree: ProcessTree,
    open: bool,
}

impl Guard {
    /// No process of the command is left.
    pub(crate) fn leave(&mut self) {
        self.open = false;
        let mut state = self.shared.state();
        state.controls.remove(&self.tree.root);
        state.trees.remove(&self.tree.root);
    }

    /// Some processes continue: they end with the session.
    pub(crate) fn stay(&mut self) {
        self.open = false;
        self.shared.state().controls.remove(&self.tree.root);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        self.shared.state().controls.remove(&self.tree.root);
        let (shared, tree) = (Arc::clone(&self.shared), self.tree.clone());
        // Not on this thread, which may belong to the runtime.
        let end = move || {
            process_tree::end(std::slice::from_ref(&tree));
            shared.state().trees.remove(&tree.root);
        };
        if let Err(error) = std::thread::Builder::new().name("end-of-command".into()).spawn(end) {
            tracing::warn!(%error, "a command could not be ended");
        }
    }
}
