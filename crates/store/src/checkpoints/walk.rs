//! Walks the workspace: every file, directory, and link outside ignored directories, by metadata
//! only.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use parallax_files::IgnoreRules;
use parallax_protocol::protected_names::{is_git_private, may_hold_git_private};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, openat, statat};
use rustix::io::Errno;

use super::confined_root::{
    ConfinedPath, Roots, folder_at, link_target, open_root, set_folder_mode,
};
use super::git::{Attributes, Indexes, Repository, TrackedState};
use super::listing::{EntryKind, WalkResult, WorkspaceEntry};
use super::protected::{NESTED, is_protected_name};
use super::state::{Stamp, now};
use super::work_queue::WorkQueue;

/// Below this depth, only protected entries are listed: everything else takes time that grows with
/// the depth, and no project has such directories.
const MAX_FULL_DEPTH: usize = 128;
/// Maximum length in bytes of the path of a directory: longer ones cannot be opened by their path,
/// so no program works in them.
const MAX_LENGTH: usize = 4096;
/// Directories at this depth and its multiples stay open while the directories below them wait;
/// above it, every directory does.
const STRIDE: usize = 32;
/// Time limit for finding protected entries once the limit of entries was exceeded.
const SEARCH: Duration = Duration::from_secs(2);
/// How often to check the time while reading the entries of a directory.
const CHECK_INTERVAL: usize = 4096;
const TOO_DEEP: &str = "its path is too long to be searched for protected files";
const NOT_READABLE: &str = "it cannot be searched for protected files";
const TOO_MANY: &str = "it has too many files to be searched for all protected ones";
/// Minimum time limit for the workspace itself.
const MIN_TIME_LIMIT: Duration = Duration::from_secs(2);
/// Number of entries that a single thread processes before others help; smaller walks are done
/// before they could.
const SINGLE_THREAD_ENTRIES: usize = 1_000;
/// Maximum number of threads; more would only contend for kernel caches.
const THREADS: usize = 4;

/// The limits of a walk.
pub(super) struct WalkLimits<'a> {
    /// The store itself, which is skipped.
    pub excluded: &'a Path,
    /// Other directories to skip.
    pub quarantine: HashSet<PathBuf>,
    /// Maximum number of entries; of more, only protected ones are listed.
    pub entries: usize,
    /// Directories to skip because earlier walks took too long.
    pub too_large: BTreeSet<PathBuf>,
    /// The time limit for all added directories together and half of the limit for the workspace
    /// itself. A directory that takes longer is skipped as a whole.
    pub added_time: Option<Duration>,
    /// Makes directories of this user readable, except for these. A command could otherwise close a
    /// directory to hide what it put there.
    pub opening: Option<&'a HashSet<ConfinedPath>>,
    /// The rules of the walk before the command, which may have written others to keep protected
    /// files from being found.
    pub rules_before: Option<&'a IgnoreRules>,
}

/// Walks all roots except for the root of the file system.
pub(super) fn walk(
    roots: &Roots,
    rules: Arc<IgnoreRules>,
    indexes: &mut Indexes,
    limits: WalkLimits<'_>,
) -> WalkResult {
    let WalkLimits {
        excluded,
        quarantine,
        entries: limit,
        too_large,
        added_time,
        opening,
        rules_before,
    } = limits;
    let mut walked = WalkResult { started_at: now(), too_large, ..WalkResult::default() };
    let (count, mut added_until) = (AtomicUsize::new(0), None);
    for (root, is_added) in roots.folders_with_project_first() {
        if walked.too_large.contains(&**root) || root.parent().is_none() {
            walked.remove_root(root);
            continue;
        }
        let deadline = match is_added {
            true => {
                let end = || added_time.map(|time| Instant::now() + time);
                *added_until.get_or_insert_with(end)
            }
            false => added_time.map(|time| Instant::now() + (2 * time).max(MIN_TIME_LIMIT)),
        };
        let location = ConfinedPath { root: root.clone(), relative: PathBuf::new() };
        if opening.is_some_and(|closed| !closed.contains(&location)) {
            open_root(root, 0o500);
        }
        let Ok(folder) = folder_at(root, Path::new(""), false) else { continue };
        let directory = CurrentDirectory {
            root: root.clone(),
            relative: PathBuf::new(),
            repository: Repository::find_containing(root, indexes).map(|found| {
                RepositoryPosition {
                    name: name_in(&found.top, root),
                    attributes: attributes_above(&found.top, root),
                    repository: Arc::new(found),
                }
            }),
            ignored: false,
            is_newly_ignored: false,
            nested_in_protected: 0,
            protected: false,
            git: None,
            depth: 0,
        };
        let first = UnreadDirectory { above: Arc::new(folder), path: ".".into(), directory };
        let ground = SharedWalk {
            rules: &rules,
            rules_before,
            excluded,
            quarantine: &quarantine,
            limit,
            count: &count,
            deadline,
            is_late: AtomicBool::new(false),
            opening,
            search_until: OnceLock::new(),
            search_ignored_until: OnceLock::new(),
            indexes: Mutex::new(&mut *indexes),
            unread_directories: WorkQueue::new(first),
        };
        let found = ground.walk();
        match ground.is_late.into_inner() {
            true => walked.remove_root(root),
            false => walked.append(found),
        }
    }
    walked.entries.sort_unstable_by(|one, two| one.path.cmp(&two.path));
    walked.repositories.sort_unstable();
    walked.rules = Some(rules);
    walked
}

