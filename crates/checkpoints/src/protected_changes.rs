//! Reverts changes to protected files that a program was not allowed to make.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use parallax_files::git_files::linked_directory;
use parallax_policy::bash;
use parallax_protocol::checkpoint::RevertedFiles;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::protected_names::{REBASE, REBASE_STEPS};
use parallax_protocol::tool::Effects;
use parallax_store::{Changes, is_in_broken_repository};
use serde::{Deserialize, Serialize};

/// Removes the setuid and setgid bits of changed programs.
pub(crate) fn remove_set_id(
    store: &parallax_store::Checkpoints,
    changes: &Changes,
) -> RevertedFiles {
    let (set_id, unrestored) = store.remove_set_id(&changes.set_id);
    RevertedFiles { set_id, unrestored, ..RevertedFiles::default() }
}

/// Reports the directories in which changed protected files may have been missed.
pub(crate) fn unsearched_directories(changes: &Changes) -> RevertedFiles {
    RevertedFiles { unsearched: changes.unsearched.clone(), ..RevertedFiles::default() }
}

/// Returns whether a command in this mode with these permissions may change protected files.
pub(crate) fn may_change_protected(granted: &Permissions, mode: ApprovalMode) -> bool {
    mode == ApprovalMode::Yolo || granted.outside
}

/// Which protected files a program may change. Does not contain the command line, because this is
/// saved in clear text and the session may be encrypted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AllowedProtectedWrites {
    permissions: Permissions,
    /// Whether all changes are what git does when it creates a repository.
    #[serde(rename = "only_creates_repositories")]
    allows_new_repositories: bool,
    /// Whether all changes are what git does when it adds or removes working trees.
    moves_worktrees: bool,
    /// Whether the program is a command line with `git rebase`, which writes the steps of a rebase.
    rebases: bool,
}

impl AllowedProtectedWrites {
    /// Derives the permitted changes from effects. Without them, it is unknown which program made
    /// the changes.
    pub(crate) fn from_effects(effects: Option<&Effects>, granted: &Permissions) -> Self {
        Self {
            permissions: granted.clone(),
            allows_new_repositories: effects.is_none_or(|effects| {
                effects.runs.iter().all(|command| only_creates_repositories(command))
            }),
            moves_worktrees: effects.is_some_and(|effects| {
                effects.runs.iter().all(|command| bash::moves_worktrees(&bash::analyze(command)))
            }),
            rebases: effects.is_some_and(|effects| {
                effects.runs.iter().any(|command| runs_rebase(&bash::analyze(command)))
            }),
        }
    }
}

/// Moves repositories back to their places. Must happen first, so that the files in them are found
/// at their original paths.
pub(crate) fn restore_repositories(changes: &Changes, granted: &Permissions) -> RevertedFiles {
    let mut reverted = RevertedFiles::default();
    let is_permitted =
        |path: &Path| granted.file_system.write.iter().any(|open| path.starts_with(open));
    for moved in changes.moved_repositories.iter().filter(|moved| !is_permitted(&moved.path)) {
        match moved.move_back() {
            Ok(()) => reverted.restored.push(moved.path.clone()),
            Err(reason) => reverted.unrestored.push((moved.path.clone(), reason)),
        }
    }
    reverted
}

pub(crate) fn revert(
    store: &parallax_store::Checkpoints,
    changes: &Changes,
    closed: &[PathBuf],
) -> RevertedFiles {
    if closed.is_empty() {
        return RevertedFiles::default();
    }
    let (moved, closed) = store.quarantine(changes, closed.to_vec());
    let reverted = RevertedFiles {
        moved_away: moved.paths,
        moved_to: moved.folders,
        ..RevertedFiles::default()
    };
    match store.restore(changes, &closed) {
        Ok(undone) => {
            RevertedFiles { restored: undone.restored, unrestored: undone.skipped, ..reverted }
        }
        Err(error) => {
            tracing::warn!(%error, "failed to restore protected files");
            let lost = closed.iter().map(|path| (path.clone(), error.to_string()));
            RevertedFiles { unrestored: lost.collect(), ..reverted }
        }
    }
}

