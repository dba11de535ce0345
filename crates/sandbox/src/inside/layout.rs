//! The mount namespace of a command: everything is read-only, with writable trees, private
//! directories, protected paths, and hidden paths mounted over it.
//!
//! Everything to be shown is opened before anything is covered and is mounted from the open file,
//! so changing a path in the meantime has no effect.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

use crate::inside::devices;
use crate::inside::failure::{FailureContextExt as _, SandboxResult, is_missing};
use crate::inside::filtered::{self, OpenedFilter};
use crate::inside::host_environment::HostEnvironment;
use crate::inside::kernel::{self, MountRestrictions};
use crate::inside::mounts::{
    READ_ONLY, WRITABLE, clone, is_directory, make_target, mount, mount_failure, open_entry,
    open_real, open_root, strip_root,
};
use crate::inside::overmounts::{self, PlaceholderTmpfs};
use crate::plan::Plan;
use crate::replaced;

/// Number of symbolic links that the kernel follows.
const MAX_LINKS: usize = 40;
/// How often a file may be replaced while it is being covered.
const MAX_REPLACEMENTS: usize = 100;

/// Harmless entries of `/run` that name lookups and programs require.
const KEPT_OF_RUN: [&str; 8] = [
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/booted-system",
    "/run/wrappers",
    "/run/opengl-driver",
    "/run/nscd",
];

/// System directories that each session has separately, with their names in the private directory
/// of the session.
pub(crate) const PRIVATE: [(&str, &str); 3] =
    [("/tmp", "tmp"), ("/var/tmp", "var-tmp"), ("/run", "run")];

/// An action at a path; actions are executed in order of depth.
enum MountAction {
    /// Mounts a tree that was cloned before anything was covered; true if writable.
    Show(OwnedFd, bool),
    Filter(OpenedFilter),
    Pin,
    Protect,
    Hide,
}

/// A path and the action for it.
type PathAction = (PathBuf, MountAction);

/// A finished view of files.
pub(crate) struct MountView {
    /// The writable paths in it, for Landlock rules.
    pub(crate) writable: Vec<PathBuf>,
    /// The directory of the overmounts, for restoring lost overmounts.
    pub(crate) stage: OwnedFd,
}

/// Builds the view in a new mount namespace of this process.
pub(crate) fn build(
    plan: &Plan,
    host: &HostEnvironment,
    odd_user: Option<u32>,
) -> SandboxResult<MountView> {
    let root = own_mounts()?;
    let mut view = View { root, plan, pinned: HashSet::new(), skeletons: Vec::new() };
    let (mut steps, writable) = view.collect_actions(host)?;
    let devices = devices::clone_devices(&view.root)?;

    make_read_only(&view.root)?;
    let stage = PlaceholderTmpfs::create(&view.root, odd_user)?;

    steps.sort_by_key(|(path, step)| (path.components().count(), rank(step)));
    let mut last: Option<PathBuf> = None;
    for (path, step) in steps {
        let is_repeated = last.as_deref() == Some(&path);
        match step {
            MountAction::Show(tree, _) if !is_repeated => view.attach(&tree, &path)?,
            MountAction::Show(..) => {}
            MountAction::Filter(filter) => view.filter(&filter, &stage)?,
            MountAction::Pin => view.protect(&path, false)?,
            MountAction::Protect => view.protect(&path, true)?,
            MountAction::Hide => view.hide(&path, &stage)?,
        }
        last = Some(path);
    }
    for skeleton in &view.skeletons {
        // Writable mounts below it stay writable.
        let alone = MountRestrictions { is_single_mount: true, ..READ_ONLY };
        kernel::restrict_mount(skeleton, alone).refused("cannot create a placeholder directory")?;
    }
    devices::mount_proc(&view.root)?;
    devices::mount_dev(&view.root, &stage, devices)?;
    // The previous working directory is below the new mounts.
    rustix::process::chdir(&host.folder)
        .refused(format!("cannot change to the directory `{}`", host.folder.display()))?;
    Ok(MountView { writable, stage: stage.into_directory() })
}

/// Creates a mount namespace for this process in which everything is read-only.
pub(crate) fn new_view() -> SandboxResult<OwnedFd> {
    let root = own_mounts()?;
    make_read_only(&root)?;
    Ok(root)
}

fn own_mounts() -> SandboxResult<OwnedFd> {
    kernel::unshare(UnshareFlags::NEWNS).unsupported("cannot create a mount namespace")?;
    open_root()
}

