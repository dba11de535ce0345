//! For tiers without a process namespace: a process that lives as long as any process that the
//! command leaves behind, and ends those when the program ends.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, WaitOptions, pidfd_open, wait};
use rustix::thread::UnshareFlags;

use crate::inside::exit_status::ExitStatus;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::host_environment;
use crate::inside::kernel::{self, ForkResult};

/// Runs `what` in a reaper process, which is a child subreaper, and returns its result. `what`
/// receives the process that waits for it.
pub(crate) fn run_in_reaper(
    parent: &OwnedFd,
    what: impl FnOnce(&OwnedFd) -> SandboxResult<ExitStatus>,
) -> SandboxResult<ExitStatus> {
    let waiting = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).refused("pidfd")?;
    let (reader, writer) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).refused("a pipe")?;
    match kernel::fork(UnshareFlags::empty()).refused("a process")? {
        ForkResult::Child => {
            drop(reader);
            // Descendants of the command whose parent ends become children of this process.
            let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
            let message = match what(&waiting) {
                Ok(ended) => ended.encode().to_vec(),
                Err(failure) => failure.encode(),
            };
            // Readers of the command's output must not wait for this process.
            let quiet = detach_from_command();
            let _ = rustix::io::write(&writer, &message);
            drop(writer);
            if quiet.is_ok() {
                watch(parent);
            }
            kernel::exit_immediately(0)
        }
        ForkResult::Parent(_) => {
            drop(writer);
            kernel::ignore_signals();
            let mut message = vec![0; 4096];
            let length = loop {
                match rustix::io::read(&reader, &mut message) {
                    Err(Errno::INTR) => {}
                    other => break other.unwrap_or(0),
                }
            };
            message.truncate(length);
            match (ExitStatus::decode(&message), SandboxFailure::decode(&message)) {
                (Some(ended), _) => Ok(ended),
                (None, Some(failure)) => Err(failure),
                // The reaper was killed, and the command with it.
                (None, None) => Ok(ExitStatus::Signal(libc::SIGKILL)),
            }
        }
    }
}

/// Closes the standard streams and leaves the directory of the command.
pub(crate) fn detach_from_command() -> Result<(), Errno> {
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    rustix::process::chdir("/")
}

/// Waits until this process has no descendants or the program has ended.
fn watch(parent: &OwnedFd) {
    loop {
        // Reap every ended process; an error means that there are no children.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let children: Vec<OwnedFd> = host_environment::children()
            .into_iter()
            .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .collect();
        if children.is_empty() {
            continue;
        }
        let mut fds = vec![PollFd::from_borrowed_fd(parent.as_fd(), PollFlags::IN)];
        fds.extend(children.iter().map(|child| PollFd::new(child, PollFlags::IN)));
        let _ = poll(&mut fds, None);
        if fds.first().is_some_and(|parent| !parent.revents().is_empty()) {
            host_environment::kill_descendants();
            return;
        }
    }
}
