//! The directories that a session may access, and checks of paths against them.

use parallax_protocol::editor_files::SessionEditor;
use parallax_protocol::editor_terminal::EditorTerminal;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use parallax_protocol::paths::join_lexically;

use crate::confined::AllowedPath;
use crate::error::PathError;
use crate::hidden_file_tracker::{HiddenFileTracker, MovedFiles};
use crate::ignore_rules::{IgnoreCache, IgnoreFileOptions, IgnoreFlags, IgnoreRules, IgnoredBy};
use crate::printable::with_real_names;
use crate::protected_names::{is_protected_name, is_secret_file};
use crate::real_path::real_path;

/// Options of a [`Workspace`].
#[derive(Debug, Clone, Default)]
pub struct WorkspaceOptions {
    /// The directory that relative paths start from.
    pub root: PathBuf,
    /// Additional workspace directories. They must exist.
    pub additional: Vec<PathBuf>,
    /// The session's temporary directory: readable and writable. Empty if there is none.
    pub temp: PathBuf,
    /// The directory of the user's notes on the project: readable and writable. Empty if there is
    /// none.
    pub notes: PathBuf,
    /// Directories (or single files) that are readable only.
    pub readable: Vec<PathBuf>,
    /// Single files outside that are writable (the global memory file).
    pub writable_files: Vec<PathBuf>,
    /// Directories that are denied even inside an allowed one (the memory inbox).
    pub denied: Vec<PathBuf>,
    /// Whether access to `node_modules` is allowed.
    pub allow_node_modules: bool,
    /// Which ignore files are used.
    pub filtering: IgnoreFileOptions,
    /// Hidden files, which stay inaccessible after they are moved.
    pub hidden_files: HiddenFileTracker,
    /// The editor that reads and writes the text files of the workspace directories.
    pub editor: SessionEditor,
}

/// The access that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Searching and listing, which includes `node_modules`.
    Search,
    /// Creating and changing.
    Write,
}

/// A directory as given and resolved.
#[derive(Debug, Clone)]
struct ResolvedDirectory {
    requested: PathBuf,
    resolved: PathBuf,
}

impl ResolvedDirectory {
    fn new(base: &Path, path: &Path) -> Self {
        let requested = join_lexically(base, path);
        let resolved = real_path(&requested).unwrap_or_else(|| requested.clone());
        Self { requested, resolved }
    }
}

/// The directories of a session. Shared; directories can be added at any time.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    directories: RwLock<Vec<ResolvedDirectory>>,
    temp: Option<ResolvedDirectory>,
    notes: Option<ResolvedDirectory>,
    readable: RwLock<Vec<ResolvedDirectory>>,
    writable_files: Vec<ResolvedDirectory>,
    denied: Vec<PathBuf>,
    allow_node_modules: bool,
    filtering: IgnoreFileOptions,
    hidden_files: HiddenFileTracker,
    editor: SessionEditor,
    ignore_cache: Arc<IgnoreCache>,
}

impl Workspace {
    /// Resolves all directories.
    ///
    /// # Errors
    /// Returns an error if the root or an additional directory is not a directory.
    pub fn new(options: WorkspaceOptions) -> Result<Self, PathError> {
        let base = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let root = directory(&base, &options.root)?;
        let real_root = root.resolved.clone();
        let directory = |path: &PathBuf| ResolvedDirectory::new(&real_root, path);
        let workspace = Self {
            temp: (!options.temp.as_os_str().is_empty()).then(|| directory(&options.temp)),
            notes: (!options.notes.as_os_str().is_empty()).then(|| directory(&options.notes)),
            readable: RwLock::new(options.readable.iter().map(directory).collect()),
            writable_files: options.writable_files.iter().map(directory).collect(),
            denied: options.denied.iter().map(|path| directory(path).resolved).collect(),
            allow_node_modules: options.allow_node_modules,
            filtering: options.filtering,
            hidden_files: options.hidden_files,
            editor: options.editor,
            ignore_cache: Arc::default(),
            directories: RwLock::new(vec![root]),
            root: real_root.clone(),
        };
        for path in &options.additional {
            workspace.add_root(path)?;
        }
        Ok(workspace)
    }

    /// Returns the directory that relative paths start from, links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns all workspace directories, the root first, links resolved.
    pub fn roots(&self) -> Vec<PathBuf> {
        read(&self.directories).iter().map(|directory| directory.resolved.clone()).collect()
    }

    /// Returns the session's temporary directory, or the root when there is none.
    pub fn temporary_directory(&self) -> &Path {
        self.temp.as_ref().map_or(&self.root, |directory| &directory.resolved)
    }

    /// Returns which ignore files are used.
    pub fn ignore_options(&self) -> &IgnoreFileOptions {
        &self.filtering
    }

