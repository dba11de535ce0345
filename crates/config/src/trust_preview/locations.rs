//! Reads names and small text files from a directory, never through a symlink.

use std::path::{Path, PathBuf};

use crate::read::{self, ReadError};

/// Maximum number of entries in one list.
pub(super) const MAX_COUNT: usize = 100;
/// Maximum number of names read in total.
const BUDGET: usize = 5_000;
/// Maximum directory depth.
const DEPTH: usize = 8;
/// Maximum size of one settings file in bytes.
const LIMIT: u64 = 512 * 1024;

/// Which directory entries define a name.
#[derive(Clone, Copy)]
pub(super) enum EntryNames {
    /// Files with this extension, including in subdirectories: `git/commit` becomes `git:commit`.
    Tree(&'static str),
    /// Directories that contain this file.
    FoldersWith(&'static str),
}

pub(super) struct DirectoryScanner<'a> {
    folder: &'a Path,
    remaining: usize,
    pub(super) problems: Vec<String>,
    pub(super) is_truncated: bool,
}

impl<'a> DirectoryScanner<'a> {
    pub(super) fn new(directory: &'a Path) -> Self {
        Self { folder: directory, remaining: BUDGET, problems: Vec::new(), is_truncated: false }
    }

    /// Returns the sorted names found in several places.
    pub(super) fn names(&mut self, locations: &[(&str, EntryNames)]) -> Vec<String> {
        let mut found = Vec::new();
        for (location, names) in locations {
            let Some(folder) = self.enter(location) else { continue };
            match names {
                EntryNames::Tree(suffix) => {
                    for path in self.tree(&folder, suffix) {
                        let name: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
                        let name = name.join(":");
                        found.push(name.strip_suffix(suffix).unwrap_or(&name).to_owned());
                    }
                }
                EntryNames::FoldersWith(file) => {
                    for (path, kind) in self.entries(&folder) {
                        let holds = kind.is_dir() && exists(&path.join(file));
                        if (holds || kind.is_symlink())
                            && let Some(name) = path.file_name()
                        {
                            found.push(name.to_string_lossy().into_owned());
                        }
                    }
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Returns the paths of the files with an extension in several directories.
    pub(super) fn paths(&mut self, locations: &[(&str, &str)]) -> Vec<String> {
        let mut found = Vec::new();
        for (location, suffix) in locations {
            let Some(folder) = self.enter(location) else { continue };
            for (path, kind) in self.entries(&folder) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if !kind.is_dir() && name.ends_with(suffix) {
                    found.push(format!("{location}/{name}"));
                }
            }
        }
        found.sort();
        found
    }

    /// Returns the given files that exist; a symlink counts as a file.
    pub(super) fn existing_files(&mut self, files: &[&str]) -> Vec<String> {
        let is_there = |file: &&&str| exists(&self.folder.join(file));
        files.iter().filter(is_there).map(|file| (*file).to_owned()).collect()
    }

    /// Returns `.env` and its variants by name.
    pub(super) fn env_files(&mut self) -> Vec<String> {
        let mut found = self.existing_files(&[".env", ".gemini/.env", ".parallax/.env", ".envrc"]);
        // A project directory may be large, so it is not listed.
        for name in ["local", "development", "production", "test", "development.local"] {
            let name = format!(".env.{name}");
            found.extend(self.existing_files(&[&name]));
        }
        found.sort();
        found
    }

    /// Returns the text of a file; `None` if it does not exist. Adds a problem if it cannot be
    /// read.
    pub(super) fn text(&mut self, file: &str) -> Option<String> {
        let parent = Path::new(file).parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.enter(&parent.to_string_lossy())?;
        }
        let reason = match read::read_text_no_follow(&self.folder.join(file), LIMIT) {
            Ok(text) => return text,
            Err(ReadError::NotAFile) => "it is a link or not a regular file".to_owned(),
            Err(ReadError::TooLarge) => format!("it is larger than {LIMIT} bytes"),
            Err(ReadError::Io(error)) => error.to_string(),
        };
        self.report_problem(format!("`{file}` was not inspected: {reason}"));
        None
    }

    /// Returns the directory, unless a component of its path is a symlink.
    fn enter(&mut self, relative: &str) -> Option<PathBuf> {
        let mut path = self.folder.to_owned();
        for part in Path::new(relative) {
            path.push(part);
            let metadata = std::fs::symlink_metadata(&path).ok()?;
            if metadata.is_symlink() {
                let display_path =
                    path.strip_prefix(self.folder).unwrap_or(&path).display().to_string();
                self.report_problem(format!("`{display_path}` is a link and was not followed"));
                return None;
            }
            if !metadata.is_dir() {
                return None;
            }
        }
        Some(path)
    }

    fn report_problem(&mut self, text: String) {
        if !self.problems.contains(&text) {
            self.problems.push(text);
        }
    }

    /// Returns the relative paths of the files with an extension below the directory.
    fn tree(&mut self, directory: &Path, suffix: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut pending = vec![(directory.to_owned(), 0)];
        while let Some((path, depth)) = pending.pop() {
            for (path, kind) in self.entries(&path) {
                if kind.is_dir() {
                    if depth < DEPTH {
                        pending.push((path, depth + 1));
                    } else {
                        self.is_truncated = true;
                    }
                } else if path.to_string_lossy().ends_with(suffix) {
                    found.extend(path.strip_prefix(directory).map(Path::to_owned));
                }
            }
        }
        found
    }

    /// Returns the entries of a directory with their types; symlinks are not followed.
    fn entries(&mut self, directory: &Path) -> Vec<(PathBuf, std::fs::FileType)> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                let display_path =
                    directory.strip_prefix(self.folder).unwrap_or(directory).display();
                let text = format!("`{display_path}` was not inspected: {error}");
                self.report_problem(text);
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            if self.remaining == 0 {
                self.is_truncated = true;
                break;
            }
            self.remaining -= 1;
            if let Ok(kind) = entry.file_type() {
                found.push((entry.path(), kind));
            }
        }
        found
    }
}

fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_dir())
}
