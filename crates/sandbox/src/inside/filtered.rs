//! Directories that the command sees without what is hidden in them. A mount over a
//! single file falls when the file's owner replaces it by a rename; an entry of a directory
//! of ours cannot be replaced from outside.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::inside::layout;
use crate::plan::Plan;

/// Directories with more entries are not filtered: each entry is a mount.
const MOST_ENTRIES: usize = 2000;

/// A directory to be filtered, as it was when the command started.
#[derive(Debug)]
pub(crate) struct Filtered {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) entries: Vec<(OsString, FilteredEntry)>,
}

/// What becomes of an entry.
#[derive(Debug)]
pub(crate) enum FilteredEntry {
    /// It is shown; true: it is a directory.
    Shown(bool),
    /// A link with its target.
    Link(PathBuf),
    /// A directory that is filtered too.
    Filtered(Filtered),
    /// It is covered afterwards; true: it is a directory.
    Hidden(bool),
}

/// The outermost directories to be filtered, each with those below it.
pub(crate) fn look(plan: &Plan) -> Vec<Filtered> {
    let is_open = |path: &Path| {
        let mut open = plan.writable.iter().chain(&plan.overlays);
        open.any(|tree| path.starts_with(tree))
    };
    let wanted: HashSet<&Path> =
        plan.filtered.iter().map(PathBuf::as_path).filter(|path| !is_open(path)).collect();
    let hidden: HashSet<&Path> = plan.hidden.iter().map(PathBuf::as_path).collect();
    let is_covered = |path: &Path| path.ancestors().any(|above| hidden.contains(above));
    let outermost = wanted.iter().filter(|path| {
        !path.ancestors().skip(1).any(|above| wanted.contains(above)) && !is_covered(path)
    });
    let mut found: Vec<Filtered> =
        outermost.filter_map(|path| read(path, &wanted, &hidden)).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// `None` if the path is not a directory or has too many entries.
fn read(path: &Path, wanted: &HashSet<&Path>, hidden: &HashSet<&Path>) -> Option<Filtered> {
    let facts = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).ok()? {
        let Ok(entry) = entry else { continue };
        if entries.len() == MOST_ENTRIES {
            return None;
        }
        let (name, here) = (entry.file_name(), entry.path());
        let Ok(kind) = entry.file_type() else { continue };
        let becomes = if kind.is_symlink() {
            let Ok(target) = fs::read_link(&here) else { continue };
            FilteredEntry::Link(target)
        } else if hidden.contains(here.as_path()) {
            FilteredEntry::Hidden(kind.is_dir())
        } else if wanted.contains(here.as_path()) {
            match read(&here, wanted, hidden) {
                Some(below) => FilteredEntry::Filtered(below),
                None => FilteredEntry::Shown(kind.is_dir()),
            }
        } else {
            FilteredEntry::Shown(kind.is_dir())
        };
        entries.push((name, becomes));
    }
    let owner = (facts.uid(), facts.gid());
    Some(Filtered { path: path.to_owned(), mode: facts.mode() & 0o1777, owner, entries })
}

impl Filtered {
    /// Every entry that is shown, in this directory and those below it.
    pub(crate) fn shown(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect(&self, found: &mut Vec<PathBuf>) {
        for (name, entry) in &self.entries {
            match entry {
                FilteredEntry::Shown(_) => found.push(self.path.join(name)),
                FilteredEntry::Filtered(below) => below.collect(found),
                FilteredEntry::Link(_) | FilteredEntry::Hidden(_) => {}
            }
        }
    }
}

/// A filtered directory with what is to be mounted in it, opened before anything is
/// covered.
pub(crate) struct OpenedFilter {
    pub(crate) directory: Filtered,
    pub(crate) trees: Vec<(PathBuf, OwnedFd)>,
}

impl OpenedFilter {
    /// Opens and copies what is shown. What cannot be opened is missing in the view.
    pub(crate) fn open(
        directory: Filtered,
        open: impl Fn(&Path) -> Result<OwnedFd, rustix::io::Errno>,
    ) -> Self {
        let copy = |path: PathBuf| {
            let file = open(&path).ok()?;
            layout::clone(&file, layout::READ_ONLY).ok().map(|tree| (path, tree))
        };
        let trees = directory.shown().into_iter().filter_map(copy).collect();
        Self { directory, trees }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_shown_hidden_or_filtered_by_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
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
        let found = look(&plan);
        assert_eq!(found.len(), 1);
        let mut shown = found[0].shown();
        shown.sort();
        let expected = [".docker/other", ".profile", "work"].map(|name| home.join(name));
        assert_eq!(shown, expected);
        plan.writable = vec![home];
        assert!(look(&plan).is_empty());
    }
}
