//! Memory files (`GEMINI.md`, `AGENTS.md`): which exist, and the text that the model receives.

mod add;
mod discovery;
mod imports;

use std::path::{Path, PathBuf};

use crate::user_dirs::UserDirs;

pub use add::{add_fact, add_memory, project_memory_file, user_memory_file};
pub use discovery::{collect_upwards, project_top};

/// How imported files are included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImportFormat {
    /// The file replaces the import.
    #[default]
    Tree,
    /// Each file is included once, one after the other.
    Flat,
}

/// Where to look for memory files.
pub struct MemoryOptions<'a> {
    /// The working directory; headers name files relative to it.
    pub cwd: &'a Path,
    /// The user's directories.
    pub dirs: &'a UserDirs,
    /// File names, in order.
    pub names: &'a [String],
    /// The directories with the user's notes on this project.
    pub notes: &'a [PathBuf],
    /// Names that mark a project root; if empty, parent directories are not searched.
    pub boundary_markers: &'a [String],
    /// Additional directories whose own memory files are read.
    pub more_folders: &'a [PathBuf],
    /// The context files of extensions.
    pub extension_files: &'a [PathBuf],
    /// How imports are included.
    pub import_format: ImportFormat,
    /// Whether the working directory is trusted; project files are read only then.
    pub trusted: bool,
    /// Whether a file of the project is ignored.
    pub ignored: &'a dyn Fn(&Path) -> bool,
}

/// The scope of a memory file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryScope {
    /// The user's memory for all projects.
    Global,
    /// The user's notes on this project, which are not part of a repository.
    Notes,
    /// The context file of an extension.
    Extension,
    /// The project's.
    Project,
}

/// A memory file with expanded imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// The path.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

/// All memory of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The user's memory for all projects.
    pub global: Vec<MemoryFile>,
    /// The user's notes on this project.
    pub notes: Vec<MemoryFile>,
    /// The context files of extensions.
    pub extensions: Vec<MemoryFile>,
    /// The project's files, outermost directory first.
    pub project: Vec<MemoryFile>,
    /// Warnings about files, one sentence each.
    pub warnings: Vec<String>,
}

/// Finds and reads the memory files. Blocking. Never fails: unreadable files are skipped with a
/// warning.
pub fn load_memory(options: &MemoryOptions<'_>) -> Memory {
    discovery::load(options)
}

impl Memory {
    /// Returns the block for the end of the system instruction; `None` if it is empty.
    pub fn global_block(&self, cwd: &Path) -> Option<String> {
        let wrapped = |files: &[MemoryFile], tag: &str| {
            blocks(files, cwd).map(|files| format!("<{tag}>\n{files}\n</{tag}>\n"))
        };
        let global = wrapped(&self.global, "global_context");
        let notes = wrapped(&self.notes, "user_project_memory");
        if global.is_none() && notes.is_none() {
            return None;
        }
        let (global, notes) = (global.unwrap_or_default(), notes.unwrap_or_default());
        Some(format!("<loaded_context>\n{global}{notes}</loaded_context>"))
    }

    /// Returns the files with their scope, in the order in which the model receives them.
    pub fn files(&self) -> impl Iterator<Item = (MemoryScope, &MemoryFile)> {
        let tiers = [
            (MemoryScope::Global, &self.global),
            (MemoryScope::Notes, &self.notes),
            (MemoryScope::Extension, &self.extensions),
            (MemoryScope::Project, &self.project),
        ];
        tiers.into_iter().flat_map(|(tier, files)| files.iter().map(move |file| (tier, file)))
    }

    /// Returns the blocks for the session context, extensions first; `None` if they are empty.
    pub fn project_block(&self, cwd: &Path) -> Option<String> {
        let block = |files: &[MemoryFile], name: &str| {
            Some(format!("<{name}>\n{}\n</{name}>", blocks(files, cwd)?))
        };
        let extension_text = block(&self.extensions, "extension_context");
        let project_text = block(&self.project, "project_context");
        let blocks: Vec<String> = extension_text.into_iter().chain(project_text).collect();
        (!blocks.is_empty()).then(|| blocks.join("\n"))
    }
}

impl MemoryFile {
    /// Returns the line above its text, which is unique for each file.
    pub fn heading(&self, cwd: &Path) -> String {
        format!("--- Context from: {} ---", relative_path(&self.path, cwd))
    }

    /// Returns its text between the lines that name the file; `None` if it is empty.
    pub fn block(&self, cwd: &Path) -> Option<String> {
        let (path, text) = (relative_path(&self.path, cwd), self.text.trim());
        let heading = self.heading(cwd);
        (!text.is_empty())
            .then(|| format!("{heading}\n{text}\n--- End of Context from: {path} ---"))
    }
}

fn blocks(files: &[MemoryFile], cwd: &Path) -> Option<String> {
    let blocks: Vec<String> = files.iter().filter_map(|file| file.block(cwd)).collect();
    (!blocks.is_empty()).then(|| blocks.join("\n\n"))
}

/// Returns the path relative to `base`, with `..` if needed.
fn relative_path(path: &Path, base: &Path) -> String {
    let common =
        path.components().zip(base.components()).take_while(|(left, right)| left == right).count();
    let mut out = PathBuf::new();
    for _ in base.components().skip(common) {
        out.push("..");
    }
    out.extend(path.components().skip(common));
    out.display().to_string()
}
