//! The session that a command line asks for.

use std::path::PathBuf;

use parallax_sdk::LaunchOptions;
use parallax_worktrees::WorktreeRequest;

/// The session that a command line asks for.
#[derive(Debug, Default)]
pub(crate) struct SessionFlags {
    /// What is passed to the sdk as it is, without what is read from disk later.
    pub(crate) options: LaunchOptions,
    /// `--mcp-config`.
    pub(crate) mcp_config: Vec<PathBuf>,
    /// The worktree to work in.
    pub(crate) worktree: Option<WorktreeRequest>,
    /// `--debug`.
    pub(crate) debug: bool,
}
