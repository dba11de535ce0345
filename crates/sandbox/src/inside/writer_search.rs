//! Finds the processes of a command that can write a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};

use crate::inside::kernel;

/// A search for the writers of one file, or for the processes that have a directory open.
pub(crate) struct WriterSearch<'s> {
    /// The `/proc` of the host.
    proc: &'s OwnedFd,
    /// The file, open for reading, if it can be.
    open: Option<OwnedFd>,
    /// Its device and inode.
    id: (u64, u64),
    is_directory: bool,
    /// The mount namespace of the command, in the form of its link in `/proc`.
    namespace: Vec<u8>,
}

impl<'s> WriterSearch<'s> {
    /// Prepares the search in the mount namespace of this process.
    pub(crate) fn new(proc: &'s OwnedFd, file: &OwnedFd, is_directory: bool) -> Option<Self> {
        let state = fstat(file).ok()?;
        let namespace = readlinkat(proc, "self/ns/mnt", Vec::new()).ok()?.into_bytes();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = format!("self/fd/{}", file.as_raw_fd());
        let is_file = FileType::from_raw_mode(state.st_mode).is_file();
        let open = is_file.then(|| openat(proc, name, flags, Mode::empty()).ok()).flatten();
        Some(Self { proc, open, id: (state.st_dev, state.st_ino), is_directory, namespace })
    }

    /// Returns the processes of the command that can write the file.
    pub(crate) fn writers(&self) -> Vec<i32> {
        let holders = self.of_command(|task| self.is_used_by(task));
        // The kernel also knows writers that hold the file in another way.
        if !holders.is_empty() || !self.is_open_for_writing() {
            return holders;
        }
        let mapped = self.of_command(|task| self.maps(task));
        if !mapped.is_empty() {
            return mapped;
        }
        // A message that was not received yet can contain an open file. Which socket has it is not
        // visible.
        let is_elsewhere = numbers(self.proc, ".").into_iter().any(|process| {
            tasks(self.proc, process)
                .iter()
                .any(|task| !self.is_of_command(task) && self.is_used_by(task))
        });
        if is_elsewhere || !self.is_open_for_writing() {
            return Vec::new();
        }
        self.of_command(|task| self.has_socket(task))
    }

    /// Returns the processes of the command that have a task that meets a condition. The first task
    /// may have ended, and each can have its own files.
    fn of_command(&self, matches: impl Fn(&str) -> bool) -> Vec<i32> {
        let own_pid = rustix::process::getpid().as_raw_nonzero().get();
        numbers(self.proc, ".")
            .into_iter()
            .filter(|process| *process != own_pid)
            .filter(|process| {
                tasks(self.proc, *process)
                    .iter()
                    .any(|task| self.is_of_command(task) && matches(task))
            })
            .collect()
    }

    fn is_of_command(&self, task: &str) -> bool {
        readlinkat(self.proc, format!("{task}/ns/mnt"), Vec::new())
            .is_ok_and(|link| link.as_bytes() == self.namespace)
    }

    fn is_open_for_writing(&self) -> bool {
        self.open.as_ref().is_some_and(|file| kernel::is_open_for_writing(file.as_fd()))
    }

    fn is_used_by(&self, task: &str) -> bool {
        let is_it = |name: String| {
            statat(self.proc, name, AtFlags::empty())
                .is_ok_and(|state| (state.st_dev, state.st_ino) == self.id)
        };
        if self.is_directory && is_it(format!("{task}/cwd")) {
            return true;
        }
        numbers(self.proc, format!("{task}/fd")).into_iter().any(|number| {
            is_it(format!("{task}/fd/{number}"))
                && (self.is_directory || self.is_writable(task, number))
        })
    }

    /// Whether an open file is writable; assumed if it cannot be determined.
    fn is_writable(&self, task: &str, number: i32) -> bool {
        let Some(file) = self.text(format!("{task}/fdinfo/{number}")) else { return true };
        let mut text = String::new();
        if file.take(4096).read_to_string(&mut text).is_err() {
            return true;
        }
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
    }

    /// Whether a task shares a mapping of the file with others. Devices are not compared, because
    /// some file systems show another one here.
    fn maps(&self, task: &str) -> bool {
        let Some(file) = self.text(format!("{task}/maps")) else { return false };
        let inode = self.id.1.to_string();
        // `ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH`; a path may not be UTF-8.
        BufReader::new(file).split(b'\n').map_while(Result::ok).any(|line| {
            let line = String::from_utf8_lossy(&line);
            let mut fields = line.split_ascii_whitespace().skip(1);
            fields.next().is_some_and(|permissions| permissions.ends_with('s'))
                && fields.nth(2) == Some(&inode)
        })
    }

    fn has_socket(&self, task: &str) -> bool {
        numbers(self.proc, format!("{task}/fd")).into_iter().any(|number| {
            statat(self.proc, format!("{task}/fd/{number}"), AtFlags::empty())
                .is_ok_and(|state| FileType::from_raw_mode(state.st_mode).is_socket())
        })
    }

    fn text(&self, name: String) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(self.proc, name, flags, Mode::empty()).ok().map(File::from)
    }
}

/// Returns the directories of a process's tasks in `/proc`.
fn tasks(proc: &OwnedFd, process: i32) -> Vec<String> {
    let folder = format!("{process}/task");
    numbers(proc, folder.as_str()).iter().map(|task| format!("{folder}/{task}")).collect()
}

/// Returns the entries of a directory that are numbers.
fn numbers(proc: &OwnedFd, folder: impl rustix::path::Arg) -> Vec<i32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = openat(proc.as_fd(), folder, flags, Mode::empty()).and_then(Dir::new);
    let names = entries.into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
}
