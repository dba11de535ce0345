//! Walks the workspace: every file, directory, and link outside ignored directories, by metadata
//! only.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parallax_files::IgnoreRules;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, openat, statat};

use super::beneath::{Place, Roots, folder_at, link_target};
use super::git::{Attributes, Indexes, Known, Repository};
use super::protected::{is_git_private, is_protected_name, may_hold_git_private};
use super::shared_work::WorkQueue;
use super::state::{PathText, Stamp, now};

/// The kind of an entry.
#[derive(Debug, Clone)]
pub(super) enum Found {
    File {
        /// What git knows about it.
        known: Known,
        /// The root of the working tree that tracks it.
        top: Option<Arc<Path>>,
        /// Whether an ignore rule matches it.
        ignored: bool,
    },
    Link(PathText),
    Folder,
    Special,
}

/// An entry of the workspace.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub place: Place,
    pub stamp: Stamp,
    pub found: Found,
    pub protected: bool,
}

/// The entries of the workspace at one point in time.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// Sorted by place.
    pub entries: Vec<Entry>,
    /// Directories that were not entered because they are ignored or not readable; their contents
    /// are unknown.
    pub unseen: HashSet<Place>,
    /// Directories named `.git`, each with its inode, which it keeps when it is renamed.
    pub repositories: Vec<(Place, u64)>,
    /// Names of ignored directories, for display.
    pub ignored_names: BTreeSet<String>,
    /// Whether the limit was exceeded.
    pub cut: bool,
    /// Added directories that are too large to scan.
    pub too_large: BTreeSet<PathBuf>,
    /// When the walk began, in nanoseconds since 1970.
    pub began: i64,
}

impl WalkResult {
    pub fn get(&self, place: &Place) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.place.cmp(place)).ok()?;
        self.entries.get(at)
    }

    /// Removes a root from the result.
    fn leave_out(&mut self, root: &Arc<Path>) {
        self.unseen.insert(Place { root: root.clone(), relative: PathBuf::new() });
        self.too_large.insert(root.to_path_buf());
    }

    /// Adds what another thread found in other directories of the same walk.
    fn append(&mut self, mut other: Self) {
        self.entries.append(&mut other.entries);
        self.unseen.extend(other.unseen);
        self.repositories.append(&mut other.repositories);
        self.ignored_names.append(&mut other.ignored_names);
        self.cut |= other.cut;
    }

    /// Whether the walk has no information about this place.
    pub fn is_unseen(&self, place: &Place) -> bool {
        self.cut
            || place.relative.ancestors().any(|relative| {
                let place = Place { root: place.root.clone(), relative: relative.to_path_buf() };
                self.unseen.contains(&place)
            })
    }
}

/// Maximum directory depth.
const MAX_DEPTH: usize = 128;
/// Minimum time limit for the workspace itself.
const LEAST: Duration = Duration::from_secs(2);
/// Number of entries that a single thread processes before others help; smaller walks are done
/// before they could.
const ALONE: usize = 1_000;
/// Maximum number of threads; more would only contend for kernel caches.
const THREADS: usize = 4;

