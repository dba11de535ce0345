//! Stops all processes of a session's commands while their open files are examined.
//!
//! A search of `/proc` alone misses what changes in the meantime: processes that fork and exit, and
//! descriptors that move. Stopping a thread also ends its system call, which looks up its
//! descriptor again when it is restarted.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::UnshareFlags;

use crate::inside::kernel::{self, ForkResult};
use crate::inside::writer_search::numbers;

/// How long to wait until the processes have stopped. Those that have not are killed then, and all
/// of them after the same time again.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

/// System calls in which a thread can wait for long without a signal interrupting it, and that
/// write to no file. Messages are sent by the network broker.
const HARMLESS_CALLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_connect,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendto,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
];

/// The processes of a session, stopped.
pub(crate) struct FrozenProcesses<'s> {
    proc: &'s OwnedFd,
    /// The supervisor of a command that may still be running.
    supervisor: i32,
    namespace: Vec<u8>,
    /// Those that were stopped before.
    stopped_before: HashSet<i32>,
}

/// A thread at one moment.
#[derive(PartialEq, Eq)]
struct ThreadState {
    process: i32,
    thread: i32,
    state: char,
    /// Changes whenever the thread has run.
    switches: (u64, u64),
}

impl<'s> FrozenProcesses<'s> {
    /// Stops all processes in the process namespace for the children of this thread. Returns `None`
    /// if that is its own. `supervisor`: of the command that this process serves.
    pub(crate) fn freeze(proc: &'s OwnedFd, supervisor: u32) -> Option<Self> {
        let supervisor = i32::try_from(supervisor).ok()?;
        let name = "thread-self/ns/pid_for_children";
        let namespace = readlinkat(proc, name, Vec::new()).ok()?.into_bytes();
        let own = readlinkat(proc, "thread-self/ns/pid", Vec::new()).ok()?.into_bytes();
        if own == namespace {
            return None;
        }
        let mut frozen = Self { proc, supervisor, namespace, stopped_before: HashSet::new() };
        let before = frozen.threads();
        let running: HashSet<i32> = before
            .iter()
            .filter(|thread| !matches!(thread.state, 'T' | 't'))
            .map(|thread| thread.process)
            .collect();
        frozen.stopped_before = before
            .iter()
            .map(|thread| thread.process)
            .filter(|pid| !running.contains(pid))
            .collect();
        let start = Instant::now();
        let mut previous = None;
        // A process can continue another one before it stops itself. If no thread has run between
        // two checks, all of them were stopped at the same time.
        while start.elapsed() < STOP_TIMEOUT * 3 {
            if !signal_namespace(libc::SIGSTOP) {
                frozen.signal_each(Signal::STOP);
            }
            let threads = frozen.threads();
            let moving: Vec<&ThreadState> =
                threads.iter().filter(|thread| !frozen.is_stopped(thread)).collect();
            if moving.is_empty() && previous.as_ref() == Some(&threads) {
                break;
            }
            // A thread that waits in the broker may have taken the signal for the process.
            moving.iter().for_each(|thread| kernel::stop_thread(thread.process, thread.thread));
            if start.elapsed() > STOP_TIMEOUT * 2 {
                if !signal_namespace(libc::SIGKILL) {
                    frozen.signal_each(Signal::KILL);
                }
            } else if start.elapsed() > STOP_TIMEOUT {
                moving.iter().for_each(|thread| end(thread.process));
            }
            previous = Some(threads);
            let _ = poll(&mut [], Some(&PAUSE));
        }
        Some(frozen)
    }

