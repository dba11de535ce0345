//! Opens files and directories without following links, and mounts trees over them.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult, is_missing};
use crate::inside::kernel::{self, MountRestrictions};

pub(crate) const READ_ONLY: MountRestrictions = MountRestrictions { read_only: true, ..WRITABLE };

pub(crate) const WRITABLE: MountRestrictions = MountRestrictions {
    read_only: false,
    no_devices: false,
    no_exec: false,
    private: false,
    is_single_mount: false,
};

pub(crate) fn open_root() -> SandboxResult<OwnedFd> {
    rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .unsupported("/")
}

/// Opens a path without symbolic links in any component.
pub(crate) fn open_real(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(root, strip_root(path), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // The filter of an outer sandbox blocks this call.
        Err(Errno::NOSYS) => {}
        tried => return tried,
    }
    let mut found = openat(root, ".", flags, Mode::empty())?;
    for name in components_of(path) {
        found = open_entry(&found, name)?;
        if FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(found)
}

/// Returns a path relative to an open root directory.
pub(crate) fn strip_root(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(rest) if !rest.as_os_str().is_empty() => rest,
        _ => Path::new("."),
    }
}

/// Creates a file or directory as a mount point at a path below an open directory. Removes entries
/// in the path that are not directories.
pub(crate) fn make_target(mut at: OwnedFd, path: &Path, directory: bool) -> Result<OwnedFd, Errno> {
    let mut names = components_of(path).peekable();
    while let Some(name) = names.next() {
        at = make_entry(&at, name, directory || names.peek().is_some())?;
    }
    Ok(at)
}

/// How often to check again for an entry that another command of the session, which starts at the
/// same time and shares the private directory, has just created.
const TRIES: usize = 8;

/// Opens a directory or file with this name, creating it if it does not exist or has another type.
fn make_entry(at: &OwnedFd, name: &OsStr, directory: bool) -> Result<OwnedFd, Errno> {
    for _ in 0..TRIES {
        match open_entry(at, name) {
            Ok(found) => {
                let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
                if (kind == FileType::Directory) == directory {
                    return Ok(found);
                }
                // A leftover of a command in its private directory.
                match rustix::fs::unlinkat(at, name, rustix::fs::AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(error) if is_missing(error) => {}
            Err(error) => return Err(error),
        }
        let created = if directory {
            mkdirat(at, name, Mode::from_raw_mode(0o755))
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(at, name, flags, Mode::from_raw_mode(0o644)).map(drop)
        };
        match created {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

fn components_of(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

/// Opens an entry of a directory itself, not the target of a link.
pub(crate) fn open_entry(directory: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

pub(crate) fn is_directory(file: &OwnedFd) -> SandboxResult<bool> {
    let stat = fstat(file).refused("stat")?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Returns an unattached copy of the mount at an open file.
pub(crate) fn clone(file: impl AsFd, restrict: MountRestrictions) -> SandboxResult<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(file, "", flags).unsupported("cannot copy a mount")?;
    kernel::restrict_mount(&tree, restrict)
        .unsupported("cannot change the attributes of a mount")?;
    Ok(tree)
}

/// Mounts a tree over an open file or directory.
pub(crate) fn mount(tree: impl AsFd, target: impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}

pub(crate) fn mount_failure(path: &Path, error: Errno) -> SandboxFailure {
    let path = path.display();
    SandboxFailure::Refused(match error {
        Errno::LOOP => format!("`{path}` contains a symbolic link; use the resolved path"),
        Errno::NOENT => format!("`{path}` does not exist; use an existing parent directory"),
        other => format!("`{path}` cannot be opened: {other}"),
    })
}
