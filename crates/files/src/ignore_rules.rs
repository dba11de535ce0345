//! Ignore rules: git's ignore files, `.geminiignore`, and custom ignore files, in rising
//! precedence.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};

use crate::git_files::{common_directory, git_directory};
use crate::real_path::real_path;

/// Maximum size of an ignore file.
const MAX_IGNORE_FILE: u64 = 1024 * 1024;
/// Maximum total size of git's ignore files whose rules are known at the same time: a megabyte of
/// patterns takes seconds to compile. Further files count as empty.
const MAX_GIT_IGNORE_BYTES: u64 = MAX_IGNORE_FILE;

/// Which ignore files are used (`context.fileFiltering`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoreFileOptions {
    /// `.gitignore`, `.git/info/exclude`, and `core.excludesFile`.
    pub respect_git_ignore: bool,
    /// `.geminiignore` in the root of each workspace directory.
    pub respect_gemini_ignore: bool,
    /// Additional ignore files, in rising precedence; relative to the root.
    pub custom_ignore_files: Vec<PathBuf>,
}

impl Default for IgnoreFileOptions {
    fn default() -> Self {
        Self {
            respect_git_ignore: true,
            respect_gemini_ignore: true,
            custom_ignore_files: Vec::new(),
        }
    }
}

/// Which kinds of ignore files an operation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoreFlags {
    /// Git's files.
    pub git: bool,
    /// `.geminiignore`.
    pub gemini: bool,
    /// The custom files of the settings.
    pub custom: bool,
}

impl IgnoreFlags {
    /// No ignore files: only `.git` itself stays hidden.
    pub const NONE: Self = Self { git: false, gemini: false, custom: false };

    /// Returns the flags according to the settings.
    pub fn from_settings(filtering: &IgnoreFileOptions) -> Self {
        Self {
            git: filtering.respect_git_ignore,
            gemini: filtering.respect_gemini_ignore,
            custom: true,
        }
    }
}

/// The kind of file that contains a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSource {
    /// Built in: `.git` is never entered.
    BuiltIn,
    /// `.gitignore`, `.git/info/exclude`, `core.excludesFile`.
    Git,
    /// `.geminiignore`.
    Gemini,
    /// A custom ignore file.
    Custom,
}

/// The rule that ignores a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredBy {
    /// The kind of file that contains it.
    pub source: RuleSource,
    /// The pattern as written.
    pub pattern: String,
    /// The file that contains it.
    pub file: Option<PathBuf>,
}

/// Parsed ignore files, cached until they change on disk.
#[derive(Debug, Default)]
pub(crate) struct IgnoreCache {
    files: Mutex<ParsedIgnoreFiles>,
}

#[derive(Debug, Default)]
struct ParsedIgnoreFiles {
    /// By the directory that the patterns are relative to, and the path of the file.
    by_path: HashMap<(PathBuf, PathBuf), ParsedIgnoreFile>,
    /// Total size of git's files among them.
    git_bytes: u64,
}

#[derive(Debug, Clone)]
struct ParsedIgnoreFile {
    stamp: IgnoreFileStamp,
    rules: Option<Arc<Gitignore>>,
    /// The part of [`MAX_GIT_IGNORE_BYTES`] that it uses. Patterns that could not be compiled took
    /// as long as others.
    git_bytes: u64,
}

/// Size, modification time, and inode of a file.
type IgnoreFileStamp = (u64, i64, i64, u64);

impl IgnoreCache {
    /// Returns the rules of one ignore file, relative to `base`, or `None` if the file does not
    /// exist, is empty, or is one of git's and there are too many of these.
    fn load(
        &self,
        source: RuleSource,
        base: &Path,
        file: &Path,
        follow: bool,
    ) -> Option<Arc<Gitignore>> {
        use std::os::unix::fs::MetadataExt;
        let metadata =
            if follow { std::fs::metadata(file) } else { std::fs::symlink_metadata(file) };
        let metadata = metadata.ok().filter(std::fs::Metadata::is_file)?;
        let stamp = (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
        let key = (base.to_path_buf(), file.to_path_buf());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parsed) = files.by_path.get(&key).filter(|parsed| parsed.stamp == stamp) {
            return parsed.rules.clone();
        }
        if files.by_path.len() > 4096 {
            *files = ParsedIgnoreFiles::default();
        }
        let replaced = files.by_path.remove(&key).map_or(0, |parsed| parsed.git_bytes);
        files.git_bytes = files.git_bytes.saturating_sub(replaced);
        let length = match source {
            RuleSource::Git => metadata.len().min(MAX_IGNORE_FILE),
            _ => 0,
        };
        let fits = files.git_bytes.saturating_add(length) <= MAX_GIT_IGNORE_BYTES;
        if !fits {
            tracing::warn!("`{}` is not used: too many ignore rules", file.display());
        }
        let rules = fits.then(|| parse(base, file)).flatten().map(Arc::new);
        let git_bytes = if fits { length } else { 0 };
        files.git_bytes = files.git_bytes.saturating_add(git_bytes);
        let parsed = ParsedIgnoreFile { stamp, rules: rules.clone(), git_bytes };
        files.by_path.insert(key, parsed);
        rules
    }
}

