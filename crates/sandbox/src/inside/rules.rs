//! Landlock rules: the second line of defense after the mounts, or the first one without mounts.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{Dir, FileType, Mode, OFlags, fcntl_getfl, fstat, openat};
use rustix::io::Errno;

use crate::inside::devices::HARMLESS;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::{kernel, mounts, overmounts};
use crate::plan::{Network, Plan};

/// The newest supported version; an older kernel enforces the rules that it knows.
const NEWEST: ABI = ABI::V9;

/// Maximum number of siblings of hidden paths to examine; siblings beyond it cannot be read.
const MAX_ENTRIES: usize = 20_000;

/// With a mount namespace: restricts writes to the writable paths of the view. `sees_supervisor`:
/// whether the supervisor is in the process namespace of the command, which must not signal it.
pub(crate) fn restrict_writes(
    plan: &Plan,
    writable: &[PathBuf],
    sees_supervisor: bool,
) -> SandboxResult<()> {
    let handled = AccessFs::from_write(NEWEST);
    // With its own network, no abstract socket of the host is reachable.
    let mut scope: BitFlags<Scope> = match plan.network {
        Network::Isolated => BitFlags::EMPTY,
        Network::Host | Network::External | Network::Loopback => Scope::AbstractUnixSocket.into(),
    };
    if sees_supervisor {
        scope |= Scope::Signal;
    }
    let Some(mut rules) = create(plan, handled, scope)? else { return Ok(()) };
    for path in writable {
        rules.allow(path, handled)?;
    }
    for path in ["/dev/shm", "/run"] {
        rules.allow(Path::new(path), handled)?;
    }
    rules.allow(Path::new("/dev"), device_access())?;
    for socket in &plan.sockets {
        rules.allow(socket, AccessFs::ResolveUnix | AccessFs::WriteFile)?;
    }
    rules.allow_standard_streams(BitFlags::EMPTY)?;
    rules.enforce()
}

/// Without mounts: allows reads outside hidden paths and writes in the writable trees. Protected
/// paths in a writable tree cannot be excluded from it. Hidden paths can be excluded from reading,
/// except in the workspace.
pub(crate) fn restrict_all(plan: &Plan) -> SandboxResult<()> {
    let handled = AccessFs::from_write(NEWEST) | AccessFs::ReadFile;
    let scope = Scope::AbstractUnixSocket | Scope::Signal;
    let Some(mut rules) = create(plan, handled, scope)? else {
        return Err(SandboxFailure::Unsupported("Landlock is not available".to_owned()));
    };
    let temporary = overmounts::temporary_directory(plan)?;
    let hidden = hidden_paths(plan);
    let mut closed = hidden.clone();
    closed.extend(plan.read_only.iter().cloned());
    let mut in_parts = Vec::new();
    for path in plan.writable.iter().chain([&temporary]) {
        if fs::canonicalize(path).ok().as_ref() != Some(path) {
            return Err(SandboxFailure::Refused(format!(
                "`{}` contains a symbolic link or does not exist; use the resolved path",
                path.display()
            )));
        }
        let whole = path == &temporary
            || plan.workspace.contains(path)
            || !hidden.iter().any(|hidden| hidden.starts_with(path));
        if whole {
            rules.allow(path, handled)?;
        } else {
            in_parts.push(path);
        }
    }
    if !in_parts.is_empty() {
        // A rule for a directory holds for everything in it, so nothing new can be created next to
        // what is hidden or protected.
        visit_siblings(&rules.root.try_clone().refused("`/`")?, &closed, |part, file| {
            let is_writable = in_parts.iter().any(|path| part.starts_with(path));
            if is_writable { rules.allow_file(file, handled) } else { Ok(()) }
        })?;
    }
    for device in HARMLESS {
        let access = device_access() | AccessFs::ReadFile;
        rules.allow(&Path::new("/dev").join(device), access)?;
    }
    let holds_hidden =
        |path: &&PathBuf| hidden.iter().any(|it| it != *path && it.starts_with(path));
    for path in plan.readable.iter().filter(|path| !holds_hidden(path)) {
        rules.allow(path, AccessFs::ReadFile.into())?;
    }
    visit_siblings(&rules.root.try_clone().refused("`/`")?, &hidden, |_, file| {
        rules.allow_file(file, AccessFs::ReadFile.into())
    })?;
    rules.allow_standard_streams(AccessFs::ReadFile.into())?;
    rules.enforce()
}

fn device_access() -> BitFlags<AccessFs> {
    AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

/// Returns the hidden paths, the targets they resolve to, and the devices.
fn hidden_paths(plan: &Plan) -> Vec<PathBuf> {
    let real = plan.hidden.iter().filter_map(|path| fs::canonicalize(path).ok());
    let mut hidden: Vec<PathBuf> = real.chain(plan.hidden.iter().cloned()).collect();
    hidden.push(PathBuf::from("/dev"));
    hidden.sort();
    hidden.dedup();
    hidden
}

/// Visits every entry that may be opened as a whole: the siblings of the denied paths and of their
/// parent directories. Each is open, because a process that an earlier command left behind may
/// exchange it with a link at any time.
fn visit_siblings(
    root: &OwnedFd,
    closed: &[PathBuf],
    mut visit: impl FnMut(&Path, BorrowedFd<'_>) -> SandboxResult<()>,
) -> SandboxResult<()> {
    // Use sets for lookups: comparing each entry with each path would dominate the start time of a
    // command.
    let on_the_way: HashSet<&Path> =
        closed.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let closed: HashSet<&Path> = closed.iter().map(PathBuf::as_path).collect();
    let mut seen = 0;
    let mut pending = vec![PathBuf::from("/")];
    while let Some(path) = pending.pop() {
        let Ok(folder) = mounts::open_real(root, &path) else { continue };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = openat(&folder, ".", flags, Mode::empty()).and_then(Dir::new);
        for entry in entries.into_iter().flatten().flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            seen += 1;
            if seen > MAX_ENTRIES {
                return Ok(());
            }
            let path = path.join(name);
            if entry.file_type() == FileType::Symlink || closed.contains(path.as_path()) {
                // The target of a link has its own rule, or none.
                continue;
            }
            if on_the_way.contains(path.as_path()) {
                pending.push(path);
            } else if let Ok(file) = mounts::open_entry(&folder, name) {
                visit(&path, file.as_fd())?;
            }
        }
    }
    Ok(())
}

/// The rules of a command.
struct Rules<'p> {
    set: RulesetCreated,
    root: OwnedFd,
    plan: &'p Plan,
}

