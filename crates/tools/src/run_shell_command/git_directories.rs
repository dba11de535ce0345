//! Finds git directories outside of the workspace: of a linked worktree, a submodule, a package
//! directory in a larger repository, a repository created with `--separate-git-dir`, or a `.git`
//! that is a symlink.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::repository::{bytes_of, line_of};

/// Maximum size in bytes of a configuration that is read.
const LARGEST: u64 = 256 * 1024;
/// Directories of which commands have a private copy.
const PRIVATE: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// The directories that `.git` files and links of workspace roots named when they were first read,
/// even if these directories do not point back. A command could later write such a file to open any
/// directory, so later ones are ignored. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct GitDirectories(Arc<Mutex<HashMap<PathBuf, Option<PathBuf>>>>);

impl GitDirectories {
    /// Returns the `.git` of each root, or the one that git finds above it.
    pub(super) fn around(roots: &[PathBuf]) -> Vec<PathBuf> {
        let nearest = |root: &PathBuf| {
            root.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())
        };
        roots.iter().filter_map(nearest).collect()
    }

    /// Returns the directories in which git stores a repository: the `.git` itself or the directory
    /// that it names, and the common directory of a worktree.
    pub(super) fn of(&self, repository: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
        if repository.is_dir() && !repository.is_symlink() {
            return vec![repository.to_owned()];
        }
        if let Some(folder) = linked_folder(repository) {
            let common = std::fs::read_to_string(folder.join("commondir"))
                .ok()
                .and_then(|text| folder.join(text.trim()).canonicalize().ok())
                .filter(|common| folder.starts_with(common));
            return vec![common.unwrap_or(folder)];
        }
        if let Some(folder) = submodule_folder(repository) {
            return vec![folder];
        }
        // Only repositories that git finds from a root: nested repositories are searched each time.
        let is_of_root = Self::around(roots).iter().any(|git| git == repository);
        is_of_root.then(|| self.first_named(repository)).flatten().into_iter().collect()
    }

    fn first_named(&self, repository: &Path) -> Option<PathBuf> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = known.entry(repository.to_owned());
        named.or_insert_with(|| separate_folder(repository)).clone()
    }
}

/// Returns the directory that a `.git` file names or a `.git` link points to.
fn target(repository: &Path) -> Option<PathBuf> {
    let data = std::fs::symlink_metadata(repository).ok()?;
    if data.is_symlink() {
        return repository.canonicalize().ok().filter(|folder| folder.is_dir());
    }
    if !data.is_file() {
        return None;
    }
    let line = line_of(repository)?;
    let target = line.strip_prefix("gitdir:")?.trim();
    repository.parent()?.join(target).canonicalize().ok()
}

/// Returns the directory of a linked worktree if it points back: a planted file must not open
/// another directory.
pub(super) fn linked_folder(repository: &Path) -> Option<PathBuf> {
    let folder = target(repository)?;
    let back = std::fs::read_to_string(folder.join("gitdir")).ok()?;
    let back = folder.join(back.trim()).canonicalize().ok()?;
    (back == repository.canonicalize().ok()?).then_some(folder)
}

/// Returns the directory of a submodule if its configuration points back.
fn submodule_folder(repository: &Path) -> Option<PathBuf> {
    let folder = target(repository)?;
    let worktree = core_value(&folder, "worktree")?;
    let worktree = folder.join(worktree).canonicalize().ok()?;
    (worktree == repository.parent()?.canonicalize().ok()?).then_some(folder)
}

/// Returns the directory of a repository created with `--separate-git-dir`, which does not point
/// back: it must be owned by the same user and not serve another working tree.
fn separate_folder(repository: &Path) -> Option<PathBuf> {
    let folder = target(repository)?;
    let is_repository = folder.join("HEAD").is_file()
        && folder.join("objects").is_dir()
        && folder.join("refs").is_dir()
        && !folder.join("commondir").exists()
        && core_value(&folder, "worktree").is_none()
        && core_value(&folder, "bare").is_some_and(|bare| bare == "false");
    let owner = |path: &Path| path.symlink_metadata().map(|data| data.uid()).ok();
    let is_own = owner(&folder) == owner(repository);
    // A `.git` directory beside other files is their repository.
    let serves_others = folder.file_name().is_some_and(|name| name == ".git")
        && folder.parent()?.read_dir().ok()?.count() > 1;
    (is_repository && is_own && !serves_others).then_some(folder)
}

