//! The small files of Git that say where a repository is. Reading them runs no program.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Maximum bytes of such a file.
const MAX_TEXT: u64 = 64 * 1024;

/// Reads a small regular file. Anything else, such as a named pipe, is treated as missing.
pub fn read_git_file(path: &Path) -> Option<String> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the directory that the text of a `.git` file names (`gitdir: PATH`), relative to the
/// working tree. As for Git, the whole text is the path.
pub fn linked_directory(tree: &Path, text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("gitdir:")?.trim();
    (!path.is_empty() && !path.contains('\n')).then(|| tree.join(path))
}

/// Returns the Git directory of the working tree with this root, which a linked worktree or a
/// submodule names in its `.git` file. It need not exist.
pub fn git_directory(tree: &Path) -> Option<PathBuf> {
    let entry = tree.join(".git");
    let metadata = std::fs::symlink_metadata(&entry).ok()?;
    if metadata.is_dir() || metadata.is_symlink() && entry.is_dir() {
        return Some(entry);
    }
    linked_directory(tree, &read_git_file(&entry)?)
}

/// Returns the directory with the objects and references: for a linked worktree, that of its
/// repository.
pub fn common_directory(git: &Path) -> PathBuf {
    match read_git_file(&git.join("commondir")) {
        Some(common) => git.join(common.trim()),
        None => git.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_worktrees_are_followed_to_their_repository() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        write("a/.git/worktrees/w/commondir", "../..\n");
        write("w/.git", "gitdir: ../a/.git/worktrees/w\n");
        let linked = git_directory(&root.join("w")).expect("a link");
        assert_eq!(linked, root.join("w/../a/.git/worktrees/w"));
        assert!(common_directory(&linked).ends_with("worktrees/w/../.."));
        let own = git_directory(&root.join("a")).expect("a repository");
        assert_eq!((common_directory(&own), own.clone()), (own.clone(), root.join("a/.git")));
        for text in ["gitdir: ", "gitdir: x\ny", "x"] {
            assert_eq!(linked_directory(root, text), None, "{text:?}");
        }
        assert_eq!(git_directory(root), None);
    }
}
