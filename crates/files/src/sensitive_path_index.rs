//! Searches a workspace for files that commands cannot see or cannot change, and for what protected
//! links point to. Directory contents are cached until the directory changes.

mod link_search;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parallax_protocol::protected_links::{FindLinkTargets, LinkTargets};
use parallax_protocol::protected_names::{self, Protection};

use self::link_search::{LinkCache, Search};
use crate::gemini_ignore::GeminiIgnore;

/// Time limits for reading new directories in the first search and in each later one. Directories
/// that are not reached are read by later commands, upper levels first.
const FIRST: Duration = Duration::from_secs(2);
const LATER: Duration = Duration::from_millis(100);
/// Maximum number of cached directories; each takes about 200 bytes.
const FOLDERS: usize = 100_000;
/// Maximum number of protected paths of one kind, because each costs a mount.
const MAX_COUNT: usize = 4096;
/// A directory that changed within this time before it was read is read again, because file system
/// timestamps are coarse.
const COARSE: Duration = Duration::from_secs(2);
/// How long the targets of links count as known after a search. A command cannot change where
/// protected links point.
const CACHE_TTL: Duration = Duration::from_secs(1);
/// Maximum number of workspaces (sets of directories) whose contents are cached.
const WORKSPACES: usize = 8;

/// The relevant files of a workspace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SensitivePaths {
    /// Files with secrets.
    pub secrets: Vec<PathBuf>,
    /// Files that the user's ignore file names.
    pub ignored_files: Vec<PathBuf>,
    /// Protected files and directories, except `.git`.
    pub protected: Vec<PathBuf>,
    /// Repositories: each `.git` directory, file, or link.
    pub repositories: Vec<PathBuf>,
    /// The protected directories.
    folders: Vec<PathBuf>,
    /// The protected links.
    links: Vec<PathBuf>,
    /// Where protected links of the workspace and of the home directories lead in the workspace,
    /// and each link on the way.
    pub link_targets: Vec<PathBuf>,
    /// The parts that run programs or redirect git, of git directories in the workspace that are
    /// not named `.git`.
    pub git_parts: Vec<PathBuf>,
    /// These git directories.
    pub git_directories: Vec<PathBuf>,
}

/// A cache of the relevant files of workspaces. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SensitivePathIndex {
    caches: Arc<Mutex<HashMap<Vec<PathBuf>, PathCache>>>,
    /// The home directories, with links resolved.
    dirs: Vec<PathBuf>,
    /// Files and directories that Parallax itself trusts, wherever they are.
    trusted: Arc<Mutex<Vec<PathBuf>>>,
    /// Whether paths that `.geminiignore` names are hidden.
    hides_ignored: bool,
}

#[derive(Debug)]
struct PathCache {
    folders: HashMap<PathBuf, Folder>,
    links: LinkCache,
    /// The stamps of the ignore files with which the directories were read.
    rules: Vec<Option<DirectoryStamp>>,
    /// The number of searches so far.
    search_count: u64,
    coarse: Duration,
    /// The targets of links that the last search found, and its time.
    targets: Option<(Instant, Arc<LinkTargets>)>,
}

impl Default for PathCache {
    fn default() -> Self {
        Self {
            folders: HashMap::new(),
            links: LinkCache::default(),
            rules: Vec::new(),
            search_count: 0,
            coarse: COARSE,
            targets: None,
        }
    }
}

#[derive(Debug, Default)]
struct Folder {
    /// The directory's stamp when it was read; `None` if it must be read again.
    stamp: Option<DirectoryStamp>,
    paths: SensitivePaths,
    folders: Vec<PathBuf>,
    /// The last search that visited it.
    last_search: u64,
}

/// Device, inode, and the times of the last change of names (mtime) and of any change (ctime).
type DirectoryStamp = (u64, u64, (i64, i64), (i64, i64));

fn stamp(path: &Path, is_directory: bool) -> Option<DirectoryStamp> {
    let data = path.symlink_metadata().ok().filter(|data| data.is_dir() == is_directory)?;
    let (modified, changed) =
        ((data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec()));
    Some((data.dev(), data.ino(), modified, changed))
}

/// Whether a later change will certainly change the stamp.
fn is_settled(stamp: DirectoryStamp, coarse: Duration) -> bool {
    let (_, _, modified, changed) = stamp;
    let (seconds, nanos) = modified.max(changed);
    let time = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
    let time = time.map(|(seconds, nanos)| Duration::new(seconds, nanos));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    time.is_some_and(|time| time + coarse < now)
}

