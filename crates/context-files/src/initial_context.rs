//! The initial context of the model: the user's memory, the project's memory, and the session
//! context.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use parallax_config::{
    Memory, MemoryFile, MemoryOptions, MemoryScope, SessionContext, load_memory, project_top,
    session_context,
};
use parallax_files::{RuleSource, Workspace, folder_tree, folder_tree_of};
use parallax_protocol::content::SealedContent;
use parallax_protocol::context::Source;

use crate::ContextSources;

/// Maximum number of entries in the directory tree.
pub const TREE_ENTRIES: usize = 200;

/// The collected context, by destination.
pub struct InitialContext {
    /// Text at the end of the system prompt.
    pub system: String,
    /// Text before the first prompt.
    pub preface: Option<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Each file with its approximate number of tokens.
    pub sources: Vec<Source>,
    /// Paths of the same files.
    pub files: Vec<PathBuf>,
}

/// Another program's file, which is read only if configured.
const OTHERS: &str = "CLAUDE.md";

/// Returns whether the file is in an untrusted directory above the project.
fn is_untrusted_parent(sources: &ContextSources, path: &std::path::Path) -> bool {
    let config = &sources.config;
    path.parent().is_some_and(|directory| {
        config.cwd.starts_with(directory)
            && !config.trusted_folders.iter().any(|known| known == directory)
    })
}

/// Returns whether ignore files exclude a file. A file that Git ignores by its own name is
/// included, because it is usually the user's private file. A file in a directory that Git ignores
/// is excluded, because that contains build output or dependencies from others.
fn is_ignored(workspace: &Workspace, top: &Path, path: &Path) -> bool {
    match workspace.is_ignored_beneath(top, path) {
        Some(by) if by.source == RuleSource::Git => {
            let directory = path.parent().filter(|directory| *directory != top);
            directory
                .is_some_and(|directory| workspace.is_ignored_beneath(top, directory).is_some())
        }
        by => by.is_some(),
    }
}

/// Memory files outside the workspace.
#[derive(Debug, Default)]
pub(crate) struct OutsideFiles {
    /// Directories of the user's notes on the project.
    notes: Vec<PathBuf>,
    /// Context files of extensions.
    extensions: Vec<PathBuf>,
}

