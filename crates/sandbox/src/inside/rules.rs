//! Landlock rules: the second line of defense after the mounts, or the first one without mounts.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat};

use crate::inside::devices::HARMLESS;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::kernel;
use crate::inside::overmounts;
use crate::plan::{Network, Plan};

/// The newest supported version; an older kernel enforces the rules that it knows.
const NEWEST: ABI = ABI::V9;

/// Maximum number of siblings of hidden paths to examine; siblings beyond it cannot be read.
const MAX_ENTRIES: usize = 20_000;

/// With a mount namespace: restricts writes to the writable paths of the view.
pub(crate) fn restrict_writes(plan: &Plan, writable: &[PathBuf]) -> SandboxResult<()> {
    let handled = AccessFs::from_write(NEWEST);
    // With its own network, no abstract socket of the host is reachable.
    let scope = match plan.network {
        Network::Isolated => BitFlags::EMPTY,
        Network::Host | Network::External | Network::Loopback => Scope::AbstractUnixSocket.into(),
    };
    let Some(mut rules) = create(handled, scope)? else { return Ok(()) };
    for path in writable {
        rules = allow(rules, path, handled)?;
    }
    for path in ["/dev/shm", "/run"] {
        rules = allow(rules, Path::new(path), handled)?;
    }
    rules = allow(rules, Path::new("/dev"), device_access())?;
    for socket in &plan.sockets {
        rules = allow(rules, socket, AccessFs::ResolveUnix | AccessFs::WriteFile)?;
    }
    enforce(allow_standard_streams(rules, BitFlags::EMPTY)?)
}

/// Without mounts: allows reads outside hidden paths and writes in the writable trees. Protected
/// paths in a writable tree cannot be excluded from it. Hidden paths can be excluded from reading,
/// except in the workspace.
pub(crate) fn restrict_all(plan: &Plan) -> SandboxResult<()> {
    let handled = AccessFs::from_write(NEWEST) | AccessFs::ReadFile;
    let scope = Scope::AbstractUnixSocket | Scope::Signal;
    let Some(mut rules) = create(handled, scope)? else {
        return Err(SandboxFailure::Unsupported("Landlock is not available".to_owned()));
    };
    let temporary = overmounts::temporary_folder(plan)?;
    let hidden = hidden_paths(plan);
    let readable = siblings_of(&hidden);
    let mut closed = hidden.clone();
    closed.extend(plan.read_only.iter().cloned());
    let writable = siblings_of(&closed);
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
            rules = allow(rules, path, handled)?;
            continue;
        }
        // A rule for a directory holds for everything in it, so nothing new can be created next to
        // what is hidden or protected.
        for part in writable.iter().filter(|part| part.starts_with(path)) {
            rules = allow(rules, part, handled)?;
        }
    }
    for device in HARMLESS {
        let access = device_access() | AccessFs::ReadFile;
        rules = allow(rules, &Path::new("/dev").join(device), access)?;
    }
    let holds_hidden =
        |path: &&PathBuf| hidden.iter().any(|it| it != *path && it.starts_with(path));
    for path in plan.readable.iter().filter(|path| !holds_hidden(path)) {
        rules = allow(rules, path, AccessFs::ReadFile.into())?;
    }
    for path in &readable {
        rules = allow(rules, path, AccessFs::ReadFile.into())?;
    }
    enforce(allow_standard_streams(rules, AccessFs::ReadFile.into())?)
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

/// Returns every path that may be opened as a whole: the siblings of the closed paths and of their
/// parent directories.
fn siblings_of(closed: &[PathBuf]) -> Vec<PathBuf> {
    // Use sets for lookups: comparing each entry with each path would dominate the start time of a
    // command.
    let on_the_way: HashSet<&Path> =
        closed.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let closed: HashSet<&Path> = closed.iter().map(PathBuf::as_path).collect();
    let mut found = Vec::new();
    let mut seen = 0;
    let mut open = vec![PathBuf::from("/")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return found;
            }
            let path = entry.path();
            let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if link || closed.contains(path.as_path()) {
                // The target of a link has its own rule, or none.
                continue;
            }
            if on_the_way.contains(path.as_path()) {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

fn create(
    handled: BitFlags<AccessFs>,
    scope: impl Into<BitFlags<Scope>>,
) -> SandboxResult<Option<RulesetCreated>> {
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
    rules.create().map(Some).unsupported("cannot apply Landlock")
}

/// Allows access at and below a path; a path that does not exist is ignored.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> SandboxResult<RulesetCreated> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return Ok(rules) };
    allow_file(rules, file.as_fd(), access)
}

fn allow_file(
    rules: RulesetCreated,
    file: BorrowedFd<'_>,
    access: BitFlags<AccessFs>,
) -> SandboxResult<RulesetCreated> {
    let stat = fstat(file).unsupported("stat")?;
    let access = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => access,
        _ => access & AccessFs::from_file(NEWEST),
    };
    if access.is_empty() {
        return Ok(rules);
    }
    rules.add_rule(PathBeneath::new(file, access)).unsupported("cannot add a Landlock rule")
}

/// Allows the command to open files and terminals again that the caller opened for it, through
/// `/dev/stdout` and similar paths, with the same access as before.
fn allow_standard_streams(
    mut rules: RulesetCreated,
    reading: BitFlags<AccessFs>,
) -> SandboxResult<RulesetCreated> {
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
            rules = allow_file(rules, stream, access)?;
        }
    }
    Ok(rules)
}

fn enforce(rules: RulesetCreated) -> SandboxResult<()> {
    let status = rules.restrict_self().unsupported("cannot apply Landlock")?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(SandboxFailure::Unsupported("Landlock was not enforced".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_of_hidden_paths_are_readable_and_their_parents_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for name in ["a/.ssh", "a/work", "b"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let found = siblings_of(&[home.join("a/.ssh"), PathBuf::from("/dev")]);
        assert!(found.contains(&home.join("a/work")));
        assert!(found.contains(&home.join("b")));
        assert!(!found.contains(&home.join("a")) && !found.contains(&home.join("a/.ssh")));
        assert!(!found.contains(&PathBuf::from("/dev")) && !found.contains(&PathBuf::from("/")));
    }
}