    /// Returns the processes, without the first one of the namespace, which is not a command's.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let all = numbers(self.proc, ".");
        let namespace =
            |process: &i32| readlinkat(self.proc, format!("{process}/ns/pid"), Vec::new());
        let first = all.iter().copied().find(|process| {
            namespace(process).is_ok_and(|link| link.as_bytes() == self.namespace)
                && self.is_namespace_init(*process)
        });
        let depth = first.map(|first| self.namespace_depth(first));
        all.iter()
            .copied()
            .filter(|process| match namespace(process) {
                Ok(link) => link.as_bytes() == self.namespace && Some(*process) != first,
                // A process can make itself unreadable, but not leave its ancestors. Those of a
                // running command are outside the namespace. Other commands have their own monitors.
                Err(Errno::ACCESS | Errno::PERM) => {
                    first.is_some_and(|first| self.is_descendant(*process, first))
                        || depth.is_some_and(|depth| depth == self.namespace_depth(*process))
                            && self.is_confined(*process)
                            && self.is_descendant(*process, self.supervisor)
                }
                Err(_) => false,
            })
            .collect()
    }

    /// Whether all filters are in place. A command that is about to start is unreadable, too, but
    /// has at most the filter of the network broker.
    fn is_confined(&self, process: i32) -> bool {
        let status = self.text(&format!("{process}/status")).unwrap_or_default();
        field(&status, "Seccomp_filters")
            .and_then(|count| count.parse().ok())
            .is_some_and(|count: u32| count > 1)
    }

    /// Returns in how many process namespaces a process is.
    fn namespace_depth(&self, process: i32) -> usize {
        let status = self.text(&format!("{process}/status")).unwrap_or_default();
        field(&status, "NSpid").map_or(0, |pids| pids.split_whitespace().count())
    }

    fn is_descendant(&self, process: i32, ancestor: i32) -> bool {
        let parent = |process: i32| -> Option<i32> {
            field(&self.text(&format!("{process}/status"))?, "PPid")?.parse().ok()
        };
        let mut parents = std::iter::successors(parent(process), |process| parent(*process));
        parents.any(|parent| parent == ancestor)
    }

    /// Lets the processes run again.
    pub(crate) fn thaw(self) {
        let stopped = self.processes().into_iter();
        for process in stopped.filter(|process| !self.stopped_before.contains(process)) {
            if let Some(process) = kernel::process(process) {
                let _ = kill_process(process, Signal::CONT);
            }
        }
    }

    /// Signals the processes one by one.
    fn signal_each(&self, signal: Signal) {
        for process in self.processes().into_iter().filter_map(kernel::process) {
            let _ = kill_process(process, signal);
        }
    }

    fn is_namespace_init(&self, process: i32) -> bool {
        let status = self.text(&format!("{process}/status")).unwrap_or_default();
        field(&status, "NSpid").and_then(|pids| pids.split_whitespace().next_back()) == Some("1")
    }

    fn threads(&self) -> Vec<ThreadState> {
        let process_threads = |process: i32| {
            let threads = numbers(self.proc, format!("{process}/task"));
            threads.into_iter().filter_map(move |thread| {
                let status = self.text(&format!("{process}/task/{thread}/status"))?;
                let number = |name| field(&status, name).and_then(|text| text.parse().ok());
                Some(ThreadState {
                    process,
                    thread,
                    state: field(&status, "State")?.chars().next()?,
                    switches: (
                        number("voluntary_ctxt_switches")?,
                        number("nonvoluntary_ctxt_switches")?,
                    ),
                })
            })
        };
        self.processes().into_iter().flat_map(process_threads).collect()
    }

    fn is_stopped(&self, thread: &ThreadState) -> bool {
        match thread.state {
            'T' | 't' | 'Z' | 'X' => true,
            'D' => {
                let name = format!("{}/task/{}/syscall", thread.process, thread.thread);
                let call = self.text(&name);
                let call = call.as_deref().and_then(|text| text.split_whitespace().next());
                call.and_then(|call| call.parse().ok())
                    .is_some_and(|call: libc::c_long| HARMLESS_CALLS.contains(&call))
            }
            _ => false,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(self.proc, name, flags, Mode::empty()).ok()?;
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Kills a process.
pub(crate) fn end(process: i32) {
    if let Some(process) = kernel::process(process) {
        let _ = kill_process(process, Signal::KILL);
    }
}

/// Sends a signal to everything in the namespace at once, which no fork can evade, from a process
/// that is in the namespace only for this. Returns `false` if that process cannot be created, for
/// example because a command used up the processes of the user.
pub(crate) fn signal_namespace(signal: i32) -> bool {
    let Ok(child) = kernel::fork(UnshareFlags::empty()) else { return false };
    match child {
        ForkResult::Child => {
            kernel::signal_all(signal);
            kernel::exit_immediately(0)
        }
        ForkResult::Parent(pid) => {
            // A command could have stopped it as well.
            while let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::UNTRACED)
                && status.stopped()
            {
                let _ = kill_process(pid, Signal::KILL);
            }
            true
        }
    }
}

/// Returns a value of `/proc/PID/status`.
fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    let find = |line: &'t str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim());
    status.lines().find_map(find)
}
