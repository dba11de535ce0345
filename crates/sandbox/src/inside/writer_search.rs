//! Finds the processes of commands that could write a file or directory.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat,
};
use rustix::io::Errno;

use crate::inside::kernel::{self, SharedResource};

/// Limits for looking below a directory. Beyond them, every file of its file system counts.
const MAX_ENTRIES: usize = 50_000;
const MAX_TIME: Duration = Duration::from_secs(1);

/// A search for processes that hold one file, or a directory or anything below it. A descriptor
/// that cannot write counts as well, because `/proc/self/fd` opens its file again.
pub(crate) struct WriterSearch<'s> {
    /// The `/proc` of the host.
    proc: &'s OwnedFd,
    /// The devices and inodes of the file, or of the directory and everything below it.
    ids: HashSet<(u64, u64)>,
    /// Their inodes alone.
    inodes: HashSet<u64>,
    /// The device, if the inodes are not all known.
    whole_device: Option<u64>,
    /// Whether the kernel counts the open files in the queue of a socket.
    counts_queued_files: bool,
}

impl<'s> WriterSearch<'s> {
    pub(crate) fn new(proc: &'s OwnedFd, file: &OwnedFd, is_directory: bool) -> Option<Self> {
        let state = fstat(file).ok()?;
        let ids = HashSet::from([(state.st_dev, state.st_ino)]);
        let inodes = HashSet::new();
        let mut search = Self { proc, ids, inodes, whole_device: None, counts_queued_files: false };
        if is_directory && search.add_below(file).is_err() {
            search.whole_device = Some(state.st_dev);
        }
        search.inodes = search.ids.iter().map(|(_, inode)| *inode).collect();
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        let known =
            socket.ok().and_then(|socket| search.queued_files("thread-self", socket.as_raw_fd()));
        search.counts_queued_files = known.is_some();
        Some(search)
    }