impl SensitivePathIndex {
    /// Creates a cache. Links of these home directories, which must be resolved, count, too.
    pub fn new(dirs: Vec<PathBuf>, hides_ignored: bool) -> Self {
        Self { dirs, hides_ignored, ..Self::default() }
    }

    /// Protects files and directories that Parallax trusts as if a protected link pointed to them.
    /// The paths must be resolved.
    pub fn trust(&self, paths: Vec<PathBuf>) {
        *self.trusted.lock().unwrap_or_else(PoisonError::into_inner) = paths;
    }

    /// Returns the rules of the workspace's ignore file, if they count. Blocking.
    pub fn rules(&self, roots: &[PathBuf]) -> Option<GeminiIgnore> {
        self.hides_ignored.then(|| GeminiIgnore::load(roots)).flatten()
    }

    /// Searches the directories of the workspace; only links of protected names are followed. The
    /// rules must be those of [`Self::rules`]. Blocking.
    pub fn find(&self, roots: &[PathBuf], rules: Option<&GeminiIgnore>) -> SensitivePaths {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(roots);
        if caches.len() >= WORKSPACES && !caches.contains_key(&key) {
            caches.clear();
        }
        let seen = caches.entry(key).or_default();
        let files = rules.map(GeminiIgnore::files).into_iter().flatten();
        let stamps: Vec<_> = files.map(|file| stamp(&file, false)).collect();
        if seen.rules != stamps {
            *seen = PathCache { rules: stamps, coarse: seen.coarse, ..PathCache::default() };
        }
        seen.search_count += 1;
        let time = if seen.search_count == 1 { FIRST } else { LATER };
        let mut found = seen.refresh(roots, rules, Instant::now() + time);
        let number = seen.search_count;
        // Links have their own time: a workspace of many directories must not use it up.
        let end = Instant::now() + time;
        let search = Search { roots, dirs: &self.dirs, number, end, coarse: seen.coarse };
        search.run(&mut seen.links, &mut found);
        let trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = trusted.iter().filter(|path| search.is_in_workspace(path));
        found.link_targets.extend(inside.cloned());
        remove_nested_paths(&mut found.link_targets);
        drop(trusted);
        seen.folders.retain(|_, folder| folder.last_search == number);
        seen.links.retain_visited(number);
        let targets = found.link_targets.iter().chain(&found.git_parts).cloned();
        let targets = LinkTargets::new(targets).with_git_directories(found.git_directories.clone());
        seen.targets = Some((Instant::now(), Arc::new(targets)));
        found
    }

    /// Returns the targets of links that the last search found, if it was recent enough.
    fn recent_targets(&self, roots: &[PathBuf], age: Duration) -> Option<Arc<LinkTargets>> {
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let (time, targets) = caches.get(&key(roots))?.targets.as_ref()?;
        (time.elapsed() < age).then(|| Arc::clone(targets))
    }
}

/// Returns the key of a workspace.
fn key(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut key = roots.to_vec();
    key.sort();
    key
}

impl FindLinkTargets for SensitivePathIndex {
    fn link_targets(&self, roots: &[PathBuf]) -> Arc<LinkTargets> {
        self.recent_targets(roots, CACHE_TTL).unwrap_or_else(|| self.link_targets_now(roots))
    }

    fn link_targets_now(&self, roots: &[PathBuf]) -> Arc<LinkTargets> {
        self.find(roots, self.rules(roots).as_ref());
        self.recent_targets(roots, Duration::MAX).unwrap_or_default()
    }
}

impl PathCache {
    fn refresh(
        &mut self,
        roots: &[PathBuf],
        rules: Option<&GeminiIgnore>,
        end: Instant,
    ) -> SensitivePaths {
        let mut all = SensitivePaths::default();
        let mut waiting: VecDeque<PathBuf> = roots.iter().cloned().collect();
        let mut count = 0;
        while let Some(path) = waiting.pop_front() {
            count += 1;
            if count > FOLDERS {
                tracing::warn!(
                    "the workspace has more than {FOLDERS} directories; not all were searched"
                );
                break;
            }
            let current = stamp(&path, true);
            let directory = self.folders.entry(path.clone()).or_default();
            if directory.last_search == self.search_count {
                // A root inside another root.
                continue;
            }
            directory.last_search = self.search_count;
            if current.is_none() || directory.stamp != current {
                // The upper directories are read even after the time limit.
                let may_read = count <= roots.len() || Instant::now() < end;
                let is_whole = may_read && directory.read(&path, roots, rules, end);
                directory.stamp =
                    current.filter(|current| is_whole && is_settled(*current, self.coarse));
            }
            all.add(&directory.paths);
            waiting.extend(directory.folders.iter().cloned());
        }
        all
    }
}

