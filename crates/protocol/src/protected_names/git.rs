//! The files of a git directory that run programs or redirect git.

use std::ffi::OsStr;
use std::path::Path;

/// The files and directories at the top of a git directory that run programs or redirect git.
pub const OF_GIT: &[&str] =
    &["hooks", "config", "config.worktree", "info", "commondir", "gitdir", "branches", "remotes"];

/// The steps of a rebase in progress, in the directory [`REBASE`]. Steps that begin with `exec` are
/// commands.
pub const REBASE_STEPS: &str = "git-rebase-todo";
/// The directory of a rebase in progress.
pub const REBASE: &str = "rebase-merge";

/// Whether a file of a git directory runs or redirects something: its configuration, hooks,
/// attributes, and pointers, including those of submodules and linked working trees.
pub fn is_git_private(relative: &Path) -> bool {
    let names: Vec<&OsStr> = relative.iter().collect();
    let is = |at: usize, text: &str| names.get(at).is_some_and(|name| *name == text);
    if is(0, "objects") {
        return is(1, "info") && (is(2, "alternates") || is(2, "http-alternates"));
    }
    // Matches `modules/<name, possibly with slashes>/hooks/…` and `worktrees/<name>/gitdir`.
    let inner = is(0, "modules") || is(0, "worktrees");
    let from = if inner { 2 } else { 0 };
    let last = names.len().saturating_sub(1);
    names.iter().enumerate().skip(from).any(|(index, name)| {
        let name = name.as_encoded_bytes();
        let file = [&b"config"[..], b"config.worktree", b"commondir", b"gitdir"].contains(&name);
        let directory = [&b"hooks"[..], b"info", b"branches", b"remotes"].contains(&name);
        let alternates = index == last && name == b"alternates";
        let steps = name == REBASE.as_bytes() && index + 1 == last && is(last, REBASE_STEPS);
        (file && index == last || directory || alternates || steps) && (inner || index == 0)
    })
}

/// Whether a directory in a git directory may contain such files.
pub fn may_hold_git_private(relative: &Path) -> bool {
    let mut names = relative.iter();
    let skipped = ["objects", "refs", "logs", "lfs", "rr-cache"];
    let first = names.next().unwrap_or_default();
    if first == "objects" {
        return names.next().is_none_or(|name| name == "info") && names.next().is_none();
    }
    let inner = first == "modules" || first == "worktrees";
    let known = ["hooks", "info", "branches", "remotes", "modules", "worktrees", REBASE];
    known.iter().any(|name| first == *name)
        && !(inner && names.any(|name| skipped.iter().any(|skipped| name == *skipped)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_with_private_git_files_are_known() {
        assert!(may_hold_git_private(Path::new("objects/info")));
        assert!(may_hold_git_private(Path::new("rebase-merge")));
        assert!(is_git_private(Path::new("rebase-merge/git-rebase-todo")));
        assert!(is_git_private(Path::new("worktrees/w/rebase-merge/git-rebase-todo")));
        assert!(!is_git_private(Path::new("rebase-merge/done")));
        assert!(!may_hold_git_private(Path::new("objects/ab")));
        assert!(!may_hold_git_private(Path::new("modules/a/objects")));
        assert!(!may_hold_git_private(Path::new("refs")));
    }
}
