//! Opens paths below a directory without ever following a link.
//!
//! A confined path was resolved before, so no part of it is a symbolic link. If one is found
//! while opening, it was created after the check.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Flags for opening a directory to continue from. Needs only search permission.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags for opening a directory to continue from.
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the directory that everything else is opened from.
pub(crate) fn anchor(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, FOLDER, Mode::empty())
}

/// Opens the directory `relative` below `root` without following links. `create` creates
/// missing directories.
pub(crate) fn open_directory_below(
    root: &OwnedFd,
    relative: &Path,
    create: bool,
) -> rustix::io::Result<OwnedFd> {
    if !create && let Some(result) = with_openat2(root, relative) {
        return result;
    }
    step_by_step(root, relative, create)
}

/// Opens the path with a single `openat2` call. Returns `None` if this kernel (or a filter) does
/// not support it.
#[cfg(target_os = "linux")]
fn with_openat2(root: &OwnedFd, relative: &Path) -> Option<rustix::io::Result<OwnedFd>> {
    use rustix::fs::{ResolveFlags, openat2};
    if relative.as_os_str().is_empty() {
        return None;
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    // EAGAIN: a concurrent rename; opening step by step avoids the race.
    match openat2(root, relative, FOLDER, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::AGAIN) => None,
        result => Some(result),
    }
}

/// Returns `None`: other platforms have no such call.
#[cfg(not(target_os = "linux"))]
fn with_openat2(_root: &OwnedFd, _relative: &Path) -> Option<rustix::io::Result<OwnedFd>> {
    None
}

/// Opens one directory after the other without following links.
fn step_by_step(root: &OwnedFd, relative: &Path, create: bool) -> rustix::io::Result<OwnedFd> {
    let mut directory = rustix::io::fcntl_dupfd_cloexec(root, 3)?;
    for component in relative.components() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV) };
        directory = match enter(&directory, name) {
            Err(Errno::NOENT) if create => {
                match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error),
                }
                enter(&directory, name)?
            }
            result => result?,
        };
    }
    Ok(directory)
}

fn enter(here: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let result = openat(here, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
    // With O_DIRECTORY a link is reported as "not a directory".
    if matches!(result, Err(Errno::NOTDIR)) && is_link(here, name) {
        return Err(Errno::LOOP);
    }
    result
}

fn is_link(directory: &OwnedFd, name: &OsStr) -> bool {
    let metadata = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    metadata.is_ok_and(|metadata| {
        rustix::fs::FileType::from_raw_mode(metadata.st_mode) == rustix::fs::FileType::Symlink
    })
}

/// Opens a name in a directory, without following a link, blocking, or acquiring a controlling
/// terminal.
pub(crate) fn open_leaf(
    directory: &OwnedFd,
    name: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let always = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(directory.as_fd(), name, flags | always, mode)
}

/// Splits a path below its anchor into the directory and the last name; the anchor itself is
/// `.`.
pub(crate) fn split(relative: &Path) -> (&Path, OsString) {
    match (relative.parent(), relative.file_name()) {
        (Some(parent), Some(name)) => (parent, name.to_owned()),
        _ => (Path::new(""), OsString::from(".")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_open_modes_reject_links_and_enter_directories() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(directory.path().join("a/b")).expect("folders");
        symlink("a", directory.path().join("link")).expect("link");
        symlink("/", directory.path().join("out")).expect("link");
        let root = anchor(directory.path()).expect("anchor");
        for open in [open_directory_below, step_by_step] {
            assert!(open(&root, Path::new("a/b"), false).is_ok());
            assert!(open(&root, Path::new(""), false).is_ok());
            assert_eq!(open(&root, Path::new("link/b"), false).err(), Some(Errno::LOOP));
            assert_eq!(open(&root, Path::new("out"), false).err(), Some(Errno::LOOP));
            assert_eq!(open(&root, Path::new("a/c"), false).err(), Some(Errno::NOENT));
        }
        assert!(open_directory_below(&root, Path::new("x/y/z"), true).is_ok());
        assert!(directory.path().join("x/y/z").is_dir());
        assert!(open_directory_below(&root, Path::new("../q"), true).is_err());
    }
}
