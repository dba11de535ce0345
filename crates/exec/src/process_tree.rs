//! The processes that belong to one command, including detached ones.
//!
//! A command leads its own process group or, in a sandbox, its supervisor leads a session with the
//! group of the command. A process that leaves the group is still a descendant. An orphan becomes a
//! child of this process, which is a child subreaper, and a mark in the environment shows which
//! command the orphan came from. On systems without `/proc`, only the group is known.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The environment variable that carries the mark of a command to its descendants.
pub(crate) const MARK: &str = "PARALLAX_COMMAND_ID";

/// A process, distinguished by its start time from a later one with the same PID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProcessInstance {
    pub(crate) pid: i32,
    /// Start time in clock ticks since boot.
    pub(crate) start: u64,
}

/// Identifies the processes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessTree {
    /// The shell, which leads the group and, if there is one, the session.
    pub(crate) root: i32,
    /// The value of [`MARK`].
    pub(crate) mark: String,
    /// The process, besides this one, that adopts orphans of the command.
    pub(crate) reaper: Option<i32>,
}

#[derive(Debug, Clone, Copy)]
struct Process {
    member: ProcessInstance,
    parent: i32,
    group: i32,
    session: i32,
    is_zombie: bool,
    /// Whether its name is that of a network broker. Sandboxed programs can use that name as well.
    is_broker: bool,
}

impl Process {
    /// Whether it is a network broker of this process: nothing that was started in a sandbox
    /// becomes a child of this process.
    fn is_network_broker(&self, own_pid: i32) -> bool {
        self.is_broker && self.parent == own_pid && self.session == self.member.pid
    }
}

/// A snapshot of the processes of a command.
#[derive(Debug, Default)]
pub(crate) struct TreeProcesses {
    /// All living processes, including the shell.
    pub(crate) alive: Vec<ProcessInstance>,
    /// The process groups in the session that the shell or its supervisor leads.
    pub(crate) groups: BTreeSet<i32>,
    /// Living processes without a living parent among them: the processes that a shell started in
    /// the background, without their descendants.
    pub(crate) roots: Vec<i32>,
    /// Dead orphans that this process must reap.
    pub(crate) zombies: Vec<i32>,
    /// Whether a network broker of this process is alive. It ends a moment after its command.
    pub(crate) has_broker: bool,
}

/// A snapshot of all processes of the system.
pub(crate) struct ProcessTable {
    processes: Vec<Process>,
    own_pid: i32,
}

impl ProcessTable {
    /// Takes a snapshot that begins after this call. Callers that wait for another one to be
    /// complete share the next. Blocks for a few milliseconds.
    pub(crate) fn read() -> Arc<Self> {
        static LATEST: Mutex<Option<(Instant, Arc<ProcessTable>)>> = Mutex::new(None);
        let called_at = Instant::now();
        let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((began_at, table)) = &*latest
            && *began_at >= called_at
        {
            return Arc::clone(table);
        }
        let began_at = Instant::now();
        let table = Arc::new(Self::scan());
        *latest = Some((began_at, Arc::clone(&table)));
        table
    }

    fn scan() -> Self {
        let own_pid = rustix::process::getpid().as_raw_nonzero().get();
        let processes = std::fs::read_dir("/proc")
            .map(|entries| {
                entries
                    .flatten()
                    .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                    .filter_map(read_process)
                    .collect()
            })
            .unwrap_or_default();
        Self { processes, own_pid }
    }

    /// Returns a living process and its descendants.
    fn tree(&self, pid: i32) -> Vec<ProcessInstance> {
        let mut members = HashSet::from([pid]);
        self.close(&mut members);
        self.processes
            .iter()
            .filter(|process| members.contains(&process.member.pid) && !process.is_zombie)
            .map(|process| process.member)
            .collect()
    }

    /// Adds all descendants of the members.
    fn close(&self, members: &mut HashSet<i32>) {
        // Parents may have higher PIDs than their children: repeat until nothing changes.
        loop {
            let before = members.len();
            for process in &self.processes {
                if members.contains(&process.parent) && process.member.pid != self.own_pid {
                    members.insert(process.member.pid);
                }
            }
            if members.len() == before {
                return;
            }
        }
    }
}