/// Walks all roots. `excluded` is the store itself. `added_time` is the time limit for all added
/// directories together and half of the limit for the workspace itself. A directory that takes
/// longer is skipped as a whole, as are the root of the file system and directories that are
/// already in `too_large`.
pub(super) fn walk(
    roots: &Roots,
    rules: &IgnoreRules,
    indexes: &mut Indexes,
    excluded: &Path,
    limit: usize,
    too_large: BTreeSet<PathBuf>,
    added_time: Option<Duration>,
) -> WalkResult {
    let mut walked = WalkResult { began: now(), too_large, ..WalkResult::default() };
    let (count, mut added_until) = (AtomicUsize::new(0), None);
    for (root, is_added) in roots.by_weight() {
        if walked.too_large.contains(&**root) || root.parent().is_none() {
            walked.leave_out(root);
            continue;
        }
        let until = match is_added {
            true => {
                let end = || added_time.map(|time| Instant::now() + time);
                *added_until.get_or_insert_with(end)
            }
            false => added_time.map(|time| Instant::now() + (2 * time).max(LEAST)),
        };
        let Ok(folder) = folder_at(root, Path::new(""), false) else { continue };
        let here = CurrentDirectory {
            root: root.clone(),
            relative: PathBuf::new(),
            repository: Repository::around(root, indexes).map(|found| InRepository {
                name: name_in(&found.top, root),
                attributes: attributes_above(&found.top, root),
                repository: Arc::new(found),
            }),
            ignored: false,
            protected: false,
            git: None,
            depth: 0,
        };
        let first = UnreadDirectory { above: Arc::new(folder), name: ".".into(), here };
        let ground = Ground {
            rules,
            excluded,
            limit,
            count: &count,
            until,
            is_late: AtomicBool::new(false),
            indexes: Mutex::new(&mut *indexes),
            unread: WorkQueue::new(first),
        };
        let found = ground.walk();
        match ground.is_late.into_inner() {
            true => walked.leave_out(root),
            false => walked.append(found),
        }
    }
    walked.entries.sort_unstable_by(|one, two| one.place.cmp(&two.place));
    walked.repositories.sort_unstable();
    walked
}

/// Returns the name of a directory relative to its repository, with a trailing slash.
fn name_in(top: &Path, folder: &Path) -> Vec<u8> {
    let relative = folder.strip_prefix(top).unwrap_or(Path::new(""));
    let mut name = relative.as_os_str().as_bytes().to_vec();
    if !name.is_empty() {
        name.push(b'/');
    }
    name
}

/// Returns the attribute files from the root of a repository down to a directory, excluding that
/// directory.
fn attributes_above(top: &Path, folder: &Path) -> Vec<Arc<Attributes>> {
    let above = folder.ancestors().skip(1).take_while(|above| above.starts_with(top));
    above.filter_map(|above| Attributes::read(&above.join(".gitattributes"))).collect()
}

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

#[derive(Clone)]
struct InRepository {
    repository: Arc<Repository>,
    /// The name of the directory relative to it, with a trailing slash.
    name: Vec<u8>,
    attributes: Vec<Arc<Attributes>>,
}

/// The directory that is being read.
struct CurrentDirectory {
    root: Arc<Path>,
    relative: PathBuf,
    repository: Option<InRepository>,
    /// Whether it is below an ignored directory, where only tracked files count.
    ignored: bool,
    protected: bool,
    /// The path inside a git directory, if it is in one.
    git: Option<PathBuf>,
    depth: usize,
}

/// A directory that has not been read yet, by its name in its parent.
struct UnreadDirectory {
    above: Arc<OwnedFd>,
    name: OsString,
    here: CurrentDirectory,
}

/// State shared by the threads of a walk.
struct Ground<'a> {
    rules: &'a IgnoreRules,
    excluded: &'a Path,
    limit: usize,
    /// Number of entries found, in all roots.
    count: &'a AtomicUsize,
    /// The deadline.
    until: Option<Instant>,
    /// Whether the deadline passed.
    is_late: AtomicBool,
    indexes: Mutex<&'a mut Indexes>,
    unread: WorkQueue<UnreadDirectory>,
}

impl Ground<'_> {
    /// Reads all directories, using other threads if there are many.
    fn walk(&self) -> WalkResult {
        let mut helpers =
            std::thread::available_parallelism().map_or(1, usize::from).min(THREADS) - 1;
        std::thread::scope(|scope| {
            let mut help = Vec::new();
            let mut walker = Walker { ground: self, walked: WalkResult::default() };
            while let Some((unread, at_work)) = self.unread.next() {
                at_work.done(walker.read(unread));
                if helpers > 0 && self.count.load(Ordering::Relaxed) >= ALONE {
                    let others = std::mem::take(&mut helpers);
                    help.extend((0..others).map(|_| scope.spawn(|| self.help())));
                }
            }
            let mut walked = walker.walked;
            for helper in help {
                match helper.join() {
                    Ok(found) => walked.append(found),
                    // The thread panicked, so its result is unknown.
                    Err(_) => walked.cut = true,
                }
            }
            walked
        })
    }

    fn help(&self) -> WalkResult {
        let mut walker = Walker { ground: self, walked: WalkResult::default() };
        while let Some((unread, at_work)) = self.unread.next() {
            at_work.done(walker.read(unread));
        }
        walker.walked
    }
}

