//! Ends the processes of a session if the network broker of one of its commands ends unexpectedly,
//! for example because memory runs out: nothing would keep hidden files covered then.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use crate::inside::kernel::{self, ForkResult};
use crate::inside::process_freezer::signal_namespace;

/// A child of the broker that notices its end.
pub(crate) struct BrokerGuard {
    /// Closed when the broker ends.
    wire: OwnedFd,
    process: Pid,
}

impl BrokerGuard {
    /// Starts the guard. The calling process must be in the user namespace of the session.
    pub(crate) fn start(session_namespaces: &OwnedFd) -> Result<Self, Errno> {
        let (reader, wire) = pipe_with(PipeFlags::CLOEXEC)?;
        match kernel::fork(UnshareFlags::empty())? {
            ForkResult::Parent(process) => Ok(Self { wire, process }),
            ForkResult::Child => {
                let mut kept = [reader.as_raw_fd(), session_namespaces.as_raw_fd()];
                kept.sort_unstable();
                kernel::separate_descriptors(&kept);
                let read = loop {
                    match rustix::io::read(&reader, &mut [0; 1]) {
                        Err(Errno::INTR) => {}
                        read => break read,
                    }
                };
                if read != Ok(1) {
                    // Only for the children of this process.
                    let spaces = ThreadNameSpaceType::PROCESS_ID;
                    if move_into_thread_name_spaces(session_namespaces.as_fd(), spaces).is_ok() {
                        signal_namespace(libc::SIGKILL);
                    }
                }
                kernel::exit_immediately(0)
            }
        }
    }

    /// Ends the guard without any effect.
    pub(crate) fn release(self) {
        let _ = rustix::io::write(&self.wire, b"e");
        let _ = waitpid(Some(self.process), WaitOptions::empty());
    }
}
