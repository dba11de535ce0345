//! Finds memory files.

use std::collections::HashSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use parallax_protocol::paths::join_lexically;

use super::imports::{ImportExpander, LIMIT, is_protected_from_tools};
use super::{Memory, MemoryFile, MemoryOptions};
use crate::read::{ReadError, is_binary, read_at_most, to_text};

/// The file with the user's notes on a project, and its old name.
const NOTES: [&str; 2] = ["MEMORY.md", "GEMINI.md"];
/// Maximum number of parent directories searched.
const HIGHEST: usize = 128;

pub(super) fn load(options: &MemoryOptions<'_>) -> Memory {
    let mut reader = MemoryReader { options, identities: HashSet::new(), warnings: Vec::new() };
    let mut global = Vec::new();
    for home in [&options.dirs.gemini, &options.dirs.parallax] {
        for name in options.names {
            global.extend(
                find_exact_name(home, name).and_then(|file| reader.read(&file, home, &|_| false)),
            );
        }
    }
    let mut notes = Vec::new();
    for directory in options.notes {
        // The old name is used only if the new one does not exist.
        let files = NOTES.map(|name| directory.join(name));
        notes.extend(files.iter().find_map(|file| reader.read(file, directory, &|_| false)));
    }
    let mut extensions = Vec::new();
    for path in options.extension_files {
        let root = path.parent().unwrap_or(path);
        if reader.is_inside(path, root) {
            extensions.extend(reader.read(path, root, &|_| false));
        }
    }
    let mut project = Vec::new();
    if options.trusted {
        let directories = directories_from_root(options.cwd, options.boundary_markers);
        let root = directories.first().cloned().unwrap_or_else(|| options.cwd.to_owned());
        let own = directories.iter().map(|directory| (directory, &root));
        let more = options.more_folders.iter().map(|directory| (directory, directory));
        let names = sort_names(options.names);
        for (folder, root) in own.chain(more) {
            for name in &names {
                let Some(path) = find_exact_name(folder, name) else { continue };
                if !(options.ignored)(&path) && reader.is_inside(&path, root) {
                    project.extend(reader.read(&path, root, options.ignored));
                }
            }
        }
    }
    Memory { global, notes, extensions, project, warnings: reader.warnings }
}

/// Returns the memory files of a directory and of its parents up to `root`, outermost first,
/// without those for which `known` returns true. Used for directories that a tool accesses.
/// Blocking.
pub fn collect_upwards(
    options: &MemoryOptions<'_>,
    directory: &Path,
    root: &Path,
    known: &dyn Fn(&Path) -> bool,
) -> Memory {
    let mut reader = MemoryReader { options, identities: HashSet::new(), warnings: Vec::new() };
    let mut project = Vec::new();
    if options.trusted && directory.starts_with(root) {
        let inside = |directory: &&Path| directory.starts_with(root);
        let directories = directory.ancestors().take(HIGHEST).take_while(inside);
        let directories: Vec<&Path> = directories.collect();
        let names = sort_names(options.names);
        for directory in directories.into_iter().rev() {
            for name in &names {
                // Most directories have none, so this is checked first.
                let Some(path) = find_exact_name(directory, name) else { continue };
                if path.is_file()
                    && !known(&path)
                    && !(options.ignored)(&path)
                    && reader.is_inside(&path, root)
                {
                    project.extend(reader.read(&path, root, options.ignored));
                }
            }
        }
    }
    Memory { project, warnings: reader.warnings, ..Memory::default() }
}

/// Returns the names in the order of Gemini CLI, which is used within a project directory
/// regardless of the order of the setting.
fn sort_names(names: &[String]) -> Vec<&String> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    names
}

/// Returns the file with exactly this name in a directory, if there is one. Also on
/// case-insensitive file systems, `agents.md` is not `AGENTS.md`. A link is matched by its own
/// name. Blocking.
pub(super) fn find_exact_name(directory: &Path, name: &str) -> Option<PathBuf> {
    let file = directory.join(name);
    let found = std::fs::symlink_metadata(&file).ok()?;
    let lower = name.to_lowercase();
    let other = if lower == name { name.to_uppercase() } else { lower };
    // If two names may refer to one file, only the directory listing shows the actual name. Most
    // directories do not need this check.
    let twin = directory.join(&other);
    let ambiguous = other != name
        && std::fs::symlink_metadata(&twin)
            .is_ok_and(|metadata| identity(&twin, &metadata) == identity(&file, &found));
    (!ambiguous || has_entry(&file)).then_some(file)
}

