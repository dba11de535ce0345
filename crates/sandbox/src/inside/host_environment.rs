//! Reads information about the host before the supervisor leaves it, and kills descendant
//! processes.

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::inside::{kernel, listening};
use crate::plan::Plan;

/// Information about the host that the layout requires.
#[derive(Debug, Default)]
pub(crate) struct HostEnvironment {
    /// The initial working directory of the command.
    pub(crate) folder: PathBuf,
    /// Directories that must stay visible below a private one: the home directory, the search path,
    /// the directory of the program, and the working directory.
    pub(crate) visible: Vec<PathBuf>,
    /// Sockets on which programs of the host listen.
    pub(crate) listening: Vec<PathBuf>,
}

/// Collects the information from outside the session namespaces.
pub(crate) fn collect(plan: &Plan, program: &OsStr) -> HostEnvironment {
    let directory = env::current_dir().unwrap_or_default();
    let path = env::var_os("PATH").unwrap_or_default();
    let program = Path::new(program);
    // A bare name is searched for in the search path.
    let named = program.components().count() > 1;
    let program = named.then(|| directory.join(program));
    let visible: Vec<PathBuf> = env::split_paths(&path)
        .chain(env::var_os("HOME").map(PathBuf::from))
        .chain([directory.clone()])
        .chain(program.as_deref().and_then(Path::parent).map(PathBuf::from))
        .chain(program.clone())
        .filter(|path| path.is_absolute())
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    let listening = listening::host_sockets(plan, &visible);
    HostEnvironment { folder: directory, visible, listening }
}

/// Kills all descendants of this process that `/proc` of the host shows. Repeats until none is
/// alive, because processes may fork in the meantime.
pub(crate) fn kill_descendants() {
    const ROUNDS: usize = 200;
    for _ in 0..ROUNDS {
        let living: Vec<Pid> =
            descendants(getpid()).into_iter().filter_map(Process::alive).collect();
        if living.is_empty() {
            return;
        }
        for pid in living {
            // The process may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the direct children of this process, including dead ones.
pub(crate) fn children() -> Vec<Pid> {
    let own_pid = getpid().as_raw_nonzero().get();
    let children = table().remove(&own_pid).unwrap_or_default();
    children.into_iter().filter_map(|child| kernel::process(child.number)).collect()
}

/// Returns the process IDs of all descendants of this process.
pub(crate) fn descendant_pids() -> Vec<i32> {
    descendants(getpid()).into_iter().map(|process| process.number).collect()
}

struct Process {
    number: i32,
    parent: i32,
    has_exited: bool,
}

impl Process {
    fn alive(self) -> Option<Pid> {
        if self.has_exited { None } else { kernel::process(self.number) }
    }

    /// Reads `/proc/PID/stat`. The second field, a name in parentheses, may contain any character;
    /// it is followed by the state and the parent.
    fn read(number: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{number}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let (_, after) = text.rsplit_once(')')?;
        let mut words = after.split_whitespace();
        let has_exited = matches!(words.next()?, "Z" | "X");
        Some(Self { number, parent: words.next()?.parse().ok()?, has_exited })
    }
}

/// Returns all descendants of a process. Zombies are included, because a child that was read before
/// its parent died is found through them.
fn descendants(top: Pid) -> Vec<Process> {
    let mut children = table();
    let mut found = Vec::new();
    let mut pending = vec![top.as_raw_nonzero().get()];
    while let Some(number) = pending.pop() {
        for child in children.remove(&number).unwrap_or_default() {
            pending.push(child.number);
            found.push(child);
        }
    }
    found
}

/// Returns all visible processes by their parent.
fn table() -> HashMap<i32, Vec<Process>> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for process in numbers.filter_map(Process::read) {
        children.entry(process.parent).or_default().push(process);
    }
    children
}
