//! The arguments for `bwrap`: everything is read-only, with writable trees, private directories,
//! protected paths, and hidden paths mounted over it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, ftruncate, futimens, openat2};
use rustix::io::Errno;

use crate::inside::bubblewrap_job::WritableTree;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::host_environment::HostEnvironment;
use crate::inside::{layout, mounts, overmounts};
use crate::plan::{Network, PlaceholderFile, Plan};

/// The arguments for `bwrap`, and what to verify inside.
pub(super) struct BwrapArguments {
    pub(super) words: Vec<OsString>,
    pub(super) trees: Vec<WritableTree>,
    pub(super) writable: Vec<PathBuf>,
}

/// An action at a path; actions are executed in order of depth and, at the same path, in this
/// order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum BwrapAction {
    /// Makes the path a separate mount, so that it cannot be renamed.
    Pin,
    ShowWritable(PathBuf),
    Show(PathBuf),
    Protect,
    /// Covers the path with this file.
    HideFile(PathBuf),
    /// True if some paths below it are shown.
    HideFolder(bool),
}

/// Returns the arguments that do not depend on the plan.
fn namespaces() -> Vec<OsString> {
    let mut words = vec!["--die-with-parent", "--unshare-pid", "--unshare-ipc"];
    if rustix::process::geteuid().is_root() {
        // Ordinary users have no capabilities to drop.
        words.extend(["--cap-drop", "ALL"]);
    }
    words.into_iter().map(OsString::from).collect()
}

const BASE: [&str; 7] = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];

/// Returns arguments with everything that a command may need, applied to a directory that exists on
/// every system.
pub(super) fn probe_arguments() -> Vec<OsString> {
    let mut words = namespaces();
    words.push("--unshare-net".into());
    words.extend(BASE.map(OsString::from));
    let directory = ["--perms", "0700", "--tmpfs", "/tmp", "--chmod", "0111", "/tmp"];
    words.extend(directory.map(OsString::from));
    words.extend(["--remount-ro", "/tmp", "--"].map(OsString::from));
    words
}

/// Builds the arguments and creates the private directories.
pub(super) fn build_arguments(
    plan: &Plan,
    host: &HostEnvironment,
) -> SandboxResult<BwrapArguments> {
    let mut view = ArgumentsBuilder { plan, steps: Vec::new() };
    let (trees, writable) = view.show(host)?;
    plan.pinned.iter().for_each(|path| view.protect(path, false, true));
    plan.read_only.iter().for_each(|path| view.protect(path, true, true));
    // Skip sockets in temporary directories: older versions cannot create mount points for them.
    let is_temporary = |path: &&PathBuf| path.starts_with("/tmp") || path.starts_with("/var/tmp");
    // A hidden directory hides the sockets in it; a `bwrap` with set-user-ID bit cannot cover them.
    let is_hidden = |path: &Path| {
        let shown = plan.readable.iter().chain(&plan.writable).any(|open| path.starts_with(open));
        !shown && plan.hidden.iter().any(|hidden| path.starts_with(hidden))
    };
    let listening = host.listening.iter().filter(|path| !is_temporary(path) && !is_hidden(path));
    let is_below = |path: &Path| {
        let open = plan.readable.iter().chain(&plan.writable);
        let shown: Vec<&PathBuf> = open.filter(|open| path.starts_with(open)).collect();
        plan.hidden.iter().any(|hidden| {
            path != hidden
                && path.starts_with(hidden)
                && !shown.iter().any(|open| open.starts_with(hidden))
        })
    };
    let mut hidden = plan.hidden.iter().filter(|path| !is_below(path)).chain(listening);
    hidden.try_for_each(|path| view.hide(path))?;
    let mut words = namespaces();
    if plan.network == Network::Isolated {
        words.push("--unshare-net".into());
    }
    words.extend(BASE.map(OsString::from));
    view.write(&mut words);
    words.extend(["--chdir".into(), host.folder.clone().into()]);
    Ok(BwrapArguments { words, trees, writable })
}

