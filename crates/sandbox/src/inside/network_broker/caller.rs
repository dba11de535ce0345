//! The waiting thread of a command: its memory, files, and working directory.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
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
    /// The ID in its own process namespace.
    own_number: i32,
}

/// The IDs of a process.
pub(super) struct ProcessIds {
    /// The ID in this process's namespace.
    pub(super) number: i32,
    /// The ID in its own namespace.
    own_number: i32,
}

impl Caller {
    /// Opens the thread; `proc` is the `/proc` of the host.
    pub(super) fn open(proc: impl AsFd, thread: i32) -> Result<Self, Errno> {
        let open = |what: &str, flags| {
            openat(&proc, format!("{thread}/{what}"), flags | OFlags::CLOEXEC, Mode::empty())
        };
        let memory = File::from(open("mem", OFlags::RDWR)?);
        let directory = open("cwd", OFlags::PATH | OFlags::DIRECTORY)?;
        let ProcessIds { number, own_number } = process_of(&proc, thread)?;
        let process = super::handle_of(kernel::process(number).ok_or(Errno::SRCH)?)?;
        Ok(Self { memory, process, directory, number, own_number })
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

    /// Opens the file that a path names for the thread, relative to a directory of its own. The
    /// links of `/proc` to the files of processes are not followed, because this process could
    /// follow more of them than the command; only files of the command itself are found.
    pub(super) fn open_path(
        &self,
        folder: &OwnedFd,
        path: &Path,
        follow: bool,
    ) -> Result<OwnedFd, Errno> {
        let links = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::PATH | OFlags::CLOEXEC | links;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let Some((file, rest)) = self.own_file(path) else {
            return openat2(folder, path, flags, Mode::empty(), resolve);
        };
        match rest.as_os_str().is_empty() {
            true if follow => file,
            // The link itself.
            true => Err(Errno::PERM),
            false => openat2(file?, rest, flags, Mode::empty(), resolve),
        }
    }

    /// Returns the file that a path below `/proc/self` names, and the rest of the path.
    fn own_file<'p>(&self, path: &'p Path) -> Option<(Result<OwnedFd, Errno>, &'p Path)> {
        let descriptors = |path: &'p Path| {
            let mut components = path.components();
            let number = components.next()?.as_os_str().to_str()?.parse().ok()?;
            Some((self.file(number), components.as_path()))
        };
        if let Ok(rest) = path.strip_prefix("/dev/fd") {
            return descriptors(rest);
        }
        for (number, name) in ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().enumerate() {
            if path == Path::new(name) {
                return Some((self.file(i32::try_from(number).ok()?), Path::new("")));
            }
        }
        let by_number = format!("/proc/{}", self.own_number);
        let own = ["/proc/self", "/proc/thread-self", &by_number];
        let rest = own.iter().find_map(|own| path.strip_prefix(own).ok())?;
        match rest.strip_prefix("cwd") {
            Ok(rest) => Some((rustix::io::fcntl_dupfd_cloexec(&self.directory, 3), rest)),
            Err(_) => descriptors(rest.strip_prefix("fd").ok()?),
        }
    }

    /// Returns its working directory.
    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }
}

/// Returns the IDs of the process of a thread.
pub(super) fn process_of(proc: impl AsFd, thread: i32) -> Result<ProcessIds, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(proc, format!("{thread}/status"), flags, Mode::empty())?;
    let mut status = String::new();
    File::from(file).read_to_string(&mut status).map_err(|_| Errno::SRCH)?;
    let last = |name: &str| -> Option<i32> {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next_back()?.parse().ok()
    };
    let number = last("Tgid:").ok_or(Errno::SRCH)?;
    Ok(ProcessIds { number, own_number: last("NStgid:").unwrap_or(number) })
}
