//! The changes that a review is about, from git.

use std::path::Path;

use parallax_protocol::event::Failure;

use crate::worktrees::{Git, failure};

/// Which changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewScope {
    /// What is not committed, without new files that git does not know.
    WorkingTree,
    /// What is staged.
    Staged,
    /// What the working tree has since it left this branch or commit.
    Since(String),
}

/// The changes as a diff, with paths relative to the repository. Nothing that the repository
/// brings runs. Blocking.
///
/// # Errors
/// No repository, an unknown commit, or what git reports.
pub fn review_diff(directory: &Path, scope: &ReviewScope) -> Result<String, Failure> {
    let git = Git::at(directory)?;
    if git.line(&["rev-parse", "--is-inside-work-tree"]).is_err() {
        return Err(failure(format!(
            "`{}` is not in a git working tree; use `--pr PATCH` to review a patch",
            directory.display()
        )));
    }
    let base = match scope {
        ReviewScope::WorkingTree | ReviewScope::Staged => "HEAD".to_owned(),
        ReviewScope::Since(reference) => {
            let commit = format!("{reference}^{{commit}}");
            let commit = git
                .line(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
                .map_err(|_| {
                    failure(format!("`--base {reference}`: not a commit of this repository"))
                })?;
            // Without a common ancestor, the commit itself is compared.
            git.line(&["merge-base", &commit, "HEAD"]).unwrap_or(commit)
        }
    };
    let mut arguments = vec![
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