impl ProcessTree {
    /// Returns the processes of the table that belong to this command.
    pub(crate) fn processes_in(&self, table: &ProcessTable) -> TreeProcesses {
        let ProcessTable { processes, own_pid } = table;
        // Process groups 0 and 1 belong to the system.
        if self.root <= 1 {
            return TreeProcesses::default();
        }
        let mut members: HashSet<i32> = processes
            .iter()
            .filter(|process| {
                process.member.pid == self.root
                    || process.group == self.root
                    || process.session == self.root
                    || ((process.parent == *own_pid || Some(process.parent) == self.reaper)
                        && !process.is_zombie
                        && self.has_mark(process.member.pid))
            })
            .map(|process| process.member.pid)
            .collect();
        members.remove(own_pid);
        table.close(&mut members);
        let mut processes_in = TreeProcesses::default();
        for process in processes {
            let pid = process.member.pid;
            // It ends by itself with the last process that uses it.
            let keeper = process.is_network_broker(*own_pid);
            if keeper && process.is_zombie {
                processes_in.zombies.push(pid);
            }
            processes_in.has_broker |= keeper && !process.is_zombie;
            if !members.contains(&pid) || keeper && process.is_zombie {
                continue;
            }
            if process.is_zombie {
                if process.parent == *own_pid && pid != self.root {
                    processes_in.zombies.push(pid);
                }
                continue;
            }
            processes_in.alive.push(process.member);
            if process.session == self.root && process.group > 1 {
                processes_in.groups.insert(process.group);
            }
            if pid != self.root && !keeper && !members.contains(&process.parent) {
                processes_in.roots.push(pid);
            }
        }
        if cfg!(not(target_os = "linux")) && self.group_exists() {
            processes_in.roots.push(self.root);
        }
        processes_in.roots.sort_unstable();
        processes_in
    }

    /// Whether no process of the command remains.
    pub(crate) fn has_exited(&self, processes_in: &TreeProcesses) -> bool {
        if cfg!(target_os = "linux") { processes_in.alive.is_empty() } else { !self.group_exists() }
    }

    fn has_mark(&self, pid: i32) -> bool {
        has_variable(pid, MARK, &self.mark)
    }

    /// Signals the groups and each of the given processes that still exists.
    pub(crate) fn signal(&self, processes: &TreeProcesses, signal: Signal) {
        // Signaling a group reaches processes that are being created.
        let others = processes.groups.iter().filter(|group| **group != self.root);
        for group in others.chain([&self.root]).filter_map(|group| Pid::from_raw(*group)) {
            // It may have exited already.
            let _ = rustix::process::kill_process_group(group, signal);
        }
        for member in &processes.alive {
            send(*member, signal);
        }
    }

    /// Whether the group has a process that is not yet reaped.
    fn group_exists(&self) -> bool {
        Pid::from_raw(self.root)
            .is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
    }
}

/// Kills all processes with an environment variable, however they were detached, except this one.
/// Blocking.
pub(crate) fn kill_marked(name: &str, value: &str) {
    // Repeat, because processes may be created between the snapshot and the kill.
    for _ in 0..20 {
        let table = ProcessTable::read();
        let marked = table.processes.iter().filter(|process| {
            !process.is_zombie
                && process.member.pid != table.own_pid
                && has_variable(process.member.pid, name, value)
        });
        let marked: Vec<Process> = marked.copied().collect();
        if marked.is_empty() {
            return;
        }
        marked.iter().for_each(|process| send(process.member, Signal::KILL));
        std::thread::sleep(STEP);
    }
}

/// Whether a process was started with an environment variable, if it can be read.
fn has_variable(pid: i32, name: &str, value: &str) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let assignment = format!("{name}={value}");
    environment.split(|byte| *byte == 0).any(|pair| pair == assignment.as_bytes())
}

