//! The parent processes of this process, up to the editor whose terminal it runs in. Blocking.

use std::path::Path;
use std::time::Duration;

/// Maximum number of parents to visit.
const MAX_DEPTH: usize = 32;
/// Known shells. The editor is above the first shell in the chain.
const SHELLS: &[&str] = &["zsh", "bash", "sh", "tcsh", "csh", "ksh", "fish", "dash"];
/// Timeout of `ps`, used where there is no `/proc`.
const PS_TIME: Duration = Duration::from_millis(500);

/// A process of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainProcess {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// Name of its program.
    pub(crate) name: String,
}

/// This process and its parents, nearest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessChain(pub(crate) Vec<ChainProcess>);

impl ProcessChain {
    /// Reads the chain of a process.
    pub(crate) fn for_process(pid: i32) -> Self {
        let mut chain = Vec::new();
        let mut at = pid;
        while chain.len() < MAX_DEPTH && at > 0 {
            let Some(process) = read(at) else { break };
            at = process.parent;
            chain.push(process);
        }
        Self(chain)
    }

    /// Returns the editor's process: two above the first shell (the process between runs the
    /// terminals), or the topmost process if there is no shell.
    pub(crate) fn editor(&self) -> Option<&ChainProcess> {
        let is_shell =
            |process: &ChainProcess| SHELLS.contains(&process.name.trim_start_matches('-'));
        let usable = |at: usize| self.0.get(at).filter(|process| process.pid > 1);
        match self.0.iter().skip(1).position(is_shell).map(|index| index + 1) {
            Some(shell) => usable(shell + 2).or_else(|| usable(shell + 1)),
            None => self.0.iter().rev().find(|process| process.pid > 1),
        }
    }

    /// Returns whether the chain contains a process.
    pub(crate) fn contains(&self, pid: i32) -> bool {
        self.0.iter().skip(1).any(|process| process.pid == pid && pid > 1)
    }
}

/// Returns whether a process is alive.
pub(crate) fn is_alive(pid: i32) -> bool {
    // `kill` treats zero and negative ids as process groups.
    if pid <= 0 {
        return false;
    }
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return false };
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

fn read(pid: i32) -> Option<ChainProcess> {
    if Path::new("/proc/self/stat").exists() { read_proc(pid) } else { read_ps(pid) }
}

fn read_proc(pid: i32) -> Option<ChainProcess> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may contain spaces and parentheses.
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
    Some(ChainProcess { pid, parent, name: name.to_owned() })
}

fn read_ps(pid: i32) -> Option<ChainProcess> {
    let pid_text = pid.to_string();
    let arguments = ["-o", "ppid=,comm=", "-p", &pid_text];
    let output =
        parallax_exec::program::output("ps", arguments, Path::new("/"), &[], 64 * 1024, PS_TIME)?;
    let text = String::from_utf8_lossy(&output);
    let (parent, name) = text.trim().split_once(char::is_whitespace)?;
    let name = name.trim();
    let name = Path::new(name).file_name().map_or(name.into(), |name| name.to_string_lossy());
    Some(ChainProcess { pid, parent: parent.parse().ok()?, name: name.into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(names: &[&str]) -> ProcessChain {
        let pids = (0..names.len()).map(|at| i32::try_from(100 - at).expect("a pid"));
        let process = |(pid, name): (i32, &&str)| ChainProcess {
            pid,
            parent: pid - 1,
            name: (*name).to_owned(),
        };
        ProcessChain(pids.zip(names).map(process).collect())
    }

    #[test]
    fn editor_is_two_processes_above_the_first_shell() {
        let editor = |names: &[&str]| chain(names).editor().map(|process| process.name.clone());
        let found = editor(&["parallax", "node", "bash", "ptyHost", "code", "systemd"]);
        assert_eq!(found.as_deref(), Some("code"));
        assert_eq!(editor(&["parallax", "-zsh", "ptyHost"]).as_deref(), Some("ptyHost"));
        assert_eq!(editor(&["parallax", "launcher", "idea"]).as_deref(), Some("idea"));
        assert_eq!(editor(&[]), None);
    }

    #[test]
    fn chain_of_this_process_begins_with_it() {
        let own_pid = rustix::process::getpid().as_raw_nonzero().get();
        let chain = ProcessChain::for_process(own_pid);
        assert_eq!(chain.0.first().map(|process| process.pid), Some(own_pid));
        assert!(is_alive(own_pid));
        assert!(!is_alive(0) && !is_alive(-1) && !is_alive(i32::MAX));
        assert!(!chain.contains(own_pid), "the process itself is not its editor");
    }
}