/// Reads memory files with the settings.
pub(crate) fn with_options<T>(
    sources: &ContextSources,
    workspace: &Workspace,
    outside: &OutsideFiles,
    read: impl FnOnce(&MemoryOptions<'_>) -> T,
) -> T {
    let settings = &sources.config.settings;
    let more = if settings.load_memory_from_include_directories() {
        workspace.roots().into_iter().skip(1).collect()
    } else {
        Vec::new()
    };
    let markers = settings.memory_boundary_markers();
    // Evaluated only if there is a file to read.
    let top = LazyCell::new(|| project_top(&sources.config.cwd, &markers));
    read(&MemoryOptions {
        cwd: &sources.config.cwd,
        dirs: &sources.config.dirs,
        names: &settings.memory_file_names(),
        notes: &outside.notes,
        boundary_markers: &markers,
        more_folders: &more,
        extension_files: &outside.extensions,
        import_format: settings.import_format(),
        trusted: sources.config.trust.trusted,
        ignored: &|path| is_ignored(workspace, &top, path) || is_untrusted_parent(sources, path),
    })
}

/// Reads the current memory files.
pub(crate) fn read(sources: &ContextSources, workspace: &Arc<Workspace>) -> Memory {
    let outside = OutsideFiles {
        notes: parallax_store::memory_directories(&sources.dirs, &sources.directory),
        extensions: sources.extensions.context_files(),
    };
    with_options(sources, workspace, &outside, load_memory)
}

/// Returns a warning about a large memory file.
pub(crate) fn too_large(sources: &ContextSources, file: &MemoryFile) -> Option<String> {
    let max_tokens = sources
        .config
        .settings
        .count("context.memoryMaxTokens")
        .filter(|max_tokens| *max_tokens > 0)?;
    let size = sources.size(file);
    (size > max_tokens).then(|| {
        format!(
            "the context file `{}` uses about {size} tokens of every request; shorten it, or raise \
             `context.memoryMaxTokens` ({max_tokens})",
            file.path.display()
        )
    })
}

/// Mentions once per project that another program's file exists.
fn hint_at_other_files(sources: &ContextSources) -> Option<String> {
    let config = &sources.config;
    let names = config.settings.memory_file_names();
    let is_read = config.trust.trusted
        && !sources.ephemeral
        && !names.iter().any(|name| name == OTHERS)
        && config.cwd.join(OTHERS).is_file();
    if !is_read {
        return None;
    }
    let directory = sources.dirs.notes(&sources.directory);
    let marker = directory.join(".told-of-claude-md");
    if marker.exists() {
        return None;
    }
    // If this cannot be recorded, the hint is repeated.
    let _ =
        parallax_store::create_private_dir(&directory).and_then(|()| std::fs::write(&marker, b""));
    Some(format!(
        "`{OTHERS}` exists but is not loaded; to load it, add it to `context.fileName`: {:?}",
        names.iter().map(String::as_str).chain([OTHERS]).collect::<Vec<_>>()
    ))
}

/// Returns the date here. Without the variable `TZ`, the zone is read from its file: looking it up
/// by name reads the names of all zones first.
fn today() -> Date {
    let zone = match std::env::var_os("TZ") {
        None => std::fs::read("/etc/localtime")
            .ok()
            .and_then(|bytes| TimeZone::tzif("local", &bytes).ok()),
        Some(_) => None,
    };
    Timestamp::now().to_zoned(zone.unwrap_or_else(TimeZone::system)).date()
}

/// Reads the memory files and builds the session context. A resumed session already contains its
/// earlier context; only differences (a new date, changed memory, an unknown directory) are added.
pub fn build_context(
    sources: &ContextSources,
    workspace: &Arc<Workspace>,
    contents: &[SealedContent],
) -> InitialContext {
    let settings = &sources.config.settings;
    let cwd = &sources.config.cwd;
    let memory = read(sources, workspace);
    let date = today().strftime("%A, %B %-d, %Y").to_string();
    let project = memory.project_block(cwd).unwrap_or_default();
    let mut warnings = memory.warnings.clone();
    warnings.extend(memory.files().filter_map(|(_, file)| too_large(sources, file)));
    warnings.extend(hint_at_other_files(sources));
    let sources = memory.files().map(|(tier, file)| source(sources, tier, file)).collect();
    let known = sent_contexts(contents);
    let root = workspace.root().display().to_string();
    let preface = if known.iter().any(|context| context.contains(&root)) {
        let dated = known.iter().rfind(|context| context.contains("\nDate: "));
        let has_date = dated.is_some_and(|context| context.contains(&date));
        let has_memory =
            project.is_empty() || known.iter().any(|context| context.contains(&project));
        let roots = workspace.roots();
        let is_known = |root: &&PathBuf| {
            let name = root.display().to_string();
            known.iter().any(|context| context.contains(&name))
        };
        let new: Vec<PathBuf> = roots.iter().filter(|root| !is_known(root)).cloned().collect();
        (!has_date || !has_memory || !new.is_empty()).then(|| {
            let tree = !new.is_empty() && settings.include_directory_tree();
            session_context(&SessionContext {
                date,
                memory: if has_memory { String::new() } else { project },
                tree: match tree {
                    true => folder_tree_of(workspace, &new, TREE_ENTRIES),
                    false => String::new(),
                },
                directories: if new.is_empty() { Vec::new() } else { roots },
                ..SessionContext::default()
            })
        })
    } else {
        Some(session_context(&SessionContext {
            date,
            os: std::env::consts::OS.to_owned(),
            temp_dir: Some(workspace.temporary_directory().to_owned()),
            directories: workspace.roots(),
            tree: match settings.include_directory_tree() {
                true => folder_tree(workspace, TREE_ENTRIES),
                false => String::new(),
            },
            memory: project,
        }))
    };
    InitialContext {
        system: memory.global_block(cwd).unwrap_or_default(),
        preface,
        warnings,
        sources,
        files: memory.files().map(|(_, file)| file.path.clone()).collect(),
    }
}

/// Returns the share of a memory file in a request.
fn source(sources: &ContextSources, tier: MemoryScope, file: &MemoryFile) -> Source {
    Source {
        name: file.path.display().to_string(),
        tokens: sources.size(file),
        in_system: matches!(tier, MemoryScope::Global | MemoryScope::Notes),
    }
}

/// Returns the context blocks in the contents, oldest first.
fn sent_contexts(contents: &[SealedContent]) -> Vec<String> {
    let holds = |content: &&SealedContent| content.json().contains("<session_context>");
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
