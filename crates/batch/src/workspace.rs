//! The workspace of a task: a worktree of the repository that it names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::ids::SessionId;
use parallax_worktrees::{
    NestedRepositories, SessionProgress, Worktree, WorktreeChanges, WorktreeRequest,
};
use sha2::{Digest as _, Sha256};

use crate::blocking::blocking;
use crate::directory::BatchDirectory;
use crate::error::BatchError;
use crate::plan::{PlannedTask, Repository, hex};
use crate::serial::ProcessLock;

/// Maximum number of characters of a task's id in the name of its branch.
const ID_LENGTH: usize = 50;

/// The worktree of a task, whose methods do not block.
#[derive(Debug)]
pub(crate) struct TaskWorkspace {
    worktree: Worktree,
    serial: Arc<ProcessLock>,
}

/// Returns the name of a task's worktree, the same in every run of the batch.
pub(crate) fn name(directory: &BatchDirectory, task: &PlannedTask) -> String {
    let batch = directory.path().as_os_str().as_encoded_bytes();
    let hash = hex(&Sha256::digest([batch, b"\0", task.id.as_bytes()].concat()));
    let id: String = task.id.chars().take(ID_LENGTH).collect();
    // Remove consecutive dots and extensions that git rejects.
    let id = id.replace('.', "-");
    format!("{id}-{}", hash.get(..8).unwrap_or_default())
}

/// Returns an unused name for a new worktree of a task. Worktrees of earlier attempts with work in
/// them stay, except for that of `finished`, whose work is in the results or which never began.
pub(crate) async fn available_name(
    checkout: &Path,
    first: String,
    finished: Option<String>,
    serial: &Arc<ProcessLock>,
) -> Result<String, BatchError> {
    let _one = serial.lock().await?;
    let checkout = checkout.to_owned();
    blocking(move || {
        let mut name = first.clone();
        for number in 2_u32.. {
            if Worktree::release_name(&checkout, &name, finished.as_ref() == Some(&name))? {
                break;
            }
            name = format!("{first}-{number}");
        }
        Ok(name)
    })
    .await
}

/// Returns the checkout that holds the repository of a task, and the revision that its work starts
/// from. Clones are below `clones`.
pub(crate) async fn checkout(
    clones: &Path,
    task: &PlannedTask,
    serial: &Arc<ProcessLock>,
) -> Result<(PathBuf, Option<String>), BatchError> {
    match &task.repository {
        Repository::Directory(path) => Ok((path.clone(), task.reference.clone())),
        Repository::Url(url) => {
            let _one = serial.lock().await?;
            let hash = hex(&Sha256::digest(url));
            let clones = clones.to_owned();
            let clone = clones.join(hash.get(..16).unwrap_or_default());
            let (url, reference) = (url.clone(), task.reference.clone());
            blocking(move || {
                std::fs::create_dir_all(&clones)
                    .map_err(|source| BatchError::Write { file: clones.clone(), source })?;
                let reference = reference.as_deref();
                let commit = parallax_worktrees::clone_repository(&url, &clone, reference)?;
                Ok((clone, Some(commit)))
            })
            .await
        }
    }
}

impl TaskWorkspace {
    /// Creates a worktree. The name is available.
    pub(crate) async fn create(
        checkout: &Path,
        name: &str,
        reference: Option<&str>,
        serial: &Arc<ProcessLock>,
    ) -> Result<Self, BatchError> {
        let _one = serial.lock().await?;
        let from = checkout.to_owned();
        let request = WorktreeRequest {
            name: Some(name.to_owned()),
            revision: reference.map(str::to_owned),
            include_changes: false,
        };
        let worktree = blocking(move || Ok(Worktree::create(&from, &request)?)).await?;
        Ok(Self { worktree, serial: Arc::clone(serial) })
    }

    /// Opens the worktree of an earlier attempt, if it still exists.
    pub(crate) async fn reopen(
        checkout: &Path,
        name: &str,
        serial: &Arc<ProcessLock>,
    ) -> Result<Option<Self>, BatchError> {
        let (from, name) = (checkout.to_owned(), name.to_owned());
        let worktree = blocking(move || Ok(Worktree::reopen(&from, &name)?)).await?;
        Ok(worktree.map(|worktree| Self { worktree, serial: Arc::clone(serial) }))
    }

    /// Returns where the agent works.
    pub(crate) fn directory(&self) -> &Path {
        self.worktree.directory()
    }

    /// Returns the top of the worktree.
    pub(crate) fn path(&self) -> &Path {
        self.worktree.path()
    }

    pub(crate) fn branch(&self) -> &str {
        self.worktree.branch()
    }

    pub(crate) fn base(&self) -> &str {
        self.worktree.base()
    }

    pub(crate) fn journal(&self, session: &SessionId) -> Result<PathBuf, BatchError> {
        Ok(self.worktree.journal(session)?)
    }

    pub(crate) fn session_progress(
        &self,
        session: &SessionId,
    ) -> Result<SessionProgress, BatchError> {
        Ok(self.worktree.session_progress(session)?)
    }

    /// Whether the worktree holds work that is nowhere else.
    pub(crate) async fn has_work(self) -> Result<(Self, bool), BatchError> {
        blocking(move || {
            let has_work = self.worktree.has_work();
            Ok((self, has_work))
        })
        .await
    }

    /// Returns the submodules and other repositories in it.
    pub(crate) async fn nested_repositories(
        self,
    ) -> Result<(Self, NestedRepositories), BatchError> {
        blocking(move || {
            let nested = self.worktree.nested_repositories()?;
            Ok((self, nested))
        })
        .await
    }

    /// Commits what changed, and writes it as a patch. `known`: repositories
    /// without changes.
    pub(crate) async fn collect(
        self,
        message: String,
        patch: PathBuf,
        known: NestedRepositories,
    ) -> Result<(Self, WorktreeChanges), BatchError> {
        blocking(move || {
            let changes = self.worktree.collect(&message, &patch, &known)?;
            Ok((self, changes))
        })
        .await
    }

    /// Removes the worktrees of subagents whose work the commit contains, or that began with the
    /// same commit and contain none. Returns the others.
    pub(crate) async fn remove_merged_children(
        self,
        commit: Option<&str>,
    ) -> Result<(Self, Vec<PathBuf>), BatchError> {
        let Self { worktree, serial } = self;
        let one = serial.lock().await?;
        let commit = commit.unwrap_or(worktree.base()).to_owned();
        let (worktree, others) = blocking(move || {
            let others = worktree.remove_merged_children(&commit)?;
            Ok((worktree, others))
        })
        .await?;
        drop(one);
        Ok((Self { worktree, serial }, others))
    }

    /// Removes it, and its branch unless that holds a commit.
    pub(crate) async fn remove(self, commit: Option<&str>) -> Result<(), BatchError> {
        let Self { worktree, serial } = self;
        let _one = serial.lock().await?;
        let commit = commit.map(str::to_owned);
        blocking(move || match commit {
            Some(commit) => Ok(worktree.remove_keeping_branch(&commit)?),
            None => Ok(worktree.remove_with_branch()?),
        })
        .await
    }
}
