//! Verifies from inside that the view of files matches the plan, because `bwrap` mounts by path and
//! paths can change in the meantime.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstat, fstatvfs, openat2,
};
use rustix::io::Errno;

use crate::inside::bubblewrap_job::{BwrapJob, WritableTree};
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::mounts::strip_root;
use std::os::fd::OwnedFd;

/// Fails if anything is more accessible than the plan allows.
pub(super) fn verify(job: &BwrapJob) -> SandboxResult<()> {
    let root =
        rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .refused("/")?;
    for tree in &job.trees {
        verify_unchanged(&root, tree)?;
    }
    let plan = &job.plan;
    for path in &plan.read_only {
        let inside = plan.writable.iter().any(|tree| path.starts_with(tree));
        let granted = plan.writable.contains(path);
        if inside && !granted && !is_read_only(&root, path)? {
            return Err(changed_failure(path));
        }
    }
    for path in &plan.hidden {
        if can_open(&root, path) {
            return Err(changed_failure(path));
        }
    }
    Ok(())
}

fn changed_failure(path: &Path) -> SandboxFailure {
    SandboxFailure::Refused(format!(
        "`{}` changed while the sandbox was built, or `bwrap` did not protect it",
        path.display()
    ))
}

/// Opens a path without symbolic links in any component.
fn find(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(root, strip_root(path), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

fn verify_unchanged(root: &OwnedFd, tree: &WritableTree) -> SandboxResult<()> {
    let found = find(root, &tree.path).map_err(|_| changed_failure(&tree.path))?;
    let stat = fstat(&found).refused(tree.path.display())?;
    if (stat.st_dev, stat.st_ino) == (tree.device, tree.inode) {
        Ok(())
    } else {
        Err(changed_failure(&tree.path))
    }
}

/// Whether the path does not exist, is a link (which is checked after the command), or is on a
/// read-only mount.
fn is_read_only(root: &OwnedFd, path: &Path) -> SandboxResult<bool> {
    let Ok(found) = find(root, path) else { return Ok(true) };
    let flags = fstatvfs(&found).refused(path.display())?.f_flag;
    Ok(flags.contains(StatVfsMountFlags::RDONLY))
}

/// Whether a hidden path can be read.
fn can_open(root: &OwnedFd, path: &Path) -> bool {
    let Ok(found) = find(root, path) else { return false };
    let Ok(stat) = fstat(&found) else { return false };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            openat2(root, strip_root(path), flags | OFlags::DIRECTORY, Mode::empty(), resolve)
                .is_ok()
        }
        FileType::RegularFile => {
            let opened = openat2(root, strip_root(path), flags, Mode::empty(), resolve);
            opened.is_ok_and(|file| File::from(file).read(&mut [0]).is_ok())
        }
        // Sockets and devices are blocked by their covers and by Landlock.
        _ => false,
    }
}
