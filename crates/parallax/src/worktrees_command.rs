//! `parallax worktrees`, and the worktree of a session.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use parallax_headless::{json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_worktrees::{Worktree, WorktreeOutcome, Worktrees};

use crate::session_flags::SessionFlags;

/// `parallax worktrees`.
#[derive(Debug, Args)]
pub(crate) struct WorktreesArguments {
    #[command(subcommand)]
    pub(crate) action: WorktreesAction,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum WorktreesAction {
    /// List the worktrees of this repository
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Continue in a worktree; prints its path if stdout is not a terminal
    Open {
        /// Its name
        name: String,
    },
    /// Remove a worktree and its branch
    Remove {
        /// Its name
        name: String,

        /// Discard uncommitted changes and commits that are not merged
        #[arg(long)]
        force: bool,
    },
    /// Remove the worktrees without uncommitted changes or unmerged commits
    Prune,
}

fn open_here() -> Result<Worktrees, Failure> {
    Worktrees::discover(&current_directory()?)
}

fn current_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .map_err(|error| input_failure(format!("Failed to read the current directory: {error}")))
}

fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

/// Returns the path of a worktree and whether it has a session to resume.
///
/// # Errors
/// Returns an error if there is no repository or the name is unknown.
pub(crate) fn open(name: &str) -> Result<(PathBuf, bool), Failure> {
    open_here()?.open(name)
}

/// Runs the subcommand and returns its output.
///
/// # Errors
/// Returns an error if the operation fails.
pub(crate) fn run(action: WorktreesAction) -> Result<String, Failure> {
    let worktrees = open_here()?;
    match action {
        WorktreesAction::List { json } => {
            let list = worktrees.list();
            if json {
                let value = serde_json::to_value(&list)
                    .map_err(|error| input_failure(error.to_string()))?;
                return Ok(json_document(&value));
            }
            if list.is_empty() {
                return Ok("No worktrees. Start one with `parallax --worktree`.\n".to_owned());
            }
            let mut text = String::new();
            for worktree in list {
                let branch = worktree.branch.as_deref().unwrap_or("no branch");
                let state = if worktree.has_changes { "changed" } else { "clean" };
                let path = one_line(&worktree.path.display().to_string());
                let branch = one_line(branch);
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "{}  {branch}  {state}, {} ahead  {path}",
                    worktree.name, worktree.commits_ahead
                );
            }
            Ok(text)
        }
        WorktreesAction::Open { name } => {
            let (path, _) = worktrees.open(&name)?;
            Ok(format!("{}\n", path.display()))
        }
        WorktreesAction::Remove { name, force } => {
            worktrees.remove(&name, force)?;
            Ok(format!("Removed the worktree `{name}`\n"))
        }
        WorktreesAction::Prune => {
            let removed = worktrees.prune()?;
            let lines = removed.iter().map(|name| format!("Removed the worktree `{name}`\n"));
            Ok(lines.collect())
        }
    }
}

/// The worktree of this run, if it requested one.
pub(crate) struct SessionWorktree {
    worktree: Option<Worktree>,
}

impl SessionWorktree {
    /// Creates the worktree and makes it the working directory.
    ///
    /// # Errors
    /// Returns the reason if it cannot be created.
    pub(crate) fn enter(flags: &SessionFlags) -> Result<Self, Failure> {
        let Some(request) = &flags.worktree else {
            return Ok(Self { worktree: None });
        };
        let requested = flags.options.sandbox.as_deref();
        if requested.is_some_and(|sandbox| !["true", "false"].contains(&sandbox)) {
            return Err(input_failure(
                "`--worktree` cannot be combined with `--sandbox` or `tools.sandbox` values that run \
                 all of Parallax in a sandbox"
                    .to_owned(),
            ));
        }
        let worktree = Worktree::create(&current_directory()?, request)?;
        let carried = request.include_changes.then(|| worktree.uncopied_warning()).flatten();
        for warning in worktree.filter_warning().into_iter().chain(carried) {
            // A closed pipe is not an error here.
            let _ = writeln!(std::io::stderr(), "warning: {warning}");
        }
        if let Err(error) = std::env::set_current_dir(worktree.directory()) {
            let path = worktree.directory().display().to_string();
            worktree.discard();
            return Err(input_failure(format!(
                "Failed to change to the directory `{path}`: {error}"
            )));
        }
        Ok(Self { worktree: Some(worktree) })
    }

    /// Removes the worktree if nothing changed, or prints where it is.
    pub(crate) fn finish(self) {
        let Some(worktree) = self.worktree else { return };
        // No process should have a removed working directory.
        let _ = std::env::set_current_dir("/");
        let name = worktree.name().to_owned();
        let text = match worktree.finish() {
            Ok(WorktreeOutcome::Removed(ignored)) if ignored.is_empty() => return,
            Ok(WorktreeOutcome::Removed(ignored)) => {
                format!("Removed worktree `{name}` with {ignored}")
            }
            Ok(WorktreeOutcome::Retained(text)) => text,
            Err(failure) => {
                format!("warning: The worktree was kept: {}", one_line(&failure.message))
            }
        };
        // A closed pipe is not an error here.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