impl Folder {
    /// Reads the names of the directory; returns whether there was time for all of them.
    fn read(
        &mut self,
        path: &Path,
        roots: &[PathBuf],
        rules: Option<&GeminiIgnore>,
        end: Instant,
    ) -> bool {
        self.paths = SensitivePaths::default();
        self.folders.clear();
        let Ok(entries) = std::fs::read_dir(path) else { return false };
        let root = roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|it| it.as_os_str().len());
        let relative = root.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        let parents = protected_names::folded_names(relative);
        let parents = parents.iter().rev().map(|name| Cow::Borrowed(name.as_str()));
        for (number, entry) in entries.flatten().enumerate() {
            if number % 4096 == 4095 && Instant::now() > end {
                return false;
            }
            let name = entry.file_name();
            let kind = entry.file_type().ok();
            let is_directory = kind.is_some_and(|kind| kind.is_dir());
            let lower = if is_plain(&name) {
                String::new()
            } else {
                protected_names::fold(&name.to_string_lossy())
            };
            if lower == ".git" {
                self.paths.repositories.push(entry.path());
            } else if protected_names::protection_of(&lower, parents.clone())
                == Some(Protection::Closed)
            {
                if !is_directory && is_secret(&name) {
                    self.paths.secrets.push(entry.path());
                }
                if is_directory {
                    self.paths.folders.push(entry.path());
                } else if kind.is_some_and(|kind| kind.is_symlink()) {
                    self.paths.links.push(entry.path());
                }
                self.paths.protected.push(entry.path());
            } else if rules.is_some_and(|rules| rules.names(&entry.path(), is_directory)) {
                self.paths.ignored_files.push(entry.path());
            } else if !is_directory {
                if !lower.is_empty() && is_secret(&name) {
                    self.paths.secrets.push(entry.path());
                }
            } else if name != "node_modules" && name != "target" {
                self.folders.push(entry.path());
            }
        }
        true
    }
}

fn is_secret(name: &OsStr) -> bool {
    protected_names::is_secret_of_project(&name.to_string_lossy())
}

/// Whether the name is clearly irrelevant, as most names are.
fn is_plain(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    protected_names::is_plain(bytes)
        && bytes.first().is_some_and(|first| !matches!(first, b'.' | b'g' | b'G'))
}

impl SensitivePaths {
    fn add(&mut self, more: &Self) {
        for (all, more) in [
            (&mut self.secrets, &more.secrets),
            (&mut self.ignored_files, &more.ignored_files),
            (&mut self.protected, &more.protected),
            (&mut self.repositories, &more.repositories),
            (&mut self.folders, &more.folders),
            (&mut self.links, &more.links),
        ] {
            let room = MAX_COUNT.saturating_sub(all.len());
            all.extend(more.iter().take(room).cloned());
        }
    }
}