/// Returns a value of the section `core` in the configuration of a repository.
fn core_value(folder: &Path, key: &str) -> Option<String> {
    let bytes = bytes_of(&folder.join("config"), LARGEST)?;
    let mut in_core = false;
    let mut found = None;
    for line in String::from_utf8_lossy(&bytes).lines().map(str::trim) {
        if line.starts_with('[') {
            in_core = line.eq_ignore_ascii_case("[core]");
        } else if in_core
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            found = Some(value.trim().trim_matches('"').replace("\\\\", "\\"));
        }
    }
    found
}

/// Returns what must be made visible of a repository where commands have a private directory
/// (`/tmp`): the git directories, and the files around a package directory.
pub(super) fn to_show(repository: &Path, folders: &[PathBuf], roots: &[PathBuf]) -> Vec<PathBuf> {
    let is_outside = |path: &Path| {
        !roots.iter().any(|root| path.starts_with(root))
            && PRIVATE.iter().any(|top| path.starts_with(top) && path != Path::new(top))
    };
    let top = repository.parent().filter(|top| roots.iter().any(|root| root.starts_with(top)));
    let all = folders.iter().map(PathBuf::as_path).chain(top);
    all.filter(|path| is_outside(path)).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    fn git(directory: &Path, arguments: &[&str]) {
        let set = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always"];
        let arguments = set.iter().chain(arguments);
        let time = Duration::from_secs(10);
        let done = parallax_exec::program::output("git", arguments, directory, &[], 1 << 20, time);
        assert!(done.is_some(), "{directory:?}");
    }

    struct Scratch {
        _folder: tempfile::TempDir,
        top: PathBuf,
    }

    impl Scratch {
        /// Creates a repository `main` with a commit.
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let top = folder.path().canonicalize().expect("a path");
            fs::create_dir(top.join("main")).expect("a folder");
            git(&top.join("main"), &["init", "-q"]);
            fs::write(top.join("main/a"), "a").expect("a file");
            git(&top.join("main"), &["add", "-A"]);
            git(&top.join("main"), &["commit", "-qm", "a"]);
            Self { _folder: folder, top }
        }

        fn folders(&self, known: &GitDirectories, root: &str) -> Vec<PathBuf> {
            let roots = [self.top.join(root)];
            let found = GitDirectories::around(&roots);
            found.iter().flat_map(|git| known.of(git, &roots)).collect()
        }
    }

    #[test]
    fn git_directories_outside_the_workspace_are_found() {
        let scratch = Scratch::new();
        let (top, known) = (&scratch.top, GitDirectories::default());
        git(&top.join("main"), &["worktree", "add", "-q", "../tree"]);
        git(top, &["clone", "-q", "main", "super"]);
        git(&top.join("super"), &["submodule", "add", "-q", "../main", "sub"]);
        git(top, &["init", "-q", "--separate-git-dir", "away", "apart"]);
        fs::create_dir_all(top.join("main/packages/x")).expect("a folder");
        git(top, &["init", "-q", "moved"]);
        fs::rename(top.join("moved/.git"), top.join("store")).expect("a directory");
        symlink(top.join("store"), top.join("moved/.git")).expect("a link");
        for (root, expected) in [
            ("main", "main/.git"),
            ("tree", "main/.git"),
            ("super/sub", "super/.git/modules/sub"),
            ("apart", "away"),
            ("moved", "store"),
            ("main/packages/x", "main/.git"),
        ] {
            assert_eq!(scratch.folders(&known, root), [top.join(expected)], "{root}");
        }
    }

    #[test]
    fn planted_git_file_opens_no_foreign_directory() {
        let scratch = Scratch::new();
        let (top, known) = (&scratch.top, GitDirectories::default());
        git(top, &["init", "-q", "--bare", "bare"]);
        git(top, &["init", "-q", "--separate-git-dir", "away", "apart"]);
        let root = top.join("planted");
        fs::create_dir(&root).expect("a folder");
        for target in ["../main/.git", "../bare", "../main", "/etc"] {
            fs::write(root.join(".git"), format!("gitdir: {target}\n")).expect("a file");
            assert_eq!(
                scratch.folders(&GitDirectories::default(), "planted"),
                [""; 0].map(PathBuf::from),
                "{target}"
            );
            fs::remove_file(root.join(".git")).expect("a file");
            symlink(target, root.join(".git")).expect("a link");
            let found = scratch.folders(&GitDirectories::default(), "planted");
            assert!(found.is_empty(), "{target} {found:?}");
            fs::remove_file(root.join(".git")).expect("a link");
        }
        fs::write(root.join(".git"), "gitdir: ../main\n").expect("a file");
        // What a command writes after the first read is ignored.
        assert!(scratch.folders(&known, "planted").is_empty());
        fs::write(root.join(".git"), "gitdir: ../away\n").expect("a file");
        assert!(scratch.folders(&known, "planted").is_empty());
    }
}
