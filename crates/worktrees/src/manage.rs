//! `parallax worktrees`: lists and removes the worktrees of a repository.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parallax_config::UserDirs;
use parallax_config::worktrees::{WorktreeRecord, read_record, record_file};
use parallax_protocol::event::Failure;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::contents::Contents;
use crate::{Checkout, IgnoredFiles, dirs, failure};

/// The worktrees of a repository that Parallax created.
#[derive(Debug)]
pub struct Worktrees {
    dirs: UserDirs,
    directory: PathBuf,
}

/// A worktree in the output of `worktrees list --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedWorktree {
    /// The name.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// The branch that is checked out; `None` for a detached HEAD.
    pub branch: Option<String>,
    /// The commit that it started from.
    pub base: String,
    /// Whether it has uncommitted changes.
    #[serde(rename = "dirty")]
    pub has_changes: bool,
    /// Number of commits since `base`.
    #[serde(rename = "ahead")]
    pub commits_ahead: u64,
    /// Id of its latest session.
    pub session_id: Option<String>,
}

/// State of a worktree.
pub(super) struct WorktreeState {
    pub(super) branch: Option<String>,
    pub(super) has_changes: bool,
    pub(super) commits_ahead: u64,
    is_on_own_branch: bool,
}

impl WorktreeState {
    /// Returns whether removing it loses nothing.
    pub(super) fn is_unchanged(&self) -> bool {
        !self.has_changes && self.commits_ahead == 0 && self.is_on_own_branch
    }

    /// Returns whether the branch that was created for the worktree is checked out.
    pub(super) fn is_on_own_branch(&self) -> bool {
        self.is_on_own_branch
    }
}

/// Determines the state of a worktree.
pub(super) fn state(record: &WorktreeRecord) -> Result<WorktreeState, Failure> {
    let contents = Contents::read(record)?;
    let has_changes = contents.is_dirty()?;
    let branch = contents.current_branch();
    // Counts the commits of the branch and of a detached HEAD.
    let tips = contents.tips();
    let commits_ahead = match tips.is_empty() {
        true => 0,
        false => {
            let tips = tips.iter().map(String::as_str);
            let words = ["rev-list", "--count"].into_iter().chain(tips).chain(["--not"]);
            let count = contents.git().line(&words.chain([&*record.base]).collect::<Vec<_>>())?;
            count.parse().unwrap_or(u64::MAX)
        }
    };
    let is_on_own_branch = branch.as_deref() == Some(&*record.branch);
    Ok(WorktreeState { branch, has_changes, commits_ahead, is_on_own_branch })
}

/// Removes an unchanged worktree, its branch, and its record. Returns the ignored files in it.
pub(super) fn delete_unchanged(record: &WorktreeRecord) -> Result<IgnoredFiles, Failure> {
    let ignored = Contents::read(record)?.ignored_files(&[])?;
    delete(record)?;
    Ok(ignored)
}

/// Removes a worktree, its branch, and its record.
pub(super) fn delete(record: &WorktreeRecord) -> Result<(), Failure> {
    if record.main.is_dir() {
        let contents = Contents::read(record)?;
        contents.remove()?;
        contents.delete_branch()?;
    } else if record.path.exists() {
        remove_all(&record.path)?;
    }
    remove_record(record)
}

/// Removes the record of a removed worktree.
pub(super) fn remove_record(record: &WorktreeRecord) -> Result<(), Failure> {
    let project = record.path.parent().unwrap_or(&record.path);
    let file = record_file(project, &record.name);
    fs::remove_file(&file)
        .map_err(|error| failure(format!("Failed to remove `{}`: {error}", file.display())))?;
    // Fails if there are other worktrees.
    let _ = fs::remove_dir(project);
    Ok(())
}

fn remove_all(path: &Path) -> Result<(), Failure> {
    parallax_files::remove_tree(path)
        .map_err(|error| failure(format!("Failed to remove `{}`: {error}", path.display())))
}

/// Returns the records of a project's worktrees, by name.
pub(super) fn records(project: &Path) -> Vec<WorktreeRecord> {
    let entries = fs::read_dir(project).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files.iter().filter_map(|file| read_record(file).ok()).collect()
}

