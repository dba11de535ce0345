//! Removes a directory that may have been filled by commands.

use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory on the way down.
struct DirectoryLevel {
    /// Its name in its parent.
    name: CString,
    id: (u64, u64),
    /// The subdirectories that are not removed yet.
    pending: Vec<CString>,
}

/// Removes a directory with its contents, without following links. Commands can nest directories so
/// deep that recursion overflows the stack, paths become too long, and descriptors run out:
/// therefore only the current directory is open, and `..` leads back up.
///
/// # Errors
/// Returns an error if something cannot be removed; the rest is removed anyway.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    remove(CWD, path, None)
}

/// Like [`remove_tree`], but stops at a time.
///
/// # Errors
/// Returns [`io::ErrorKind::TimedOut`] if something is left then; see also [`remove_tree`].
pub fn remove_tree_until(path: &Path, end: Instant) -> io::Result<()> {
    remove(CWD, path, Some(end))
}

/// Like [`remove_tree`], for a path below an open directory.
///
/// # Errors
/// See [`remove_tree`].
pub fn remove_tree_at(directory: impl AsFd, path: &Path) -> io::Result<()> {
    remove(directory, path, None)
}

fn remove(directory: impl AsFd, path: &Path, end: Option<Instant>) -> io::Result<()> {
    let mut failure = None;
    let mut current = open(&directory, path)?;
    let mut levels = vec![enter(&current, CString::default(), &mut failure)?];
    while let Some(level) = levels.last_mut() {
        if end.is_some_and(|end| Instant::now() >= end) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if let Some(name) = level.pending.pop() {
            let entered =
                open(&current, name.as_c_str()).map_err(io::Error::from).and_then(|inner| {
                    let level = enter(&inner, name, &mut failure)?;
                    Ok((inner, level))
                });
            match entered {
                Ok((inner, level)) => {
                    levels.push(level);
                    current = inner;
                }
                Err(error) => failure = Some(error),
            }
            continue;
        }
        let Some(done) = levels.pop() else { break };
        let Some(above) = levels.last() else { break };
        current = rustix::fs::openat(&current, c"..", FOLDER, Mode::empty())?;
        if id(&current)? != above.id {
            // The directory was moved in the meantime; the one at this path must not be removed.
            return Err(io::Error::other("a directory was moved while being removed"));
        }
        if let Err(error) = rustix::fs::unlinkat(&current, &done.name, AtFlags::REMOVEDIR) {
            failure = Some(error.into());
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(rustix::fs::unlinkat(&directory, path, AtFlags::REMOVEDIR)?),
    }
}

/// Removes the files of a directory, and lists its subdirectories.
fn enter(
    directory: &OwnedFd,
    name: CString,
    failure: &mut Option<io::Error>,
) -> io::Result<DirectoryLevel> {
    let mut pending = Vec::new();
    for (inner, kind) in entries(directory)? {
        if kind == FileType::Directory {
            pending.push(inner);
        } else if let Err(error) = rustix::fs::unlinkat(directory, &inner, AtFlags::empty()) {
            *failure = Some(error.into());
        }
    }
    Ok(DirectoryLevel { name, id: id(directory)?, pending })
}

/// Returns the device and inode of a directory.
fn id(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let metadata = std::fs::File::from(directory.try_clone()?).metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Opens a directory, even one without permissions for its owner, as commands and overlays create.
fn open(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let opened = rustix::fs::openat(&at, name, FOLDER, Mode::empty());
    match &opened {
        Ok(directory) if may_write(directory) => return opened,
        Ok(_) | Err(Errno::ACCESS) => {}
        Err(_) => return opened,
    }
    unlock(&at, name)?;
    rustix::fs::openat(&at, name, FOLDER, Mode::empty())
}

fn may_write(directory: &OwnedFd) -> bool {
    rustix::fs::fstat(directory)
        .is_ok_and(|metadata| Mode::from_raw_mode(metadata.st_mode).contains(Mode::RWXU))
}

/// Gives the owner all permissions, through a descriptor because the name may have become a link.
#[cfg(target_os = "linux")]
fn unlock(at: impl AsFd, name: impl rustix::path::Arg) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(at, name, flags, Mode::empty())?;
    let descriptor_path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    // If it cannot be unlocked, using it fails.
    let _ = std::fs::set_permissions(descriptor_path, Permissions::from_mode(0o700));
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn unlock(at: impl AsFd, name: impl rustix::path::Arg) -> Result<(), Errno> {
    let _ = rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW);
    Ok(())
}

fn entries(directory: &OwnedFd) -> Result<Vec<(CString, FileType)>, Errno> {
    let mut list = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let metadata = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(metadata.st_mode)
            }
            kind => kind,
        };
        list.push((name.to_owned(), kind));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nested_directory_beyond_stack_and_path_length_is_removed() {
        let temporary = tempfile::tempdir().expect("directory");
        let top = temporary.path().join("top");
        std::fs::create_dir(&top).expect("made");
        let mut directory = open(CWD, &top).expect("opened");
        for _ in 0..600 {
            rustix::fs::mkdirat(&directory, "directory", Mode::RWXU).expect("made");
            directory = open(&directory, "directory").expect("opened");
        }
        let removed = top.clone();
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        let done = thread.spawn(move || remove_tree(&removed)).expect("started").join();
        done.expect("no overflow").expect("removed");
        assert!(!top.exists());
    }

    #[test]
    fn removal_respects_its_deadline() {
        let directory = tempfile::tempdir().expect("directory");
        let top = directory.path().join("top");
        std::fs::create_dir_all(top.join("a/b")).expect("made");
        let error = remove_tree_until(&top, Instant::now()).expect_err("no time");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let minute = std::time::Duration::from_secs(60);
        remove_tree_until(&top, Instant::now() + minute).expect("removed");
        assert!(!top.exists());
    }

    #[test]
    fn locked_directories_are_removed_and_link_targets_kept() {
        let directory = tempfile::tempdir().expect("directory");
        let (top, other) = (directory.path().join("top"), directory.path().join("other"));
        std::fs::create_dir_all(top.join("a/b/.removed-1")).expect("made");
        std::fs::create_dir_all(top.join(".removed-1/c")).expect("made");
        std::fs::create_dir(&other).expect("made");
        for file in [top.join("a/b/f"), top.join("g"), other.join("kept")] {
            std::fs::write(file, "x").expect("written");
        }
        symlink(&other, top.join("a/link")).expect("linked");
        symlink(&other, top.join("link")).expect("linked");
        for locked in ["a/b", "a"] {
            let mode = Permissions::from_mode(0o000);
            std::fs::set_permissions(top.join(locked), mode).expect("locked");
        }
        remove_tree(&top).expect("removed");
        assert!(!top.exists() && other.join("kept").exists());
        assert!(remove_tree(&top).is_err(), "it is gone");
        symlink(&other, &top).expect("linked");
        assert!(remove_tree(&top).is_err() && other.join("kept").exists(), "a link is not entered");
    }
}
