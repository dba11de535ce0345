//! A `/dev` with harmless devices only, and a `/proc` with the processes of the session namespaces.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::inside::kernel::MountRestrictions;
use crate::inside::mounts;
use crate::inside::overmounts::PlaceholderTmpfs;

/// Harmless devices that programs expect.
pub(crate) const HARMLESS: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Clones the harmless devices of the host.
pub(crate) fn clone_devices(root: &OwnedFd) -> SandboxResult<Vec<(&'static str, OwnedFd)>> {
    let mut found = Vec::new();
    for name in HARMLESS {
        let path = format!("dev/{name}");
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(device) = openat(root, path, flags, Mode::empty()) {
            let restrict = MountRestrictions { no_exec: true, ..MountRestrictions::default() };
            found.push((name, mounts::clone(&device, restrict)?));
        }
    }
    Ok(found)
}

/// Mounts the new `/dev` over the stage.
pub(crate) fn mount_dev(
    root: &OwnedFd,
    stage: &PlaceholderTmpfs,
    devices: Vec<(&'static str, OwnedFd)>,
) -> SandboxResult<()> {
    let built = || -> Result<OwnedFd, Errno> {
        let dev = openat(root, "dev/dev", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        for (name, device) in devices {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(&dev, name, flags, Mode::from_raw_mode(0o644))?;
            let target = openat(&dev, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            mounts::mount(device, target)?;
        }
        for (name, target) in LINKS {
            symlinkat(target, &dev, name)?;
        }
        for name in ["pts", "shm"] {
            rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(0o755))?;
        }
        if let Ok(terminals) = new_terminals() {
            let target = openat(&dev, "pts", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            mounts::mount(terminals, target)?;
        }
        Ok(dev)
    };
    let dev = built().unsupported("/dev")?;
    // The harmless devices are included as mounts below the directory.
    let tree = mounts::clone(&dev, mounts::READ_ONLY)?;
    let shared =
        stage.copy("shm", MountRestrictions { no_exec: true, ..MountRestrictions::default() })?;
    let dev =
        openat(root, "dev", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unsupported("/dev")?;
    mounts::mount(&tree, dev).unsupported("/dev")?;
    let target = openat(root, "dev/shm", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .unsupported("/dev/shm")?;
    mounts::mount(shared, target).unsupported("/dev/shm")
}

/// Mounts pseudo-terminals for this command only; those of other processes are inaccessible.
fn new_terminals() -> Result<OwnedFd, Errno> {
    let context = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "ptmxmode", "0666")?;
    fsconfig_set_string(&context, "mode", "0620")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Mounts a read-only `/proc` of the session namespaces, so that root cannot change kernel
/// settings. In a container whose `/proc` is partly covered, the kernel does not allow the mount;
/// the existing `/proc` then stays, also read-only. It shows only the names of other processes; the
/// user namespace and Landlock block the rest.
pub(crate) fn mount_proc(root: &OwnedFd) -> SandboxResult<()> {
    let Ok(proc) = new_proc() else { return Ok(()) };
    let target =
        openat(root, "proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unsupported("/proc")?;
    mounts::mount(proc, target).unsupported("/proc")
}

/// Creates an unattached mount of `/proc` for the namespace of this process.
pub(crate) fn new_proc() -> Result<OwnedFd, Errno> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_RDONLY;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