fn make_read_only(root: &OwnedFd) -> SandboxResult<()> {
    let everything = MountRestrictions { private: true, ..READ_ONLY };
    kernel::restrict_mount(root, everything).unsupported("cannot mount the system read-only")
}

fn rank(step: &MountAction) -> u8 {
    match step {
        MountAction::Show(_, true) => 0,
        MountAction::Show(_, false) => 1,
        MountAction::Filter(_) => 2,
        MountAction::Pin => 3,
        MountAction::Protect => 4,
        MountAction::Hide => 5,
    }
}

pub(crate) struct View<'a> {
    pub(crate) root: OwnedFd,
    plan: &'a Plan,
    pinned: HashSet<PathBuf>,
    skeletons: Vec<OwnedFd>,
}

impl View<'_> {
    /// Opens and clones everything to be shown.
    fn collect_actions(
        &self,
        host: &HostEnvironment,
    ) -> SandboxResult<(Vec<PathAction>, Vec<PathBuf>)> {
        let plan = self.plan;
        let mut steps: Vec<PathAction> = Vec::new();
        let mut writable = Vec::new();
        for path in &plan.writable {
            let tree = self.open(path).map_err(|error| mount_failure(path, error))?;
            writable.push(path.clone());
            if !is_already_writable(plan, path) {
                steps.push((path.clone(), MountAction::Show(clone(&tree, WRITABLE)?, true)));
            }
        }
        let mut private = Vec::new();
        for (path, name) in PRIVATE {
            let Ok(real) = Path::new(path).canonicalize() else { continue };
            if plan.writable.contains(&real) || private.contains(&real) {
                continue;
            }
            let folder = overmounts::private_directory(&plan.temporary, name)?;
            steps.push((real.clone(), MountAction::Show(clone(&folder, WRITABLE)?, true)));
            writable.push(real.clone());
            private.push(real);
        }
        for path in readable_paths(plan, host, &private) {
            let Ok(tree) = self.open(&path) else { continue };
            steps.push((path, MountAction::Show(clone(&tree, READ_ONLY)?, false)));
        }
        for path in &plan.overlays {
            let Ok(lower) = self.open(path) else { continue };
            if let Some(tree) = overmounts::overlay(&plan.overlay_store, path, &lower) {
                steps.push((path.clone(), MountAction::Show(tree, true)));
                writable.push(path.clone());
                continue;
            }
            // If no overlay can be mounted, the cache stays read-only, except for the parts that
            // may be written in place.
            for part in plan.without_overlay.iter().filter(|part| part.starts_with(path)) {
                let Ok(tree) = self.open(part) else { continue };
                steps.push((part.clone(), MountAction::Show(clone(&tree, WRITABLE)?, true)));
                writable.push(part.clone());
            }
        }
        for directory in filtered::find_filtered(plan) {
            let path = directory.path.clone();
            if let Ok(filter) = OpenedFilter::open(directory, &self.root) {
                steps.push((path, MountAction::Filter(filter)));
            }
        }
        steps.extend(plan.pinned.iter().map(|path| (path.clone(), MountAction::Pin)));
        steps.extend(plan.read_only.iter().map(|path| (path.clone(), MountAction::Protect)));
        // Commands must not lock the report of the monitors.
        let report = replaced::path(&plan.temporary);
        let hidden = plan.hidden.iter().chain(&host.listening).chain([&report]);
        steps.extend(hidden.map(|path| (path.clone(), MountAction::Hide)));
        Ok((steps, writable))
    }

    /// Opens a path without symbolic links in any component.
    pub(crate) fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        open_real(&self.root, path)
    }

    /// Mounts a tree at a path, which is created if it does not exist. That is possible only in a
    /// private directory, because everything else is read-only.
    fn attach(&self, tree: &OwnedFd, path: &Path) -> SandboxResult<()> {
        let target = match self.open(path) {
            Ok(target) => target,
            Err(error) if is_missing(error) || error == Errno::LOOP => self
                .open(Path::new("/"))
                .and_then(|root| make_target(root, path, is_directory(tree).unwrap_or(true)))
                .refused(format!("cannot create a mount point for `{}`", path.display()))?,
            Err(error) => return Err(mount_failure(path, error)),
        };
        mount(tree, &target).refused(format!("`{}` cannot be mounted", path.display()))
    }

    /// Covers a directory with a directory on the stage and mounts the visible entries in it.
    fn filter(&mut self, filter: &OpenedFilter, stage: &PlaceholderTmpfs) -> SandboxResult<()> {
        let path = &filter.directory.path;
        let found = match self.open(path) {
            Ok(found) => found,
            Err(error) if is_missing(error) || error == Errno::ACCESS => return Ok(()),
            Err(error) => return Err(mount_failure(path, error)),
        };
        let what = || format!("`{}` cannot be filtered", path.display());
        let cover = stage.filtered_directory(filter)?;
        mount(&cover, &found).refused(what())?;
        filter.mount(&cover).refused(what())?;
        // Nothing writable is mounted in it yet.
        kernel::restrict_mount(&cover, READ_ONLY).refused(what())
    }

    /// Makes every parent directory of a path in a writable tree a separate mount, and the path
    /// itself read-only if `covers`. A mount cannot be renamed or removed, so the path cannot be
    /// replaced.
    fn protect(&mut self, path: &Path, covers: bool) -> SandboxResult<()> {
        self.protect_through_links(path, covers, MAX_LINKS)
    }

    fn protect_through_links(
        &mut self,
        path: &Path,
        covers: bool,
        links: usize,
    ) -> SandboxResult<()> {
        let Some(tree) = mounted_tree(self.plan, path) else { return Ok(()) };
        if tree == path {
            if !covers {
                return Ok(());
            }
            let Ok(itself) = self.open(path) else { return Ok(()) };
            return self.remount(&itself, path, READ_ONLY);
        }
        let (mut at, mut here) = match self.open(tree) {
            Ok(at) => (at, tree.clone()),
            Err(_) => return Ok(()),
        };
        let rest = path.strip_prefix(tree).unwrap_or(Path::new(""));
        let mut names = rest.components().peekable();
        while let Some(component) = names.next() {
            let Component::Normal(name) = component else {
                // The path so far has no links, so this is its parent.
                here.pop();
                let next = here.join(names.collect::<PathBuf>());
                return self.protect_through_links(&next, covers, links);
            };
            here.push(name);
            let found = match open_entry(&at, name) {
                Ok(found) => found,
                Err(error) if is_missing(error) => return Ok(()),
                Err(error) => return Err(mount_failure(&here, error)),
            };
            let stat = fstat(&found).refused(here.display())?;
            let link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            let last = names.peek().is_none();
            if link {
                // The link, all that it leads through, and its target are protected.
                self.pin(&found, &here)?;
                let Ok(target) = readlinkat(&at, name, Vec::new()) else { return Ok(()) };
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                here.pop();
                let next = here.join(target).join(names.collect::<PathBuf>());
                return match links.checked_sub(1) {
                    Some(links) => self.protect_through_links(&next, covers, links),
                    None => Ok(()),
                };
            }
            if last {
                return match covers {
                    true => self.protect_entry(&at, name, &here),
                    false => Ok(()),
                };
            }
            self.pin(&found, &here)?;
            at = open_entry(&at, name).map_err(|error| mount_failure(&here, error))?;
        }
        Ok(())
    }

    fn pin(&mut self, found: &OwnedFd, here: &Path) -> SandboxResult<()> {
        if self.pinned.insert(here.to_path_buf()) {
            self.remount(found, here, WRITABLE)?;
        }
        Ok(())
    }

    /// Makes the file or directory with this name read-only, even if it is replaced meanwhile.
    fn protect_entry(&self, at: &OwnedFd, name: &OsStr, here: &Path) -> SandboxResult<()> {
        let failed = || format!("`{}` cannot be protected", here.display());
        for _ in 0..MAX_REPLACEMENTS {
            let found = match open_entry(at, name) {
                Err(error) if is_missing(error) => return Ok(()),
                opened => opened.map_err(|error| mount_failure(here, error))?,
            };
            let tree = clone(&found, READ_ONLY)?;
            match mount(&tree, &found) {
                Err(Errno::NOENT) => {}
                mounted => return mounted.refused(failed()),
            }
        }
        Err(Errno::NOENT).refused(failed())
    }

    fn remount(
        &self,
        found: &OwnedFd,
        path: &Path,
        restrict: MountRestrictions,
    ) -> SandboxResult<()> {
        let tree = clone(found, restrict)?;
        mount(&tree, found).refused(format!("`{}` cannot be protected", path.display()))
    }

    /// Covers a path so that access fails with "permission denied", even for root, and even if it
    /// is replaced meanwhile.
    fn hide(&mut self, path: &Path, stage: &PlaceholderTmpfs) -> SandboxResult<()> {
        let mut hidden = Err(Errno::NOENT);
        for _ in 0..MAX_REPLACEMENTS {
            hidden = self.try_to_hide(path, stage)?;
            if hidden != Err(Errno::NOENT) {
                break;
            }
        }
        hidden.refused(format!("`{}` cannot be hidden", path.display()))
    }

    fn try_to_hide(
        &mut self,
        path: &Path,
        stage: &PlaceholderTmpfs,
    ) -> SandboxResult<Result<(), Errno>> {
        let trees = self.plan.writable.iter().chain(&self.plan.overlays);
        let within = trees.into_iter().any(|tree| path.starts_with(tree));
        // A link that the command can write must not determine what is covered.
        let follow = if within { OFlags::NOFOLLOW } else { OFlags::empty() };
        let resolve = if within { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::NO_MAGICLINKS };
        let flags = OFlags::PATH | OFlags::CLOEXEC | follow;
        let found = match openat2(&self.root, strip_root(path), flags, Mode::empty(), resolve) {
            Ok(found) => found,
            // A path that is inaccessible here is inaccessible to the command as well.
            Err(error) if is_missing(error) || error == Errno::ACCESS => return Ok(Ok(())),
            Err(Errno::LOOP) => return Ok(Ok(())),
            Err(error) => return Err(mount_failure(path, error)),
        };
        if !is_directory(&found)? {
            let looks = self.plan.placeholders.iter().find(|it| it.path == path);
            let cover = match looks.map(|looks| stage.placeholder(looks)).transpose()?.flatten() {
                Some(cover) => cover,
                None => stage.cover_file()?,
            };
            return Ok(mount(&cover, &found));
        }
        let plan = self.plan;
        let exceptions = plan.readable.iter().chain(&plan.writable).chain(&plan.overlays);
        let open =
            exceptions.chain(&plan.sockets).any(|open| open.starts_with(path) && open != path);
        let cover = if open { stage.skeleton()? } else { stage.cover_directory()? };
        let mounted = mount(&cover, &found);
        if open && mounted.is_ok() {
            self.skeletons.push(cover);
        }
        Ok(mounted)
    }
}

