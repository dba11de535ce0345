//! What the model is told before the first prompt: the user's memory, the
//! project's memory, and the session context.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Zoned;
use parallax_config::{Memory, MemoryOptions, SessionContext, load_memory, session_context};
use parallax_files::{Workspace, folder_tree};
use parallax_protocol::content::Sealed;
use parallax_protocol::event::{Failure, FailureKind};

use crate::launch::{Launch, failure};
use crate::open::OpenSession;

/// Entries of the folder tree.
const TREE_ENTRIES: usize = 200;

/// What goes where.
pub(crate) struct Gathered {
    /// For the end of the system prompt.
    pub(crate) system: String,
    /// For the front of the first prompt.
    pub(crate) preface: Option<String>,
    pub(crate) warnings: Vec<String>,
    /// The context files that were read.
    pub(crate) files: Vec<PathBuf>,
}

/// Whether the file stands in a folder above the project that is not trusted.
fn is_of_strangers(launch: &Launch, path: &std::path::Path) -> bool {
    let config = &launch.config;
    path.parent().is_some_and(|folder| {
        config.cwd.starts_with(folder)
            && !config.trusted_folders.iter().any(|known| known == folder)
    })
}

/// Reads the memory files as they are now.
fn read(launch: &Launch, workspace: &Arc<Workspace>) -> Memory {
    let settings = &launch.config.settings;
    let cwd = &launch.config.cwd;
    let more = if settings.load_memory_from_include_directories() {
        workspace.roots().into_iter().skip(1).collect()
    } else {
        Vec::new()
    };
    load_memory(&MemoryOptions {
        cwd,
        homes: &launch.config.homes,
        names: &settings.memory_file_names(),
        boundary_markers: &settings.memory_boundary_markers(),
        more_folders: &more,
        extension_files: &launch.extensions().context_files(),
        import_format: settings.import_format(),
        trusted: launch.config.trust.trusted,
        ignored: &|path| workspace.is_ignored(path).is_some() || is_of_strangers(launch, path),
    })
}

/// Reads the memory files and draws the session context. The contents of a
/// resumed session hold its context already, frozen: what they do not say yet
/// (another date, changed memory, a folder they do not know) is said anew.
pub(crate) fn gather(launch: &Launch, workspace: &Arc<Workspace>, contents: &[Sealed]) -> Gathered {
    let settings = &launch.config.settings;
    let cwd = &launch.config.cwd;
    let memory = read(launch, workspace);
    let date = Zoned::now().strftime("%A, %B %-d, %Y").to_string();
    let project = memory.project_block(cwd).unwrap_or_default();
    let known = known_contexts(contents);
    let root = workspace.root().display().to_string();
    let preface = if known.iter().any(|context| context.contains(&root)) {
        let has_date = known.last().is_some_and(|context| context.contains(&date));
        let has_memory =
            project.is_empty() || known.iter().any(|context| context.contains(&project));
        (!has_date || !has_memory).then(|| {
            let memory = if has_memory { String::new() } else { project };
            let update =
                SessionContext { date, os: String::new(), memory, ..SessionContext::default() };
            session_context(&update)
        })
    } else {
        Some(session_context(&SessionContext {
            date,
            os: std::env::consts::OS.to_owned(),
            temp_dir: Some(workspace.temp().to_owned()),
            directories: workspace.roots(),
            tree: match settings.include_directory_tree() {
                true => folder_tree(workspace, TREE_ENTRIES),
                false => String::new(),
            },
            memory: project,
        }))
    };
    let files = memory.global.iter().chain(&memory.project).map(|file| file.path.clone());
    Gathered {
        files: files.collect(),
        system: memory.global_block(cwd).unwrap_or_default(),
        preface,
        warnings: memory.warnings,
    }
}

/// The context blocks that the contents hold, oldest first.
fn known_contexts(contents: &[Sealed]) -> Vec<String> {
    let holds = |content: &&Sealed| content.json().contains("<session_context>");
    let mut known = Vec::new();
    for content in contents.iter().filter(holds).filter_map(|content| content.open().ok()) {
        for part in content.parts {
            match part.into_text() {
                Some(text) if text.starts_with("<session_context>") => known.push(text),
                _ => {}
            }
        }
    }
    known
}

/// A context file as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is the user's, for all projects; else the project's.
    pub global: bool,
    /// Its text as the model gets it, imports worked in.
    pub text: String,
}

impl OpenSession {
    /// The context files as they are now, the user's first. The session was told
    /// of them when it was opened: what changed since reaches the model when the
    /// session is closed and resumed. Blocking.
    pub fn context_files(&self) -> Vec<ContextFile> {
        let memory = read(&self.launch, &self.workspace);
        let row = |global: bool| {
            move |file: parallax_config::MemoryFile| ContextFile {
                path: file.path,
                global,
                text: file.text,
            }
        };
        let project = memory.extensions.into_iter().chain(memory.project).map(row(false));
        memory.global.into_iter().map(row(true)).chain(project).collect()
    }

    /// The workspace folders, the working folder first.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.workspace.roots()
    }
}

impl Launch {
    /// Adds a fact to the user's memory, in our file. Gives the file. Blocking.
    ///
    /// # Errors
    /// The file cannot be used or written.
    pub fn add_memory(&self, fact: &str) -> Result<PathBuf, Failure> {
        let names = self.config.settings.memory_file_names();
        parallax_config::add_memory(&self.config.homes, &names, fact)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }
}