/// Locks a worktree unless a session works in it.
pub(super) fn lock_if_unused(file: &Path) -> Option<File> {
    let file = File::open(file).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

impl Worktrees {
    /// Finds the worktrees of the repository that contains `directory`. Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no repository.
    pub fn discover(directory: &Path) -> Result<Self, Failure> {
        let dirs = dirs(directory)?;
        let directory = Checkout::find(&dirs, directory)?.worktrees(&dirs);
        let directory = directory.canonicalize().unwrap_or(directory);
        Ok(Self { dirs, directory })
    }

    fn records(&self) -> Vec<WorktreeRecord> {
        records(&self.directory)
    }

    fn find(&self, name: &str) -> Result<WorktreeRecord, Failure> {
        let records = self.records();
        let names: Vec<String> =
            records.iter().map(|record| format!("`{}`", record.name)).collect();
        records.into_iter().find(|record| record.name == name).ok_or_else(|| {
            let known = match names.is_empty() {
                true => "this repository has none".to_owned(),
                false => format!("available: {}", names.join(", ")),
            };
            failure(format!("Unknown worktree `{name}`; {known}"))
        })
    }

    /// Lists all worktrees. Blocking.
    pub fn list(&self) -> Vec<ListedWorktree> {
        let store = parallax_store::SessionDirs::new(&self.dirs.parallax, &self.dirs.gemini);
        let listed = |record: WorktreeRecord| {
            let state = state(&record).ok()?;
            let sessions = parallax_store::list(&store, &record.path);
            let session_id = sessions.first().map(|session| session.id.clone());
            Some(ListedWorktree {
                name: record.name,
                path: record.path,
                branch: state.branch,
                base: record.base,
                has_changes: state.has_changes,
                commits_ahead: state.commits_ahead,
                session_id,
            })
        };
        self.records().into_iter().filter_map(listed).collect()
    }

    /// Returns the directory of a worktree, and whether it has a session to resume. Blocking.
    ///
    /// # Errors
    /// Returns an error if the name is unknown.
    pub fn open(&self, name: &str) -> Result<(PathBuf, bool), Failure> {
        let record = self.find(name)?;
        let store = parallax_store::SessionDirs::new(&self.dirs.parallax, &self.dirs.gemini);
        let has_session = !parallax_store::list(&store, &record.path).is_empty();
        Ok((record.path, has_session))
    }

    /// Removes a worktree and its branch. Blocking.
    ///
    /// # Errors
    /// Returns an error if the name is unknown, a session works in it, or (without `force`) changes or
    /// commits would be lost.
    pub fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        let record = self.find(name)?;
        let Some(_lock) = lock_if_unused(&record_file(&self.directory, name)) else {
            return Err(failure(format!("A session is using the worktree `{name}`")));
        };
        if !force && let Some(lost) = loss_on_removal(&record)? {
            return Err(failure(format!(
                "The worktree `{name}` has {lost}; use `--force` to discard them"
            )));
        }
        delete(&record)
    }

    /// Removes the worktrees that [`Self::remove`] removes without `force`. Returns their names.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails.
    pub fn prune(&self) -> Result<Vec<String>, Failure> {
        let mut removed = Vec::new();
        for record in self.records() {
            let Some(_lock) = lock_if_unused(&record_file(&self.directory, &record.name)) else {
                continue;
            };
            let is_kept = match loss_on_removal(&record) {
                Ok(lost) => lost.is_some(),
                // What cannot be read may be work.
                Err(_) => record.path.exists(),
            };
            if !is_kept {
                delete(&record)?;
                removed.push(record.name);
            }
        }
        Ok(removed)
    }
}

/// Returns what would be lost with a worktree, if anything.
fn loss_on_removal(record: &WorktreeRecord) -> Result<Option<&'static str>, Failure> {
    if record.path.exists() && state(record)?.has_changes {
        return Ok(Some("uncommitted changes"));
    }
    Ok((!is_merged(record)?).then_some("commits that are not merged"))
}

/// Returns whether every commit of the worktree is also on another branch.
pub(super) fn is_merged(record: &WorktreeRecord) -> Result<bool, Failure> {
    let contents = Contents::read(record)?;
    let tips = contents.tips();
    if tips.is_empty() {
        return Ok(true);
    }
    let not_own = format!("--exclude={}", contents.branch());
    let mut arguments = vec!["rev-list", "--max-count=1"];
    arguments.extend(tips.iter().map(String::as_str));
    // Otherwise, what is checked out in worktrees counts, too.
    arguments.extend(["--not", &record.base, "--single-worktree", &not_own, "--all"]);
    Ok(contents.git().line(&arguments)?.is_empty())
}
