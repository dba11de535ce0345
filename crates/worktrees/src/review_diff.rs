//! Gets the changes to review from Git.

use std::path::Path;

use parallax_protocol::event::Failure;

use crate::git::no_working_tree_failure;
use crate::{Git, failure};

/// The changes to review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewScope {
    /// Uncommitted changes, without untracked files.
    WorkingTree,
    /// Staged changes.
    Staged,
    /// Changes in the working tree since it diverged from this branch or commit.
    Since(String),
}

/// Returns the changes as a diff, with paths relative to the repository. No program that the
/// repository configures runs. Blocking.
///
/// # Errors
/// Returns an error if there is no repository, the commit is unknown, or git fails.
pub fn review_diff(directory: &Path, scope: &ReviewScope) -> Result<String, Failure> {
    let git = Git::at(directory)?;
    git.line(&["rev-parse", "--is-inside-work-tree"]).map_err(|error| {
        let display = directory.display();
        let otherwise =
            format!("`{display}` is not in a git working tree; use `--pr PATCH` to review a patch");
        no_working_tree_failure(&error, otherwise)
    })?;
    let base = match scope {
        ReviewScope::WorkingTree | ReviewScope::Staged => {
            match git.line(&["rev-parse", "--verify", "--quiet", "HEAD"]) {
                Ok(_) => "HEAD".to_owned(),
                // Before the first commit, everything is new.
                Err(_) => git.line(&["hash-object", "-t", "tree", "/dev/null"])?,
            }
        }
        ReviewScope::Since(reference) => {
            let commit = format!("{reference}^{{commit}}");
            let commit = git
                .line(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
                .map_err(|_| {
                    failure(format!("`--base {reference}`: not a commit of this repository"))
                })?;
            // Without a common ancestor, compare with the commit itself.
            git.line(&["merge-base", &commit, "HEAD"]).unwrap_or(commit)
        }
    };
    let mut arguments = vec![
        "-c",
        "core.quotePath=false",
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    ];
    if *scope == ReviewScope::Staged {
        arguments.push("--cached");
    }
    arguments.push(&base);
    Ok(String::from_utf8_lossy(&git.bytes(&arguments)?).into_owned())
}
