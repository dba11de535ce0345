//! Changes of owners, modes, times, and extended attributes of files, which Landlock does not
//! control. The broker makes these calls for files that the command may write, and rejects them for
//! others.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags, chmodat,
    chownat, fstat, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::caller::Caller;
use crate::inside::kernel::notify::SyscallNotification;

/// Maximum lengths that the kernel accepts for a path, a name, and a value.
const MAX_PATH_LENGTH: usize = 4096;
const MAX_NAME_LENGTH: usize = 256;
const MAX_VALUE_LENGTH: u64 = 64 << 10;

// These newer calls have the same number on every architecture.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// Returns the calls that are sent to the broker.
pub(super) fn calls() -> Vec<libc::c_long> {
    let mut calls = vec![
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        FCHMODAT2,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        SETXATTRAT,
        REMOVEXATTRAT,
        FILE_SETATTR,
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
    ]);
    calls
}

/// Returns the calls that set a mode, each with the index of the argument that contains it.
pub(super) fn calls_with_mode() -> Vec<(libc::c_long, u32)> {
    let mut calls = vec![(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (FCHMODAT2, 2)];
    #[cfg(target_arch = "x86_64")]
    calls.push((libc::SYS_chmod, 1));
    calls
}

/// Which files may be changed.
pub(super) enum WritableFiles {
    /// Files that are writable in the caller's view of files.
    AsMounted,
    /// Files below an `open` path, unless a `closed` path is nearer.
    Trees { open: Vec<PathBuf>, closed: Vec<PathBuf> },
}

impl WritableFiles {
    /// Handles the call. Returns `None` if it is not one of [`calls`]. `proc` is the `/proc` of the
    /// host.
    pub(super) fn serve(
        &self,
        proc: &OwnedFd,
        caller: &Caller,
        notification: &SyscallNotification,
    ) -> Option<Result<i64, Errno>> {
        let found = self.change(caller, notification)?;
        Some(found.and_then(|(file, change)| {
            self.check(&file)?;
            change.create(proc, &file).map(|()| 0)
        }))
    }

    fn change(
        &self,
        caller: &Caller,
        notification: &SyscallNotification,
    ) -> Option<Result<(OwnedFd, MetadataChange), Errno>> {
        let [a, b, c, d, e, _] = notification.arguments;
        // These arguments are `int`, so the upper bits are ignored.
        let int = |argument: u64| (argument & 0xffff_ffff) as u32;
        let here = libc::AT_FDCWD;
        let named = |at: i32, path: u64, follow: bool| file_at(caller, at, path, follow);
        let at = int(a).cast_signed();
        let opened = || caller.file(at);
        let with = |file: Result<OwnedFd, Errno>, change: Result<MetadataChange, Errno>| {
            Some(file.and_then(|file| change.map(|change| (file, change))))
        };
        let mode = |argument: u64| Ok(MetadataChange::Mode(int(argument)));
        let owner = |user: u64, group: u64| Ok(MetadataChange::Owner(int(user), int(group)));
        match notification.call {
            libc::SYS_fchmod => with(opened(), mode(b)),
            libc::SYS_fchmodat => with(named(at, b, true), mode(c)),
            FCHMODAT2 => with(file_for_flags(caller, at, b, int(d)), mode(c)),
            libc::SYS_fchown => with(opened(), owner(b, c)),
            libc::SYS_fchownat => with(file_for_flags(caller, at, b, int(e)), owner(c, d)),
            libc::SYS_utimensat if b == 0 => with(opened(), times(caller, c, 1)),
            libc::SYS_utimensat => with(file_for_flags(caller, at, b, int(d)), times(caller, c, 1)),
            libc::SYS_setxattr => with(named(here, a, true), attribute(caller, b, c, d, int(e))),
            libc::SYS_lsetxattr => with(named(here, a, false), attribute(caller, b, c, d, int(e))),
            libc::SYS_fsetxattr => with(opened(), attribute(caller, b, c, d, int(e))),
            libc::SYS_removexattr => with(named(here, a, true), no_attribute(caller, b)),
            libc::SYS_lremovexattr => with(named(here, a, false), no_attribute(caller, b)),
            libc::SYS_fremovexattr => with(opened(), no_attribute(caller, b)),
            // Programs then use the older calls.
            SETXATTRAT | REMOVEXATTRAT | FILE_SETATTR => Some(Err(Errno::NOSYS)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => with(named(here, a, true), mode(b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => with(named(here, a, true), owner(b, c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => with(named(here, a, false), owner(b, c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => with(named(here, a, true), times_from_seconds(caller, b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => with(named(here, a, true), times(caller, b, 1_000)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => with(named(at, b, true), times(caller, c, 1_000)),
            _ => None,
        }
    }

    /// Checks whether the file may be changed: its current path is writable, or it has none (a pipe
    /// or a deleted file).
    fn check(&self, file: &OwnedFd) -> Result<(), Errno> {
        let Self::Trees { open, closed } = self else { return Ok(()) };
        let path = std::fs::read_link(handle(file)).map_err(|_| Errno::ACCESS)?;
        if !path.is_absolute() || fstat(file)?.st_nlink == 0 {
            return Ok(());
        }
        let depth = |paths: &[PathBuf]| {
            let holding = paths.iter().filter(|tree| path.starts_with(tree));
            holding.map(|tree| tree.components().count()).max()
        };
        let open = depth(open);
        if open.is_some() && open > depth(closed) { Ok(()) } else { Err(Errno::PERM) }
    }
}

/// A change to a file.
enum MetadataChange {
    Mode(u32),
    Owner(u32, u32),
    Times(Timestamps),
    Attribute { name: Vec<u8>, value: Vec<u8>, flags: u32 },
    NoAttribute(Vec<u8>),
}

impl MetadataChange {
    fn create(&self, proc: &OwnedFd, file: &OwnedFd) -> Result<(), Errno> {
        /// The set-user-ID and set-group-ID bits, with which a file would run with the privileges
        /// of its owner or group.
        const SET_ID: u32 = 0o6000;
        let path = handle(file);
        match self {
            Self::Mode(mode) => {
                let kind = FileType::from_raw_mode(fstat(file)?.st_mode);
                if mode & SET_ID != 0 && kind != FileType::Directory {
                    return Err(Errno::PERM);
                }
                let path = format!("self/fd/{}", file.as_raw_fd());
                chmodat(proc, path, Mode::from_raw_mode(*mode), AtFlags::empty())
            }
            Self::Owner(user, group) => {
                // A value of all ones means unchanged.
                let is_mapped = |number: u32| number != u32::MAX;
                let user = Some(*user).filter(|user| is_mapped(*user)).map(Uid::from_raw);
                let group = Some(*group).filter(|group| is_mapped(*group)).map(Gid::from_raw);
                chownat(file, "", user, group, AtFlags::EMPTY_PATH)
            }
            Self::Times(times) => utimensat(file, "", times, AtFlags::EMPTY_PATH),
            Self::Attribute { name, value, flags } => {
                setxattr(&path, name.as_slice(), value, XattrFlags::from_bits_retain(*flags))
            }
            Self::NoAttribute(name) => removexattr(&path, name.as_slice()),
        }
    }
}

/// Returns a path to an open file that also works for files opened with `O_PATH`.
fn handle(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Opens the file that a path names for the caller, so that it is resolved only once.
fn file_at(caller: &Caller, at: i32, path: u64, follow: bool) -> Result<OwnedFd, Errno> {
    let path = text(caller, path, MAX_PATH_LENGTH)?;
    let path = Path::new(std::ffi::OsStr::from_bytes(&path));
    if at == libc::AT_FDCWD || path.is_absolute() {
        return caller.open_path(caller.directory(), path, follow);
    }
    caller.open_path(&caller.file(at)?, path, follow)
}

/// Like [`file_at`], with the flags of the newer calls.
fn file_for_flags(caller: &Caller, at: i32, path: u64, flags: u32) -> Result<OwnedFd, Errno> {
    let has = |flag: i32| flags & flag.cast_unsigned() != 0;
    if has(libc::AT_EMPTY_PATH) && (path == 0 || text(caller, path, MAX_PATH_LENGTH)?.is_empty()) {
        return if at == libc::AT_FDCWD {
            rustix::io::fcntl_dupfd_cloexec(caller.directory(), 3)
        } else {
            caller.file(at)
        };
    }
    file_at(caller, at, path, !has(libc::AT_SYMLINK_NOFOLLOW))
}

/// Reads a NUL-terminated string, in pieces because the memory after it may not be mapped.
fn text(caller: &Caller, at: u64, longest: usize) -> Result<Vec<u8>, Errno> {
    const PAGE: u64 = 4096;
    let mut found = Vec::new();
    let mut at = at;
    while found.len() < longest {
        let length = usize::try_from(PAGE - at % PAGE).unwrap_or(1);
        let piece = caller.read(at, length)?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            found.extend_from_slice(piece.get(..end).unwrap_or_default());
            return if found.len() < longest { Ok(found) } else { Err(Errno::NAMETOOLONG) };
        }
        found.extend(piece);
        at = at.wrapping_add(length as u64);
    }
    Err(Errno::NAMETOOLONG)
}

/// Reads two times with seconds and a fraction in units of `part` nanoseconds.
fn times(caller: &Caller, at: u64, part: i64) -> Result<MetadataChange, Errno> {
    if at == 0 {
        return Ok(now());
    }
    let numbers: Vec<i64> = caller
        .read(at, 32)?
        .chunks_exact(8)
        .filter_map(|bytes| Some(i64::from_ne_bytes(bytes.try_into().ok()?)))
        .collect();
    let [access, access_part, change, change_part] = numbers[..] else {
        return Err(Errno::FAULT);
    };
    let time = |seconds: i64, number: i64| -> Result<Timespec, Errno> {
        let number = number.checked_mul(part).ok_or(Errno::INVAL)?;
        Ok(Timespec { tv_sec: seconds, tv_nsec: number })
    };
    let last_access = time(access, access_part)?;
    Ok(MetadataChange::Times(Timestamps {
        last_access,
        last_modification: time(change, change_part)?,
    }))
}

#[cfg(target_arch = "x86_64")]
fn times_from_seconds(caller: &Caller, at: u64) -> Result<MetadataChange, Errno> {
    if at == 0 {
        return Ok(now());
    }
    let bytes = caller.read(at, 16)?;
    let second = |from: usize| -> Result<Timespec, Errno> {
        let bytes = bytes.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
        let tv_sec = i64::from_ne_bytes(bytes.ok_or(Errno::FAULT)?);
        Ok(Timespec { tv_sec, tv_nsec: 0 })
    };
    Ok(MetadataChange::Times(Timestamps { last_access: second(0)?, last_modification: second(8)? }))
}

fn now() -> MetadataChange {
    let now = || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    MetadataChange::Times(Timestamps { last_access: now(), last_modification: now() })
}

fn attribute(
    caller: &Caller,
    name: u64,
    value: u64,
    length: u64,
    flags: u32,
) -> Result<MetadataChange, Errno> {
    if length > MAX_VALUE_LENGTH {
        return Err(Errno::TOOBIG);
    }
    let value = caller.read(value, usize::try_from(length).map_err(|_| Errno::TOOBIG)?)?;
    Ok(MetadataChange::Attribute { name: text(caller, name, MAX_NAME_LENGTH)?, value, flags })
}

fn no_attribute(caller: &Caller, name: u64) -> Result<MetadataChange, Errno> {
    Ok(MetadataChange::NoAttribute(text(caller, name, MAX_NAME_LENGTH)?))
}
