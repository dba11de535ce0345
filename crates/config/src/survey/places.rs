//! Looking into the folder: names and small texts, never through a link.

use std::path::{Path, PathBuf};

use crate::read::{self, ReadError};

/// Entries of one list.
pub(super) const MOST: usize = 100;
/// Names looked at in all.
const BUDGET: usize = 5_000;
/// Folders below each other.
const DEPTH: usize = 8;
/// Bytes of one settings file.
const LIMIT: u64 = 512 * 1024;

/// What of a folder is a name.
#[derive(Clone, Copy)]
pub(super) enum Names {
    /// Files with this ending, in subfolders too: `git/commit` is `git:commit`.
    Tree(&'static str),
    /// Folders that hold this file.
    FoldersWith(&'static str),
}

pub(super) struct Looker<'a> {
    folder: &'a Path,
    left: usize,
    pub(super) problems: Vec<String>,
    pub(super) cut: bool,
}

impl<'a> Looker<'a> {
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder, left: BUDGET, problems: Vec::new(), cut: false }
    }

    /// The names in several places, sorted.
    pub(super) fn names(&mut self, places: &[(&str, Names)]) -> Vec<String> {
        let mut found = Vec::new();
        for (place, names) in places {
            let Some(folder) = self.enter(place) else { continue };
            match names {
                Names::Tree(ending) => {
                    for path in self.tree(&folder, ending) {
                        let name: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
                        let name = name.join(":");
                        found.push(name.strip_suffix(ending).unwrap_or(&name).to_owned());
                    }
                }
                Names::FoldersWith(file) => {
                    for (path, kind) in self.entries(&folder) {
                        let holds = kind.is_dir() && is_there(&path.join(file));
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

    /// The files with an ending in several folders, as paths.
    pub(super) fn paths(&mut self, places: &[(&str, &str)]) -> Vec<String> {
        let mut found = Vec::new();
        for (place, ending) in places {
            let Some(folder) = self.enter(place) else { continue };
            for (path, kind) in self.entries(&folder) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if !kind.is_dir() && name.ends_with(ending) {
                    found.push(format!("{place}/{name}"));
                }
            }
        }
        found.sort();
        found
    }

    /// Those of the files that are there; a link counts as a file.
    pub(super) fn there(&mut self, files: &[&str]) -> Vec<String> {
        let is_there = |file: &&&str| is_there(&self.folder.join(file));
        files.iter().filter(is_there).map(|file| (*file).to_owned()).collect()
    }

    /// `.env` and its relatives, by name.
    pub(super) fn env_files(&mut self) -> Vec<String> {
        let mut found = self.there(&[".env", ".gemini/.env", ".parallax/.env", ".envrc"]);
        // A project's own folder may be large: its names are not all looked at.
        for name in ["local", "development", "production", "test", "development.local"] {
            let name = format!(".env.{name}");
            found.extend(self.there(&[&name]));
        }
        found.sort();
        found
    }

    /// The text of a file; `None` when it is not there, or with a problem.
    pub(super) fn text(&mut self, file: &str) -> Option<String> {
        let parent = Path::new(file).parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.enter(&parent.to_string_lossy())?;
        }
        let why = match read::read_text_no_follow(&self.folder.join(file), LIMIT) {
            Ok(text) => return text,
            Err(ReadError::NotAFile) => "it is a link or no file".to_owned(),
            Err(ReadError::TooLarge) => format!("it is larger than {LIMIT} bytes"),
            Err(ReadError::Io(error)) => error.to_string(),
        };
        self.problem(format!("`{file}` was not looked into: {why}"));
        None
    }

    /// The folder, when no part of the way into it is a link.
    fn enter(&mut self, place: &str) -> Option<PathBuf> {
        let mut path = self.folder.to_owned();
        for part in Path::new(place) {
            path.push(part);
            let metadata = std::fs::symlink_metadata(&path).ok()?;
            if metadata.is_symlink() {
                let shown = path.strip_prefix(self.folder).unwrap_or(&path).display().to_string();
                self.problem(format!("`{shown}` is a link and was not followed"));
                return None;
            }
            if !metadata.is_dir() {
                return None;
            }
        }
        Some(path)
    }

    fn problem(&mut self, text: String) {
        if !self.problems.contains(&text) {
            self.problems.push(text);
        }
    }

    /// The files with an ending below the folder, as seen from it.
    fn tree(&mut self, folder: &Path, ending: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![(folder.to_owned(), 0)];
        while let Some((path, depth)) = open.pop() {
            for (path, kind) in self.entries(&path) {
                if kind.is_dir() {
                    if depth < DEPTH {
                        open.push((path, depth + 1));
                    } else {
                        self.cut = true;
                    }
                } else if path.to_string_lossy().ends_with(ending) {
                    found.extend(path.strip_prefix(folder).map(Path::to_owned));
                }
            }
        }
        found
    }

    /// What stands in a folder, with its kind, links not followed.
    fn entries(&mut self, folder: &Path) -> Vec<(PathBuf, std::fs::FileType)> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let shown = folder.strip_prefix(self.folder).unwrap_or(folder).display();
                let text = format!("`{shown}` was not looked into: {error}");
                self.problem(text);
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            if self.left == 0 {
                self.cut = true;
                break;
            }
            self.left -= 1;
            if let Ok(kind) = entry.file_type() {
                found.push((entry.path(), kind));
            }
        }
        found
    }
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_dir())
}
