//! What the settings say of the sandbox that commands run in.

use std::path::PathBuf;

use parallax_files::HiddenFileTracker;
use parallax_policy::SandboxTable;
use parallax_sandbox::Tier;

use crate::run_shell_command::{ClosedNames, GitDirectories};

/// `security.toolSandboxing`, `security.sandbox`, `sandbox.toml`, and the places
/// of the session.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Whether commands are confined. If not, they are still watched: none
    /// outlives the program.
    pub enabled: bool,
    /// How strong at most (weaker is for tests and explanations).
    pub tier: Tier,
    /// The user's home.
    pub home: PathBuf,
    /// Our own home (`~/.parallax`).
    pub ours: PathBuf,
    /// Other homes with secrets of the same names: where variables put ours elsewhere,
    /// those that they lead away from, and to.
    pub other_homes: Vec<PathBuf>,
    /// What each approval mode and each command gets.
    pub table: SandboxTable,
    /// More files and folders to hide.
    pub hidden: Vec<PathBuf>,
    /// Whether what `.geminiignore` names in the workspace is hidden too.
    pub hides_ignored: bool,
    /// What was hidden of the workspace so far.
    pub hidden_places: HiddenFileTracker,
    /// What the folders of the workspace hold that is closed or hidden.
    pub closed_names: ClosedNames,
    /// Where git keeps the repositories of the workspace.
    pub git_directories: GitDirectories,
    /// The worktree of Parallax's own that the session works in.
    pub worktree: Option<WorktreeAccess>,
    /// Exceptions from what is hidden.
    pub readable: Vec<PathBuf>,
    /// More folders that commands may write.
    pub writable: Vec<PathBuf>,
    /// The session's private folder for temporary files.
    pub temporary: PathBuf,
    /// The session's folder for what commands write to package caches.
    pub overlays: PathBuf,
}

/// What commands of a session in a worktree below `~/.parallax/worktrees` may write of it and
/// of the main repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeAccess {
    /// The worktree.
    pub path: PathBuf,
    /// The directories of the repository that git writes for it.
    pub git: Vec<PathBuf>,
    /// What stays closed in these: refs and logs of other branches.
    pub closed: Vec<PathBuf>,
}
