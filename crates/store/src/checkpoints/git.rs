//! Reads from a git repository whether the contents of a tracked file are those of its blob: the
//! index, and everything that may convert between the two.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::git_files::{common_directory, git_directory};

use super::git_index::{Index, TrackedEntry};
use super::state::{GitId, Stamp};

/// Size limit in bytes for configuration and attribute files; larger files are treated as
/// unreadable.
const MAX_TEXT: u64 = 1024 * 1024;

/// A working tree.
#[derive(Debug)]
pub(super) struct Repository {
    /// The root directory.
    pub top: PathBuf,
    index: Option<Arc<Index>>,
    /// Attributes that apply to the whole working tree.
    attributes: Vec<Arc<Attributes>>,
    /// Whether the configuration converts line endings or could not be understood.
    converts_all: bool,
}

/// What git knows about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrackedState {
    /// The file is not tracked.
    Untracked,
    /// The file is tracked; its contents may be those of the blob.
    PossiblyModified(GitId),
    /// The contents are those of the blob.
    Clean(GitId),
}

/// Parsed indexes, cached until their files change.
pub(super) type Indexes = HashMap<PathBuf, (Stamp, Option<Arc<Index>>)>;

impl Repository {
    /// Returns the repository whose working tree has the root `directory`, if there is one.
    pub fn open_at_root(directory: &Path, indexes: &mut Indexes) -> Option<Self> {
        let git = git_folder(directory)?;
        let common = common_directory(&git);
        let mut config = ConversionConfig::default();
        for file in configuration(&git, &common) {
            config.read(&file, 0);
        }
        let mut attributes = Vec::new();
        let mut files = vec![PathBuf::from("/etc/gitattributes"), common.join("info/attributes")];
        files.extend(config.attributes_files.iter().cloned());
        files.extend(user_folder().map(|directory| directory.join("git/attributes")));
        for file in files {
            attributes.extend(Attributes::read(&file));
        }
        let odd_environment =
            ["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_INDEX_FILE"]
                .iter()
                .any(|name| std::env::var_os(name).is_some());
        Some(Self {
            top: directory.to_path_buf(),
            index: if config.sha256 { None } else { read_index(&git.join("index"), indexes) },
            attributes,
            converts_all: config.converts || odd_environment,
        })
    }

    /// Returns the repository that contains a directory.
    pub fn find_containing(directory: &Path, indexes: &mut Indexes) -> Option<Self> {
        directory.ancestors().find_map(|directory| Self::open_at_root(directory, indexes))
    }

    /// Returns what git knows about a file, by its name relative to the root. `attributes` are the
    /// `.gitattributes` files of its parent directories.
    pub fn tracked_state(
        &self,
        name: &[u8],
        stamp: &Stamp,
        attributes: &[Arc<Attributes>],
    ) -> TrackedState {
        let Some((index, tracked)) = self.tracked_entry(name) else {
            return TrackedState::Untracked;
        };
        let mut rules = self.attributes.iter().chain(attributes);
        let converts = self.converts_all || rules.any(|rules| rules.is_converted(name));
        if !converts && index.is_clean(tracked, stamp) {
            TrackedState::Clean(tracked.blob)
        } else {
            TrackedState::PossiblyModified(tracked.blob)
        }
    }

    fn tracked_entry(&self, name: &[u8]) -> Option<(&Index, &TrackedEntry)> {
        let index = self.index.as_ref()?;
        Some((index, index.get(name)?))
    }

    /// Whether a file below this directory (with a trailing slash) is tracked.
    pub fn tracks_below(&self, directory: &[u8]) -> bool {
        self.index.as_ref().is_some_and(|index| index.tracks_below(directory))
    }
}

fn read_index(path: &Path, indexes: &mut Indexes) -> Option<Arc<Index>> {
    let stamp = Stamp::from_stat(&rustix::fs::stat(path).ok()?);
    if let Some((known, index)) = indexes.get(path)
        && *known == stamp
    {
        return index.clone();
    }
    let index = Index::read(path).map(Arc::new);
    if indexes.len() > 64 {
        indexes.clear();
    }
    indexes.insert(path.to_path_buf(), (stamp, index.clone()));
    index
}

/// Returns the git directory of a working tree with the root `directory`.
pub(super) fn git_folder(directory: &Path) -> Option<PathBuf> {
    git_directory(directory).filter(|git| git.is_dir())
}

/// Reads a small regular file; anything else is treated as missing.
fn read_text(path: &Path) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

/// Returns `$XDG_CONFIG_HOME` or `~/.config`.
fn user_folder() -> Option<PathBuf> {
    match std::env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => home().map(|home| home.join(".config")),
    }
}

/// Returns all files that git may read its configuration from.
fn configuration(git: &Path, common: &Path) -> Vec<PathBuf> {
    let mut files =
        vec![PathBuf::from("/etc/gitconfig"), PathBuf::from("/usr/local/etc/gitconfig")];
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        files.extend(std::env::var_os(name).map(PathBuf::from));
    }
    files.extend(user_folder().map(|directory| directory.join("git/config")));
    files.extend(home().map(|home| home.join(".gitconfig")));
    files.push(common.join("config"));
    files.push(git.join("config.worktree"));
    files
}

