//! Covers that are mounted over other paths: unreadable files and directories, private directories,
//! and overlays for package caches.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Uid, chmodat, chownat, fchmod, ftruncate, futimens, mkdirat,
    mknodat, openat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};

use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::inside::filtered::OpenedFilter;
use crate::inside::kernel::{self, MountRestrictions};
use crate::inside::mounts;
use crate::plan::{PlaceholderFile, Plan};

/// A small in-memory file system that holds the overmounts. It is mounted on `/dev` and then hidden
/// there by the real `/dev`.
pub(crate) struct PlaceholderTmpfs {
    folder: OwnedFd,
    unmapped_user: Option<u32>,
    /// Number of overmounts created for individual files.
    cover_count: AtomicU32,
}

impl PlaceholderTmpfs {
    pub(crate) fn create(root: &OwnedFd, unmapped_user: Option<u32>) -> SandboxResult<Self> {
        let directory = new_tmpfs()?;
        let dev = openat(root, "dev", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .unsupported("/dev")?;
        mounts::mount(&directory, dev).unsupported("/dev")?;
        let stage = Self { folder: directory, unmapped_user, cover_count: AtomicU32::new(0) };
        stage.directory("closed", 0)?;
        stage.directory("dev", 0o755)?;
        stage.directory("shm", 0o1777)?;
        // A device that does not exist, on a mount that does not allow opening devices.
        mknodat(&stage.folder, "closed-file", FileType::CharacterDevice, Mode::empty(), 0)
            .unsupported("cannot create a placeholder file")?;
        stage.give_to_unmapped_user("closed")?;
        Ok(stage)
    }

    /// Opens the stage of another process.
    pub(crate) fn open(directory: OwnedFd) -> Self {
        Self { folder: directory, unmapped_user: None, cover_count: AtomicU32::new(0) }
    }

    /// Returns the directory, for [`PlaceholderTmpfs::open`].
    pub(crate) fn into_directory(self) -> OwnedFd {
        self.folder
    }

    /// Returns the directory.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.folder
    }

    fn directory(&self, name: &str, mode: u32) -> SandboxResult<()> {
        let mode = Mode::from_raw_mode(mode);
        mkdirat(&self.folder, name, mode).unsupported("cannot create an in-memory directory")?;
        // Set the mode again, because `mkdirat` applies the umask.
        chmodat(&self.folder, name, mode, AtFlags::empty())
            .unsupported("cannot create an in-memory directory")
    }

    /// Changes the owner of a directory to the unmapped user, so that no capability overrides its
    /// mode.
    fn give_to_unmapped_user(&self, name: &str) -> SandboxResult<()> {
        let Some(user) = self.unmapped_user else { return Ok(()) };
        chownat(&self.folder, name, Some(Uid::from_raw(user)), None, AtFlags::empty())
            .unsupported("cannot create a placeholder directory")
    }

    /// Returns a file that cannot be opened.
    pub(crate) fn cover_file(&self) -> SandboxResult<OwnedFd> {
        self.copy("closed-file", MountRestrictions { no_devices: true, ..mounts::READ_ONLY })
    }

    /// Returns a directory that can be neither listed nor entered.
    pub(crate) fn cover_directory(&self) -> SandboxResult<OwnedFd> {
        self.copy("closed", mounts::READ_ONLY)
    }

    /// Returns a directory that cannot be listed but contains mounts that can be reached. It stays
    /// writable until their mount points are created.
    pub(crate) fn skeleton(&self) -> SandboxResult<OwnedFd> {
        let name = self.own_name();
        self.directory(&name, 0o111)?;
        self.give_to_unmapped_user(&name)?;
        self.copy(&name, MountRestrictions::default())
    }

    fn own_name(&self) -> String {
        format!("own-{}", self.cover_count.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a file that cannot be opened but has the metadata of another. It contains only
    /// zeros. Returns `None` if its mode alone would not prevent root from reading it.
    pub(crate) fn placeholder(&self, of: &PlaceholderFile) -> SandboxResult<Option<OwnedFd>> {
        if self.unmapped_user.is_none() && rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let name = self.own_name();
        let created = || -> Result<(), Errno> {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = openat(&self.folder, &name, flags, Mode::empty())?;
            ftruncate(&file, of.size)?;
            fchmod(&file, Mode::from_raw_mode(of.mode()))?;
            futimens(&file, &of.times())
        };
        created().unsupported("cannot create an in-memory file")?;
        self.give_to_unmapped_user(&name)?;
        self.copy(&name, mounts::READ_ONLY).map(Some)
    }

    /// Returns a directory with a mount point for each entry.
    pub(crate) fn filtered_directory(&self, filter: &OpenedFilter) -> SandboxResult<OwnedFd> {
        let name = self.own_name();
        self.directory(&name, 0o700)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = openat(&self.folder, &name, flags, Mode::empty())
            .and_then(|directory| filter.create(&directory))
            .and_then(|()| filter.copy_owner_and_mode(&self.folder, name.as_ref()));
        created.unsupported("cannot create an in-memory directory")?;
        self.copy(&name, MountRestrictions::default())
    }

    /// Returns a mount of one entry.
    pub(crate) fn copy(&self, name: &str, restrict: MountRestrictions) -> SandboxResult<OwnedFd> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(&self.folder, name, flags).unsupported("a cover")?;
        kernel::restrict_mount(&tree, restrict).unsupported("a cover")?;
        Ok(tree)
    }
}

fn new_tmpfs() -> SandboxResult<OwnedFd> {
    let created = || -> Result<OwnedFd, Errno> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "mode", "0755")?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    created().unsupported("cannot create an in-memory file system")
}