/// One thread of a walk.
struct Walker<'a, 'g> {
    ground: &'a Ground<'g>,
    /// What the thread found.
    walked: WalkResult,
}

impl Walker<'_, '_> {
    /// Reads a directory and returns its subdirectories.
    fn read(&mut self, unread: UnreadDirectory) -> Vec<UnreadDirectory> {
        let before = self.walked.entries.len();
        let folders = match openat(&*unread.above, &unread.name, READ, Mode::empty()) {
            Ok(folder) => self.folder(folder, &unread.here),
            Err(_) => {
                self.walked.unseen.insert(unread.here.place());
                Vec::new()
            }
        };
        self.ground.count.fetch_add(self.walked.entries.len() - before, Ordering::Relaxed);
        folders
    }

    fn folder(&mut self, folder: OwnedFd, here: &CurrentDirectory) -> Vec<UnreadDirectory> {
        let ground = self.ground;
        if ground.until.is_some_and(|until| Instant::now() >= until) {
            ground.is_late.store(true, Ordering::Relaxed);
        }
        if ground.is_late.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // The count of all threads; other threads add little while this one reads.
        let before = ground.count.load(Ordering::Relaxed);
        let room = ground.limit.saturating_sub(before) + self.walked.entries.len();
        let folder = Arc::new(folder);
        let mut names: Vec<OsString> = Vec::new();
        let mut buffer = [const { MaybeUninit::uninit() }; 32 * 1024];
        let mut entries = RawDir::new(&*folder, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
            // Stop; which names were seen depends on the order on disk.
            if names.len() > 4 * ground.limit {
                self.walked.cut = true;
                break;
            }
        }
        names.sort_unstable();
        let has = |wanted: &str| {
            names.binary_search_by(|name| name.as_os_str().cmp(OsStr::new(wanted))).is_ok()
        };
        let mut repository = here.repository.clone();
        let path = here.root.join(&here.relative);
        if here.git.is_none()
            && has(".git")
            && here.depth > 0
            && let Some(found) = self.repository_at(&path)
        {
            let repository_here =
                InRepository { repository: Arc::new(found), name: vec![], attributes: vec![] };
            repository = Some(repository_here);
        }
        if let Some(repository) = &mut repository
            && has(".gitattributes")
        {
            repository.attributes.extend(Attributes::read(&path.join(".gitattributes")));
        }
        let mut folders = Vec::new();
        let top: Option<Arc<Path>> =
            repository.as_ref().map(|found| Arc::from(found.repository.top.as_path()));
        for name in names {
            if self.walked.entries.len() >= room {
                self.walked.cut = true;
                return Vec::new();
            }
            let Ok(stat) = statat(&*folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let stamp = Stamp::of(&stat);
            let place = Place { root: here.root.clone(), relative: here.relative.join(&name) };
            let protected = here.protected || is_protected_name(&place.relative);
            let kind = FileType::from_raw_mode(stat.st_mode);
            if let Some(git) = &here.git {
                let inside = git.join(&name);
                if kind == FileType::Directory {
                    if may_hold_git_private(&inside) {
                        folders.push((name, here.below(place, true, None, Some(inside))));
                    }
                } else if is_git_private(&inside) {
                    self.entry(&folder, &name, place, stamp, kind, Found::untracked(), true);
                }
                continue;
            }
            if name.as_bytes().eq_ignore_ascii_case(b".git") {
                if kind == FileType::Directory {
                    self.walked.repositories.push((place.clone(), stamp.inode));
                    let inside = Some(PathBuf::new());
                    folders.push((name, here.below(place, true, None, inside)));
                } else {
                    self.entry(&folder, &name, place, stamp, kind, Found::untracked(), true);
                }
                continue;
            }
            let tracked_name = repository.as_ref().map(|found| {
                let mut tracked = found.name.clone();
                tracked.extend_from_slice(name.as_bytes());
                tracked
            });
            if kind == FileType::Directory {
                let path = place.path();
                if path == ground.excluded {
                    self.walked.unseen.insert(place);
                    continue;
                }
                let inside = repository.as_ref().zip(tracked_name).map(|(found, mut name)| {
                    name.push(b'/');
                    InRepository { name, ..found.clone() }
                });
                let ignored =
                    here.ignored || (!protected && ground.rules.entry(&path, true).is_some());
                if ignored {
                    let tracks = inside
                        .as_ref()
                        .is_some_and(|inside| inside.repository.tracks_below(&inside.name));
                    if !here.ignored && self.walked.ignored_names.len() < 64 {
                        self.walked.ignored_names.insert(name.to_string_lossy().into_owned());
                    }
                    // Untracked files below it are not considered.
                    self.walked.unseen.insert(place.clone());
                    if !tracks {
                        continue;
                    }
                } else {
                    self.push(place.clone(), stamp, Found::Folder, protected);
                }
                let below =
                    CurrentDirectory { ignored, ..here.below(place, protected, inside, None) };
                folders.push((name, below));
                continue;
            }
            let known = match (&repository, &tracked_name) {
                (Some(found), Some(name)) => found.repository.know(name, &stamp, &found.attributes),
                _ => Known::Untracked,
            };
            let untracked = known == Known::Untracked;
            if here.ignored && untracked {
                continue;
            }
            let ignored =
                untracked && !protected && ground.rules.entry(&place.path(), false).is_some();
            let found = Found::File { known, top: top.clone().filter(|_| !untracked), ignored };
            self.entry(&folder, &name, place, stamp, kind, found, protected);
        }
        let mut unread = Vec::with_capacity(folders.len());
        for (name, below) in folders {
            if below.depth > MAX_DEPTH {
                self.walked.unseen.insert(below.place());
            } else {
                unread.push(UnreadDirectory { above: Arc::clone(&folder), name, here: below });
            }
        }
        // The last one is read first.
        unread.reverse();
        unread
    }

    fn repository_at(&self, folder: &Path) -> Option<Repository> {
        let mut indexes = self.ground.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Repository::at(folder, &mut indexes)
    }

    #[expect(clippy::too_many_arguments, reason = "all facts of one entry, used in one place")]
    fn entry(
        &mut self,
        folder: &OwnedFd,
        name: &OsStr,
        place: Place,
        stamp: Stamp,
        kind: FileType,
        file: Found,
        protected: bool,
    ) {
        let found = match kind {
            FileType::RegularFile => file,
            FileType::Symlink => match link_target(folder, name) {
                Ok(target) => Found::Link(target),
                Err(_) => return,
            },
            _ => Found::Special,
        };
        self.push(place, stamp, found, protected);
    }

    fn push(&mut self, place: Place, stamp: Stamp, found: Found, protected: bool) {
        self.walked.entries.push(Entry { place, stamp, found, protected });
    }
}

impl Found {
    fn untracked() -> Self {
        Self::File { known: Known::Untracked, top: None, ignored: false }
    }
}

impl CurrentDirectory {
    fn below(
        &self,
        place: Place,
        protected: bool,
        repository: Option<InRepository>,
        git: Option<PathBuf>,
    ) -> Self {
        let ignored = self.ignored;
        let depth = self.depth + 1;
        let Place { root, relative } = place;
        Self { root, relative, repository, ignored, protected, git, depth }
    }

    fn place(&self) -> Place {
        Place { root: self.root.clone(), relative: self.relative.clone() }
    }
}