fn is_git(name: &OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(b".git")
}

/// Returns the name of a directory relative to its repository, with a trailing slash.
fn name_in(top: &Path, directory: &Path) -> Vec<u8> {
    let relative = directory.strip_prefix(top).unwrap_or(Path::new(""));
    let mut name = relative.as_os_str().as_bytes().to_vec();
    if !name.is_empty() {
        name.push(b'/');
    }
    name
}

/// Returns the attribute files from the root of a repository down to a directory, excluding that
/// directory.
fn attributes_above(top: &Path, directory: &Path) -> Vec<Arc<Attributes>> {
    let ancestors =
        directory.ancestors().skip(1).take_while(|ancestors| ancestors.starts_with(top));
    ancestors.filter_map(|ancestor| Attributes::read(&ancestor.join(".gitattributes"))).collect()
}

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

#[derive(Clone)]
struct RepositoryPosition {
    repository: Arc<Repository>,
    /// The name of the directory relative to it, with a trailing slash.
    name: Vec<u8>,
    attributes: Vec<Arc<Attributes>>,
}

/// The directory that is being read.
struct CurrentDirectory {
    root: Arc<Path>,
    relative: PathBuf,
    repository: Option<RepositoryPosition>,
    /// Whether it is below an ignored directory, where only tracked files count.
    ignored: bool,
    /// Whether it is below a directory that is ignored only since the command; only protected
    /// entries are listed.
    is_newly_ignored: bool,
    /// The number of directories since the protected one that it is in.
    nested_in_protected: usize,
    protected: bool,
    /// The path inside a git directory, if it is in one.
    git: Option<PathBuf>,
    depth: usize,
}

/// A directory that has not been read yet, by its path below an open directory.
struct UnreadDirectory {
    above: Arc<OwnedFd>,
    path: PathBuf,
    directory: CurrentDirectory,
}

impl UnreadDirectory {
    fn open(&self) -> Result<OwnedFd, Errno> {
        let parent = self.path.parent().unwrap_or(Path::new(""));
        let mut at: Option<OwnedFd> = None;
        for name in parent.iter() {
            at = Some(openat(at.as_ref().unwrap_or(&self.above), name, READ, Mode::empty())?);
        }
        let name = self.path.file_name().unwrap_or(OsStr::new("."));
        openat(at.as_ref().unwrap_or(&self.above), name, READ, Mode::empty())
    }
}

/// State shared by the threads of a walk.
struct SharedWalk<'a> {
    rules: &'a IgnoreRules,
    rules_before: Option<&'a IgnoreRules>,
    excluded: &'a Path,
    quarantine: &'a HashSet<PathBuf>,
    limit: usize,
    /// Number of entries found, in all roots.
    count: &'a AtomicUsize,
    /// The deadline.
    deadline: Option<Instant>,
    /// Whether the deadline passed.
    is_late: AtomicBool,
    opening: Option<&'a HashSet<ConfinedPath>>,
    /// When to stop searching for protected entries, set once there are too many others.
    search_until: OnceLock<Instant>,
    /// When to stop searching directories that are newly ignored.
    search_ignored_until: OnceLock<Instant>,
    indexes: Mutex<&'a mut Indexes>,
    unread_directories: WorkQueue<UnreadDirectory>,
}