/// Whether a writable path is already writable as a part of a larger tree. A separate mount would
/// only make renames across its boundary fail.
pub(crate) fn is_already_writable(plan: &Plan, path: &Path) -> bool {
    let closed = |tree: &Path| {
        let mut between = plan.read_only.iter().chain(&plan.hidden);
        between.any(|closed| closed.starts_with(tree) && path.starts_with(closed))
    };
    plan.writable.iter().any(|tree| path != tree && path.starts_with(tree) && !closed(tree))
}

/// Returns the writable tree that is a mount and contains the path. A writable directory inside a
/// larger tree does not count: it could be renamed together with protected files in it.
pub(crate) fn mounted_tree<'a>(plan: &'a Plan, path: &Path) -> Option<&'a PathBuf> {
    // Few trees contain the path, so the costly question comes last: a plan for a workspace with
    // many repositories has thousands of paths.
    let trees = plan.writable.iter().filter(|tree| path.starts_with(tree));
    let trees = trees.filter(|tree| !is_already_writable(plan, tree));
    let overlays = plan.overlays.iter().filter(|tree| path.starts_with(tree));
    trees.chain(overlays).max_by_key(|tree| tree.as_os_str().len())
}

/// Returns what must be readable although a private directory or an overmount is mounted over it.
pub(crate) fn readable_paths(
    plan: &Plan,
    host: &HostEnvironment,
    private: &[PathBuf],
) -> Vec<PathBuf> {
    let inside = |path: &Path| private.iter().any(|top| path.starts_with(top) && path != top);
    let retained = KEPT_OF_RUN.iter().map(PathBuf::from);
    let links = retained.clone().filter(|path| path.is_symlink());
    links.for_each(|link| overmounts::copy_link(&link, &plan.temporary.join("run")));
    let visible = host.visible.iter().filter(|path| inside(path)).cloned().chain(retained);
    let all = visible.chain(plan.readable.iter().cloned()).chain(plan.sockets.iter().cloned());
    let open = |path: &Path| {
        // A writable tree may be inside a hidden directory; it is shown by itself.
        let hides = |hidden: &PathBuf, tree: &PathBuf| {
            path.starts_with(hidden) && !(tree != hidden && tree.starts_with(hidden))
        };
        let mut trees = plan.writable.iter().filter(|tree| path.starts_with(tree));
        trees.any(|tree| !plan.hidden.iter().any(|hidden| hides(hidden, tree)))
    };
    all.filter(|path| !open(path)).collect()
}