/// Returns the overmount of a hidden file: an empty file, or one with the same metadata. It is
/// where no command can write.
fn create_cover(plan: &Plan, looks: Option<&PlaceholderFile>) -> SandboxResult<PathBuf> {
    let (name, mode) = match looks {
        Some(it) => (format!("closed-{}-{}-{:o}", it.size, it.modified, it.mode()), it.mode()),
        None => ("closed".to_owned(), 0),
    };
    let path = plan.temporary.join(name);
    let created = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
    match (created, looks) {
        (Ok(_), None) => Ok(path),
        (Ok(file), Some(it)) => {
            let shaped = ftruncate(&file, it.size).and_then(|()| futimens(&file, &it.times()));
            shaped.refused(path.display())?;
            Ok(path)
        }
        (Err(error), _) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(path),
        (Err(error), _) => Err(error).refused(path.display()),
    }
}

struct ArgumentsBuilder<'a> {
    plan: &'a Plan,
    steps: Vec<(PathBuf, BwrapAction)>,
}

impl ArgumentsBuilder<'_> {
    fn step(&mut self, path: impl Into<PathBuf>, step: BwrapAction) {
        self.steps.push((path.into(), step));
    }

    /// Adds everything that is shown, unchanged or as a private replacement.
    fn show(&mut self, host: &HostEnvironment) -> SandboxResult<(Vec<WritableTree>, Vec<PathBuf>)> {
        let plan = self.plan;
        let (mut trees, mut writable) = (Vec::new(), Vec::new());
        for path in &plan.writable {
            trees.push(tree(path)?);
            writable.push(path.clone());
            if !layout::is_already_writable(plan, path) {
                self.step(path, BwrapAction::ShowWritable(path.clone()));
            }
        }
        let mut private = Vec::new();
        for (path, name) in layout::PRIVATE {
            let Ok(real) = Path::new(path).canonicalize() else { continue };
            if plan.writable.contains(&real) || private.contains(&real) {
                continue;
            }
            overmounts::private_directory(&plan.temporary, name)?;
            self.step(&real, BwrapAction::ShowWritable(plan.temporary.join(name)));
            writable.push(real.clone());
            private.push(real);
        }
        // Also under its own name, which is the value of TMPDIR in other tiers.
        let temporary = plan.temporary.join("tmp");
        self.step(&temporary, BwrapAction::ShowWritable(temporary.clone()));
        writable.push(temporary);
        for path in layout::readable_paths(plan, host, &private) {
            if path.symlink_metadata().is_ok() {
                self.step(&path, BwrapAction::Show(path.clone()));
            }
        }
        create_mount_points(plan, &self.steps, &private)?;
        Ok((trees, writable))
    }

    /// Makes every parent directory of a path in a writable tree a separate mount, and the path
    /// itself read-only if `covers`. For a link, the target is protected; the link itself is
    /// checked after the command.
    fn protect(&mut self, path: &Path, covers: bool, follow: bool) {
        let Some(tree) = layout::mounted_tree(self.plan, path) else { return };
        let mut here = tree.clone();
        let mut pins = Vec::new();
        for name in path.strip_prefix(tree).into_iter().flat_map(Path::components) {
            if here != *tree {
                pins.push(here.clone());
            }
            let Component::Normal(name) = name else { return };
            here.push(name);
            let Ok(data) = here.symlink_metadata() else { return };
            if data.is_symlink() {
                if follow && let Ok(real) = path.canonicalize() {
                    self.protect(&real, covers, false);
                }
                return;
            }
        }
        pins.into_iter().for_each(|pin| self.step(pin, BwrapAction::Pin));
        if covers {
            self.step(here, BwrapAction::Protect);
        }
    }

    /// Covers a path so that access fails with "permission denied".
    fn hide(&mut self, path: &Path) -> SandboxResult<()> {
        let plan = self.plan;
        let within = plan.writable.iter().any(|tree| path.starts_with(tree));
        let Ok(real) = path.canonicalize() else { return Ok(()) };
        // A link that the command can write must not determine what is covered.
        if within && real != path {
            return Ok(());
        }
        if !real.is_dir() {
            let looks = plan.placeholders.iter().find(|it| it.path == path);
            let closed = create_cover(plan, looks)?;
            self.step(real, BwrapAction::HideFile(closed));
            return Ok(());
        }
        let temporary = [plan.temporary.join("tmp")];
        let mut open = plan.readable.iter().chain(&plan.writable).chain(&plan.sockets);
        let open = open.any(|open| open.starts_with(path) && open != path)
            || temporary.iter().any(|open| open.starts_with(&real));
        self.step(real, BwrapAction::HideFolder(open));
        Ok(())
    }

    fn write(mut self, words: &mut Vec<OsString>) {
        self.steps.sort_by(|(a, first), (b, second)| {
            let depth = |path: &Path| path.components().count();
            (depth(a), a, first).cmp(&(depth(b), b, second))
        });
        self.steps.dedup();
        let mut say = |parts: &[&dyn AsRef<std::ffi::OsStr>]| {
            words.extend(parts.iter().map(|part| part.as_ref().to_owned()));
        };
        let mut part_open = Vec::new();
        for (path, step) in &self.steps {
            match step {
                BwrapAction::Pin => say(&[&"--bind", path, path]),
                BwrapAction::ShowWritable(from) => say(&[&"--bind", from, path]),
                BwrapAction::Show(from) => say(&[&"--ro-bind-try", from, path]),
                BwrapAction::Protect => say(&[&"--ro-bind", path, path]),
                BwrapAction::HideFile(closed) => say(&[&"--ro-bind", closed, path]),
                BwrapAction::HideFolder(false) => {
                    // The directory is empty and private to the command: making it read-only would
                    // protect nothing and is the most expensive step.
                    say(&[&"--perms", &"0000", &"--tmpfs", path]);
                }
                BwrapAction::HideFolder(true) => {
                    say(&[&"--perms", &"0700", &"--tmpfs", path]);
                    part_open.push(path);
                }
            }
        }
        for path in part_open {
            say(&[&"--chmod", &"0111", path, &"--remount-ro", path]);
        }
    }
}

