//! Protected files, which run something or are instructions for agents. They are small, always
//! saved, and reported to the caller.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use parallax_protocol::protected_names::{self, Protection, fold, is_git_private};

use super::confined_root::ConfinedPath;

/// Whether the path is in a `.git` directory that is not (or no longer) a repository. Restoring
/// only the settings of a lost repository would do harm.
pub fn is_in_broken_repository(path: &Path) -> bool {
    let git = path.ancestors().find(|path| path.file_name().is_some_and(|name| name == ".git"));
    git.is_some_and(|git| {
        let directory = git.is_dir() && !git.is_symlink();
        git != path && !(directory && git.join("HEAD").exists())
    })
}

/// Whether the last component of a path is a protected name, regardless of its parents.
pub(super) fn is_protected_name(relative: &Path) -> bool {
    let Some(name) = relative.file_name() else { return false };
    if protected_names::is_plain(name.as_bytes()) {
        return false;
    }
    let parents = relative.ancestors().skip(1).map_while(Path::file_name);
    let parents = parents.map(|name| Cow::Owned(fold(&name.to_string_lossy())));
    protected_names::protection_of(&fold(&name.to_string_lossy()), parents).is_some()
}

/// Whether a path relative to a workspace directory is protected, either because of one of its
/// components or because it is a git file that can run or redirect something.
pub(super) fn is_protected(relative: &Path) -> bool {
    if protected_names::protection(&protected_names::folded_names(relative)).is_some() {
        return true;
    }
    let mut names = relative.iter();
    names.any(|name| name.as_bytes().eq_ignore_ascii_case(b".git")) && {
        let rest = names.as_path();
        rest.as_os_str().is_empty() || is_git_private(rest)
    }
}

/// How many levels of directories in a protected one are listed. Below it, a directory is one entry
/// and is removed as a whole: listing them takes time that grows with the cube of the depth.
pub(super) const NESTED: usize = 32;

/// Maximum number of new protected entries of a command that are saved and removed one by one.
pub(super) const MAX_REMOVED: usize = 1_000;

/// Whether a path is a directory that a walk lists without its contents.
pub(super) fn is_nested_too_deep(relative: &Path) -> bool {
    let levels = relative.ancestors().filter(|path| !path.as_os_str().is_empty());
    let outermost = levels.enumerate().filter(|(_, path)| is_protected(path)).last();
    outermost.is_some_and(|(below, _)| below >= NESTED)
}

/// Whether a path relative to a workspace directory is protected only because it is an instruction
/// file for agents.
pub(super) fn is_instruction(relative: &Path) -> bool {
    let is_git_path = relative.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(b".git"));
    let protection = protected_names::protection(&protected_names::folded_names(relative));
    protection == Some(Protection::Instructions) && !is_git_path
}

/// Whether the path is the configuration of a bare repository in the workspace directory itself.
/// Git uses such a repository if the real `.git` is broken, and runs the programs that it
/// configures.
pub(super) fn is_in_planted_repository(location: &ConfinedPath) -> bool {
    let names = ["config", "config.worktree"];
    if !names.iter().any(|name| location.relative == Path::new(name)) {
        return false;
    }
    let path = location.path();
    let Some(folder) = path.parent() else { return false };
    folder.join("HEAD").symlink_metadata().is_ok()
        && ["objects", "refs"].iter().all(|name| folder.join(name).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_run_or_redirect_programs_are_protected() {
        for path in [
            ".git",
            "sub/.git",
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/info/attributes",
            ".git/objects/info/alternates",
            ".git/modules/a/b/config",
            ".git/modules/a/hooks/x",
            ".git/worktrees/w/gitdir",
            ".GIT/config",
            "a/.VSCode/tasks.json",
            "docs/agents.md",
            ".envrc",
        ] {
            assert!(is_protected(Path::new(path)), "{path}");
        }
        for path in [
            ".git/index",
            ".git/HEAD",
            ".git/refs/heads/config",
            ".git/objects/ab/cd",
            ".git/logs/HEAD",
            ".github/CODEOWNERS",
            "config",
            "hooks/x",
            ".gitignore",
        ] {
            assert!(!is_protected(Path::new(path)), "{path}");
        }
        for (pattern, _) in protected_names::patterns() {
            let path = format!("sub/{}/file", pattern.replace('*', "x"));
            let path = Path::new(&path);
            assert!(is_protected(path), "{path:?}");
            assert!(path.parent().is_some_and(is_protected_name), "{path:?}");
        }
    }
}
