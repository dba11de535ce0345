//! Determines who owns the servers on this host: commands may always reach the servers of their own
//! session.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat};

use crate::inside::host_environment;

/// Size limit of a socket table in bytes; a longer table is treated as unknown.
const MAX_TABLE_LENGTH: u64 = 8 << 20;

/// Whether a process listens on the port, and only processes for which `inside` returns true do.
/// The address is ignored: listening on the same port as a foreign server gains nothing.
pub(super) fn are_listeners_inside(
    proc: &OwnedFd,
    port: u16,
    inside: impl Fn(i32) -> bool,
) -> bool {
    listeners(proc, port).is_some_and(|open| are_sockets_inside(proc, open, inside))
}

/// Whether there is a socket, and all sockets belong to processes for which `inside` returns true.
fn are_sockets_inside(
    proc: &OwnedFd,
    mut open: HashSet<u64>,
    inside: impl Fn(i32) -> bool,
) -> bool {
    if open.is_empty() {
        return false;
    }
    for number in processes(proc).into_iter().filter(|number| inside(*number)) {
        for socket in sockets(proc, number) {
            open.remove(&socket);
        }
        if open.is_empty() {
            return true;
        }
    }
    false
}

/// Returns the sockets that wait for connections or packets on the port.
fn listeners(proc: &OwnedFd, port: u16) -> Option<HashSet<u64>> {
    let mut found = HashSet::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let name = format!("{}/net/{table}", std::process::id());
        let Ok(file) = openat(proc, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
            continue;
        };
        let mut text = String::new();
        let length = File::from(file).take(MAX_TABLE_LENGTH).read_to_string(&mut text).ok()?;
        if length as u64 == MAX_TABLE_LENGTH {
            return None;
        }
        found.extend(text.lines().skip(1).filter_map(|line| listener_inode(line, port)));
    }
    Some(found)
}

/// Parses a line `sl local remote state queues timer retransmits uid timeout inode …` and returns
/// the inode of a server or of a socket without a peer.
fn listener_inode(line: &str, port: u16) -> Option<u64> {
    const TCP_LISTEN: &str = "0A";
    const TCP_CLOSE: &str = "07";
    let words: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
    let (_, local) = local.rsplit_once(':')?;
    let waits = [TCP_LISTEN, TCP_CLOSE].contains(state);
    (waits && u16::from_str_radix(local, 16) == Ok(port)).then(|| inode.parse().ok())?
}

fn processes(proc: &OwnedFd) -> Vec<i32> {
    numbers(proc, Path::new("."))
}

fn sockets(proc: &OwnedFd, process: i32) -> Vec<u64> {
    let directory = PathBuf::from(format!("{process}/fd"));
    let links = numbers(proc, &directory).into_iter().filter_map(|file| {
        let link = readlinkat(proc, directory.join(file.to_string()), Vec::new()).ok()?;
        link.to_str().ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    });
    links.collect()
}

/// Returns the entries of a directory that are numbers.
fn numbers(proc: &OwnedFd, directory: &Path) -> Vec<i32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = openat(proc, directory, flags, Mode::empty()).and_then(Dir::new);
    let names = entries.into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
}

/// How processes of the session are recognized.
pub(super) enum SessionProcesses {
    /// They are in the process namespace of the caller.
    Namespace,
    /// They are descendants of this process.
    Descendants,
}

impl SessionProcesses {
    /// Whether everything that listens on the port belongs to the session of the caller.
    pub(super) fn owns_port(&self, proc: &OwnedFd, caller: i32, port: u16) -> bool {
        are_listeners_inside(proc, port, self.is_inside_session(proc, caller))
    }

    /// Whether there is a socket, and all sockets belong to the session of the caller.
    pub(super) fn owns_sockets(&self, proc: &OwnedFd, caller: i32, sockets: Vec<u64>) -> bool {
        !sockets.is_empty()
            && are_sockets_inside(
                proc,
                sockets.into_iter().collect(),
                self.is_inside_session(proc, caller),
            )
    }

    /// Whether a process, or the process of a thread, belongs to the session of the caller.
    pub(super) fn has_process(&self, proc: &OwnedFd, caller: i32, number: i32) -> bool {
        super::caller::process_of(proc, number)
            .map(|process| process.number)
            .is_ok_and(|process| process == caller || self.is_inside_session(proc, caller)(process))
    }

    fn is_inside_session<'a>(
        &self,
        proc: &'a OwnedFd,
        caller: i32,
    ) -> Box<dyn Fn(i32) -> bool + 'a> {
        match self {
            Self::Namespace => {
                let space = |process: i32| {
                    readlinkat(proc.as_fd(), format!("{process}/ns/pid"), Vec::new()).ok()
                };
                match space(caller) {
                    Some(own) => Box::new(move |process| space(process).as_ref() == Some(&own)),
                    None => Box::new(|_| false),
                }
            }
            Self::Descendants => {
                let descendants = host_environment::descendant_pids();
                Box::new(move |process| descendants.contains(&process))
            }
        }
    }
}

/// Returns the name servers that the host is configured to use.
pub(super) fn name_servers() -> Vec<std::net::IpAddr> {
    super::address::name_servers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listening_process_owns_the_port() {
        let line = |state: &str| {
            format!(
                "  0: 0100007F:0BB8 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 100"
            )
        };
        assert_eq!(listener_inode(&line("0A"), 3000), Some(4242));
        assert_eq!(listener_inode(&line("07"), 3000), Some(4242));
        assert_eq!(listener_inode(&line("01"), 3000), None);
        assert_eq!(listener_inode(&line("0A"), 3001), None);
        assert_eq!(listener_inode("", 3000), None);
    }

    #[test]
    fn own_server_of_this_process_is_recognized() {
        let proc = openat(rustix::fs::CWD, "/proc", OFlags::PATH, Mode::empty()).unwrap();
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(are_listeners_inside(&proc, port, |process| process == own));
        assert!(!are_listeners_inside(&proc, port, |process| process != own));
        drop(server);
        assert!(!are_listeners_inside(&proc, port, |_| true));
    }
}