/// Creates mount points for what is shown below a private directory, so that leftovers of a command
/// cannot redirect a mount.
fn create_mount_points(
    plan: &Plan,
    steps: &[(PathBuf, BwrapAction)],
    private: &[PathBuf],
) -> SandboxResult<()> {
    for (top, name) in layout::PRIVATE {
        let Ok(real) = Path::new(top).canonicalize() else { continue };
        if !private.contains(&real) {
            continue;
        }
        for (path, step) in steps {
            let (BwrapAction::Show(from) | BwrapAction::ShowWritable(from)) = step else {
                continue;
            };
            let Ok(below) = path.strip_prefix(&real) else { continue };
            if below.as_os_str().is_empty() {
                continue;
            }
            let directory = overmounts::private_directory(&plan.temporary, name)?;
            mounts::make_target(directory, below, from.is_dir())
                .refused(format!("cannot create a mount point for `{}`", path.display()))?;
        }
    }
    Ok(())
}

/// Returns the current state of a writable tree; no component of its path may be a symbolic link.
fn tree(path: &Path) -> SandboxResult<WritableTree> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS;
    let stat = openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
        .and_then(fstat)
        .map_err(|error| match error {
            Errno::NOSYS => SandboxFailure::Unsupported("`openat2`".to_owned()),
            error => mounts::mount_failure(path, error),
        })?;
    Ok(WritableTree { path: path.to_owned(), device: stat.st_dev, inode: stat.st_ino })
}
