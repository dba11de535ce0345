//! Context files: what the model receives of them before the first prompt, and when a tool first
//! touches their directory.

mod initial_context;
mod listed_files;
mod nested_context;

use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::extensions::Extensions;
use parallax_config::{Config, MemoryFile};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_store::SessionDirs;

pub use initial_context::{InitialContext, TREE_ENTRIES, build_context};
pub use listed_files::{ContextFile, ContextTier, context_files};
pub use nested_context::NestedContext;

/// Shows a warning to the user.
pub type WarnFn = Arc<dyn Fn(String) + Send + Sync>;

/// Where context files come from. Cheap to clone.
#[derive(Clone)]
pub struct ContextSources {
    /// The configuration of the user and the project.
    pub config: Arc<Config>,
    /// The extensions, which may provide context files.
    pub extensions: Arc<Extensions>,
    /// Where the user's notes on projects are stored.
    pub dirs: SessionDirs,
    /// The working directory.
    pub directory: PathBuf,
    /// Whether the session leaves nothing on disk.
    pub ephemeral: bool,
    /// Estimates the number of tokens of a string.
    pub count_tokens: fn(&str) -> u64,
}

impl ContextSources {
    /// Adds a fact to the user's memory file and returns the file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn add_memory(&self, fact: &str) -> Result<PathBuf, Failure> {
        let names = self.config.settings.memory_file_names();
        parallax_config::add_memory(&self.config.dirs, &names, fact)
            .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))
    }

    /// Returns the approximate number of tokens that a memory file takes in a request, including
    /// its delimiters.
    fn size(&self, file: &MemoryFile) -> u64 {
        file.block(&self.config.cwd).map_or(0, |block| (self.count_tokens)(&block))
    }
}
