//! Memory files (`GEMINI.md`, `AGENTS.md`): which there are, and what of them
//! the model gets.

mod add;
mod discovery;
mod imports;

use std::path::{Path, PathBuf};

use crate::homes::Homes;

pub use add::add_memory;

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
        let files = blocks(&self.global, cwd)?;
        Some(format!(
            "<loaded_context>\n<global_context>\n{files}\n</global_context>\n</loaded_context>"
        ))
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

fn blocks(files: &[MemoryFile], cwd: &Path) -> Option<String> {
    let blocks: Vec<String> = files
        .iter()
        .map(|file| (relative(&file.path, cwd), file.text.trim()))
        .filter(|(_, text)| !text.is_empty())
        .map(|(path, text)| {
            format!("--- Context from: {path} ---\n{text}\n--- End of Context from: {path} ---")
        })
        .collect();
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
