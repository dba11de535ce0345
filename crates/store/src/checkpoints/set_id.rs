//! Programs with a set-user-ID or set-group-ID bit that a command changed. The kernel removes the
//! bits when a file is written, but not when a program changes it through a memory mapping.

use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, statat};

use super::Checkpoints;
use super::beneath::{EntryHandle, mode_of, open_file};
use super::listing::{EntryKind, WalkResult};
use super::state::Stamp;

const SET_ID: u32 = 0o6000;

/// Returns the programs that are new or changed.
pub(super) fn changed(before: &WalkResult, after: &WalkResult) -> Vec<PathBuf> {
    let programs = after.entries.iter().filter(|entry| {
        matches!(entry.found, EntryKind::File { .. }) && entry.stamp.mode & SET_ID != 0
    });
    let is_same = |place, stamp: Stamp| {
        before.get(place).is_some_and(|entry| entry.stamp == stamp && !stamp.is_racy(before.began))
    };
    let changed = programs.filter(|entry| !is_same(&entry.place, entry.stamp));
    changed.map(|entry| entry.place.path()).collect()
}

impl Checkpoints {
    /// Removes the set-user-ID and set-group-ID bits of these programs. Returns those that lost
    /// them, and those that could not be changed, with the reasons.
    pub fn remove_set_id(&self, programs: &[PathBuf]) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
        let (mut done, mut lost) = (Vec::new(), Vec::new());
        let Some((roots, _)) = self.places() else { return (done, lost) };
        for path in programs {
            let Some(place) = roots.place(path) else { continue };
            let removed = EntryHandle::open(&place, false).and_then(|leaf| remove(&leaf));
            match removed {
                Ok(()) => done.push(path.clone()),
                Err(error) => lost.push((path.clone(), error.to_string())),
            }
        }
        (done, lost)
    }
}

fn remove(leaf: &EntryHandle) -> std::io::Result<()> {
    let stat = statat(&leaf.folder, &leaf.name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let (file, stamp) = open_file(&leaf.folder, &leaf.name)?;
    Ok(rustix::fs::fchmod(&file, mode_of(stamp.mode & !SET_ID))?)
}
