//! Waits for the end of a child, and ends it when a process that it depends on ends.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid};

use crate::inside::command_group::CommandGroup;
use crate::inside::exit_status::ExitStatus;
use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::inside::{host_environment, kernel};
use crate::supervisor_error::REFUSED;

/// Waits for the end of the child, which leads `group` if that is given. Ends everything if one of
/// `others` ends.
pub(crate) fn wait(
    child: Pid,
    pidfd: &OwnedFd,
    others: &[&OwnedFd],
    group: Option<&CommandGroup>,
) -> SandboxResult<ExitStatus> {
    loop {
        let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
        fds.extend(others.iter().map(|process| PollFd::new(*process, PollFlags::IN)));
        fds.extend(group.map(CommandGroup::poll_fd));
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error).refused("waiting"),
            Ok(_) => {}
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        if ready.next() == Some(true) {
            return reap(child);
        }
        if ready.take(others.len()).any(|ready| ready) {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
            host_environment::kill_descendants();
            kernel::exit_immediately(REFUSED);
        }
        group.into_iter().for_each(CommandGroup::handle_signals);
    }
}

pub(crate) fn reap(child: Pid) -> SandboxResult<ExitStatus> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status.into()),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).refused("waiting"),
        }
    }
}
