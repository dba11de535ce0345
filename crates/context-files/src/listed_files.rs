//! The context files of a session for lists.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::{MemoryFile, MemoryScope};
use parallax_files::Workspace;

use crate::{ContextSources, NestedContext, initial_context};

/// Scope of a context file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextTier {
    /// The user's, for all projects.
    Global,
    /// The user's notes on this project.
    Notes,
    /// From an extension.
    Extension,
    /// The project's.
    Project,
    /// In a directory of the project that a tool touched in this session.
    Found,
}

impl ContextTier {
    /// Describes the scope in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Global => "yours, for all projects",
            Self::Notes => "your notes on this project",
            Self::Extension => "an extension's",
            Self::Project => "the project's",
            Self::Found => "the project's, loaded when its directory was accessed",
        }
    }
}

impl From<MemoryScope> for ContextTier {
    fn from(tier: MemoryScope) -> Self {
        match tier {
            MemoryScope::Global => Self::Global,
            MemoryScope::Notes => Self::Notes,
            MemoryScope::Extension => Self::Extension,
            MemoryScope::Project => Self::Project,
        }
    }
}

/// A context file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Scope of the file.
    pub tier: ContextTier,
    /// Approximate number of tokens.
    pub tokens: u64,
    /// The text as the model receives it, with imports resolved.
    pub text: String,
}

/// Returns the current context files, the user's first. Blocking.
pub fn context_files(
    sources: &ContextSources,
    workspace: &Arc<Workspace>,
    nested: &NestedContext,
) -> Vec<ContextFile> {
    let memory = initial_context::read(sources, workspace);
    let row = |tier: ContextTier, file: &MemoryFile| ContextFile {
        path: file.path.clone(),
        tier,
        tokens: sources.size(file),
        text: file.text.clone(),
    };
    let mut rows: Vec<_> = memory.files().map(|(tier, file)| row(tier.into(), file)).collect();
    rows.extend(nested.files().iter().map(|file| row(ContextTier::Found, file)));
    rows
}
