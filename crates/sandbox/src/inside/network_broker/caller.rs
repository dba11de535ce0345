//! The waiting thread of a command: its memory, files, and working directory.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::inside::kernel;

/// The waiting thread. Everything is opened once and stays valid for this thread even if its ID is
/// reused.
pub(super) struct Caller {
    memory: File,
    process: OwnedFd,
    directory: OwnedFd,
    /// The process ID.
    pub(super) number: i32,
}

impl Caller {
    /// Opens the thread; `proc` is the `/proc` of the host.
    pub(super) fn open(proc: impl AsFd, thread: i32) -> Result<Self, Errno> {
        let open = |what: &str, flags| {
            openat(&proc, format!("{thread}/{what}"), flags | OFlags::CLOEXEC, Mode::empty())
        };
        let memory = File::from(open("mem", OFlags::RDWR)?);
        let directory = open("cwd", OFlags::PATH | OFlags::DIRECTORY)?;
        let number = process_of(&proc, thread)?;
        let process = super::handle_of(kernel::process(number).ok_or(Errno::SRCH)?)?;
        Ok(Self { memory, process, directory, number })
    }

    /// Reads from its memory.
    pub(super) fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        if length > 0 {
            self.memory.read_exact_at(&mut bytes, at).map_err(|_| Errno::FAULT)?;
        }
        Ok(bytes)
    }

    /// Writes to its memory.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.memory.write_all_at(bytes, at).map_err(|_| Errno::FAULT)
    }

    /// Returns a duplicate of one of its file descriptors, for the same open file.
    pub(super) fn file(&self, number: i32) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.process, number, PidfdGetfdFlags::empty()).map_err(|error| match error {
            Errno::BADF => error,
            _ => Errno::ACCESS,
        })
    }

    /// Returns its working directory.
    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }
}

/// Returns the process ID of a thread.
pub(super) fn process_of(proc: impl AsFd, thread: i32) -> Result<i32, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(proc, format!("{thread}/status"), flags, Mode::empty())?;
    let mut status = String::new();
    File::from(file).read_to_string(&mut status).map_err(|_| Errno::SRCH)?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
        .ok_or(Errno::SRCH)
}
