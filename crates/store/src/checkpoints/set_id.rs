//! Programs with a set-user-ID or set-group-ID bit, or with file capabilities, that a command
//! changed. The kernel removes these when a file is written, but not when a program changes it
//! through a memory mapping.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};

use super::confined_root::{EntryHandle, Roots, open_file, permission_bits};
use super::listing::{EntryKind, WalkResult};
use super::state::Stamp;

const SET_ID: u32 = 0o6000;
const EXECUTABLE: u32 = 0o111;
/// The extended attribute with the capabilities of a program.
const CAPABILITIES: &str = "security.capability";

/// Returns the programs that are new or changed.
pub(super) fn changed_programs(before: &WalkResult, after: &WalkResult) -> Vec<PathBuf> {
    let programs = after.entries.iter().filter(|entry| {
        matches!(entry.kind, EntryKind::File { .. })
            && entry.stamp.mode & (SET_ID | EXECUTABLE) != 0
    });
    let is_same = |location, stamp: Stamp| {
        before.get(location).is_some_and(|entry| {
            entry.stamp == stamp && !stamp.may_change_unnoticed(before.started_at)
        })
    };
    let changed = programs.filter(|entry| !is_same(&entry.path, entry.stamp));
    let privileged = changed
        .filter(|entry| entry.stamp.mode & SET_ID != 0 || has_capabilities(&entry.path.path()));
    privileged.map(|entry| entry.path.path()).collect()
}

fn has_capabilities(path: &Path) -> bool {
    rustix::fs::lgetxattr(path, CAPABILITIES, &mut [0_u8; 64][..]).is_ok()
}

/// Removes the set-user-ID and set-group-ID bits and the capabilities of programs; see
/// [`Checkpoints::remove_set_id`](super::Checkpoints::remove_set_id).
pub(super) fn remove_set_id(
    roots: &Roots,
    programs: &[PathBuf],
) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
    let (mut changed, mut failed) = (Vec::new(), Vec::new());
    for path in programs {
        let Some(location) = roots.locate(path) else { continue };
        match EntryHandle::open(&location, false).and_then(|entry| remove(&entry)) {
            Ok(()) => changed.push(path.clone()),
            Err(error) => failed.push((path.clone(), error.to_string())),
        }
    }
    (changed, failed)
}

fn remove(entry: &EntryHandle) -> std::io::Result<()> {
    let stat = statat(&entry.folder, &entry.name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let (file, stamp) = open_file(&entry.folder, &entry.name)?;
    if stamp.mode & SET_ID != 0 {
        rustix::fs::fchmod(&file, permission_bits(stamp.mode & !SET_ID))?;
    }
    if rustix::fs::fgetxattr(&file, CAPABILITIES, &mut [0_u8; 64][..]).is_ok() {
        // The kernel removes them when the size is set, even if this user may not remove them.
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let writable = openat(&entry.folder, &entry.name, flags, Mode::empty())?;
        rustix::fs::ftruncate(&writable, fstat(&writable)?.st_size.unsigned_abs())?;
    }
    Ok(())
}