/// The settings that affect conversion. In doubt, a setting is assumed to convert.
#[derive(Debug, Default)]
struct ConversionConfig {
    converts: bool,
    sha256: bool,
    attributes_files: Vec<PathBuf>,
}

impl ConversionConfig {
    fn read(&mut self, file: &Path, depth: usize) {
        let Some(text) = read_text(file) else { return };
        if text.len() as u64 >= MAX_TEXT || depth > 5 {
            self.converts = true;
            return;
        }
        let mut in_include = false;
        for line in text.lines() {
            let mut line = line.trim();
            if let Some(header) = line.strip_prefix('[') {
                in_include = header.to_lowercase().starts_with("include");
                // A setting may follow the header on the same line.
                line = header.rsplit_once(']').map_or("", |(_, rest)| rest.trim());
            }
            let (key, value) = line.split_once('=').unwrap_or((line, "true"));
            let key = key.trim().to_lowercase();
            let value = value.split(['#', ';']).next().unwrap_or_default();
            let value = value.trim().trim_matches('"');
            match key.as_str() {
                "autocrlf" => {
                    let off = ["false", "no", "off", "0"];
                    self.converts |= !off.contains(&value.to_lowercase().as_str());
                }
                "objectformat" => self.sha256 |= !value.eq_ignore_ascii_case("sha1"),
                "attributesfile" => self.attributes_files.push(expand(value, file)),
                // Included without evaluating its condition.
                "path" if in_include => self.read(&expand(value, file), depth + 1),
                _ => {}
            }
        }
    }
}

/// Resolves a path in a configuration file.
fn expand(value: &str, file: &Path) -> PathBuf {
    match (value.strip_prefix("~/"), home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => file.parent().unwrap_or(Path::new("/")).join(value),
    }
}

/// The patterns of an attribute file whose files git may convert.
#[derive(Debug)]
pub(super) struct Attributes {
    /// Name suffixes such as `.sh`.
    suffixes: Vec<Vec<u8>>,
    all: bool,
}

impl Attributes {
    /// Reads an attribute file. Returns `None` if nothing in it causes a conversion.
    pub fn read(file: &Path) -> Option<Arc<Self>> {
        let mut rules = Self { suffixes: Vec::new(), all: false };
        let text = read_text(file)?;
        rules.all = text.len() as u64 >= MAX_TEXT;
        for line in text.lines() {
            let line = line.trim();
            let (pattern, attributes) =
                line.split_once([' ', '\t']).unwrap_or((line, Default::default()));
            if line.starts_with('#') || !attributes.split_whitespace().any(is_conversion) {
                continue;
            }
            match pattern.strip_prefix('*') {
                Some(end) if !end.is_empty() && !end.contains(['*', '?', '[', '\\', '/']) => {
                    rules.suffixes.push(end.as_bytes().to_vec());
                }
                // Broader than the pattern: more files are then compared byte by byte.
                _ => rules.all = true,
            }
        }
        (rules.all || !rules.suffixes.is_empty()).then(|| Arc::new(rules))
    }

    fn is_converted(&self, name: &[u8]) -> bool {
        let name = Path::new(std::ffi::OsStr::from_bytes(name)).file_name().unwrap_or_default();
        let ends_so = |end: &Vec<u8>| name.as_bytes().ends_with(end);
        self.all || self.suffixes.iter().any(ends_so)
    }
}

/// Whether an attribute causes a conversion.
fn is_conversion(attribute: &str) -> bool {
    let name = attribute.split('=').next().unwrap_or_default();
    ["text", "eol", "crlf", "filter", "ident", "working-tree-encoding"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_conversion_settings_are_detected() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("attributes");
        let read = |text: &str| {
            std::fs::write(&file, text).expect("write");
            Attributes::read(&file)
        };
        assert!(read("*.png binary\n*.lock -text linguist-generated\n# * text\n").is_none());
        let rules = read("*.sh text eol=lf\n").expect("rules");
        assert!(rules.is_converted(b"a/b.sh") && !rules.is_converted(b"a/b.rs"));
        assert!(read("docs/** filter=lfs\n").expect("rules").is_converted(b"x"));
        assert!(read("[attr]mine text\n").expect("rules").is_converted(b"x"));

        let config = |text: &str| {
            std::fs::write(&file, text).expect("write");
            let mut config = ConversionConfig::default();
            config.read(&file, 0);
            config
        };
        assert!(!config("[core]\n\tautocrlf = false # no\n\teol = crlf\n").converts);
        assert!(config("[Core] AutoCRLF = input\n").converts);
        assert!(config("[core]\n\tautocrlf\n").converts);
        std::fs::write(directory.path().join("more"), "[core]\nautocrlf=true").expect("write");
        assert!(config("[includeIf \"gitdir:/x\"]\n path = more\n").converts);
        assert!(config("[include]\npath = attributes\n").converts, "a file that includes itself");
    }
}
