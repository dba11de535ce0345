//! The entries of the workspace that a walk found.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::IgnoreRules;
use parallax_protocol::protected_links::LinkTargets;

use super::confined_root::ConfinedPath;
use super::git::TrackedState;
use super::state::{EncodedPath, Stamp};

/// Length in bytes of a path with many components.
const LONG: usize = 512;
/// Maximum number of directories to name in which protected entries may have been missed.
const MAX_UNSEARCHED: usize = 8;

/// The kind of an entry.
#[derive(Debug, Clone)]
pub(super) enum EntryKind {
    File {
        /// What git knows about it.
        git_state: TrackedState,
        /// The root of the working tree that tracks it.
        top: Option<Arc<Path>>,
        /// Whether an ignore rule matches it.
        ignored: bool,
    },
    Link(EncodedPath),
    Folder,
    Special,
}

/// An entry of the workspace.
#[derive(Debug, Clone)]
pub(super) struct WorkspaceEntry {
    pub path: ConfinedPath,
    pub stamp: Stamp,
    pub kind: EntryKind,
    pub protected: bool,
}

/// The entries of the workspace at one point in time.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// Sorted by place.
    pub entries: Vec<WorkspaceEntry>,
    /// Directories that were not entered because they are ignored or not readable; their contents
    /// are unknown.
    pub unvisited: HashSet<ConfinedPath>,
    /// Directories named `.git`, each with its inode, which it keeps when it is renamed.
    pub repositories: Vec<(ConfinedPath, u64)>,
    /// Names of ignored directories, for display.
    pub ignored_names: BTreeSet<String>,
    /// Whether the limit was exceeded. From then on, only protected entries are listed.
    pub is_truncated: bool,
    /// Directories in which protected entries may have been missed, with the reason.
    pub unsearched: BTreeMap<ConfinedPath, &'static str>,
    /// Added directories that are too large to scan.
    pub too_large: BTreeSet<PathBuf>,
    /// The targets of protected links, which are also protected.
    pub linked: Arc<LinkTargets>,
    /// Protected files with other hard links, through which a command can write them.
    pub hard_linked: HashSet<ConfinedPath>,
    /// The ignore rules, as they were read.
    pub rules: Option<Arc<IgnoreRules>>,
    /// When the walk began, in nanoseconds since 1970.
    pub started_at: i64,
}

impl WalkResult {
    pub fn get(&self, location: &ConfinedPath) -> Option<&WorkspaceEntry> {
        let index = self.entries.binary_search_by(|entry| entry.path.cmp(location)).ok()?;
        self.entries.get(index)
    }

    /// Marks what protected links point to as protected.
    pub fn mark_linked(&mut self, linked: Arc<LinkTargets>) {
        for entry in &mut self.entries {
            entry.protected |= linked.contains(&entry.path.path());
        }
        self.linked = linked;
    }

    /// Removes a root from the result.
    pub fn remove_root(&mut self, root: &Arc<Path>) {
        self.unvisited.insert(ConfinedPath { root: root.clone(), relative: PathBuf::new() });
        self.too_large.insert(root.to_path_buf());
    }

    /// Adds what another thread found in other directories of the same walk.
    pub fn append(&mut self, mut other: Self) {
        self.entries.append(&mut other.entries);
        self.unvisited.extend(other.unvisited);
        self.repositories.append(&mut other.repositories);
        self.ignored_names.append(&mut other.ignored_names);
        self.is_truncated |= other.is_truncated;
        self.unsearched.append(&mut other.unsearched);
        self.hard_linked.extend(other.hard_linked);
    }

    /// Whether the walk has no information about this entry.
    pub fn is_unseen(&self, entry: &WorkspaceEntry) -> bool {
        let location = &entry.path;
        if self.is_truncated && !(entry.protected && self.unsearched.is_empty()) {
            return true;
        }
        if location.relative.as_os_str().len() > LONG {
            // A set of its many ancestors takes longer than a comparison with each directory.
            return self.unvisited.iter().any(|unseen| {
                location.root == unseen.root && location.relative.starts_with(&unseen.relative)
            });
        }
        location.relative.ancestors().any(|relative| {
            let location =
                ConfinedPath { root: location.root.clone(), relative: relative.to_path_buf() };
            self.unvisited.contains(&location)
        })
    }

    /// Records that protected entries in a directory may have been missed.
    pub fn record_missed(&mut self, location: ConfinedPath, reason: &'static str) {
        if self.unsearched.len() < MAX_UNSEARCHED {
            self.unsearched.insert(location, reason);
        }
    }
}

impl EntryKind {
    pub fn for_untracked() -> Self {
        Self::File { git_state: TrackedState::Untracked, top: None, ignored: false }
    }
}