    /// Adds everything below a directory. Fails if a limit is reached.
    fn add_below(&mut self, top: &OwnedFd) -> Result<(), Errno> {
        let start = Instant::now();
        let mut pending = vec![PathBuf::from(".")];
        while let Some(path) = pending.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
            let directory = match openat2(top, &path, flags, Mode::empty(), resolve) {
                Err(Errno::NAMETOOLONG) => return Err(Errno::NAMETOOLONG),
                Err(_) => continue,
                Ok(folder) => folder,
            };
            for entry in Dir::read_from(&directory)?.flatten() {
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                if self.ids.len() > MAX_ENTRIES || start.elapsed() > MAX_TIME {
                    return Err(Errno::TOOBIG);
                }
                let Ok(state) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                self.ids.insert((state.st_dev, state.st_ino));
                if FileType::from_raw_mode(state.st_mode).is_dir() {
                    pending.push(path.join(OsStr::from_bytes(name.to_bytes())));
                }
            }
        }
        Ok(())
    }

    /// Returns those of the stopped processes that could write.
    pub(crate) fn writers(&self, among: &[i32]) -> Vec<i32> {
        let is_writer = |process: &&i32| {
            let mut searched: Option<i32> = None;
            numbers(self.proc, format!("{process}/task")).into_iter().any(|task| {
                // The first task may have ended, and each can have its own files.
                let is_same = searched.is_some_and(|searched| shares_all(searched, task));
                searched = searched.or(Some(task));
                let task = format!("{process}/task/{task}");
                let is_user = |task: &str| {
                    self.is_unreadable(task) || self.is_used_by(task) || self.maps(task)
                };
                !is_same && is_user(&task)
            })
        };
        among.iter().filter(is_writer).copied().collect()
    }

    fn is_searched_file(&self, name: &str) -> bool {
        statat(self.proc, name, AtFlags::empty()).is_ok_and(|state| {
            let kind = FileType::from_raw_mode(state.st_mode);
            self.ids.contains(&(state.st_dev, state.st_ino))
                || self.whole_device == Some(state.st_dev) && (kind.is_file() || kind.is_dir())
        })
    }

    /// Whether the files of a task cannot be examined, which a process can cause
    /// (`PR_SET_DUMPABLE`).
    fn is_unreadable(&self, task: &str) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let files = openat(self.proc, format!("{task}/fd"), flags, Mode::empty());
        let maps = openat(self.proc, format!("{task}/maps"), OFlags::RDONLY, Mode::empty());
        let is_refused = |error| matches!(error, Some(Errno::ACCESS | Errno::PERM));
        is_refused(files.err()) || is_refused(maps.err())
    }

    fn is_used_by(&self, task: &str) -> bool {
        ["cwd", "root", "exe"].iter().any(|name| self.is_searched_file(&format!("{task}/{name}")))
            || numbers(self.proc, format!("{task}/fd")).into_iter().any(|number| {
                self.is_searched_file(&format!("{task}/fd/{number}"))
                    || self.may_receive_files(task, number)
            })
    }

    /// Whether a descriptor is a socket with open files in messages that were not received yet.
    fn may_receive_files(&self, task: &str, number: i32) -> bool {
        let is_socket = statat(self.proc, format!("{task}/fd/{number}"), AtFlags::empty())
            .is_ok_and(|state| FileType::from_raw_mode(state.st_mode).is_socket());
        is_socket
            && self.queued_files(task, number).map_or(!self.counts_queued_files, |count| count > 0)
    }

    /// Returns the number of open files in the queue of a unix socket.
    fn queued_files(&self, task: &str, number: i32) -> Option<u64> {
        let mut text = String::new();
        let file = self.text(format!("{task}/fdinfo/{number}"))?;
        file.take(4096).read_to_string(&mut text).ok()?;
        text.lines().find_map(|line| line.strip_prefix("scm_fds:")?.trim().parse().ok())
    }

    /// Whether a task has a mapping of the file. A private mapping shows later changes as well, as
    /// long as the task has not written to it. Devices are not compared, because some file systems
    /// show another one here.
    fn maps(&self, task: &str) -> bool {
        let Some(file) = self.text(format!("{task}/maps")) else { return false };
        BufReader::new(file).split(b'\n').map_while(Result::ok).any(|line| {
            let line = String::from_utf8_lossy(&line);
            let Some(mapping) = Mapping::parse(&line).filter(|mapping| mapping.inode > 0) else {
                return false;
            };
            // Every process maps its program and libraries privately.
            let is_any = self.whole_device.is_some() && mapping.is_shared;
            is_any || self.inodes.contains(&mapping.inode) && !self.is_other_file(&mapping)
        })
    }

    /// Whether a mapping with the inode number of a searched file is of a file of another file
    /// system.
    fn is_other_file(&self, mapping: &Mapping<'_>) -> bool {
        // The kernel's names for memory without a file.
        let is_memory = ["/dev/zero", "/SYSV", "/memfd:"];
        is_memory.iter().any(|name| mapping.path.starts_with(name))
            || stat_without_links(mapping.path).is_ok_and(|state| {
                state.st_ino == mapping.inode && !self.ids.contains(&(state.st_dev, state.st_ino))
            })
    }

    fn text(&self, name: String) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(self.proc, name, flags, Mode::empty()).ok().map(File::from)
    }
}

/// A line of `/proc/PID/maps`: `ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH`.
struct Mapping<'l> {
    is_shared: bool,
    inode: u64,
    path: &'l str,
}

impl<'l> Mapping<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            let (field, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after.trim_start();
            field
        };
        let [_, permissions, _, _, inode] = std::array::from_fn(|_| field());
        let (is_shared, inode) = (permissions.ends_with('s'), inode.parse().ok()?);
        Some(Self { is_shared, inode, path: rest })
    }
}

/// Whether two tasks share everything that refers to files.
fn shares_all(first: i32, second: i32) -> bool {
    let all = [SharedResource::Descriptors, SharedResource::Directories, SharedResource::Memory];
    all.into_iter().all(|what| kernel::share(first, second, what))
}

/// Returns the state of the file at an absolute path without links, as the kernel reports it. A
/// command could have created a link with the name that a deleted file had.
fn stat_without_links(path: &str) -> Result<rustix::fs::Stat, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    fstat(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// Returns the entries of a directory that are numbers.
pub(crate) fn numbers(proc: &OwnedFd, directory: impl rustix::path::Arg) -> Vec<i32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = openat(proc.as_fd(), directory, flags, Mode::empty()).and_then(Dir::new);
    let names = entries.into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
}
