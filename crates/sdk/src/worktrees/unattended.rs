//! Worktrees of tasks that run without a user: found again after a crash, committed as a whole,
//! and removed while their branch stays.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use parallax_config::worktrees::{WorktreeRecord, is_valid_name, read_record, record_file};
use parallax_protocol::event::Failure;
use parallax_protocol::ids::SessionId;
use rustix::fs::{FlockOperation, flock};

use super::git::Git;
use super::{Checkout, Worktree, failure, homes, manage};

/// Who commits where git knows no name.
pub(super) const IDENTITY: [&str; 4] =
    ["-c", "user.name=Parallax", "-c", "user.email=parallax@localhost.invalid"];

/// What a task changed since the commit that its worktree began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeChanges {
    /// The commit that it ended with; `None`: nothing changed.
    pub commit: Option<String>,
    /// The files, relative to the repository, sorted.
    pub files: Vec<PathBuf>,
}

/// How far the session of a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionProgress {
    /// The prompt was not recorded.
    NotStarted,
    /// The newest turn did not come to its end.
    CutOff,
    /// It did.
    Finished,
}

impl Worktree {
    /// A worktree of an earlier process, with all that it holds; `None`: there is none. Blocking.
    ///
    /// # Errors
    /// No repository, or a session that works in it.
    pub fn reopen(from: &Path, name: &str) -> Result<Option<Self>, Failure> {
        let homes = homes(from)?;
        let checkout = Checkout::find(&homes, from)?;
        let project = checkout.worktrees(&homes);
        let Some((record, _)) = find(&project, name) else { return Ok(None) };
        if !record.path.is_dir() {
            return Ok(None);
        }
        let file = record_file(&project, name);
        let lock = OpenOptions::new().write(true).open(&file);
        let lock =
            lock.map_err(|error| failure(format!("Failed to open `{}`: {error}", file.display())))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(failure(format!("A session works in the worktree `{name}`")));
        }
        let mut work = record.path.join(&checkout.below);
        if !work.is_dir() {
            work.clone_from(&record.path);
        }
        Ok(Some(Self { record, lock, work }))
    }

    /// Removes what an earlier process left of a worktree: itself, its record, and its branch.
    /// Blocking.
    ///
    /// # Errors
    /// What git reports.
    pub fn discard_leftover(from: &Path, name: &str) -> Result<(), Failure> {
        if let Some(worktree) = Self::reopen(from, name)? {
            return manage::delete(&worktree.record);
        }
        let homes = homes(from)?;
        let checkout = Checkout::find(&homes, from)?;
        if let Some((record, _)) = find(&checkout.worktrees(&homes), name) {
            return manage::delete(&record);
        }
        if is_valid_name(name) {
            delete_branch(&Git::at(&checkout.top)?, &format!("parallax/{name}"))?;
        }
        Ok(())
    }

    /// Finishes the removal of a worktree that another process began: its directory is gone, its
    /// record may not be. The branch points to `commit`, or is gone. Blocking.
    ///
    /// # Errors
    /// What git reports.
    pub fn finish_removal(from: &Path, name: &str, commit: Option<&str>) -> Result<(), Failure> {
        let homes = homes(from)?;
        let checkout = Checkout::find(&homes, from)?;
        match (find(&checkout.worktrees(&homes), name), commit) {
            (Some((record, _)), Some(commit)) => {
                let git = Git::at(&record.main)?;
                git.run(&["worktree", "prune"])?;
                git.run(&["update-ref", &format!("refs/heads/{}", record.branch), commit])?;
                manage::remove_record(&record)
            }
            (Some(_), None) => Self::discard_leftover(from, name),
            (None, _) => Ok(()),
        }
    }

    /// Commits everything that is not committed, new files too, on the branch of the worktree.
    /// Blocking.
    ///
    /// # Errors
    /// What git reports.
    pub fn commit_all(&self, message: &str) -> Result<(), Failure> {
        let git = Git::at(&self.record.path)?;
        git.run(&["add", "--all"])?;
        if git.line(&["diff", "--cached", "--quiet", "--no-ext-diff", "HEAD"]).is_ok() {
            return Ok(());
        }
        let commit = ["commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message", message];
        // The name of the user, if there is one.
        git.run(&commit).or_else(|_| git.run(&[IDENTITY.as_slice(), &commit].concat()))
    }

    /// Writes what changed into `patch`, as `git apply` takes it. Blocking.
    ///
    /// # Errors
    /// What git reports.
    pub fn write_changes(&self, patch: &Path) -> Result<WorktreeChanges, Failure> {
        let git = Git::at(&self.record.path)?;
        let head = git.line(&["rev-parse", "HEAD"])?;
        let base = self.record.base.as_str();
        let output = format!("--output={}", patch.display());
        let plain = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"];
        let whole = ["--binary", "--full-index", &output, base, &head];
        git.run(&[plain.as_slice(), &whole].concat())?;
        if head == base {
            return Ok(WorktreeChanges { commit: None, files: Vec::new() });
        }
        let names = ["--name-only", "-z", base, &head];
        let mut files = git.paths(&[plain.as_slice(), &names].concat())?;
        files.sort();
        Ok(WorktreeChanges { commit: Some(head), files })
    }

    /// Removes it, but keeps its branch, and points that to `commit`. Blocking.
    ///
    /// # Errors
    /// What git reports.
    pub fn remove_keeping_branch(self, commit: &str) -> Result<(), Failure> {
        let git = Git::at(&self.record.main)?;
        let branch = format!("refs/heads/{}", self.record.branch);
        let path = self.record.path.to_string_lossy().into_owned();
        git.run(&["worktree", "remove", "--force", "--force", &path])?;
        git.run(&["update-ref", &branch, commit])?;
        manage::remove_record(&self.record)
    }

    /// Where the journal of a session in this worktree is.
    ///
    /// # Errors
    /// No home directory.
    pub fn journal(&self, session: &SessionId) -> Result<PathBuf, Failure> {
        Ok(self.store()?.journal(&self.session_directory(), session))
    }

    /// How far a session in this worktree is. Blocking.
    ///
    /// # Errors
    /// No home directory.
    pub fn session_progress(&self, session: &SessionId) -> Result<SessionProgress, Failure> {
        let store = self.store()?;
        let journal = store.journal(&self.session_directory(), session);
        if !journal.is_file() {
            return Ok(SessionProgress::NotStarted);
        }
        Ok(match parallax_store::load(&journal, &store.keys) {
            Ok(session) if session.contents.is_empty() => SessionProgress::NotStarted,
            Ok(session) if !session.cut_off => SessionProgress::Finished,
            // It was created, but nothing is in it.
            Err(parallax_store::LoadError::NotASession { .. }) => SessionProgress::NotStarted,
            // One that cannot be read here (it may be encrypted) is for the agent to judge.
            Ok(_) | Err(_) => SessionProgress::CutOff,
        })
    }

    /// The working directory as a session there sees it: without a slash at its end.
    fn session_directory(&self) -> PathBuf {
        self.work.components().collect()
    }

    fn store(&self) -> Result<parallax_store::Homes, Failure> {
        let homes = homes(&self.work)?;
        Ok(parallax_store::Homes::new(&homes.parallax, &homes.gemini))
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

fn delete_branch(git: &Git, branch: &str) -> Result<(), Failure> {
    let full = format!("refs/heads/{branch}");
    if git.line(&["rev-parse", "--verify", "--quiet", &full]).is_ok() {
        git.run(&["update-ref", "-d", &full])?;
    }
    Ok(())
}

/// Clones a repository without its files, or fetches what is new if `reference` is not in the
/// clone. Returns the commit that the reference names. Blocking.
///
/// # Errors
/// What git reports, and an unknown reference.
pub fn clone_repository(
    address: &str,
    directory: &Path,
    reference: Option<&str>,
) -> Result<String, Failure> {
    let unknown =
        || failure(format!("`{}` is not a commit of `{address}`", reference.unwrap_or("HEAD")));
    if directory.join(".git").is_dir() {
        let git = Git::at(directory)?;
        if let Some(commit) = remote_commit(&git, reference) {
            return Ok(commit);
        }
        git.run(&["fetch", "--quiet", "--tags", "origin"])?;
        return remote_commit(&git, reference).ok_or_else(unknown);
    }
    let parent = directory.parent().unwrap_or(directory);
    // A clone that was interrupted must not be taken for a whole one.
    let part = directory.with_extension("part");
    if part.exists() {
        std::fs::remove_dir_all(&part)
            .map_err(|error| failure(format!("Failed to remove `{}`: {error}", part.display())))?;
    }
    let to = part.to_string_lossy();
    Git::at(parent)?.run(&["clone", "--quiet", "--no-checkout", "--", address, &to])?;
    std::fs::rename(&part, directory)
        .map_err(|error| failure(format!("Failed to rename `{}`: {error}", part.display())))?;
    remote_commit(&Git::at(directory)?, reference).ok_or_else(unknown)
}

/// The commit of a branch of the remote repository, a tag, or an object name.
fn remote_commit(git: &Git, reference: Option<&str>) -> Option<String> {
    let reference = reference.unwrap_or("HEAD");
    let names = [format!("origin/{reference}^{{commit}}"), format!("{reference}^{{commit}}")];
    names.iter().find_map(|name| {
        git.line(&["rev-parse", "--verify", "--quiet", "--end-of-options", name]).ok()
    })
}
