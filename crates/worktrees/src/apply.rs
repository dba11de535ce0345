//! Transfers the changes of a task to the repository: to the working tree, or to a branch.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use parallax_protocol::event::Failure;

use crate::failure;
use crate::git::{Git, no_working_tree_failure};

/// Result of applying a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchOutcome {
    /// It was applied to the working tree.
    Applied,
    /// It was merged with other changes to the same files.
    Merged,
    /// It conflicts with the working tree, and nothing was changed. Contains git's message.
    Conflict(String),
}

/// Applies a patch to the working tree that contains `directory`, either completely or not at all.
/// Blocking.
///
/// # Errors
/// Returns an error if there is no repository or git fails.
pub fn apply_patch(directory: &Path, patch: &Path) -> Result<PatchOutcome, Failure> {
    // The user's files, unlike those of worktrees, have their contents, not pointers of Git LFS.
    let git = git_at_top(directory)?.with_variable("GIT_LFS_SKIP_SMUDGE", "0".into());
    let patch = patch
        .canonicalize()
        .map_err(|error| failure(format!("Failed to read `{}`: {error}", patch.display())))?;
    let words = |options: &[&str], file: &Path| -> Vec<OsString> {
        let options = options.iter().map(OsString::from);
        options.chain([file.as_os_str().to_owned()]).collect()
    };
    let plain = ["apply", "--whitespace=nowarn"];
    if git.run(&words(&[plain.as_slice(), &["--check"]].concat(), &patch)).is_ok() {
        git.run(&words(&plain, &patch))?;
        return Ok(PatchOutcome::Applied);
    }
    // A three-way merge in a temporary index, so that a conflict changes nothing.
    let scratch = ScratchDirectory::new()?;
    let index = PathBuf::from(git.line(&["rev-parse", "--git-path", "index"])?);
    let index = git.directory().join(index);
    if index.is_file() {
        fs::copy(&index, scratch.file("index"))
            .map_err(|error| failure(format!("Failed to copy `{}`: {error}", index.display())))?;
    }
    let merge =
        git_at_top(directory)?.with_variable("GIT_INDEX_FILE", scratch.file("index").into());
    merge.run(&["add", "--all"])?;
    let before = merge.line(&["write-tree"])?;
    let three_way = [plain.as_slice(), &["--cached", "--3way"]].concat();
    if let Err(conflict) = merge.run(&words(&three_way, &patch)) {
        return Ok(PatchOutcome::Conflict(conflict.message));
    }
    let after = merge.line(&["write-tree"])?;
    let merged = scratch.file("merged.patch");
    let output = format!("--output={}", merged.display());
    let diff = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"];
    git.run(&[diff.as_slice(), &["--binary", "--full-index", &output, &before, &after]].concat())?;
    if merged.metadata().is_ok_and(|data| data.len() > 0) {
        git.run(&words(&plain, &merged))?;
    }
    Ok(PatchOutcome::Merged)
}

/// Creates the branch `branch` with the changes of a task, unless it exists. It is created from the
/// task's commit, or from the patch if the commit is not in this repository. Blocking.
///
/// # Errors
/// Returns an error if there is no repository, the base is unknown, or git fails.
pub fn create_branch(
    directory: &Path,
    branch: &str,
    commit: &str,
    base: &str,
    patch: &Path,
    message: &str,
) -> Result<(), Failure> {
    let git = git_at_top(directory)?;
    let full = format!("refs/heads/{branch}");
    let known =
        |name: &str| git.line(&["rev-parse", "--verify", "--quiet", "--end-of-options", name]).ok();
    if let Some(existing) = known(&full) {
        return match existing == commit {
            true => Ok(()),
            false => Err(failure(format!(
                "The branch `{branch}` has other commits; rename it, or delete it with \
                 `git branch -D {branch}`"
            ))),
        };
    }
    git.run(&["check-ref-format", &full])?;
    let commit = match known(&format!("{commit}^{{commit}}")) {
        Some(commit) => commit,
        None => {
            if known(&format!("{base}^{{commit}}")).is_none() {
                return Err(failure(format!(
                    "The commit {base}, which the changes are for, is not in this repository; \
                     fetch it first"
                )));
            }
            commit_patch(directory, base, patch, message)?
        }
    };
    git.run(&["update-ref", &full, &commit, ""])
}

/// Commits the patch on top of `base`.
fn commit_patch(
    directory: &Path,
    base: &str,
    patch: &Path,
    message: &str,
) -> Result<String, Failure> {
    let scratch = ScratchDirectory::new()?;
    let git = git_at_top(directory)?.with_variable("GIT_INDEX_FILE", scratch.file("index").into());
    let patch = patch
        .canonicalize()
        .map_err(|error| failure(format!("Failed to read `{}`: {error}", patch.display())))?;
    git.run(&["read-tree", base])?;
    let apply = ["apply", "--whitespace=nowarn", "--cached"].map(OsString::from);
    git.run(&[apply.as_slice(), &[patch.into_os_string()]].concat())?;
    let tree = git.line(&["write-tree"])?;
    let commit = ["commit-tree", "--no-gpg-sign", "-p", base, "-m", message, &tree];
    git.line(&commit)
        .or_else(|_| git.line(&[super::contents::IDENTITY.as_slice(), &commit].concat()))
}

/// Returns git for the top directory of the working tree.
fn git_at_top(directory: &Path) -> Result<Git, Failure> {
    let top = Git::at(directory)?.line(&["rev-parse", "--show-toplevel"]).map_err(|error| {
        let otherwise = format!("`{}` is not in a git working tree", directory.display());
        no_working_tree_failure(&error, otherwise)
    })?;
    Git::at(Path::new(&top))
}

/// A temporary directory that is removed on drop.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("parallax-{}", uuid::Uuid::new_v4().simple()));
        parallax_store::create_private_dir(&path)
            .map_err(|error| failure(format!("Failed to create `{}`: {error}", path.display())))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // Leftovers are in the system's directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