fn create<'p>(
    plan: &'p Plan,
    handled: BitFlags<AccessFs>,
    scope: impl Into<BitFlags<Scope>>,
) -> SandboxResult<Option<Rules<'p>>> {
    let scope = scope.into();
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)
        .unsupported("cannot apply Landlock")?;
    if !scope.is_empty() {
        rules = rules.scope(scope).unsupported("cannot apply Landlock")?;
    }
    rustix::thread::set_no_new_privs(true).unsupported("no_new_privs")?;
    if kernel::landlock_version().is_none() {
        return Ok(None);
    }
    let set = rules.create().unsupported("cannot apply Landlock")?;
    Ok(Some(Rules { set, root: mounts::open_root()?, plan }))
}

impl Rules<'_> {
    /// Allows access at and below a path; a path that does not exist is ignored.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> SandboxResult<()> {
        match self.open(path) {
            Ok(file) => self.allow_file(file.as_fd(), access),
            Err(_) => Ok(()),
        }
    }

    /// Opens a path. Links are followed only where no command can change them.
    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let tried = mounts::open_real(&self.root, path);
        let is_changeable =
            |path: &Path| self.plan.writable.iter().any(|tree| path.starts_with(tree));
        if tried.as_ref().err() != Some(&Errno::LOOP) || is_changeable(path) {
            return tried;
        }
        let real = fs::canonicalize(path).map_err(|_| Errno::NOENT)?;
        if is_changeable(&real) { tried } else { mounts::open_real(&self.root, &real) }
    }

    fn allow_file(
        &mut self,
        file: BorrowedFd<'_>,
        access: BitFlags<AccessFs>,
    ) -> SandboxResult<()> {
        let stat = fstat(file).unsupported("stat")?;
        let access = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => access,
            // It was exchanged after it was listed. No rule leads to the target.
            FileType::Symlink => BitFlags::EMPTY,
            _ => access & AccessFs::from_file(NEWEST),
        };
        if access.is_empty() {
            return Ok(());
        }
        (&mut self.set)
            .add_rule(PathBeneath::new(file, access))
            .map(drop)
            .unsupported("cannot add a Landlock rule")
    }

    /// Allows the command to open files and terminals again that the caller opened for it, through
    /// `/dev/stdout` and similar paths, with the same access as before.
    fn allow_standard_streams(&mut self, reading: BitFlags<AccessFs>) -> SandboxResult<()> {
        let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        for stream in streams {
            let (Ok(stat), Ok(flags)) = (fstat(stream), fcntl_getfl(stream)) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if !matches!(kind, FileType::RegularFile | FileType::CharacterDevice) {
                continue;
            }
            let access = match flags & OFlags::RWMODE {
                OFlags::RDONLY => reading,
                OFlags::WRONLY => device_access(),
                _ => device_access() | reading,
            };
            if !access.is_empty() {
                self.allow_file(stream, access)?;
            }
        }
        Ok(())
    }

    fn enforce(self) -> SandboxResult<()> {
        let status = self.set.restrict_self().unsupported("cannot apply Landlock")?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(SandboxFailure::Unsupported("Landlock was not enforced".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn siblings_of_hidden_paths_are_readable_and_their_parents_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        for name in ["a/.ssh", "a/work", "b"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let mut found = Vec::new();
        let hidden = [home.join("a/.ssh"), PathBuf::from("/dev")];
        visit_siblings(&mounts::open_root().unwrap(), &hidden, |path, _| {
            found.push(path.to_owned());
            Ok(())
        })
        .unwrap();
        assert!(found.contains(&home.join("a/work")));
        assert!(found.contains(&home.join("b")));
        assert!(!found.contains(&home.join("a")) && !found.contains(&home.join("a/.ssh")));
        assert!(!found.contains(&PathBuf::from("/dev")) && !found.contains(&PathBuf::from("/")));
    }

    #[test]
    fn entry_exchanged_with_a_link_after_it_was_listed_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        let work = home.join("work");
        let names: Vec<PathBuf> = (0..9).map(|number| work.join(format!("d{number}"))).collect();
        for path in names.iter().chain([&home.join(".ssh"), &work.join(".env")]) {
            fs::create_dir_all(path).unwrap();
        }
        let secret = fs::metadata(home.join(".ssh")).map(|data| data.ino()).unwrap();
        let hidden = [home.join(".ssh"), work.join(".env")];
        let mut visited = 0;
        visit_siblings(&mounts::open_root().unwrap(), &hidden, |path, file| {
            if path.starts_with(&work) {
                visited += 1;
                assert_ne!(fstat(file).unwrap().st_ino, secret, "{}", path.display());
                for path in &names {
                    let _ = fs::remove_dir(path);
                    let _ = std::os::unix::fs::symlink(home.join(".ssh"), path);
                }
            }
            Ok(())
        })
        .unwrap();
        assert!(visited > 1);
    }
}