/// Returns the changed protected paths that the program was not allowed to change.
pub(crate) fn disallowed_changes(
    changes: &Changes,
    allowance: &AllowedProtectedWrites,
) -> Vec<PathBuf> {
    let AllowedProtectedWrites {
        permissions: granted,
        allows_new_repositories,
        moves_worktrees: moves,
        rebases,
    } = allowance;
    let new_repositories =
        if *allows_new_repositories { paths_created_by_git(changes) } else { Vec::new() };
    // Creating instruction files for agents is restricted; changing existing ones is not.
    let set = |paths: &[PathBuf]| paths.iter().cloned().collect::<HashSet<PathBuf>>();
    let (instructions, created) = (set(&changes.instructions), set(&changes.created));
    let is_free = |path: &Path| instructions.contains(path) && !created.contains(path);
    // Git's data about a working tree, and the contents of a removed working tree.
    let is_worktree_file = |path: &Path| {
        *moves
            && (path.ancestors().any(|directory| directory.ends_with(".git/worktrees"))
                || path.parent().is_some_and(|directory| !directory.exists()))
    };
    // Only steps that are commands run something.
    let is_rebase_file = |path: &Path| is_rebase_steps(path) && (*rebases || !runs_commands(path));
    let is_open = |path: &Path| {
        is_worktree_file(path)
            || is_rebase_file(path)
            || granted.file_system.write.iter().any(|open| path.starts_with(open))
            || new_repositories.iter().any(|repository| path.starts_with(repository))
    };
    let closed = changes.protected.iter().filter(|path| !is_open(path) && !is_free(path));
    // Files of a removed repository cannot be restored, but files placed where a repository may be
    // created are removed.
    let is_lost = |path: &Path| is_in_broken_repository(path) && path.symlink_metadata().is_err();
    closed.filter(|path| !is_lost(path)).cloned().collect()
}

fn runs_rebase(line: &bash::ShellLine) -> bool {
    line.commands.iter().any(|command| {
        bash::git_subcommand(command).is_some_and(|call| matches!(call.name, "rebase" | "pull"))
    })
}

/// Whether the file holds the steps of a rebase in progress.
fn is_rebase_steps(path: &Path) -> bool {
    path.ends_with(Path::new(REBASE).join(REBASE_STEPS))
        && path.ancestors().any(|ancestor| ancestor.ends_with(".git"))
}

/// Whether a step of the rebase is a command, or cannot be read.
fn runs_commands(steps: &Path) -> bool {
    const MAX_LENGTH: u64 = 1024 * 1024;
    let data = match steps.symlink_metadata() {
        Ok(data) => data,
        Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
    };
    let text = (data.is_file() && data.len() <= MAX_LENGTH).then(|| std::fs::read(steps).ok());
    text.flatten().is_none_or(|text| {
        String::from_utf8_lossy(&text)
            .lines()
            .any(|line| matches!(line.split_whitespace().next(), Some("exec" | "x")))
    })
}

/// Returns whether the command creates repositories and no other program in it writes files. What
/// git puts into a new repository is allowed.
pub(crate) fn only_creates_repositories(command: &str) -> bool {
    const HARMLESS_COMMANDS: [&str; 12] =
        ["[", "cat", "cd", "echo", "git", "head", "ls", "mkdir", "printf", "pwd", "tail", "test"];
    let line = bash::analyze(command);
    let is_plain = |command: &bash::Command| {
        command.name().is_some_and(|name| HARMLESS_COMMANDS.contains(&name))
            && command.assignments.is_empty()
    };
    line.unanalyzable_reason.is_none()
        && line.commands.iter().all(is_plain)
        && line.redirections.iter().all(bash::is_harmless_redirection)
        && line.commands.iter().any(|command| {
            bash::git_subcommand(command).is_some_and(|call| {
                matches!(call.name, "init" | "clone" | "worktree" | "submodule")
            })
        })
}