/// Removes paths that lie inside another one.
pub fn remove_nested_paths(paths: &mut Vec<PathBuf>) {
    let all: HashSet<PathBuf> = paths.iter().cloned().collect();
    paths.retain(|path| !path.ancestors().skip(1).any(|ancestor| all.contains(ancestor)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    #[test]
    fn sensitive_names_are_not_ordinary_names() {
        for name in [".git", ".env", "gha-creds-x.json"] {
            assert!(!is_plain(OsStr::new(name)), "{name}");
            assert!(!is_plain(OsStr::new(&name.to_uppercase())), "{name}");
        }
        assert!(is_plain(OsStr::new("src")));
    }

    #[test]
    fn all_levels_are_searched_without_following_links() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        for name in [
            "a/b/c/d/e/f/.env",
            ".git/config",
            "sub/.git",
            "x/.vscode/settings.json",
            "node_modules/.env",
        ] {
            write(root, name, "");
        }
        std::os::unix::fs::symlink(root, root.join("again")).expect("a link");
        let names = SensitivePathIndex::default();
        let roots = [root.to_owned(), root.join("a/b")];
        let mut found = names.find(&roots, None);
        found.repositories.sort();
        assert!(found.ignored_files.is_empty());
        assert_eq!(found.secrets, [root.join("a/b/c/d/e/f/.env")]);
        assert_eq!(found.protected, [root.join("x/.vscode")]);
        assert_eq!(found.repositories, [root.join(".git"), root.join("sub/.git")]);
        write(root, ".geminiignore", "a/\n");
        let rules = GeminiIgnore::load(&roots[..1]);
        let remaining = names.find(&roots[..1], rules.as_ref());
        assert_eq!((remaining.ignored_files, remaining.secrets), (vec![root.join("a")], vec![]));
    }

    #[test]
    fn every_protected_name_is_found_below_a_root() {
        for (pattern, protection) in protected_names::patterns() {
            let directory = tempfile::tempdir().expect("a directory");
            let root = directory.path();
            let name = format!("sub/{}", pattern.replace('*', "x"));
            write(root, &name, "");
            let found = SensitivePathIndex::default().find(&[root.to_owned()], None);
            let closed = protection == Protection::Closed;
            let expected = closed.then(|| root.join(&name)).into_iter().collect::<Vec<_>>();
            assert_eq!(found.protected, expected, "{pattern}");
        }
        // The names above a root do not belong to the workspace.
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join(".cargo");
        write(&root, "config.toml", "");
        assert_eq!(
            SensitivePathIndex::default().find(&[root], None).protected,
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn changes_between_two_scans_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        write(root, "a/b/c/d/x", "");
        write(root, "y/x", "");
        let names = SensitivePathIndex::default();
        let tick = Duration::from_millis(20);
        names.caches.lock().expect("seen").entry(vec![root.to_owned()]).or_default().coarse = tick;
        let roots = [root.to_owned()];
        for _ in 0..2 {
            std::thread::sleep(tick * 2);
            assert_eq!(names.find(&roots, None), SensitivePaths::default());
        }
        let cached_count =
            |seen: &PathCache| seen.folders.values().filter(|it| it.stamp.is_some()).count();
        assert_eq!(cached_count(&names.caches.lock().expect("seen")[&roots[..]]), 6);
        write(root, "a/b/c/d/.env", "");
        assert_eq!(names.find(&roots, None).secrets, [root.join("a/b/c/d/.env")]);
        std::fs::rename(root.join("a/b/c"), root.join("y/c")).expect("moved");
        assert_eq!(names.find(&roots, None).secrets, [root.join("y/c/d/.env")]);
        std::fs::remove_dir_all(root.join("y")).expect("removed");
        assert_eq!(names.find(&roots, None), SensitivePaths::default());
        let seen = names.caches.lock().expect("seen");
        assert_eq!(seen[&roots[..]].folders.len(), 3, "the root, a, a/b");
    }

    #[test]
    fn links_of_protected_names_are_followed_at_any_depth() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        let (root, home) = (top.join("w"), top.join("home"));
        let link = |path: PathBuf, target: &str| {
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::os::unix::fs::symlink(target, path).expect("a link");
        };
        for path in [".git/HEAD", "sub/deep/.git/HEAD", "g/HEAD", "g/modules/m/hooks/x", "vs/a"] {
            write(&root, path, "");
        }
        write(&root, "tree/.git", &format!("gitdir: {}\n", root.join("g").display()));
        for (name, target) in [
            ("sub/.husky/pre-commit", "../../h"),
            ("sub/deep/.git/hooks/d/pre-commit", "../../../../../nested"),
            (".git/info", "../info"),
            (".git/objects/ab/x", "../../../objects"),
            (".VSCode", "between/vs"),
            ("between", "."),
            ("vs/tasks.json", "../tasks"),
            (".claude/a/b/c/x", "../../../../deep"),
            (".zed", "later"),
            (".idea/up", "../.."),
            ("plain/x", "../ordinary"),
            (".cursor/node_modules/x", "../../package"),
        ] {
            link(root.join(name), target);
        }
        for (name, target) in [
            (".config", "config"),
            ("config/fish/functions/a/x", "../../../../../w/fish"),
            (".parallax", "../w/par"),
            (".gemini/extensions/e/x", "../../../../w/extension"),
            (".gemini/tmp/a/x", "../../../../w/data"),
            (".bashrc", "../w/rc"),
            (".aws", "../w"),
        ] {
            link(home.join(name), target);
        }
        let names = SensitivePathIndex::new(vec![home], false);
        for _ in 0..2 {
            let found = names.find(std::slice::from_ref(&root), None);
            let relative_names = |paths: Vec<PathBuf>| {
                let mut names: Vec<String> = paths
                    .iter()
                    .map(|path| path.strip_prefix(&root).expect("inside").display().to_string())
                    .collect();
                names.sort();
                names.join(" ")
            };
            assert_eq!(
                relative_names(found.link_targets),
                "between deep extension fish h info later nested par rc tasks vs"
            );
            assert_eq!(
                relative_names(found.git_parts),
                "g/branches g/commondir g/config g/config.worktree g/hooks g/info \
                 g/modules/m/branches g/modules/m/commondir g/modules/m/config \
                 g/modules/m/config.worktree g/modules/m/hooks g/modules/m/info \
                 g/modules/m/remotes g/remotes"
            );
        }
    }
}