fn send(member: ProcessInstance, signal: Signal) {
    let same = read_process(member.pid).is_some_and(|process| process.member == member);
    if same && let Some(pid) = Pid::from_raw(member.pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Whether a process is alive (a zombie is not).
pub(crate) fn is_alive(pid: i32) -> bool {
    if cfg!(target_os = "linux") {
        return read_process(pid).is_some_and(|process| !process.is_zombie);
    }
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// Time limit for a command to end after `SIGTERM`.
const TIMEOUT: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(10);

/// Terminates commands and everything they started: sends `SIGTERM`, waits at most 200 ms, and
/// kills them. Blocking.
pub(crate) fn terminate(trees: &[ProcessTree]) {
    let mut table = ProcessTable::read();
    for tree in trees {
        tree.signal(&tree.processes_in(&table), Signal::TERM);
    }
    let deadline = Instant::now() + TIMEOUT;
    let all_exited =
        |table: &ProcessTable| trees.iter().all(|tree| tree.has_exited(&tree.processes_in(table)));
    loop {
        std::thread::sleep(STEP);
        table = ProcessTable::read();
        if all_exited(&table) || Instant::now() >= deadline {
            break;
        }
    }
    // Repeat, because processes may be created between the snapshot and the kill.
    for _ in 0..20 {
        if all_exited(&table) {
            break;
        }
        for tree in trees {
            tree.signal(&tree.processes_in(&table), Signal::KILL);
        }
        std::thread::sleep(STEP);
        table = ProcessTable::read();
    }
    for tree in trees {
        for pid in tree.processes_in(&table).zombies {
            collect(pid);
        }
    }
}

/// Terminates one process and its descendants, as [`terminate`] does. Blocking.
pub(crate) fn terminate_tree(pid: i32) {
    let deadline = Instant::now() + TIMEOUT;
    for (signal, rounds) in [(Signal::TERM, 1), (Signal::KILL, 20)] {
        for _ in 0..rounds {
            let members = ProcessTable::read().tree(pid);
            if members.is_empty() {
                return;
            }
            members.into_iter().for_each(|member| send(member, signal));
            std::thread::sleep(STEP);
        }
        while signal == Signal::TERM && is_alive(pid) && Instant::now() < deadline {
            std::thread::sleep(STEP);
        }
    }
}

/// Reaps an orphan and returns how it ended, if it has ended.
pub(crate) fn collect(pid: i32) -> Option<crate::ProcessExit> {
    use rustix::process::{WaitId, WaitIdOptions};
    let pid = Pid::from_raw(pid)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let status = loop {
        match rustix::process::waitid(WaitId::Pid(pid), options) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.ok().flatten()?,
        }
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(crate::ProcessExit::Exited { code }),
        (None, Some(signal)) => Some(crate::ProcessExit::Signalled { signal }),
        (None, None) => None,
    }
}

/// Makes orphans children of this process, so that they can be found. Ignores errors where this is
/// not supported.
pub(crate) fn become_subreaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Hides `/proc/<pid>/environ` and the memory of this process from its children (unless they run as
/// root), which must not read credentials here. Ignores errors.
pub(crate) fn hide_from_children() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

fn read_process(pid: i32) -> Option<Process> {
    // A line has about 400 bytes, and one call returns it whole. Listing all processes takes half
    // as long as with a growing buffer.
    let mut buffer = [0; 2048];
    let mut file = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let length = file.read(&mut buffer).ok()?;
    parse_stat(pid, &String::from_utf8_lossy(buffer.get(..length)?))
}

/// Parses a `stat` line. The name in parentheses may contain any character, so fields are counted
/// from its end.
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    let (name, fields) = stat.rsplit_once(')')?;
    let is_broker = name.split_once('(').is_some_and(|(_, name)| name == parallax_sandbox::KEEPER);
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // The session is field 6 of the line, the start time field 22.
    let start = fields.nth(15)?.parse().ok()?;
    let is_zombie = matches!(state, "Z" | "X" | "x");
    let member = ProcessInstance { pid, start };
    Some(Process { member, parent, group, session, is_zombie, is_broker })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_parentheses_does_not_shift_the_fields() {
        let stat = "12 (a) b (c) S 1 12 11 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 99 1";
        let process = parse_stat(12, stat).unwrap();
        assert_eq!((process.parent, process.group, process.session), (1, 12, 11));
        assert_eq!((process.member.start, process.is_zombie), (777, false));
        assert!(parse_stat(12, "12 (x").is_none());
        assert!(!process.is_broker);
    }

    #[test]
    fn network_broker_is_not_a_leftover_process() {
        let line = |pid: i32, name: &str, parent: i32, state: &str| {
            let stat = format!(
                "{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 9 9 1"
            );
            parse_stat(pid, &stat).unwrap()
        };
        let processes = vec![
            line(20, "sh", 7, "S"),
            line(21, "parallax-broker", 7, "Z"),
            line(22, "parallax-broker", 20, "S"),
        ];
        let tree = ProcessTree { root: 20, mark: "m".to_owned(), reaper: None };
        let processes_in = tree.processes_in(&ProcessTable { processes, own_pid: 7 });
        assert_eq!(processes_in.zombies, [21]);
        // A sandboxed process that uses the name is an ordinary process.
        assert_eq!(processes_in.alive.len(), 2);
    }
}