/// Reads a small regular file; anything else counts as missing.
fn read_small(file: &Path) -> Option<String> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let nonblock = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(nonblock.bits()).ok()?;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(base: &Path, file: &Path) -> Option<Gitignore> {
    let text = read_small(file)?;
    let mut builder = GitignoreBuilder::new(base);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // Invalid lines are skipped, as git does.
        let _ = builder.add_line(Some(file.to_path_buf()), line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// The git rules of one directory, in rising precedence.
#[derive(Debug, Clone, Default)]
struct GitChain {
    rules: Vec<Arc<Gitignore>>,
    in_repository: bool,
}

/// The rules of one file outside of git, and its kind.
type StrongRules = (RuleSource, Arc<Gitignore>);

/// All ignore rules, read from disk during one operation.
#[derive(Debug)]
pub struct IgnoreRules {
    cache: Arc<IgnoreCache>,
    flags: IgnoreFlags,
    roots: Vec<PathBuf>,
    /// For each root: custom files, highest precedence first, then `.geminiignore`.
    custom_rules: Vec<(PathBuf, Vec<StrongRules>)>,
    chains: RwLock<HashMap<PathBuf, Arc<GitChain>>>,
}

impl IgnoreRules {
    /// Returns the rules of `.geminiignore` in these directories only; `None` if none of them has
    /// one. The directories must be resolved. Blocking.
    pub fn geminiignore_only(roots: &[PathBuf]) -> Option<Self> {
        static CACHE: OnceLock<Arc<IgnoreCache>> = OnceLock::new();
        let cache = Arc::clone(CACHE.get_or_init(Arc::default));
        let flags = IgnoreFlags { gemini: true, ..IgnoreFlags::NONE };
        let rules = Self::new(cache, roots.to_vec(), &IgnoreFileOptions::default(), flags);
        let any = rules.custom_rules.iter().any(|(_, rules)| !rules.is_empty());
        any.then_some(rules)
    }

    pub(crate) fn new(
        cache: Arc<IgnoreCache>,
        roots: Vec<PathBuf>,
        filtering: &IgnoreFileOptions,
        flags: IgnoreFlags,
    ) -> Self {
        let main = roots.first().cloned().unwrap_or_default();
        let mut custom_rules = Vec::new();
        for root in &roots {
            let mut rules = Vec::new();
            if flags.custom {
                for file in filtering.custom_ignore_files.iter().rev() {
                    let loaded = cache.load(RuleSource::Custom, root, &main.join(file), true);
                    rules.extend(loaded.map(|loaded| (RuleSource::Custom, loaded)));
                }
            }
            if flags.gemini {
                let loaded =
                    cache.load(RuleSource::Gemini, root, &root.join(".geminiignore"), false);
                rules.extend(loaded.map(|loaded| (RuleSource::Gemini, loaded)));
            }
            custom_rules.push((root.clone(), rules));
        }
        Self { cache, flags, roots, custom_rules, chains: RwLock::default() }
    }

    /// Returns why an absolute path is ignored: by a rule for it, for a parent directory, or, if it
    /// is a link, for its target.
    pub fn ignored_by(&self, path: &Path) -> Option<IgnoredBy> {
        let metadata = std::fs::symlink_metadata(path).ok();
        let is_directory = metadata.as_ref().is_some_and(std::fs::Metadata::is_dir);
        let real = real_path(path)?;
        self.ignored_by_name(path, is_directory).or_else(|| {
            let real_is_directory = real.is_dir();
            (real != path).then(|| self.ignored_by_name(&real, real_is_directory)).flatten()
        })
    }

    /// Like [`ignored_by`](Self::ignored_by), but does not check the target of a link.
    fn ignored_by_name(&self, path: &Path, is_directory: bool) -> Option<IgnoredBy> {
        let root = self
            .roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len())?;
        let rest = path.strip_prefix(root).ok()?;
        let mut directory = root.clone();
        let mut names = rest.iter().peekable();
        while let Some(name) = names.next() {
            directory.push(name);
            let is_directory = names.peek().is_some() || is_directory;
            if let Some(reason) = self.entry(&directory, is_directory) {
                return Some(reason);
            }
        }
        None
    }

    /// Returns why an entry is ignored, assuming that its parents are not. Intended for walkers.
    pub fn entry(&self, path: &Path, is_directory: bool) -> Option<IgnoredBy> {
        if path.file_name().is_some_and(|name| name == ".git") {
            return Some(IgnoredBy {
                source: RuleSource::BuiltIn,
                pattern: ".git".to_owned(),
                file: None,
            });
        }
        for (root, rules) in &self.custom_rules {
            if !path.starts_with(root) {
                continue;
            }
            for (source, rules) in rules {
                match rules.matched(path, is_directory) {
                    Match::Ignore(glob) => return Some(ignored_by(*source, glob)),
                    Match::Whitelist(_) => return None,
                    Match::None => {}
                }
            }
        }
        if !self.flags.git {
            return None;
        }
        matched_by_git(&self.chain(path.parent()?, 0), path, is_directory)
    }

    /// Whether rules that were read by earlier calls of [`entry`](Self::entry) ignore an entry:
    /// files that changed or were created since then do not count.
    pub fn was_ignored(&self, path: &Path, is_directory: bool) -> bool {
        let chains = self.chains.read().unwrap_or_else(PoisonError::into_inner);
        let chain = path.ancestors().skip(1).find_map(|directory| chains.get(directory));
        path.file_name().is_some_and(|name| name == ".git")
            || chain.is_some_and(|chain| matched_by_git(chain, path, is_directory).is_some())
    }

    /// Returns the git rules for the entries of a directory.
    fn chain(&self, directory: &Path, depth: usize) -> Arc<GitChain> {
        if let Some(chain) =
            self.chains.read().unwrap_or_else(PoisonError::into_inner).get(directory)
        {
            return Arc::clone(chain);
        }
        let mut chain = GitChain::default();
        if let Some(common) = shared_git_directory(directory) {
            chain.in_repository = true;
            chain.rules.extend(
                excludes_file()
                    .and_then(|file| self.cache.load(RuleSource::Git, directory, &file, true)),
            );
            let exclude = common.join("info/exclude");
            chain.rules.extend(self.cache.load(RuleSource::Git, directory, &exclude, true));
        } else if depth < 256
            && let Some(parent) = directory.parent()
        {
            chain = GitChain::clone(&self.chain(parent, depth + 1));
        }
        if chain.in_repository {
            chain.rules.extend(self.cache.load(
                RuleSource::Git,
                directory,
                &directory.join(".gitignore"),
                false,
            ));
        }
        let chain = Arc::new(chain);
        self.chains
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(directory.to_path_buf(), Arc::clone(&chain));
        chain
    }
}

fn matched_by_git(chain: &GitChain, path: &Path, is_directory: bool) -> Option<IgnoredBy> {
    for rules in chain.rules.iter().rev() {
        match rules.matched(path, is_directory) {
            Match::Ignore(glob) => return Some(ignored_by(RuleSource::Git, glob)),
            Match::Whitelist(_) => return None,
            Match::None => {}
        }
    }
    None
}

fn ignored_by(source: RuleSource, glob: &ignore::gitignore::Glob) -> IgnoredBy {
    IgnoredBy {
        source,
        pattern: glob.original().to_owned(),
        file: glob.from().map(Path::to_path_buf),
    }
}

/// Returns `core.excludesFile`, or its default path.
fn excludes_file() -> Option<PathBuf> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    FILE.get_or_init(gitconfig_excludes_path).clone()
}