    /// Adds a workspace directory and returns its real path.
    ///
    /// # Errors
    /// Returns an error if it is not a directory.
    pub fn add_root(&self, path: &Path) -> Result<PathBuf, PathError> {
        let directory = directory(&self.root, path)?;
        let real = directory.resolved.clone();
        let mut directories =
            self.directories.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !directories.iter().any(|known| known.resolved == real) {
            directories.push(directory);
        }
        Ok(real)
    }

    /// Makes a directory or a single file readable (with the user's approval).
    pub fn allow_reading(&self, path: &Path) {
        let directory = ResolvedDirectory::new(&self.root, path);
        self.readable.write().unwrap_or_else(std::sync::PoisonError::into_inner).push(directory);
    }

    /// Resolves a path and checks that it may be accessed.
    ///
    /// # Errors
    /// Returns an error if it is empty, outside, protected from tools, or a hidden file that was
    /// moved.
    pub fn resolve(&self, text: &str, access: Access) -> Result<AllowedPath, PathError> {
        let cleaned = text.replace('\0', "");
        if cleaned.is_empty() {
            return Err(PathError::Empty);
        }
        let path = self.strip_at_sign(&cleaned);
        self.confine(&with_real_names(join_lexically(&self.root, &path)), access)
    }

    /// Like [`resolve`](Self::resolve), for an absolute path read from the disk (by a walker),
    /// which is not normalized.
    ///
    /// # Errors
    /// Returns an error if it is outside, protected from tools, or a hidden file that was moved.
    pub fn confine(&self, path: &Path, access: Access) -> Result<AllowedPath, PathError> {
        let display_path = join_lexically(&self.root, path);
        let real = real_path(&display_path)
            .ok_or_else(|| PathError::Loop { path: display_path.clone() })?;
        let outside =
            || PathError::Outside { path: display_path.clone(), allowed: self.describe_allowed() };
        if self.denied.iter().any(|denied| real.starts_with(denied)) {
            return Err(outside());
        }
        let directories = read(&self.directories).clone();
        if let Some(segment) = self.protected_segment(&directories, &display_path, &real, access) {
            return Err(PathError::Protected { path: display_path, segment });
        }
        if let Some(former_path) = self.moved_files().former_path_with_parents(&real) {
            return Err(PathError::Hidden {
                path: display_path,
                former_path: former_path.to_path_buf(),
            });
        }
        // Use the outermost directory: opening walks from there without following links, so more of
        // the path is checked.
        let mut anchors: Vec<PathBuf> =
            directories.into_iter().map(|directory| directory.resolved).collect();
        anchors.extend(
            self.temp.iter().chain(&self.notes).map(|directory| directory.resolved.clone()),
        );
        if access != Access::Write {
            anchors.extend(read(&self.readable).iter().map(|directory| directory.resolved.clone()));
        }
        let anchor = anchors
            .into_iter()
            .filter(|anchor| real.starts_with(anchor))
            .min_by_key(|anchor| anchor.as_os_str().len());
        let anchor = match anchor {
            // A single file is opened from its directory.
            Some(anchor) if anchor == real && !anchor.is_dir() => {
                anchor.parent().map(Path::to_path_buf)
            }
            Some(anchor) => Some(anchor),
            None if self.writable_files.iter().any(|directory| directory.resolved == real) => {
                real.parent().map(Path::to_path_buf)
            }
            None => None,
        };
        let anchor = anchor.ok_or_else(outside)?;
        let is_session_directory =
            self.temp.iter().chain(&self.notes).any(|directory| directory.resolved == anchor);
        let confined = AllowedPath::new(display_path.clone(), real, anchor).ok_or_else(outside)?;
        let editor = match self.contains(confined.path()) {
            true => self.editor.clone(),
            false => SessionEditor::default(),
        };
        Ok(confined.marked_own(is_session_directory).in_editor(editor))
    }

    /// Returns the editor that runs commands without a sandbox, if there is one.
    pub fn editor_terminal(&self) -> Option<&Arc<dyn EditorTerminal>> {
        self.editor.terminal()
    }

    /// Whether a path is inside the workspace directories.
    pub fn contains(&self, path: &Path) -> bool {
        read(&self.directories).iter().any(|directory| path.starts_with(&directory.resolved))
    }

    /// Returns a short name for display: relative to the workspace directory.
    pub fn relative(&self, path: &Path) -> PathBuf {
        let directories = read(&self.directories);
        let best = directories
            .iter()
            .filter_map(|directory| {
                path.strip_prefix(&directory.resolved)
                    .or_else(|_| path.strip_prefix(&directory.requested))
                    .ok()
            })
            .min_by_key(|rest| rest.as_os_str().len());
        match best {
            Some(rest) if rest.as_os_str().is_empty() => PathBuf::from("."),
            Some(rest) => rest.to_path_buf(),
            None => path.to_path_buf(),
        }
    }

