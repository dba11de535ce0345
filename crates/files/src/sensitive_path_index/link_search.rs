//! Searches protected directories, git directories, and the trusted part of a home directory for
//! links, and finds where they point in the workspace.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parallax_protocol::protected_names::{
    OF_GIT, is_git_private, may_hold_git_private, trusted_of_home, trusted_trees_of_home,
};

use super::{DirectoryStamp, SensitivePaths, is_settled, stamp};
use crate::git_files::{linked_directory, read_git_file};
use crate::real_path::link_targets;

/// How many levels of a protected directory are searched.
const DEPTH: usize = 6;
/// Maximum number of entries of a directory that are read.
const ENTRIES: usize = 65_536;
/// Maximum number of directories that are searched in each home directory, and in the workspace.
const FOLDERS: usize = 1000;
/// Directories of installed packages and build outputs.
const SKIPPED: [&str; 2] = ["node_modules", "target"];
/// Maximum number of links that are followed.
const LINKS: usize = 4096;

/// The links and directories of a directory, as last read.
#[derive(Debug, Default)]
struct Listing {
    /// The directory's stamp when it was read; `None` if it must be read again.
    stamp: Option<DirectoryStamp>,
    entries: BTreeMap<OsString, LinkOrFolder>,
    /// The last search that visited it.
    last_search: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkOrFolder {
    Link,
    Folder,
}

/// The directories that were searched for links. Contents are cached until a directory changes.
#[derive(Debug, Default)]
pub(super) struct LinkCache(HashMap<PathBuf, Listing>);

impl LinkCache {
    /// Forgets the directories that the search did not visit.
    pub(super) fn retain_visited(&mut self, look: u64) {
        self.0.retain(|_, listing| listing.last_search == look);
    }

    /// Returns the links and directories in a directory; nothing if it is none, or if there is no
    /// time to read it.
    fn entries(
        &mut self,
        path: &Path,
        search: &Search<'_>,
    ) -> Option<&BTreeMap<OsString, LinkOrFolder>> {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), Listing::default());
        }
        let listing = self.0.get_mut(path)?;
        if listing.last_search != search.number {
            listing.last_search = search.number;
            let current = stamp(path, true);
            if current.is_none() {
                *listing = Listing { last_search: search.number, ..Listing::default() };
            } else if listing.stamp != current {
                // Without time to read it, what was there before counts.
                let is_whole = Instant::now() < search.end && listing.read(path);
                listing.stamp =
                    current.filter(|current| is_whole && is_settled(*current, search.coarse));
            }
        }
        Some(&listing.entries)
    }
}

impl Listing {
    fn read(&mut self, path: &Path) -> bool {
        self.entries.clear();
        let Ok(entries) = std::fs::read_dir(path) else { return false };
        for entry in entries.flatten().take(ENTRIES) {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() {
                self.entries.insert(entry.file_name(), LinkOrFolder::Link);
            } else if kind.is_dir() {
                self.entries.insert(entry.file_name(), LinkOrFolder::Folder);
            }
        }
        true
    }
}

/// One search.
pub(super) struct Search<'a> {
    pub(super) roots: &'a [PathBuf],
    pub(super) dirs: &'a [PathBuf],
    /// The number of the search.
    pub(super) number: u64,
    pub(super) end: Instant,
    pub(super) coarse: Duration,
}

/// A protected link, or a path through one.
struct ProtectedLink {
    path: PathBuf,
    /// How many levels of a directory outside the workspace are searched if it leads there.
    levels: usize,
}

impl ProtectedLink {
    fn new(path: PathBuf) -> Self {
        Self { path, levels: 1 }
    }
}

/// A directory to search.
enum PendingDirectory {
    /// All links in it count, down to this many levels.
    Tree(PathBuf, usize),
    /// A git directory, or a directory at this path in one.
    Git(PathBuf, PathBuf),
}

