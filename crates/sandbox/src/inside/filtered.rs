//! Filtered directories, which the command sees without their hidden entries. A mount over a single
//! file is lost when its owner replaces the file by renaming; an entry of a directory created by
//! the sandbox cannot be replaced from outside.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, mkdirat, mknodat, openat,
    symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::inside::mounts;
use crate::plan::Plan;

/// Directories with more entries are not filtered, because each entry is a mount, which takes time.
/// Their hidden entries are covered one by one, and again when they are replaced.
const MAX_ENTRIES: usize = 1000;

/// A directory to filter, with its state when the command started.
#[derive(Debug, Default)]
pub(crate) struct FilteredDirectory {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) entries: Vec<(OsString, FilteredEntry)>,
}

/// How an entry is handled.
#[derive(Debug)]
pub(crate) enum FilteredEntry {
    /// The entry is shown; true if it is a directory.
    Shown(bool),
    /// A link with its target.
    Link(PathBuf),
    /// A directory that is filtered as well.
    Filtered(FilteredDirectory),
    /// The entry is covered afterwards; true if it is a directory.
    Hidden(bool),
}

/// Returns the outermost directories to filter, each with those below it.
pub(crate) fn find_filtered(plan: &Plan) -> Vec<FilteredDirectory> {
    let is_open = |path: &Path| {
        let mut open = plan.writable.iter().chain(&plan.overlays);
        open.any(|tree| path.starts_with(tree))
    };
    let filtered_paths: HashSet<&Path> =
        plan.filtered.iter().map(PathBuf::as_path).filter(|path| !is_open(path)).collect();
    let hidden: HashSet<&Path> = plan.hidden.iter().map(PathBuf::as_path).collect();
    let is_covered = |path: &Path| path.ancestors().any(|ancestor| hidden.contains(ancestor));
    let outermost = filtered_paths.iter().filter(|path| {
        !path.ancestors().skip(1).any(|ancestor| filtered_paths.contains(ancestor))
            && !is_covered(path)
    });
    let mut found: Vec<FilteredDirectory> =
        outermost.filter_map(|path| read(path, &filtered_paths, &hidden)).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Reads a directory. Returns `None` if the path is not a directory or has too many entries.
fn read(
    path: &Path,
    filtered_paths: &HashSet<&Path>,
    hidden: &HashSet<&Path>,
) -> Option<FilteredDirectory> {
    let metadata = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).ok()? {
        let Ok(entry) = entry else { continue };
        if entries.len() == MAX_ENTRIES {
            return None;
        }
        let (name, here) = (entry.file_name(), entry.path());
        let Ok(kind) = entry.file_type() else { continue };
        let becomes = if kind.is_symlink() {
            let Ok(target) = fs::read_link(&here) else { continue };
            FilteredEntry::Link(target)
        } else if hidden.contains(here.as_path()) {
            FilteredEntry::Hidden(kind.is_dir())
        } else if filtered_paths.contains(here.as_path()) {
            match read(&here, filtered_paths, hidden) {
                Some(below) => FilteredEntry::Filtered(below),
                None => FilteredEntry::Shown(kind.is_dir()),
            }
        } else {
            FilteredEntry::Shown(kind.is_dir())
        };
        entries.push((name, becomes));
    }
    let owner = (metadata.uid(), metadata.gid());
    Some(FilteredDirectory {
        path: path.to_owned(),
        mode: metadata.mode() & 0o1777,
        owner,
        entries,
    })
}

/// A filtered directory with everything to be mounted in it, opened before anything is covered.
pub(crate) struct OpenedFilter {
    pub(crate) directory: FilteredDirectory,
    /// Copies of the mounts of the visible entries, by name.
    trees: Vec<(OsString, OwnedFd)>,
    children: Vec<(OsString, OpenedFilter)>,
}