    /// Returns the hidden files that were moved, as currently known.
    pub(crate) fn moved_files(&self) -> MovedFiles {
        self.hidden_files.moved_files()
    }

    /// Returns the current ignore rules. Use the value for one operation only: it reads no ignore
    /// file twice.
    pub fn ignore_rules(&self, flags: IgnoreFlags) -> IgnoreRules {
        IgnoreRules::new(Arc::clone(&self.ignore_cache), self.roots(), &self.filtering, flags)
    }

    /// Returns why an absolute path is ignored by the session's settings, if it is.
    pub fn is_ignored(&self, path: &Path) -> Option<IgnoredBy> {
        self.ignore_rules(IgnoreFlags::from_settings(&self.filtering)).ignored_by(path)
    }

    /// Like [`is_ignored`](Self::is_ignored), for a path that may be above the session's
    /// directories but is below the `top` of the project.
    pub fn is_ignored_beneath(&self, top: &Path, path: &Path) -> Option<IgnoredBy> {
        let mut roots = self.roots();
        if !roots.iter().any(|root| path.starts_with(root)) {
            roots.push(top.to_path_buf());
        }
        let flags = IgnoreFlags::from_settings(&self.filtering);
        let cache = Arc::clone(&self.ignore_cache);
        IgnoreRules::new(cache, roots, &self.filtering, flags).ignored_by(path)
    }

    /// Resolves a leading `@`: `@/x` and `@x/y` mean `x` and `x/y` unless they exist as written.
    fn strip_at_sign(&self, text: &str) -> PathBuf {
        let literal = PathBuf::from(text);
        let Some(rest) = text.strip_prefix('@') else { return literal };
        let exists = |path: &Path| self.root.join(path).symlink_metadata().is_ok();
        if exists(&literal) {
            return literal;
        }
        if let Some(rest) = rest.strip_prefix('/') {
            return if rest.is_empty() { PathBuf::from(".") } else { PathBuf::from(rest) };
        }
        match literal.components().next() {
            Some(first) if exists(Path::new(first.as_os_str())) => literal,
            _ if rest.is_empty() => literal,
            _ => PathBuf::from(rest),
        }
    }

    /// Whether an entry with this name is protected from searches, wherever it is in the workspace.
    pub fn is_protected_from_search(&self, name: &OsStr, is_directory: bool) -> bool {
        is_protected_name(&name.to_string_lossy(), true) || !is_directory && is_secret_file(name)
    }

    /// Returns the first protected name below the innermost workspace directory.
    fn protected_segment(
        &self,
        directories: &[ResolvedDirectory],
        display_path: &Path,
        real: &Path,
        access: Access,
    ) -> Option<String> {
        let allow_node_modules = self.allow_node_modules || access == Access::Search;
        let relative_path = |path: &Path, of: fn(&ResolvedDirectory) -> &PathBuf| {
            directories
                .iter()
                .filter_map(|directory| {
                    path.strip_prefix(of(directory)).ok().map(Path::to_path_buf)
                })
                .min_by_key(|rest| rest.as_os_str().len())
        };
        let candidates = [
            relative_path(display_path, |directory| &directory.requested),
            relative_path(display_path, |directory| &directory.resolved),
            relative_path(real, |directory| &directory.resolved),
        ];
        let protected_name = candidates.into_iter().flatten().find_map(|rest| {
            rest.iter()
                .map(|name| name.to_string_lossy())
                .find(|name| is_protected_name(name, allow_node_modules))
                .map(std::borrow::Cow::into_owned)
        });
        let is_secret = |path: &&Path| path.file_name().is_some_and(is_secret_file);
        protected_name.or_else(|| {
            let secret =
                [display_path, real].into_iter().find(is_secret).filter(|_| !real.is_dir())?;
            secret.file_name().map(|name| name.to_string_lossy().into_owned())
        })
    }

    fn describe_allowed(&self) -> String {
        let directories: Vec<String> =
            self.roots().iter().map(|path| path.display().to_string()).collect();
        let mut text = directories.join(", ");
        if let Some(temp) = &self.temp {
            text.push_str(&format!(" or the project temp directory: {}", temp.resolved.display()));
        }
        text
    }
}

/// Resolves a workspace directory, which must exist.
fn directory(base: &Path, path: &Path) -> Result<ResolvedDirectory, PathError> {
    let provided = join_lexically(base, path);
    let not_a_directory = |source| PathError::NotADirectory { path: provided.clone(), source };
    let resolved = provided.canonicalize().map_err(not_a_directory)?;
    if !resolved.is_dir() {
        return Err(not_a_directory(std::io::Error::from(std::io::ErrorKind::NotADirectory)));
    }
    Ok(ResolvedDirectory { requested: provided.clone(), resolved })
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}