/// Returns a directory of the session that its commands see as a system directory. It is inside a
/// directory that is private to the user.
pub(crate) fn private_directory(temporary: &Path, name: &str) -> SandboxResult<OwnedFd> {
    let path = temporary.join(name);
    let what = || format!("the private directory `{}`", path.display());
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(temporary);
    created.refused(what())?;
    match fs::DirBuilder::new().mode(0o1777).create(&path) {
        Ok(()) => {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).refused(what())?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).refused(what()),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(&path, flags, Mode::empty()).refused(what())
}

/// Returns the directory that replaces `/tmp` if nothing can be mounted there. It is only a part of
/// the session directory, because plans on their way to the supervisor are next to it.
pub(crate) fn temporary_directory(plan: &Plan) -> SandboxResult<PathBuf> {
    private_directory(&plan.temporary, "tmp")?;
    Ok(plan.temporary.join("tmp"))
}

/// Copies a symbolic link of a system directory to the private directory that replaces it. Errors
/// are ignored: without the link, a program may miss something.
pub(crate) fn copy_link(link: &Path, directory: &Path) {
    let (Ok(target), Some(name)) = (fs::read_link(link), link.file_name()) else { return };
    let copy = directory.join(name);
    if fs::read_link(&copy).ok().as_ref() != Some(&target) {
        let _ = fs::remove_file(&copy);
        let _ = std::os::unix::fs::symlink(target, copy);
    }
}

/// Returns an overlay over an open directory whose changes are stored in `store`. While another
/// command has the layer mounted, this one gets its own layer on top of it. Returns `None` if the
/// kernel cannot mount the overlay.
pub(crate) fn overlay(store: &Path, path: &Path, lower: &OwnedFd) -> Option<OwnedFd> {
    let home = store.join(directory_name(path));
    let lower = through_proc(lower);
    let main = home.join("upper");
    match mount_overlay(&[&lower], &main, &home.join("work")) {
        Ok(tree) => Some(tree),
        Err(Errno::BUSY) => {
            let own = home.join(format!("own-{}", unique_name()));
            mount_overlay(&[&main, &lower], &own.join("upper"), &own.join("work")).ok()
        }
        Err(_) => None,
    }
}

/// Returns a random name that is unique among running commands. Process IDs are not unique across
/// process namespaces.
fn unique_name() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default().trim().to_owned()
}

fn through_proc(file: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn mount_overlay(lower: &[&Path], upper: &Path, work: &Path) -> Result<OwnedFd, Errno> {
    for directory in [upper, work] {
        let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        created.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    }
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (at, folder) in lower.iter().enumerate() {
        // One directory at a time, so that no character of a path acts as a separator.
        match fsconfig_set_string(&context, "lowerdir+", *folder) {
            // Linux before 6.5 supports only the list.
            Err(Errno::INVAL) if at == 0 => {
                fsconfig_set_string(&context, "lowerdir", list(lower))?;
                break;
            }
            done => done?,
        }
    }
    fsconfig_set_string(&context, "upperdir", upper)?;
    fsconfig_set_string(&context, "workdir", work)?;
    fsconfig_set_flag(&context, "userxattr")?;
    // Makes the kernel report if another overlay writes to the same layer.
    fsconfig_set_string(&context, "index", "on")?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID)
}

/// Joins directories into a list, escaping the separators.
fn list(directories: &[&Path]) -> PathBuf {
    let mut text = Vec::new();
    for (index, folder) in directories.iter().enumerate() {
        text.extend((index > 0).then_some(b':'));
        for byte in folder.as_os_str().as_bytes() {
            text.extend(matches!(byte, b':' | b'\\').then_some(b'\\'));
            text.push(*byte);
        }
    }
    OsString::from_vec(text).into()
}

/// Returns a file name for a path, which is unique as long as the path is short enough.
fn directory_name(path: &Path) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let last: String = last.chars().filter(|c| c.is_ascii_alphanumeric()).take(32).collect();
    format!("{last}-{:016x}", hasher.finish())
}
