//! What the supervisor reads of the machine before it leaves it, and what it
//! kills there.

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::inside::{kernel, listening};
use crate::plan::Plan;

/// Things of the caller's world that the layout needs to know.
#[derive(Debug, Default)]
pub(crate) struct HostEnvironment {
    /// Where the command starts.
    pub(crate) folder: PathBuf,
    /// Folders that must stay visible when they lie below a private one: the
    /// home, the search path, the program's own, where the command starts.
    pub(crate) visible: Vec<PathBuf>,
    /// Sockets on which something of the machine listens.
    pub(crate) listening: Vec<PathBuf>,
}

/// Looks around, from outside of the cell.
pub(crate) fn look(plan: &Plan, program: &OsStr) -> HostEnvironment {
    let folder = env::current_dir().unwrap_or_default();
    let path = env::var_os("PATH").unwrap_or_default();
    let program = Path::new(program);
    // A bare name is looked for along the search path.
    let named = program.components().count() > 1;
    let program = named.then(|| folder.join(program));
    let visible: Vec<PathBuf> = env::split_paths(&path)
        .chain(env::var_os("HOME").map(PathBuf::from))
        .chain([folder.clone()])
        .chain(program.as_deref().and_then(Path::parent).map(PathBuf::from))
        .chain(program.clone())
        .filter(|path| path.is_absolute())
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    let listening = listening::elsewhere(plan, &visible);
    HostEnvironment { folder, visible, listening }
}

/// Kills everything below this process, as far as the machine's `/proc` shows
/// it: rounds are repeated until nothing lives, for what forks meanwhile.
pub(crate) fn kill_descendants() {
    const ROUNDS: usize = 200;
    for _ in 0..ROUNDS {
        let living: Vec<Pid> =
            descendants(getpid()).into_iter().filter_map(Process::alive).collect();
        if living.is_empty() {
            return;
        }
        for pid in living {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The direct children of this process, the dead too.
pub(crate) fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let children = table().remove(&own).unwrap_or_default();
    children.into_iter().filter_map(|child| kernel::process(child.number)).collect()
}

/// The numbers of all processes below this one.
pub(crate) fn below() -> Vec<i32> {
    descendants(getpid()).into_iter().map(|process| process.number).collect()
}

struct Process {
    number: i32,
    parent: i32,
    dead: bool,
}

impl Process {
    fn alive(self) -> Option<Pid> {
        if self.dead { None } else { kernel::process(self.number) }
    }

    /// Reads `/proc/PID/stat`: the second field, a name in parentheses, may
    /// hold anything; then come the state and the parent.
    fn read(number: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{number}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let (_, after) = text.rsplit_once(')')?;
        let mut words = after.split_whitespace();
        let dead = matches!(words.next()?, "Z" | "X");
        Some(Self { number, parent: words.next()?.parse().ok()?, dead })
    }
}

/// Everything below a process. The dead that nobody reaped count on the way:
/// a child that was read before its parent died is found through them.
fn descendants(top: Pid) -> Vec<Process> {
    let mut children = table();
    let mut found = Vec::new();
    let mut open = vec![top.as_raw_nonzero().get()];
    while let Some(number) = open.pop() {
        for child in children.remove(&number).unwrap_or_default() {
            open.push(child.number);
            found.push(child);
        }
    }
    found
}

/// Who is whose child, of all processes that the machine shows.
fn table() -> HashMap<i32, Vec<Process>> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for process in numbers.filter_map(Process::read) {
        children.entry(process.parent).or_default().push(process);
    }
    children
}
