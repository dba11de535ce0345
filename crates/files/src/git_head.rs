//! Reads the state of a Git checkout from its files, without running a program.

use std::path::{Path, PathBuf};

use crate::git_files::{git_directory, read_git_file};

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitHead {
    /// A branch, by its short name. May contain any characters: sanitize it before printing it to a
    /// terminal.
    Branch(String),
    /// A commit, by the first seven digits of its id.
    Detached(String),
}

impl GitHead {
    /// Returns the name to show.
    pub fn name(&self) -> &str {
        match self {
            Self::Branch(name) | Self::Detached(name) => name,
        }
    }
}

/// Returns what is checked out in the repository that contains the directory, including worktrees
/// and submodules; `None` outside of repositories. Blocking, but reads only a few small files.
pub fn head(folder: &Path) -> Option<GitHead> {
    let directory = folder.ancestors().find_map(checked_out)?;
    let text = read_git_file(&directory.join("HEAD"))?;
    let text = text.lines().next()?.trim();
    if let Some(name) = text.strip_prefix("ref:") {
        let name = name.trim();
        let short = name.strip_prefix("refs/heads/").unwrap_or(name);
        return (!short.is_empty()).then(|| GitHead::Branch(short.to_owned()));
    }
    let is_commit = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| GitHead::Detached(text.chars().take(7).collect()))
}

/// Returns the commit checked out in a repository. For a branch, only if its ref is not packed.
/// Blocking.
pub fn commit(repository: &Path) -> Option<String> {
    let directory = checked_out(repository)?;
    let text = read_git_file(&directory.join("HEAD"))?;
    let text = match text.trim().strip_prefix("ref:") {
        Some(name) if !name.contains("..") => read_git_file(&directory.join(name.trim()))?,
        Some(_) => return None,
        None => text,
    };
    let commit = text.trim();
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| commit.to_owned())
}

/// Returns the Git directory of a working tree. A `.git` directory without `HEAD` is none.
fn checked_out(folder: &Path) -> Option<PathBuf> {
    let directory = git_directory(folder)?;
    (directory != folder.join(".git") || directory.join("HEAD").exists()).then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_worktrees_and_commits_are_recognized() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(path, text).expect("write");
        };
        assert_eq!(head(root), None);
        write("a/.git/HEAD", "ref: refs/heads/feature/x\n");
        write("a/src/deep/file", "");
        assert_eq!(head(&root.join("a/src/deep")), Some(GitHead::Branch("feature/x".into())));
        write("a/.git/worktrees/w/HEAD", "0123456789abcdef0123456789abcdef01234567\n");
        write("w/.git", "gitdir: ../a/.git/worktrees/w\n");
        assert_eq!(head(&root.join("w")), Some(GitHead::Detached("0123456".into())));
        write("b/.git", "gitdir: /nowhere\n");
        assert_eq!(head(&root.join("b")), None);
        write("c/.git/HEAD", "something else");
        assert_eq!(head(&root.join("c")), None);
    }
}
