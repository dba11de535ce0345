//! Worktrees of tasks that run without a user. They are reopened after a crash, and removed after
//! committing everything to their branch, which is kept.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use parallax_config::worktrees::{WorktreeRecord, is_valid_name, read_record, record_file};
use parallax_protocol::event::Failure;
use parallax_protocol::ids::SessionId;
use rustix::fs::{FlockOperation, flock};

use crate::contents::Contents;
use crate::git::Git;
use crate::repository_url::without_credentials;
use crate::{
    Checkout, IgnoredFiles, NestedRepositories, Worktree, dirs, failure, manage, special_files,
};

/// The changes of a task since the base commit of its worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeChanges {
    /// The final commit; `None` if nothing changed.
    pub commit: Option<String>,
    /// The changed files, relative to the repository, sorted.
    pub files: Vec<PathBuf>,
    /// Submodules and other repositories in the worktree with files that the commit does not
    /// contain.
    pub nested_repositories: Vec<PathBuf>,
    /// Files that the commit does not contain because they are ignored.
    pub ignored_files: IgnoredFiles,
}

/// Progress of a task's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionProgress {
    /// No prompt was recorded.
    NotStarted,
    /// The last turn was cut off.
    Interrupted,
    /// The last turn ended.
    Finished,
}

impl Worktree {
    /// Reopens a worktree of an earlier process; `None` if there is none. Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no repository or a session works in the worktree.
    pub fn reopen(from: &Path, name: &str) -> Result<Option<Self>, Failure> {
        let dirs = dirs(from)?;
        let checkout = Checkout::find(&dirs, from)?;
        let project = checkout.worktrees(&dirs);
        let Some((record, _)) = find(&project, name) else { return Ok(None) };
        if !record.path.is_dir() {
            return Ok(None);
        }
        let file = record_file(&project, name);
        let lock = OpenOptions::new().write(true).open(&file);
        let lock =
            lock.map_err(|error| failure(format!("Failed to open `{}`: {error}", file.display())))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(failure(format!("A session is using the worktree `{name}`")));
        }
        let mut working_directory = record.path.join(&checkout.relative);
        if !working_directory.is_dir() {
            working_directory.clone_from(&record.path);
        }
        Ok(Some(Self { record, lock, working_directory }))
    }

    /// Makes a name available for a new worktree: removes what an earlier process left under it,
    /// unless that contains work (`discards_work` removes this, too) or a session uses it. Returns
    /// whether the name is available. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn release_name(from: &Path, name: &str, discards_work: bool) -> Result<bool, Failure> {
        let dirs = dirs(from)?;
        let checkout = Checkout::find(&dirs, from)?;
        let project = checkout.worktrees(&dirs);
        let Some((record, _)) = find(&project, name) else {
            let git = Git::at(&checkout.top)?;
            let branch = format!("parallax/{name}");
            // A record may be damaged.
            if !is_valid_name(name) || record_file(&project, name).exists() {
                return Ok(false);
            }
            if !discards_work && has_own_commits(&git, &branch)? {
                return Ok(false);
            }
            delete_branch(&git, &branch)?;
            return Ok(true);
        };
        let Some(_lock) = manage::lock_if_unused(&record_file(&project, name)) else {
            return Ok(false);
        };
        // What cannot be read may be work.
        let has_work = || match record.path.is_dir() {
            true => !manage::state(&record).is_ok_and(|state| state.is_unchanged()),
            false => !manage::is_merged(&record).unwrap_or(false),
        };
        if !discards_work && has_work() {
            return Ok(false);
        }
        manage::delete(&record)?;
        Ok(true)
    }

    /// Whether it contains changes or commits, or cannot be read. Blocking.
    pub fn has_work(&self) -> bool {
        !manage::state(&self.record).is_ok_and(|state| state.is_unchanged())
    }

    /// Finishes an interrupted removal: the directory is gone, but the record may remain.
    /// Afterwards the branch points to `commit`, or is deleted. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn finish_removal(from: &Path, name: &str, commit: Option<&str>) -> Result<(), Failure> {
        let dirs = dirs(from)?;
        let checkout = Checkout::find(&dirs, from)?;
        match (find(&checkout.worktrees(&dirs), name), commit) {
            (Some((record, _)), Some(commit)) => {
                let contents = Contents::read(&record)?;
                contents.remove()?;
                contents.move_branch(commit)?;
                manage::remove_record(&record)
            }
            (Some((record, _)), None) => manage::delete(&record),
            (None, _) => Ok(()),
        }
    }

    /// Returns the state of each repository in the worktree. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn nested_repositories(&self) -> Result<NestedRepositories, Failure> {
        Contents::read(&self.record)?.nested_repository_states()
    }

    /// Commits all changes, including untracked files, on the branch of the worktree, and writes
    /// the changes since its base to `patch`, in the format of `git apply`. `known`: repositories
    /// in the worktree that contain nothing new in this state. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn collect(
        &self,
        message: &str,
        patch: &Path,
        known: &NestedRepositories,
    ) -> Result<WorktreeChanges, Failure> {
        let contents = Contents::read(&self.record)?;
        let head = contents.commit(message)?;
        let nested_repositories = contents.nested_repositories()?;
        let ignored_files = contents.ignored_files(&nested_repositories)?;
        let nested_repositories = contents.changed_repositories(nested_repositories, known);
        let git = contents.git();
        let base = self.record.base.as_str();
        let output = format!("--output={}", patch.display());
        let plain = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"];
        let whole = ["--binary", "--full-index", &output, base, &head];
        git.run(&[plain.as_slice(), &whole].concat())?;
        if head == base {
            return Ok(WorktreeChanges {
                commit: None,
                files: Vec::new(),
                nested_repositories,
                ignored_files,
            });
        }
        let names = ["--name-only", "-z", base, &head];
        let mut files = git.paths(&[plain.as_slice(), &names].concat())?;
        files.sort();
        Ok(WorktreeChanges { commit: Some(head), files, nested_repositories, ignored_files })
    }

    /// Removes the worktree, but keeps its branch and points it to `commit`. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn remove_keeping_branch(self, commit: &str) -> Result<(), Failure> {
        let contents = Contents::read(&self.record)?;
        contents.remove()?;
        contents.move_branch(commit)?;
        manage::remove_record(&self.record)
    }

    /// Points the branch of a removed worktree to `commit` again, if a command in another worktree
    /// moved it. Returns whether one had. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn restore_branch(checkout: &Path, branch: &str, commit: &str) -> Result<bool, Failure> {
        let git = Git::at(checkout)?;
        let full = format!("refs/heads/{branch}");
        let common = checkout.join(git.line(&["rev-parse", "--git-common-dir"])?);
        if let Some(directory) = common.join(&full).parent() {
            special_files::remove(directory)?;
        }
        let current = git.line(&["rev-parse", "--verify", "--quiet", &full]);
        if current.is_ok_and(|current| current == commit) {
            return Ok(false);
        }
        let quiet = ["-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref"];
        git.run(&[quiet.as_slice(), &[&full, commit]].concat())?;
        Ok(true)
    }

    /// Removes the worktree and its branch while it is still locked. A child process that another
    /// thread is starting may hold the lock for a moment after this process released it.
    /// Blocking.
    ///
    /// # Errors
    /// Whatever git reports.
    pub fn remove_with_branch(self) -> Result<(), Failure> {
        manage::delete(&self.record)
    }

    /// Returns the journal path of a session in this worktree.
    ///
    /// # Errors
    /// Returns an error if the home directory is unknown.
    pub fn journal(&self, session: &SessionId) -> Result<PathBuf, Failure> {
        Ok(self.session_dirs()?.journal(&self.session_directory(), session))
    }

    /// Returns the progress of a session in this worktree. Blocking.
    ///
    /// # Errors
    /// Returns an error if the home directory is unknown.
    pub fn session_progress(&self, session: &SessionId) -> Result<SessionProgress, Failure> {
        let dirs = self.session_dirs()?;
        let journal = dirs.journal(&self.session_directory(), session);
        if !journal.is_file() {
            return Ok(SessionProgress::NotStarted);
        }
        Ok(match parallax_store::load(&journal, &dirs.keys) {
            Ok(session) if session.contents.is_empty() => SessionProgress::NotStarted,
            Ok(session) if !session.was_interrupted => SessionProgress::Finished,
            // The file was created but is empty.
            Err(parallax_store::LoadError::NotASession { .. }) => SessionProgress::NotStarted,
            // An unreadable session, for example an encrypted one, counts as cut off; the agent
            // decides.
            Ok(_) | Err(_) => SessionProgress::Interrupted,
        })
    }

    /// Returns the working directory as a session there records it, without a trailing slash.
    fn session_directory(&self) -> PathBuf {
        self.working_directory.components().collect()
    }

    fn session_dirs(&self) -> Result<parallax_store::SessionDirs, Failure> {
        let dirs = dirs(&self.working_directory)?;
        Ok(parallax_store::SessionDirs::new(&dirs.parallax, &dirs.gemini))
    }
}

