//! The settings of the command sandbox.

use std::path::PathBuf;

use parallax_files::{HiddenFileTracker, SensitivePathIndex};
use parallax_policy::SandboxTable;
use parallax_sandbox::Tier;

use crate::git_directories::GitDirectories;

/// `security.toolSandboxing`, `security.sandbox`, `sandbox.toml`, and the directories of the
/// session.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Whether commands are sandboxed. If not, they are still supervised, so that none outlives the
    /// program.
    pub enabled: bool,
    /// The maximum strength (lower values are for tests and explanations).
    pub tier: Tier,
    /// The user's home directory.
    pub home: PathBuf,
    /// Parallax's own directory (`~/.parallax`).
    pub parallax_home: PathBuf,
    /// Other directories with the same secret file names: the default ones if variables move
    /// Parallax's directories, and the ones that they move to.
    pub other_home_directories: Vec<PathBuf>,
    /// The permissions of each approval mode and command.
    pub table: SandboxTable,
    /// Additional files and directories to hide.
    pub hidden: Vec<PathBuf>,
    /// Whether paths that `.geminiignore` names in the workspace are hidden too.
    pub hides_ignored: bool,
    /// The workspace files that were hidden so far.
    pub hidden_places: HiddenFileTracker,
    /// The hidden and protected names in the workspace, and what protected links point to.
    pub closed_names: SensitivePathIndex,
    /// The git directories of the workspace's repositories.
    pub git_directories: GitDirectories,
    /// The Parallax worktree that the session works in.
    pub worktree: Option<WorktreeAccess>,
    /// Exceptions from the hidden paths.
    pub readable: Vec<PathBuf>,
    /// Additional directories that commands may write.
    pub writable: Vec<PathBuf>,
    /// The session's private temporary directory.
    pub temporary: PathBuf,
    /// The session's directory for writes by commands to package caches.
    pub overlays: PathBuf,
}

/// What commands of a session in a worktree below `~/.parallax/worktrees` may write of it and of
/// the main repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeAccess {
    /// The worktree.
    pub path: PathBuf,
    /// The directories of the repository that git writes for this worktree.
    pub git: Vec<PathBuf>,
    /// The read-only paths in these: refs and logs of other branches.
    pub read_only: Vec<PathBuf>,
    /// The main working tree of the repository, if it has one.
    pub main: Option<PathBuf>,
}
