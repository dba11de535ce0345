//! Worktrees of subagents. At the end, the changes are committed to the branch, so that the session
//! that started the subagent can merge them.

use std::path::{Path, PathBuf};

use parallax_config::worktrees::is_valid_name;
use parallax_protocol::event::Failure;

use crate::contents::Contents;
use crate::{Checkout, IgnoredFiles, NestedRepositories, Worktree, WorktreeRequest, dirs, manage};

/// Maximum number of characters of the agent name in the name of its worktree.
const AGENT: usize = 40;

/// What a subagent left in its worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentChanges {
    /// The commit with all changes; `None` if they could not be committed to the branch, because
    /// something else is checked out.
    pub commit: Option<String>,
    /// The changed files since the base, each with the letter that git uses for the kind of change.
    pub files: Vec<(char, PathBuf)>,
    /// Submodules and other repositories in the worktree with files that the commit does not contain.
    pub nested_repositories: Vec<PathBuf>,
}

/// What happened to the worktree of a subagent at the end of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubagentWorktreeOutcome {
    /// It was removed, because it contained nothing new but these files.
    Removed(IgnoredFiles),
    /// It was kept with these changes.
    Retained(SubagentChanges),
}

impl Worktree {
    /// Creates the worktree of a subagent from the commit that is checked out in `directory`, which
    /// may be in a worktree itself. `name` is the name of an earlier one to create again. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails, or if the directory has no repository or no commit.
    pub fn for_subagent(
        directory: &Path,
        agent: &str,
        name: Option<String>,
    ) -> Result<Self, Failure> {
        let dirs = dirs(directory)?;
        let parent = parallax_config::worktrees::worktree_of(&dirs, directory);
        let parent = parent.map(|(record, _)| record);
        let revision = match &parent {
            Some(record) => Some(Contents::read(record)?.head()),
            None => None,
        };
        let id = uuid::Uuid::new_v4().simple().to_string();
        let own: String = agent.chars().take(AGENT).collect();
        let own = format!("{own}-{}", &id[..8]);
        let name = name.or_else(|| is_valid_name(&own).then_some(own));
        // Without a repository, the error names the directory.
        Checkout::find(&dirs, directory)?;
        let parent = parent.map(|record| record.id).filter(|id| !id.is_empty());
        let request = WorktreeRequest { name, revision, include_changes: false };
        Self::create_child(directory, &request, parent)
    }

    /// Ends the work of a subagent: removes the worktree if it contains nothing new; else commits
    /// the changes to its branch and keeps it. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails; the worktree is kept then.
    pub fn finish_subagent(self, message: &str) -> Result<SubagentWorktreeOutcome, Failure> {
        let state = manage::state(&self.record)?;
        if state.is_unchanged() {
            return Ok(SubagentWorktreeOutcome::Removed(manage::delete_unchanged(&self.record)?));
        }
        let contents = Contents::read(&self.record)?;
        let commit = match (state.is_on_own_branch(), state.has_changes) {
            (false, _) => None,
            (true, false) => {
                let head = contents.head();
                contents.check_filters(&head)?;
                Some(head)
            }
            (true, true) => {
                let commit = contents.commit(message)?;
                contents.publish_index()?;
                Some(commit)
            }
        };
        let files = match &commit {
            Some(commit) => contents.changed_since_base(commit)?,
            None => Vec::new(),
        };
        let nested_repositories = contents.nested_repositories()?;
        let nested_repositories =
            contents.changed_repositories(nested_repositories, &NestedRepositories::new());
        Ok(SubagentWorktreeOutcome::Retained(SubagentChanges {
            commit,
            files,
            nested_repositories,
        }))
    }

    /// Removes the worktree if it contains nothing new, and otherwise keeps it as it is. Returns the
    /// ignored files that were removed with it; `None` if it was kept. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails; the worktree is kept then.
    pub fn remove_if_unchanged(self) -> Result<Option<IgnoredFiles>, Failure> {
        match manage::state(&self.record)?.is_unchanged() {
            true => manage::delete_unchanged(&self.record).map(Some),
            false => Ok(None),
        }
    }
}