/// Returns the git directory of the working tree at `directory`; for a linked worktree, the common
/// one.
fn shared_git_directory(directory: &Path) -> Option<PathBuf> {
    let git = git_directory(directory)?;
    Some(if git == directory.join(".git") { git } else { common_directory(&git) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_files_that_cannot_be_compiled_use_up_the_limit() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = IgnoreCache::default();
        // The crate that compiles patterns rejects so many.
        let pattern = |number: usize| format!("**/a*{number}*b?[c-x]*{number}*z\n");
        let text: String = (0..30_000).map(pattern).collect();
        let text = text.get(..MAX_GIT_IGNORE_BYTES as usize * 2 / 3).expect("long");
        let load = |name: &str, text: &str| {
            let file = directory.path().join(name);
            std::fs::write(&file, text).expect("written");
            cache.load(RuleSource::Git, directory.path(), &file, false).is_some()
        };
        load("first", text);
        assert_eq!(cache.files.lock().expect("a lock").git_bytes, text.len() as u64);
        // Only the first was read.
        assert!(!load("second", text) && !load("third", text));
        assert_eq!(cache.files.lock().expect("a lock").git_bytes, text.len() as u64);
        assert!(load("small", "*.log\n"));
        // An emptied file leaves room for another.
        assert!(!load("first", ""));
        assert_eq!(cache.files.lock().expect("a lock").git_bytes, 6);
    }
}