impl Search<'_> {
    /// Adds where links point to `found`, which has the protected names of the workspace.
    pub(super) fn run(&self, cache: &mut LinkCache, found: &mut SensitivePaths) {
        let mut links: VecDeque<ProtectedLink> =
            found.links.iter().cloned().map(ProtectedLink::new).collect();
        let mut unsearched = VecDeque::new();
        let mut left = FOLDERS * (self.dirs.len() + 1);
        unsearched
            .extend(found.folders.iter().map(|path| PendingDirectory::Tree(path.clone(), DEPTH)));
        let mut parts = Vec::new();
        for repository in &found.repositories {
            let elsewhere = self.git_directories(repository);
            if elsewhere.is_empty() {
                unsearched.push_back(PendingDirectory::Git(repository.clone(), PathBuf::new()));
            }
            for directory in elsewhere {
                parts.extend(self.parts(&directory));
                if self.is_in_workspace(&directory) {
                    found.git_directories.push(directory.clone());
                }
                unsearched.push_back(PendingDirectory::Git(directory, PathBuf::new()));
            }
        }
        for home in self.dirs {
            self.search_home(home, cache, &mut links, &mut unsearched);
        }
        let (mut targets, mut seen) = (HashSet::new(), HashSet::new());
        for repository in &found.repositories {
            targets.extend(self.links_to_git(repository));
        }
        let mut followed = 0;
        loop {
            if let Some(link) = links.pop_front() {
                followed += 1;
                if followed > LINKS {
                    break;
                }
                let leads = link_targets(&link.path);
                let end = leads.last().filter(|end| !self.contains_workspace(end) && end.is_dir());
                unsearched.extend(end.map(|end| {
                    let levels = if self.is_in_workspace(end) { DEPTH } else { link.levels };
                    PendingDirectory::Tree(end.clone(), levels)
                }));
                targets.extend(leads.into_iter().filter(|path| self.is_in_workspace(path)));
                continue;
            }
            let Some(next) = unsearched.pop_front() else { break };
            let (PendingDirectory::Tree(path, _) | PendingDirectory::Git(path, _)) = &next;
            if !seen.insert(path.clone()) {
                continue;
            }
            if left == 0 {
                tracing::warn!("not all protected directories were searched for links");
                break;
            }
            left -= 1;
            let Some(entries) = cache.entries(path, self) else { continue };
            if let PendingDirectory::Git(path, above) = &next
                && above.starts_with("modules")
                && entries.contains_key(OsStr::new("hooks"))
            {
                parts.extend(self.parts(path));
            }
            for (name, kind) in entries {
                if SKIPPED.iter().any(|skipped| name == skipped) {
                    continue;
                }
                let inner = path.join(name);
                match (&next, kind) {
                    (PendingDirectory::Tree(..), LinkOrFolder::Link) => {
                        links.push_back(ProtectedLink::new(inner))
                    }
                    (PendingDirectory::Tree(_, levels), LinkOrFolder::Folder) if *levels > 1 => {
                        unsearched.push_back(PendingDirectory::Tree(inner, levels - 1));
                    }
                    (PendingDirectory::Tree(..), LinkOrFolder::Folder) => {}
                    (PendingDirectory::Git(_, above), kind) => {
                        let relative = above.join(name);
                        let is_directory = *kind == LinkOrFolder::Folder;
                        if is_git_private(&relative) && !is_directory {
                            links.push_back(ProtectedLink::new(inner));
                        } else if is_directory && may_hold_git_private(&relative) {
                            unsearched.push_back(PendingDirectory::Git(inner, relative));
                        }
                    }
                }
            }
        }
        found.link_targets = targets.into_iter().collect();
        found.git_parts = parts;
    }

    /// Finds the trusted links and directories of a home directory.
    fn search_home(
        &self,
        home: &Path,
        cache: &mut LinkCache,
        links: &mut VecDeque<ProtectedLink>,
        unsearched: &mut VecDeque<PendingDirectory>,
    ) {
        let trees: HashSet<&str> = trusted_trees_of_home().collect();
        for name in trusted_of_home() {
            let levels = if trees.contains(name) { DEPTH } else { 1 };
            let mut path = home.to_owned();
            let mut names = Path::new(name).iter().peekable();
            while let Some(part) = names.next() {
                let kind = cache.entries(&path, self).and_then(|entries| entries.get(part));
                match (kind, names.peek()) {
                    (Some(LinkOrFolder::Link), _) => {
                        links.push_back(ProtectedLink { path: home.join(name), levels });
                        break;
                    }
                    (Some(LinkOrFolder::Folder), None) => {
                        unsearched.push_back(PendingDirectory::Tree(path.join(part), levels));
                    }
                    (Some(LinkOrFolder::Folder), Some(_)) => path.push(part),
                    (None, _) => break,
                }
            }
        }
    }

    /// Returns the git directories that a `.git` file or link points to: its own, and that of the
    /// repository if it belongs to a linked working tree. Empty for a directory.
    fn git_directories(&self, repository: &Path) -> Vec<PathBuf> {
        let directory = match repository.symlink_metadata() {
            Ok(data) if data.is_symlink() => repository.canonicalize().ok(),
            Ok(data) if data.is_file() => repository.parent().and_then(|tree| {
                let named = linked_directory(tree, &read_git_file(repository)?)?;
                named.canonicalize().ok()
            }),
            _ => None,
        };
        let directory = directory.filter(|directory| !self.contains_workspace(directory));
        let directory =
            directory.filter(|directory| directory.join("HEAD").symlink_metadata().is_ok());
        let common = directory.as_deref().and_then(|directory| {
            let common = read_git_file(&directory.join("commondir"))?;
            directory.join(common.trim()).canonicalize().ok()
        });
        directory
            .into_iter()
            .chain(common.filter(|common| !self.contains_workspace(common)))
            .collect()
    }

    /// Returns the links on the way to the git directory that a `.git` file names.
    fn links_to_git(&self, repository: &Path) -> Vec<PathBuf> {
        let is_file = repository.symlink_metadata().is_ok_and(|data| data.is_file());
        let named = repository
            .parent()
            .filter(|_| is_file)
            .and_then(|tree| linked_directory(tree, &read_git_file(repository)?));
        let mut links = named.map(|named| link_targets(&named)).unwrap_or_default();
        // The last one is the directory itself, in which git works.
        links.pop();
        links.retain(|link| self.is_in_workspace(link));
        links
    }

    /// Returns the parts of a git directory of the workspace that run programs or redirect git.
    /// Git itself changes `gitdir` when it moves a working tree, and runs nothing because of it.
    fn parts(&self, directory: &Path) -> Vec<PathBuf> {
        // The name protects a directory in a `.git`.
        let is_named = directory.iter().any(|name| name == ".git");
        let names = OF_GIT.iter().filter(|name| **name != "gitdir" && !is_named);
        names.filter(|_| self.is_in_workspace(directory)).map(|name| directory.join(name)).collect()
    }

    /// Whether a path is below a workspace directory.
    pub(super) fn is_in_workspace(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root)) && !self.contains_workspace(path)
    }

    /// Whether a path is a workspace directory or above one: a link there protects nothing, because
    /// it would protect everything.
    fn contains_workspace(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| root.starts_with(path))
    }
}