/// Returns what git created: each new repository, the repository data and link file of each new
/// working tree, and the directories created with them.
pub(crate) fn paths_created_by_git(changes: &Changes) -> Vec<PathBuf> {
    let is_new = |path: &Path| changes.created.iter().any(|new| new == path);
    let mut created: Vec<PathBuf> = changes.new_repositories.clone();
    created.retain(|git| git.join("HEAD").is_file());
    let with_tree = |git: &Path| git.parent().filter(|tree| is_new(tree)).map(Path::to_path_buf);
    // Files that were checked out there also come from git.
    created.extend(created.iter().filter_map(|git| with_tree(git)).collect::<Vec<_>>());
    let trees = changes.created.iter().filter(|path| path.ends_with("gitdir"));
    for tree in trees.filter_map(|path| path.parent()) {
        let repository = tree.parent().filter(|directory| directory.ends_with(".git/worktrees"));
        if repository.is_none() || !is_new(&tree.join("commondir")) {
            continue;
        }
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let file = PathBuf::from(text(&tree.join("gitdir")).trim());
        let back = text(&file);
        let back = linked_directory(Path::new(""), &back);
        if text(&tree.join("commondir")).trim() == "../.." && back.as_deref() == Some(tree) {
            created.extend(with_tree(&file));
            created.extend([tree.to_owned(), file]);
        }
    }
    created
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parallax_store::{CheckpointOptions, Checkpoints};

    use super::*;
    use crate::CheckpointManager;

    #[test]
    fn only_rebase_steps_that_run_commands_are_recognized() {
        let directory = tempfile::tempdir().expect("a directory");
        let steps = directory.path().join(".git/rebase-merge/git-rebase-todo");
        std::fs::create_dir_all(steps.parent().expect("a parent")).expect("a directory");
        assert!(is_rebase_steps(&steps) && !runs_commands(&steps));
        for (text, runs) in [
            ("pick abc # exec\nfixup def\n", false),
            ("pick abc\n  exec touch x\n", true),
            ("x\ttouch x\n", true),
        ] {
            std::fs::write(&steps, text).expect("written");
            assert_eq!(runs_commands(&steps), runs, "{text}");
        }
        for (line, expected) in
            [("git rebase --continue && make", true), ("git status; make", false)]
        {
            assert_eq!(runs_rebase(&bash::analyze(line)), expected, "{line}");
        }
    }

    #[test]
    fn only_git_may_create_repositories() {
        for line in [
            "git clone . x",
            "git init && ls -la",
            "mkdir x && cd x && git init -q 2>/dev/null; echo done",
            "git worktree add ../x",
        ] {
            assert!(only_creates_repositories(line), "{line}");
        }
        for line in [
            "git init x; echo y > x/.git/config",
            "git init x; cp y x/.git/config",
            "GIT_TEMPLATE_DIR=y git init x",
            "make; git clone . x",
            "git status",
            "echo init",
            "$X init",
        ] {
            assert!(!only_creates_repositories(line), "{line}");
        }
    }

    #[test]
    fn too_many_new_protected_files_are_moved_away() {
        let top = tempfile::tempdir().expect("a directory");
        let top = top.path().canonicalize().expect("a path");
        let (root, kept) = (top.join("w"), top.join("kept"));
        let directory = root.join(".vscode");
        std::fs::create_dir(&root).expect("a directory");
        let options = CheckpointOptions::new(kept, "p".into(), "s".into(), vec![root]);
        let manager = CheckpointManager::new(Checkpoints::open(options), Arc::default());
        let watch = manager.watch().expect("a watch");
        std::fs::create_dir(&directory).expect("a directory");
        for number in 0..1_200 {
            std::fs::write(directory.join(number.to_string()), "evil").expect("written");
        }
        let reverted = watch.end("");
        assert!(!directory.exists());
        assert_eq!(reverted.moved_away, [directory]);
        assert_eq!((reverted.restored.len(), reverted.moved_to.len()), (0, 1));
        let note = reverted.note().expect("a note");
        assert!(note.contains("too many") && note.len() < 1_000, "{note}");
    }
}