impl SharedWalk<'_> {
    /// Reads all directories, using other threads if there are many.
    fn walk(&self) -> WalkResult {
        let mut helpers =
            std::thread::available_parallelism().map_or(1, usize::from).min(THREADS) - 1;
        std::thread::scope(|scope| {
            let mut help = Vec::new();
            let mut walker = Walker { walk: self, result: WalkResult::default() };
            while let Some((unread, at_work)) = self.unread_directories.next() {
                at_work.done(walker.read(unread));
                if helpers > 0 && self.count.load(Ordering::Relaxed) >= SINGLE_THREAD_ENTRIES {
                    let others = std::mem::take(&mut helpers);
                    help.extend((0..others).map(|_| scope.spawn(|| self.process_directories())));
                }
            }
            let mut walked = walker.result;
            for helper in help {
                match helper.join() {
                    Ok(found) => walked.append(found),
                    // The thread panicked, so its result is unknown.
                    Err(_) => walked.is_truncated = true,
                }
            }
            walked
        })
    }

    fn process_directories(&self) -> WalkResult {
        let mut walker = Walker { walk: self, result: WalkResult::default() };
        while let Some((unread, at_work)) = self.unread_directories.next() {
            at_work.done(walker.read(unread));
        }
        walker.result
    }
}

/// One thread of a walk.
struct Walker<'a, 'g> {
    walk: &'a SharedWalk<'g>,
    /// What the thread found.
    result: WalkResult,
}

