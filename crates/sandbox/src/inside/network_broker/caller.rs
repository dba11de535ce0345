//! The command's thread that waits: its memory, its files and its folder.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::inside::kernel;

/// Everything of it is opened once, and then belongs to this thread even when
/// its number is given to another.
pub(super) struct Caller {
    memory: File,
    process: OwnedFd,
    folder: OwnedFd,
    /// The process, by number.
    pub(super) number: i32,
}

impl Caller {
    /// `proc` is the machine's `/proc`.
    pub(super) fn open(proc: impl AsFd, thread: i32) -> Result<Self, Errno> {
        let open = |what: &str, flags| {
            openat(&proc, format!("{thread}/{what}"), flags | OFlags::CLOEXEC, Mode::empty())
        };
        let memory = File::from(open("mem", OFlags::RDWR)?);
        let folder = open("cwd", OFlags::PATH | OFlags::DIRECTORY)?;
        let number = process_of(&proc, thread)?;
        let process = super::handle_of(kernel::process(number).ok_or(Errno::SRCH)?)?;
        Ok(Self { memory, process, folder, number })
    }

    /// Bytes of its memory.
    pub(super) fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        if length > 0 {
            self.memory.read_exact_at(&mut bytes, at).map_err(|_| Errno::FAULT)?;
        }
        Ok(bytes)
    }

    /// Puts bytes into its memory.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.memory.write_all_at(bytes, at).map_err(|_| Errno::FAULT)
    }

    /// A file that it has open; the same open file, not a copy.
    pub(super) fn file(&self, number: i32) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.process, number, PidfdGetfdFlags::empty()).map_err(|error| match error {
            Errno::BADF => error,
            _ => Errno::ACCESS,
        })
    }

    /// Its working directory.
    pub(super) fn folder(&self) -> &OwnedFd {
        &self.folder
    }
}

/// The process of a thread, by number.
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