fn find(project: &Path, name: &str) -> Option<(WorktreeRecord, PathBuf)> {
    if !is_valid_name(name) {
        return None;
    }
    let project = project.canonicalize().ok()?;
    let record = read_record(&record_file(&project, name)).ok()?;
    Some((record, project))
}

/// Whether a branch has commits that are on no other one.
fn has_own_commits(git: &Git, branch: &str) -> Result<bool, Failure> {
    let full = format!("refs/heads/{branch}");
    if git.line(&["rev-parse", "--verify", "--quiet", &full]).is_err() {
        return Ok(false);
    }
    let others = format!("--exclude={full}");
    let list = ["rev-list", "--max-count=1", &full, "--not", "--single-worktree", &others, "--all"];
    Ok(!git.line(&list)?.is_empty())
}

fn delete_branch(git: &Git, branch: &str) -> Result<(), Failure> {
    let full = format!("refs/heads/{branch}");
    if git.line(&["rev-parse", "--verify", "--quiet", &full]).is_ok() {
        git.run(&["update-ref", "-d", &full])?;
    }
    Ok(())
}

/// Clones a repository without checking out files, without credentials of its URL, or fetches if
/// `reference` is not in the existing clone. Returns the commit of the reference. Blocking.
///
/// # Errors
/// Returns an error if git fails or the reference is unknown.
pub fn clone_repository(
    address: &str,
    directory: &Path,
    reference: Option<&str>,
) -> Result<String, Failure> {
    let shown = without_credentials(address);
    let unknown =
        || failure(format!("`{}` is not a commit of `{shown}`", reference.unwrap_or("HEAD")));
    // Agents can read the configuration of the clone.
    let hide_credentials = |git: &Git| match shown == address {
        true => Ok(()),
        false => git.run(&["remote", "set-url", "origin", &shown]),
    };
    if directory.join(".git").is_dir() {
        let git = Git::at(directory)?;
        hide_credentials(&git)?;
        if let Some(commit) = remote_commit(&git, reference) {
            return Ok(commit);
        }
        let branches = "+refs/heads/*:refs/remotes/origin/*";
        git.run(&["fetch", "--quiet", "--tags", "--", address, branches])?;
        return remote_commit(&git, reference).ok_or_else(unknown);
    }
    let parent = directory.parent().unwrap_or(directory);
    // An interrupted clone must not be mistaken for a complete one.
    let part = directory.with_extension("part");
    if part.exists() {
        std::fs::remove_dir_all(&part)
            .map_err(|error| failure(format!("Failed to remove `{}`: {error}", part.display())))?;
    }
    let to = part.to_string_lossy();
    Git::at(parent)?.run(&["clone", "--quiet", "--no-checkout", "--", address, &to])?;
    hide_credentials(&Git::at(&part)?)?;
    std::fs::rename(&part, directory)
        .map_err(|error| failure(format!("Failed to rename `{}`: {error}", part.display())))?;
    remote_commit(&Git::at(directory)?, reference).ok_or_else(unknown)
}

/// Returns the commit of a remote branch, a tag, or an object name.
fn remote_commit(git: &Git, reference: Option<&str>) -> Option<String> {
    let reference = reference.unwrap_or("HEAD");
    let names = [format!("origin/{reference}^{{commit}}"), format!("{reference}^{{commit}}")];
    names.iter().find_map(|name| {
        git.line(&["rev-parse", "--verify", "--quiet", "--end-of-options", name]).ok()
    })
}
