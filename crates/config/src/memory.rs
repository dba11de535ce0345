//! Memory files (`GEMINI.md`, `AGENTS.md`): which there are, and what of them
//! the model gets.

mod add;
mod discovery;
mod imports;

use std::path::{Path, PathBuf};

use crate::homes::Homes;

pub use add::{add_memory, project_memory_file, user_memory_file, with_fact};
pub use discovery::{beneath, project_top};

/// How imported files are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImportFormat {
    /// In place of the import.
    #[default]
    Tree,
    /// Each file once, one after the other.
    Flat,
}

/// Where to look.
pub struct MemoryOptions<'a> {
    /// The working directory; headers name files relative to it.
    pub cwd: &'a Path,
    /// The user's homes.
    pub homes: &'a Homes,
    /// File names, in order.
    pub names: &'a [String],
    /// The folders of the user's own notes on this project.
    pub notes: &'a [PathBuf],
    /// Names that mark the top of a project; empty: look no higher.
    pub boundary_markers: &'a [String],
    /// More folders whose own files are read.
    pub more_folders: &'a [PathBuf],
    /// The context files of extensions.
    pub extension_files: &'a [PathBuf],
    /// How imports are shown.
    pub import_format: ImportFormat,
    /// Project files are read only then.
    pub trusted: bool,
    /// Whether a file of the project is ignored.
    pub ignored: &'a dyn Fn(&Path) -> bool,
}

/// Where a memory file belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The user's, for all projects.
    Global,
    /// The user's own notes on this project, which are in no repository.
    Notes,
    /// That of an extension.
    Extension,
    /// The project's.
    Project,
}

/// One file with its imports worked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// All memory of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The user's, for all projects.
    pub global: Vec<MemoryFile>,
    /// The user's own notes on this project.
    pub notes: Vec<MemoryFile>,
    /// Those of extensions.
    pub extensions: Vec<MemoryFile>,
    /// The project's, outermost folder first.
    pub project: Vec<MemoryFile>,
    /// Files that could not be used as they are, one sentence each.
    pub warnings: Vec<String>,
}

/// Finds and reads the memory files. Blocking; nothing here is an error: what
/// cannot be read is left out with a warning.
pub fn load_memory(options: &MemoryOptions<'_>) -> Memory {
    discovery::load(options)
}

impl Memory {
    /// The block for the end of the system instruction; `None` when empty.
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

    /// The files in the order in which the model gets them, with where they
    /// belong.
    pub fn files(&self) -> impl Iterator<Item = (Tier, &MemoryFile)> {
        let tiers = [
            (Tier::Global, &self.global),
            (Tier::Notes, &self.notes),
            (Tier::Extension, &self.extensions),
            (Tier::Project, &self.project),
        ];
        tiers.into_iter().flat_map(|(tier, files)| files.iter().map(move |file| (tier, file)))
    }

    /// The blocks for the session context, the extensions' first; `None` when
    /// empty.
    pub fn project_block(&self, cwd: &Path) -> Option<String> {
        let block = |files: &[MemoryFile], name: &str| {
            Some(format!("<{name}>\n{}\n</{name}>", blocks(files, cwd)?))
        };
        let of_extensions = block(&self.extensions, "extension_context");
        let of_project = block(&self.project, "project_context");
        let blocks: Vec<String> = of_extensions.into_iter().chain(of_project).collect();
        (!blocks.is_empty()).then(|| blocks.join("\n"))
    }
}

impl MemoryFile {
    /// The line before its text. No two files have the same.
    pub fn heading(&self, cwd: &Path) -> String {
        format!("--- Context from: {} ---", relative(&self.path, cwd))
    }

    /// Its text between the lines that name it; `None` when it is empty.
    pub fn block(&self, cwd: &Path) -> Option<String> {
        let (path, text) = (relative(&self.path, cwd), self.text.trim());
        let heading = self.heading(cwd);
        (!text.is_empty())
            .then(|| format!("{heading}\n{text}\n--- End of Context from: {path} ---"))
    }
}

fn blocks(files: &[MemoryFile], cwd: &Path) -> Option<String> {
    let blocks: Vec<String> = files.iter().filter_map(|file| file.block(cwd)).collect();
    (!blocks.is_empty()).then(|| blocks.join("\n\n"))
}

/// The path as seen from `base`, with `..` where needed.
fn relative(path: &Path, base: &Path) -> String {
    let common =
        path.components().zip(base.components()).take_while(|(left, right)| left == right).count();
    let mut out = PathBuf::new();
    for _ in base.components().skip(common) {
        out.push("..");
    }
    out.extend(path.components().skip(common));
    out.display().to_string()
}
