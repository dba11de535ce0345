//! The registry of all commands of a session, which ends them when the session ends.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ProcessExit;
use crate::background::{BackgroundHistory, BackgroundProcess, BackgroundState};
use crate::command::Control;
use crate::process_tree::{self, ProcessTable, ProcessTree, TreeProcesses};
use crate::shared_sandbox::SharedNamespaces;

/// Time limit for terminating the commands when the session ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Capacity of the queue of ended processes; a listener that lags behind misses the oldest ones.
const END_QUEUE: usize = 64;
/// How long a child may outlive its shell before it counts as left running.
const SETTLE: Duration = Duration::from_millis(20);
/// How often to poll for the end of a process.
const END_POLLS: usize = 25;
/// Delays in milliseconds between checks whether the network broker of a finished command has
/// ended.
const BROKER_POLL_DELAYS_MS: [u64; 5] = [100, 300, 1000, 3000, 10_000];
/// How often to check orphans.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often to reap released processes.
const COLLECT_EVERY: Duration = Duration::from_secs(10);

/// The commands of a session. Cheap to clone; dropping the last clone ends everything that
/// still runs.
#[derive(Debug, Clone)]
pub struct Processes {
    shared: Arc<RegistryShared>,
    /// `None` in the tasks of the registry, which must not keep it alive.
    _owner: Option<Arc<Owner>>,
}

#[derive(Debug)]
struct Owner {
    shared: Arc<RegistryShared>,
}

#[derive(Debug)]
struct RegistryShared {
    state: Mutex<RegistryState>,
    /// Cancelled when the session is closing.
    closing: CancellationToken,
    tasks: TaskTracker,
    logs: PathBuf,
    marks: AtomicU64,
    /// Held while orphans are reaped: the kernel reports an end only once, and a concurrent caller
    /// must not mistake that for an end without an exit code.
    collecting: Mutex<()>,
    end_sender: broadcast::Sender<BackgroundProcess>,
    /// Number of times background processes were added or ended.
    changed: watch::Sender<u64>,
    /// The namespaces that sandboxed commands share.
    session_namespaces: Arc<SharedNamespaces>,
}

#[derive(Debug, Default)]
struct RegistryState {
    trees: HashMap<i32, ProcessTree>,
    controls: HashMap<i32, Control>,
    history: BackgroundHistory,
    broker_looks: BrokerScanState,
}

/// Whether a task is scanning for exited network brokers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum BrokerScanState {
    #[default]
    None,
    Running,
    /// A command ended meanwhile, so they are repeated.
    Repeated,
}