/// Whether the parent directory lists a file under exactly its name.
fn has_entry(file: &Path) -> bool {
    let entries = file.parent().and_then(|parent| std::fs::read_dir(parent).ok());
    let mut names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| Some(name.as_os_str()) == file.file_name())
}

/// Returns the directories from the project root down to `cwd`.
fn directories_from_root(cwd: &Path, markers: &[String]) -> Vec<PathBuf> {
    let ancestors = || cwd.ancestors().take(HIGHEST);
    let top = project_top(cwd, markers);
    let mut directories: Vec<PathBuf> = ancestors()
        .take_while(|directory| directory.starts_with(top))
        .map(Path::to_owned)
        .collect();
    directories.reverse();
    directories
}

/// Returns the root of the project that contains a directory, found by marker names; without a
/// marker, the directory itself. Blocking.
pub fn project_top<'a>(cwd: &'a Path, markers: &[String]) -> &'a Path {
    let marked = |directory: &&Path| {
        markers.iter().any(|marker| !marker.is_empty() && directory.join(marker).exists())
    };
    cwd.ancestors().take(HIGHEST).find(marked).unwrap_or(cwd)
}

/// Identifies a file, so that two names of one file are recognized.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    #[cfg(unix)]
    Inode(u64, u64),
    #[cfg(not(unix))]
    Path(PathBuf),
}

#[cfg(unix)]
fn identity(_path: &Path, metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Identity::Inode(metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(path: &Path, _metadata: &Metadata) -> Identity {
    Identity::Path(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
}

struct MemoryReader<'a> {
    options: &'a MemoryOptions<'a>,
    identities: HashSet<Identity>,
    warnings: Vec<String>,
}

impl MemoryReader<'_> {
    /// Whether a file of a project or an extension really lies inside its directory: it could be a
    /// link to the user's secrets. A name that leads outside is one that the user accepted.
    fn is_inside(&mut self, path: &Path, root: &Path) -> bool {
        let Ok(real) = std::fs::canonicalize(path) else { return true };
        let is_named_outside = !join_lexically(root, path).starts_with(root);
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let problem = match real.strip_prefix(&root) {
            Err(_)
                if is_named_outside
                    && !real
                        .file_name()
                        .is_some_and(|name| is_protected_from_tools(Path::new(name))) =>
            {
                return true;
            }
            Err(_) => "it is a link to a file outside the project",
            Ok(below) if is_protected_from_tools(below) => {
                "files with this name are protected from tools"
            }
            Ok(_) if real != path && (self.options.ignored)(&real) => {
                "it is a symlink to an ignored file"
            }
            Ok(_) => return true,
        };
        self.warnings.push(format!("The context file `{}` is ignored: {problem}", path.display()));
        false
    }

    /// Reads a file once. Imports must stay inside `root` and must not be `ignored`.
    fn read(
        &mut self,
        path: &Path,
        root: &Path,
        ignored: &dyn Fn(&Path) -> bool,
    ) -> Option<MemoryFile> {
        let read = match read_at_most(path, LIMIT) {
            Ok(read) => read?,
            Err(ReadError::Io(error)) => {
                self.warnings
                    .push(format!("Failed to read the context file `{}`: {error}", path.display()));
                return None;
            }
            Err(ReadError::NotAFile | ReadError::TooLarge) => {
                self.warnings
                    .push(format!("The context file `{}` is not a regular file", path.display()));
                return None;
            }
        };
        if !self.identities.insert(identity(path, &read.metadata)) {
            return None;
        }
        if read.is_truncated {
            self.warnings.push(format!(
                "The context file `{}` is larger than {LIMIT} bytes; only its beginning is used",
                path.display()
            ));
        }
        if is_binary(&read.bytes) {
            self.warnings.push(format!("The context file `{}` is not a text file", path.display()));
            return None;
        }
        let mut imports = ImportExpander::new(root, self.options.import_format, ignored);
        let text = imports.process(to_text(&read.bytes), path);
        self.warnings.append(&mut imports.warnings);
        Some(MemoryFile { path: path.to_owned(), text })
    }
}