impl Walker<'_, '_> {
    /// Reads a directory and returns its subdirectories.
    fn read(&mut self, unread: UnreadDirectory) -> Vec<UnreadDirectory> {
        let before = self.result.entries.len();
        let directories = match unread.open() {
            Ok(folder) => self.folder(folder, &unread),
            Err(error) => {
                let location = unread.directory.path();
                if !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP) {
                    self.result.record_missed(location.clone(), NOT_READABLE);
                }
                self.result.unvisited.insert(location);
                Vec::new()
            }
        };
        self.walk.count.fetch_add(self.result.entries.len() - before, Ordering::Relaxed);
        directories
    }

    fn folder(&mut self, directory: OwnedFd, unread: &UnreadDirectory) -> Vec<UnreadDirectory> {
        let (ground, here) = (self.walk, &unread.directory);
        if ground.deadline.is_some_and(|until| Instant::now() >= until) {
            ground.is_late.store(true, Ordering::Relaxed);
        }
        if ground.is_late.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // The count of all threads; other threads add little while this one reads.
        let before = ground.count.load(Ordering::Relaxed);
        let room = ground.limit.saturating_sub(before) + self.result.entries.len();
        if self.is_search_over(here) {
            self.result.record_missed(
                ConfinedPath { root: here.root.clone(), relative: PathBuf::new() },
                TOO_MANY,
            );
            return Vec::new();
        }
        let directory = Arc::new(directory);
        let mut names: Vec<OsString> = Vec::new();
        let mut buffer = [const { MaybeUninit::uninit() }; 32 * 1024];
        let mut entries = RawDir::new(&*directory, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
            // Stop; which names were seen depends on the order on disk.
            if names.len() > 4 * ground.limit {
                self.result.is_truncated = true;
                self.result.record_missed(here.path(), TOO_MANY);
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
            && (1..=MAX_FULL_DEPTH).contains(&here.depth)
            && let Some(found) = self.repository_at(&path)
        {
            let repository_here = RepositoryPosition {
                repository: Arc::new(found),
                name: vec![],
                attributes: vec![],
            };
            repository = Some(repository_here);
        }
        if let Some(repository) = &mut repository
            && has(".gitattributes")
        {
            repository.attributes.extend(Attributes::read(&path.join(".gitattributes")));
        }
        let mut directories = Vec::new();
        let top: Option<Arc<Path>> =
            repository.as_ref().map(|found| Arc::from(found.repository.top.as_path()));
        for (number, name) in names.into_iter().enumerate() {
            if number % CHECK_INTERVAL == CHECK_INTERVAL - 1 && self.is_search_over(here) {
                self.result.record_missed(here.path(), TOO_MANY);
                return Vec::new();
            }
            let stat = match statat(&*directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(_) => {
                    // The directory can be listed but not used.
                    self.result.unvisited.insert(here.path());
                    return Vec::new();
                }
            };
            let stamp = Stamp::from_stat(&stat);
            let location =
                ConfinedPath { root: here.root.clone(), relative: here.relative.join(&name) };
            let protected = here.protected || is_protected_name(&location.relative);
            let kind = FileType::from_raw_mode(stat.st_mode);
            if protected && kind == FileType::RegularFile && stat.st_nlink > 1 {
                self.result.hard_linked.insert(location.clone());
            }
            let is_over = self.result.entries.len() >= room;
            if is_over {
                self.result.is_truncated = true;
                ground.search_until.get_or_init(|| Instant::now() + SEARCH);
            }
            let is_deep = here.depth > MAX_FULL_DEPTH || here.is_newly_ignored;
            let is_over = is_over || is_deep;
            let counts = protected || here.git.is_some() || is_git(&name);
            if is_over && kind != FileType::Directory && !counts {
                continue;
            }
            let stamp = match kind {
                FileType::Directory => {
                    self.make_readable(&directory, &name, &location, &stat, stamp)
                }
                _ => stamp,
            };
            if let Some(git) = &here.git {
                let inside = git.join(&name);
                if kind == FileType::Directory {
                    if may_hold_git_private(&inside) {
                        directories.push((name, here.nested(location, true, None, Some(inside))));
                    }
                } else if is_git_private(&inside) {
                    self.visit_entry(
                        &directory,
                        &name,
                        location,
                        stamp,
                        kind,
                        EntryKind::for_untracked(),
                        true,
                    );
                }
                continue;
            }
            if is_git(&name) {
                if kind == FileType::Directory {
                    self.result.repositories.push((location.clone(), stamp.inode));
                    let inside = Some(PathBuf::new());
                    directories.push((name, here.nested(location, true, None, inside)));
                } else {
                    self.visit_entry(
                        &directory,
                        &name,
                        location,
                        stamp,
                        kind,
                        EntryKind::for_untracked(),
                        true,
                    );
                }
                continue;
            }
            let tracked_name = repository.as_ref().map(|found| {
                let mut tracked = found.name.clone();
                tracked.extend_from_slice(name.as_bytes());
                tracked
            });
            if kind == FileType::Directory {
                let path = location.path();
                if path == ground.excluded || ground.quarantine.contains(&path) {
                    self.result.unvisited.insert(location);
                    continue;
                }
                let inside = repository.as_ref().zip(tracked_name).map(|(found, mut name)| {
                    name.push(b'/');
                    RepositoryPosition { name, ..found.clone() }
                });
                let is_ignored = here.ignored
                    || (!protected && !is_deep && ground.rules.entry(&path, true).is_some());
                if protected && here.nested_in_protected >= NESTED {
                    self.result.unvisited.insert(location.clone());
                    self.push(location, stamp, EntryKind::Folder, true);
                    continue;
                }
                let is_newly_ignored = here.is_newly_ignored
                    || (is_ignored && !here.ignored && self.is_newly_ignored(&location));
                let ignored = is_ignored && !is_newly_ignored;
                if ignored {
                    let tracks = inside
                        .as_ref()
                        .is_some_and(|inside| inside.repository.tracks_below(&inside.name));
                    if !here.ignored && self.result.ignored_names.len() < 64 {
                        self.result.ignored_names.insert(name.to_string_lossy().into_owned());
                    }
                    // Untracked files below it are not considered.
                    self.result.unvisited.insert(location.clone());
                    if !tracks {
                        continue;
                    }
                } else if !(is_over || is_newly_ignored) || protected {
                    self.push(location.clone(), stamp, EntryKind::Folder, protected);
                }
                let nested = here.nested(location, protected, inside, None);
                let nested_in_protected = usize::from(protected) * (here.nested_in_protected + 1);
                let nested =
                    CurrentDirectory { ignored, is_newly_ignored, nested_in_protected, ..nested };
                directories.push((name, nested));
                continue;
            }
            let git_state = match (&repository, &tracked_name) {
                (Some(found), Some(name)) => {
                    found.repository.tracked_state(name, &stamp, &found.attributes)
                }
                _ => TrackedState::Untracked,
            };
            let untracked = git_state == TrackedState::Untracked;
            if here.ignored && untracked {
                continue;
            }
            let ignored = untracked
                && !protected
                && !is_deep
                && ground.rules.entry(&location.path(), false).is_some();
            let found =
                EntryKind::File { git_state, top: top.clone().filter(|_| !untracked), ignored };
            self.visit_entry(&directory, &name, location, stamp, kind, found, protected);
        }
        let mut waiting = Vec::with_capacity(directories.len());
        // Open directories are scarce, and many levels may wait at the same time.
        let stays_open = here.depth < STRIDE || here.depth.is_multiple_of(STRIDE);
        for (name, below) in directories {
            if below.root.as_os_str().len() + below.relative.as_os_str().len() + 2 > MAX_LENGTH {
                self.result.record_missed(below.path(), TOO_DEEP);
                self.result.unvisited.insert(below.path());
                continue;
            }
            let (above, path) = match stays_open {
                true => (Arc::clone(&directory), PathBuf::from(name)),
                false => (Arc::clone(&unread.above), unread.path.join(name)),
            };
            waiting.push(UnreadDirectory { above, path, directory: below });
        }
        // The last one is read first.
        waiting.reverse();
        waiting
    }

    /// Whether the time for finding protected entries is over.
    fn is_search_over(&self, directory: &CurrentDirectory) -> bool {
        let until = match directory.is_newly_ignored {
            true => Some(self.walk.search_ignored_until.get_or_init(|| Instant::now() + SEARCH)),
            false => self.walk.search_until.get(),
        };
        until.is_some_and(|until| Instant::now() >= *until)
    }

    /// Whether a directory that is ignored now was not ignored before the command.
    fn is_newly_ignored(&self, location: &ConfinedPath) -> bool {
        let is_known = self.walk.opening.is_some_and(|unseen| unseen.contains(location));
        let before = self.walk.rules_before;
        !is_known && before.is_some_and(|rules| !rules.was_ignored(&location.path(), true))
    }

    /// Makes a directory of this user readable, if that is requested, and returns its stamp.
    fn make_readable(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        location: &ConfinedPath,
        stat: &Stat,
        stamp: Stamp,
    ) -> Stamp {
        let may_open = self.walk.opening.is_some_and(|closed| !closed.contains(location));
        if !may_open || !is_inaccessible(stat) {
            return stamp;
        }
        let mode = stamp.mode | 0o700;
        match set_folder_mode(directory, name, mode) {
            Ok(()) => Stamp { mode, ..stamp },
            Err(_) => stamp,
        }
    }

    fn repository_at(&self, directory: &Path) -> Option<Repository> {
        let mut indexes = self.walk.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Repository::open_at_root(directory, &mut indexes)
    }

    #[expect(clippy::too_many_arguments, reason = "all facts of one entry, used in one place")]
    fn visit_entry(
        &mut self,
        directory: &OwnedFd,
        name: &OsStr,
        location: ConfinedPath,
        stamp: Stamp,
        kind: FileType,
        file: EntryKind,
        protected: bool,
    ) {
        let found = match kind {
            FileType::RegularFile => file,
            FileType::Symlink => match link_target(directory, name) {
                Ok(target) => EntryKind::Link(target),
                Err(_) => return,
            },
            _ => EntryKind::Special,
        };
        self.push(location, stamp, found, protected);
    }

    fn push(&mut self, path: ConfinedPath, stamp: Stamp, kind: EntryKind, protected: bool) {
        self.result.entries.push(WorkspaceEntry { path, stamp, kind, protected });
    }
}

/// Whether a directory of this user cannot be listed and entered.
fn is_inaccessible(stat: &Stat) -> bool {
    const LISTED: u32 = 0o500;
    let user = rustix::process::geteuid();
    Stamp::from_stat(stat).mode & LISTED != LISTED
        && !user.is_root()
        && stat.st_uid == user.as_raw()
}

impl CurrentDirectory {
    fn nested(
        &self,
        location: ConfinedPath,
        protected: bool,
        repository: Option<RepositoryPosition>,
        git: Option<PathBuf>,
    ) -> Self {
        let Self { ignored, is_newly_ignored, nested_in_protected, .. } = *self;
        let depth = self.depth + 1;
        let ConfinedPath { root, relative } = location;
        Self {
            root,
            relative,
            repository,
            ignored,
            is_newly_ignored,
            nested_in_protected,
            protected,
            git,
            depth,
        }
    }

    fn path(&self) -> ConfinedPath {
        ConfinedPath { root: self.root.clone(), relative: self.relative.clone() }
    }
}