impl RegistryShared {
    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processes {
    /// Creates an empty registry. `logs` is the directory for logs of background processes; it is
    /// created when needed, accessible only to the user.
    ///
    /// Makes this process the subreaper of its descendants.
    pub fn new(logs: PathBuf) -> Self {
        process_tree::hide_from_children();
        if let Err(error) = process_tree::become_subreaper() {
            tracing::warn!(%error, "orphaned processes of commands will not be found");
        }
        let shared = Arc::new(RegistryShared {
            state: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            logs,
            marks: AtomicU64::new(0),
            collecting: Mutex::default(),
            end_sender: broadcast::channel(END_QUEUE).0,
            changed: watch::Sender::new(0),
            session_namespaces: Arc::default(),
        });
        let owner = Owner { shared: Arc::clone(&shared) };
        Self { shared, _owner: Some(Arc::new(owner)) }
    }

    /// Returns a handle for a task of the registry itself.
    pub(crate) fn without_owner(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), _owner: None }
    }

    /// Returns the control handle of the running command with this process (and group) ID.
    pub fn control(&self, pid: i32) -> Option<Control> {
        self.shared.state().controls.get(&pid).cloned()
    }

    /// Returns the background processes, oldest first. Blocking: reads the process table of the
    /// system.
    pub fn background(&self) -> Vec<BackgroundProcess> {
        self.refresh();
        self.shared.state().history.list()
    }

    /// Returns a background process by its PID.
    pub fn background_process(&self, pid: i32) -> Option<BackgroundProcess> {
        self.background().into_iter().rev().find(|process| process.pid == pid)
    }

    /// Terminates a background process and everything it started. Returns `false` if no such
    /// process of this session is running. Blocks for at most half a second.
    pub fn terminate_background(&self, pid: i32) -> bool {
        let running = self
            .background_process(pid)
            .is_some_and(|process| process.state == BackgroundState::Running);
        if !running {
            return false;
        }
        match self.control(pid) {
            Some(control) => control.stop(),
            None => process_tree::terminate_tree(pid),
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

    /// Returns a receiver for background processes that ended: immediately for detached ones,
    /// within a second for processes left behind.
    pub fn subscribe_to_ends(&self) -> broadcast::Receiver<BackgroundProcess> {
        self.shared.end_sender.subscribe()
    }

    /// Returns a receiver that is notified when a background process is added or ends; closed when
    /// the session ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    fn notify_change(&self) {
        self.shared.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Ends everything that runs, waiting at most three seconds.
    pub async fn shutdown(&self) {
        self.shared.closing.cancel();
        let trees = self.trees();
        if !trees.is_empty() {
            drop(tokio::task::spawn_blocking(move || process_tree::terminate(&trees)).await);
        }
        self.shared.tasks.close();
        drop(tokio::time::timeout(SHUTDOWN_TIMEOUT, self.shared.tasks.wait()).await);
        let session_namespaces = self.shared_namespaces();
        drop(tokio::task::spawn_blocking(move || session_namespaces.end()).await);
        self.refresh();
        self.shared.state().trees.clear();
    }

    fn trees(&self) -> Vec<ProcessTree> {
        self.shared.state().trees.values().cloned().collect()
    }

    /// Updates the states of orphans and reaps the dead.
    fn refresh(&self) {
        let _collection_lock = self.lock_collecting();
        let orphans = self.shared.state().history.running_orphans();
        for pid in orphans {
            let exit = process_tree::collect(pid);
            if exit.is_some() || !process_tree::is_alive(pid) {
                // The process may have died between the two checks.
                self.record_end(pid, exit.or_else(|| process_tree::collect(pid)));
            }
        }
    }

    fn lock_collecting(&self) -> MutexGuard<'_, ()> {
        self.shared.collecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_end(&self, pid: i32, exit: Option<ProcessExit>) {
        let ended = self.shared.state().history.record_end(pid, exit);
        if let Some(process) = ended {
            // There may be no listener.
            let _ = self.shared.end_sender.send(process);
            self.notify_change();
        }
    }

    pub(crate) fn new_mark(&self) -> String {
        let number = self.shared.marks.fetch_add(1, Ordering::Relaxed);
        let own_pid = rustix::process::getpid().as_raw_nonzero();
        // Registries in the same process have different addresses.
        format!("{own_pid}-{:x}-{number}", Arc::as_ptr(&self.shared).addr())
    }

    pub(crate) fn enter(&self, tree: ProcessTree, control: Control) -> Guard {
        let mut state = self.shared.state();
        state.controls.insert(tree.root, control);
        state.trees.insert(tree.root, tree.clone());
        Guard { shared: Arc::clone(&self.shared), tree, open: true }
    }

    pub(crate) fn shared_namespaces(&self) -> Arc<SharedNamespaces> {
        Arc::clone(&self.shared.session_namespaces)
    }

    /// Whether sandboxed commands share namespaces here; starts them if so. Blocks for a few
    /// milliseconds once.
    pub fn has_namespaces(&self) -> bool {
        self.shared.session_namespaces.get().is_some()
    }

    /// Returns the process that adopts orphans of sandboxed commands.
    pub(crate) fn namespaces_pid(&self) -> Option<i32> {
        self.shared
            .session_namespaces
            .namespaces()
            .map(|session_namespaces| session_namespaces.pid())
    }

    /// Returns how often sandboxed commands of the session tried to reach an address without a
    /// route. The difference before and after a command shows whether the command needed the
    /// network.
    pub fn unroutable_attempts(&self) -> u64 {
        self.shared
            .session_namespaces
            .namespaces()
            .map_or(0, |session_namespaces| session_namespaces.unroutable_attempts())
    }

    pub(crate) fn closing_token(&self) -> CancellationToken {
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

    pub(crate) fn background_ended(&self, pid: i32, exit: ProcessExit) {
        self.record_end(pid, Some(exit));
    }

    /// Returns the process IDs that a command left running after its shell ended.
    pub(crate) async fn surviving_processes(&self, tree: &ProcessTree) -> Vec<i32> {
        let mut found = self.search(tree.clone()).await;
        if !found.roots.is_empty() {
            // Some processes just take longer to exit than their shell.
            tokio::time::sleep(SETTLE).await;
            found = self.search(tree.clone()).await;
        }
        // It may end a moment later, or may not have been adopted yet.
        self.reap_brokers(tree.clone());
        found.roots
    }

    /// Reaps the network brokers of finished commands when they have ended. One task does it for
    /// all commands, because each check reads all processes of the system.
    fn reap_brokers(&self, tree: ProcessTree) {
        {
            let looks = &mut self.shared.state().broker_looks;
            if *looks != BrokerScanState::None {
                *looks = BrokerScanState::Repeated;
                return;
            }
            *looks = BrokerScanState::Running;
        }
        let processes = self.without_owner();
        self.spawn(async move {
            loop {
                // The broker of another command may run for hours.
                for delay in BROKER_POLL_DELAYS_MS.map(Duration::from_millis) {
                    let closing = processes.shared.closing.cancelled();
                    if tokio::time::timeout(delay, closing).await.is_ok() {
                        return;
                    }
                    if !processes.search(tree.clone()).await.has_broker {
                        break;
                    }
                }
                let looks = &mut processes.shared.state().broker_looks;
                *looks = match looks {
                    BrokerScanState::Repeated => BrokerScanState::Running,
                    BrokerScanState::Running | BrokerScanState::None => BrokerScanState::None,
                };
                if *looks == BrokerScanState::None {
                    return;
                }
            }
        });
    }

    /// Returns the remaining processes of a command, and reaps dead ones.
    async fn remaining_processes(&self, tree: ProcessTree) -> Vec<i32> {
        self.search(tree).await.roots
    }

    async fn search(&self, tree: ProcessTree) -> TreeProcesses {
        let processes = self.without_owner();
        let look = move || {
            let mut processes_in = tree.processes_in(&ProcessTable::read());
            let _collection_lock = processes.lock_collecting();
            for pid in processes_in.zombies.drain(..) {
                if let Some(exit) = process_tree::collect(pid) {
                    processes.record_end(pid, Some(exit));
                }
            }
            processes_in
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Adopts the processes that a command left running; they share one log.
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

    /// Reaps the orphaned processes of a running program when they end.
    pub(crate) fn reap_orphans(&self, tree: ProcessTree) {
        let Ok(mut ends) = signal(SignalKind::child()) else { return };
        let processes = self.without_owner();
        self.spawn(async move {
            let closing = processes.shared.closing.clone();
            loop {
                tokio::select! {
                    () = closing.cancelled() => return,
                    _ = ends.recv() => {}
                }
                // Several often end together.
                if tokio::time::timeout(WATCH_EVERY, closing.cancelled()).await.is_ok()
                    || !process_tree::is_alive(tree.root)
                {
                    return;
                }
                processes.remaining_processes(tree.clone()).await;
            }
        });
    }

    /// Reaps released processes as long as the session lasts. Does nothing else with them.
    pub(crate) fn reap_later(&self, tree: ProcessTree) {
        let processes = self.without_owner();
        self.spawn(async move {
            let mut known = HashSet::new();
            loop {
                known.extend(processes.remaining_processes(tree.clone()).await);
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

    /// Watches orphans until the last one is gone. The ID of their group may then be reused, so it
    /// must be forgotten.
    async fn watch(&self, tree: ProcessTree) {
        while !self.shared.closing.is_cancelled() {
            let closing = self.shared.closing.cancelled();
            if tokio::time::timeout(WATCH_EVERY, closing).await.is_ok() {
                return;
            }
            self.refresh();
            if self.remaining_processes(tree.clone()).await.is_empty() {
                self.shared.state().trees.remove(&tree.root);
                return;
            }
        }
    }
}

impl Drop for Owner {
    /// Ends everything if the session was not shut down properly. Blocks for at most half a second.
    fn drop(&mut self) {
        self.shared.closing.cancel();
        let trees: Vec<ProcessTree> =
            self.shared.state().trees.drain().map(|(_, one)| one).collect();
        if !trees.is_empty() {
            process_tree::terminate(&trees);
        }
    }
}

/// Registers a command. Dropping it without [`mark_ended`](Self::mark_ended) or
/// [`mark_remaining`](Self::mark_remaining) terminates the command.
#[derive(Debug)]
pub(crate) struct Guard {
    shared: Arc<RegistryShared>,
    tree: ProcessTree,
    open: bool,
}

impl Guard {
    /// Records that no process of the command remains.
    pub(crate) fn mark_ended(&mut self) {
        self.open = false;
        let mut state = self.shared.state();
        state.controls.remove(&self.tree.root);
        state.trees.remove(&self.tree.root);
    }

    /// Records that some processes continue; they end with the session.
    pub(crate) fn mark_remaining(&mut self) {
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
            process_tree::terminate(std::slice::from_ref(&tree));
            shared.state().trees.remove(&tree.root);
        };
        if let Err(error) = std::thread::Builder::new().name("end-of-command".into()).spawn(end) {
            tracing::warn!(%error, "a command could not be terminated");
        }
    }
}
