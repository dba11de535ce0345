//! The process group of a command. Its supervisor is not in it, so that a command cannot signal the
//! supervisor, or change its priority, through the group.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, setpgid, waitid,
};

use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::inside::kernel;

/// The group of a running command, as seen by its supervisor.
pub(crate) struct CommandGroup {
    leader: Pid,
    signals: OwnedFd,
    has_terminal: bool,
}

/// In the child: creates the group of the command, in the foreground of the terminal if that was
/// the place of the supervisor.
pub(crate) fn create(has_terminal: bool) {
    // Neither fails in a process that has just started.
    let _ = setpgid(None, None);
    if has_terminal {
        kernel::set_foreground_group(getpid());
        // If a key stopped a child that shares the memory of the shell (`vfork`), the shell could
        // neither stop nor go on, and the supervisor would not notice.
        kernel::set_signal(libc::SIGTSTP, true);
    }
}

impl CommandGroup {
    /// Returns the group of a child that calls [`create`]. From now on, signals for the command are
    /// no longer lost.
    pub(crate) fn for_child(child: Pid, has_terminal: bool) -> SandboxResult<Self> {
        // The group must exist before a signal arrives for it. Fails if the child was faster.
        let _ = setpgid(Some(child), Some(child));
        let signals = kernel::signal_descriptor().refused("cannot receive signals")?;
        Ok(Self { leader: child, signals, has_terminal })
    }

    /// Returns what becomes readable when [`handle_signals`](Self::handle_signals) has work.
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.signals, PollFlags::IN)
    }

    /// Forwards signals that the supervisor received for the command, and continues the command if
    /// the terminal stopped it.
    pub(crate) fn handle_signals(&self) {
        while let Some(signal) = kernel::next_signal(&self.signals) {
            if signal == libc::SIGCHLD {
                self.continue_if_stopped();
            } else {
                self.signal(signal);
            }
        }
    }

    /// No shell with job control could continue the command.
    fn continue_if_stopped(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.leader), options).ok().flatten();
        match status.and_then(|status| status.stopping_signal()) {
            Some(libc::SIGTSTP) => self.signal(libc::SIGCONT),
            Some(libc::SIGTTIN | libc::SIGTTOU)
                if self.has_terminal && kernel::set_foreground_group(self.leader) =>
            {
                self.signal(libc::SIGCONT);
            }
            _ => {}
        }
    }

    fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // The group may have ended.
            let _ = kill_process_group(self.leader, signal);
        }
    }
}