impl OpenedFilter {
    /// Opens and copies the visible entries. Entries that cannot be opened are missing in the view.
    pub(crate) fn open(mut directory: FilteredDirectory, root: &OwnedFd) -> Result<Self, Errno> {
        let folder = mounts::open_real(root, &directory.path)?;
        let (mut trees, mut children) = (Vec::new(), Vec::new());
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
            | OpenTreeFlags::AT_RECURSIVE;
        directory.entries.retain_mut(|(name, entry)| match entry {
            FilteredEntry::Shown(_) => match open_tree(&folder, name.as_os_str(), flags) {
                Ok(tree) => {
                    trees.push((name.clone(), tree));
                    true
                }
                Err(_) => false,
            },
            FilteredEntry::Filtered(inner) => match Self::open(std::mem::take(inner), root) {
                Ok(opened) => {
                    children.push((name.clone(), opened));
                    false
                }
                Err(_) => false,
            },
            FilteredEntry::Link(_) | FilteredEntry::Hidden(_) => true,
        });
        Ok(Self { directory, trees, children })
    }

    /// Creates the entries in an empty directory, with empty ones as mount points.
    pub(crate) fn create(&self, directory: &OwnedFd) -> Result<(), Errno> {
        for (name, entry) in &self.directory.entries {
            match entry {
                FilteredEntry::Shown(true) | FilteredEntry::Hidden(true) => {
                    mkdirat(directory, name, Mode::from_raw_mode(0o700))?;
                }
                FilteredEntry::Shown(false) | FilteredEntry::Hidden(false) => {
                    let file = Mode::from_raw_mode(0);
                    mknodat(directory, name, FileType::RegularFile, file, 0)?;
                }
                FilteredEntry::Link(target) => symlinkat(target, directory, name)?,
                FilteredEntry::Filtered(_) => {}
            }
        }
        for (name, below) in &self.children {
            mkdirat(directory, name, Mode::from_raw_mode(0o700))?;
            below.create(&openat(directory, name, DIRECTORY, Mode::empty())?)?;
            below.copy_owner_and_mode(directory, name)?;
        }
        Ok(())
    }

    /// Sets the owner and mode of the directory with this name to those of the original.
    pub(crate) fn copy_owner_and_mode(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), Errno> {
        let (user, group) = self.directory.owner;
        // The owner may not exist in the user namespace; the mode for others then applies.
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        let _ = chownat(directory, name, user, group, AtFlags::SYMLINK_NOFOLLOW);
        chmodat(directory, name, Mode::from_raw_mode(self.directory.mode), AtFlags::empty())
    }

    /// Mounts the visible entries in the directory created for them.
    pub(crate) fn mount(&self, directory: &OwnedFd) -> Result<(), Errno> {
        for (name, tree) in &self.trees {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(tree, "", directory, name.as_os_str(), flags)?;
        }
        for (name, below) in &self.children {
            below.mount(&openat(directory, name, DIRECTORY, Mode::empty())?)?;
        }
        Ok(())
    }
}

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(directory: &FilteredDirectory, prefix: &str, entries: &mut Vec<String>) {
        for (name, entry) in &directory.entries {
            let name = format!("{prefix}{}", name.to_string_lossy());
            match entry {
                FilteredEntry::Shown(_) => entries.push(format!("{name} shown")),
                FilteredEntry::Hidden(_) => entries.push(format!("{name} hidden")),
                FilteredEntry::Link(target) => {
                    entries.push(format!("{name} -> {}", target.display()));
                }
                FilteredEntry::Filtered(below) => describe(below, &format!("{name}/"), entries),
            }
        }
    }

    #[test]
    fn entries_are_shown_hidden_or_filtered_by_the_plan() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        for name in [".docker", "work/src", ".config/gh"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in [".netrc", ".docker/config.json", ".docker/other", ".profile"] {
            fs::write(home.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("work", home.join("link")).unwrap();
        let mut plan = Plan::new("/nowhere".into());
        plan.writable = vec![home.join("work")];
        plan.hidden = [".netrc", ".docker/config.json", ".config/gh", ".later"]
            .map(|name| home.join(name))
            .into();
        plan.filtered = ["", ".docker", ".config", "work"].map(|name| home.join(name)).into();
        let found = find_filtered(&plan);
        assert_eq!(found.len(), 1);
        let mut entries = Vec::new();
        describe(&found[0], "", &mut entries);
        entries.sort();
        let expected = [
            ".config/gh hidden",
            ".docker/config.json hidden",
            ".docker/other shown",
            ".netrc hidden",
            ".profile shown",
            "link -> work",
            "work shown",
        ];
        assert_eq!(entries, expected);
        plan.writable = vec![home];
        assert!(find_filtered(&plan).is_empty());
    }
}
