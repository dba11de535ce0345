//! Finds git directories outside of the workspace: of a linked worktree, a submodule, a package
//! directory in a larger repository, a repository created with `--separate-git-dir`, or a `.git`
//! that is a symlink.
//!
//! A command or an edit can write a `.git` file or link that names any directory. Therefore the
//! repositories of the workspace roots are determined when the session starts, and a directory
//! elsewhere must prove that it belongs to the working tree.

mod index_proof;

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parallax_files::git_files::{linked_directory, read_git_file};

use crate::small_files::{bytes_of, line_of};

/// Maximum size in bytes of a configuration that is read.
const MAX_BYTES: u64 = 256 * 1024;
/// Directories of which commands have a private copy.
const PRIVATE: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// The repositories of the workspace roots when the session started. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct GitDirectories(Arc<Mutex<HashMap<PathBuf, RootRepository>>>);

/// The repository that git found from a workspace root.
#[derive(Debug, Clone, Default)]
struct RootRepository {
    /// The `.git` of the root or of a directory above it.
    git: Option<PathBuf>,
    /// The directories that it names if it is a file or a link.
    named: Vec<PathBuf>,
    /// The object directories of other repositories that it borrows from (`git clone --shared`).
    borrowed: Vec<PathBuf>,
}

impl RootRepository {
    fn for_root(root: &Path) -> Self {
        let git = root.ancestors().map(|directory| directory.join(".git")).find(|git| git.exists());
        let pointer = git.as_deref().filter(|git| !is_plain_directory(git));
        let roots = [root.to_owned()];
        let mut named = pointer.map(|git| proven_by_root(git, &roots)).unwrap_or_default();
        let objects: Vec<PathBuf> = named.iter().filter_map(|git| project_objects(git)).collect();
        named.extend(objects);
        let borrowed = git.iter().chain(&named).flat_map(|git| borrowed_objects(git)).collect();
        Self { git, named, borrowed }
    }
}

impl GitDirectories {
    /// Records the repositories of these roots. Called before any command or edit; a root that is
    /// already known is left alone. A later root is recorded when it is first seen, unless it is
    /// part of a known one, in which `.git` may have been written since. Blocking.
    pub(crate) fn record(&self, roots: &[PathBuf]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for root in roots {
            if !root.ancestors().any(|ancestor| known.contains_key(ancestor)) {
                known.insert(root.clone(), RootRepository::for_root(root));
            }
        }
    }

    /// Returns the `.git` of each root, or the one above it that git found when the session
    /// started.
    pub(crate) fn for_roots(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        self.record(roots);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let repository_of_root = |root: &PathBuf| {
            let own = root.join(".git");
            if own.exists() {
                return Some(own);
            }
            let first = root.ancestors().find_map(|ancestor| known.get(ancestor))?.git.clone();
            first.filter(|git| git.exists())
        };
        let mut found: Vec<PathBuf> = roots.iter().filter_map(repository_of_root).collect();
        found.sort();
        found.dedup();
        found
    }

    /// Returns the object directories from which the repositories of the roots borrowed when the
    /// session started, if commands have a private directory there.
    pub(crate) fn borrowed_object_directories(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        self.record(roots);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = known.values().flat_map(|root| &root.borrowed);
        all.filter(|path| is_concealed(path, roots)).cloned().collect()
    }

    /// Returns the directories in which git stores a repository: the `.git` itself or the directory
    /// that it names, and the common directory of a worktree.
    pub(crate) fn for_repository(&self, repository: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
        if is_plain_directory(repository) {
            return vec![repository.to_owned()];
        }
        self.record(roots);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = known.iter().find(|(root, first)| {
            first.git.as_deref() == Some(repository) || root.join(".git") == repository
        });
        let mut directories = match first {
            Some((_, first)) => first.named.clone(),
            None => Vec::new(),
        };
        if directories.is_empty() {
            // A nested repository, or one that was created in this session.
            let is_root = first.is_some();
            directories = proven_directories(repository, roots);
            directories.retain(|directory| !is_root || is_inside(directory, roots));
        }
        directories
    }
}

fn is_plain_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_dir())
}

fn is_inside(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Returns the directories that a `.git` file or link names, if they prove that they belong to it.
fn proven_directories(repository: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    if let Some(folder) = linked_folder(repository) {
        // A path that a command can write must not give access to anything else.
        let common = common_folder(&folder)
            .filter(|common| is_inside(common, roots) || !is_inside(&folder, roots));
        return vec![common.unwrap_or(folder)];
    }
    submodule_folder(repository).into_iter().collect()
}

/// Like [`proven_directories`], for the repository of a root, which may also be one that git
/// created with `--separate-git-dir`.
fn proven_by_root(repository: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let directories = proven_directories(repository, roots);
    if directories.is_empty() {
        return separate_folder(repository).into_iter().collect();
    }
    directories
}

/// Returns the repository of a linked worktree's directory, which git creates as
/// `worktrees/<name>` in it.
fn common_folder(directory: &Path) -> Option<PathBuf> {
    let common = directory.join(line_of(&directory.join("commondir"))?).canonicalize().ok()?;
    let is_part = directory.parent() == Some(common.join("worktrees").as_path());
    (is_part && is_repository(&common)).then_some(common)
}

/// Whether the directory has the parts that git requires of a repository.
fn is_repository(directory: &Path) -> bool {
    directory.join("HEAD").is_file()
        && directory.join("objects").is_dir()
        && directory.join("refs").is_dir()
}

/// Returns the directory that a `.git` file names or a `.git` link points to.
fn target(repository: &Path) -> Option<PathBuf> {
    let data = std::fs::symlink_metadata(repository).ok()?;
    if data.is_symlink() {
        return repository.canonicalize().ok().filter(|directory| directory.is_dir());
    }
    if !data.is_file() {
        return None;
    }
    linked_directory(repository.parent()?, &read_git_file(repository)?)?.canonicalize().ok()
}

/// Returns the directory inside the workspace that a `.git` file or link names. It proves nothing:
/// to protect one directory too many is harmless. A directory in another `.git` is protected with
/// that.
pub(crate) fn named_in_workspace(repository: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    if is_plain_directory(repository) {
        return None;
    }
    let directory = target(repository)?;
    let is_around = roots.iter().any(|root| root.starts_with(&directory));
    let is_part = directory.iter().any(|name| name == ".git");
    (is_inside(&directory, roots) && !is_around && !is_part).then_some(directory)
}

/// Returns the directory of a linked worktree if it points back: a planted file must not open
/// another directory.
pub(crate) fn linked_folder(repository: &Path) -> Option<PathBuf> {
    let directory = target(repository)?;
    let back = directory.join(line_of(&directory.join("gitdir"))?).canonicalize().ok()?;
    (back == repository.canonicalize().ok()?).then_some(directory)
}

/// Returns the directory of a submodule if its configuration points back.
fn submodule_folder(repository: &Path) -> Option<PathBuf> {
    let directory = target(repository)?;
    let worktree = core_value(&directory, "worktree")?;
    let worktree = directory.join(worktree).canonicalize().ok()?;
    (worktree == repository.parent()?.canonicalize().ok()?).then_some(directory)
}

/// Returns the directory of a repository created with `--separate-git-dir`, which does not point
/// back: it must be owned by the same user, not serve another working tree, and list files of this
/// one. If it is still empty, both must have been created together.
fn separate_folder(repository: &Path) -> Option<PathBuf> {
    let directory = target(repository)?;
    let is_separate = is_repository(&directory)
        && !directory.join("commondir").exists()
        && core_value(&directory, "worktree").is_none()
        && core_value(&directory, "bare").is_some_and(|bare| bare == "false");
    let owner = |path: &Path| path.symlink_metadata().map(|data| data.uid()).ok();
    let is_own = owner(&directory) == owner(repository);
    // A `.git` directory next to other files is their repository.
    let serves_others = directory.file_name().is_some_and(|name| name == ".git")
        && directory.parent()?.read_dir().ok()?.count() > 1;
    let belongs = || match is_empty(&directory) {
        true => was_created_with(&directory, repository),
        false => index_proof::lists_files_of(&directory, repository.parent()),
    };
    (is_separate && is_own && !serves_others && belongs()).then_some(directory)
}

/// Returns the objects of a repository that Android's `repo` tool made in a client directory:
/// `.repo/projects/NAME.git/objects` is a link into `.repo/project-objects`.
fn project_objects(directory: &Path) -> Option<PathBuf> {
    let client = directory.ancestors().find(|ancestor| ancestor.ends_with(".repo"))?;
    let objects = directory.join("objects");
    let is_link = directory.starts_with(client.join("projects"))
        && objects.symlink_metadata().is_ok_and(|data| data.is_symlink());
    let real = objects.canonicalize().ok().filter(|objects| is_link && objects.is_dir())?;
    real.starts_with(client.join("project-objects")).then_some(real)
}

/// Whether the directory and the `.git` that names it were created or moved together. The time of
/// the last change to a file cannot be set.
fn was_created_with(directory: &Path, repository: &Path) -> bool {
    const SAME_TIME_TOLERANCE: i64 = 10;
    let changed = |path: &Path| path.symlink_metadata().map(|data| data.ctime()).ok();
    changed(directory).zip(changed(repository)).is_some_and(|(one, two)| {
        one.checked_sub(two).is_some_and(|apart| apart.abs() <= SAME_TIME_TOLERANCE)
    })
}

/// Whether the repository has neither staged files nor commits.
fn is_empty(directory: &Path) -> bool {
    let heads = directory.join("refs/heads").read_dir();
    !directory.join("index").exists()
        && !directory.join("packed-refs").exists()
        && heads.is_ok_and(|mut heads| heads.next().is_none())
}

/// Returns a value of the section `core` in the configuration of a repository.
fn core_value(directory: &Path, key: &str) -> Option<String> {
    value(directory, "[core]", key)
}

fn value(directory: &Path, section: &str, key: &str) -> Option<String> {
    let bytes = bytes_of(&directory.join("config"), MAX_BYTES)?;
    let mut in_section = false;
    let mut found = None;
    for line in String::from_utf8_lossy(&bytes).lines().map(str::trim) {
        if line.starts_with('[') {
            in_section = line.eq_ignore_ascii_case(section);
        } else if in_section
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
pub(crate) fn directories_to_show(
    repository: &Path,
    directories: &[PathBuf],
    roots: &[PathBuf],
) -> Vec<PathBuf> {
    let top = repository.parent().filter(|top| roots.iter().any(|root| root.starts_with(top)));
    let all = directories.iter().map(PathBuf::as_path).chain(top);
    all.filter(|path| is_concealed(path, roots)).map(Path::to_owned).collect()
}

/// Whether commands have a private directory where the path is.
fn is_concealed(path: &Path, roots: &[PathBuf]) -> bool {
    !is_inside(path, roots)
        && PRIVATE.iter().any(|top| path.starts_with(top) && path != Path::new(top))
}

/// Reads the object directories in `objects/info/alternates` of a git directory, and those from
/// which these borrow in turn, as far as git follows them.
fn borrowed_objects(git: &Path) -> Vec<PathBuf> {
    const DEPTH: usize = 5;
    const MAX_COUNT: usize = 64;
    let mut found: Vec<PathBuf> = Vec::new();
    let mut level = vec![git.join("objects")];
    for _ in 0..=DEPTH {
        let start = found.len();
        for path in level.iter().flat_map(|objects| alternates(objects)) {
            if found.len() < MAX_COUNT && !found.contains(&path) {
                found.push(path);
            }
        }
        level = found.get(start..).unwrap_or_default().to_vec();
    }
    found
}

/// Reads the object directories that an object directory names, with links resolved.
fn alternates(objects: &Path) -> Vec<PathBuf> {
    let list = bytes_of(&objects.join("info/alternates"), MAX_BYTES).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let paths = lines.map(|line| objects.join(&*unquote(line)));
    let paths =
        paths.filter(|path| path.ends_with("objects")).filter_map(|it| it.canonicalize().ok());
    // `objects` itself may be a link.
    let is_store = |path: &PathBuf| path.ends_with("objects") || path.join("info").is_dir();
    paths.filter(|path| path.is_dir() && is_store(path)).collect()
}

/// Returns the path of a line that git reads with C escapes if it begins with a quotation mark.
pub(crate) fn unquote(line: &str) -> Cow<'_, str> {
    let Some(rest) = line.strip_prefix('"') else { return line.into() };
    let (mut bytes, mut rest) = (Vec::new(), rest.bytes().peekable());
    while let Some(byte) = rest.next() {
        let escaped = match byte {
            b'"' => break,
            b'\\' => rest.next(),
            other => {
                bytes.push(other);
                continue;
            }
        };
        bytes.push(match escaped {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(first @ b'0'..=b'3') => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    let digit = rest.next_if(|it| (b'0'..=b'7').contains(it));
                    value = digit.map_or(value, |digit| value * 8 + (digit - b'0'));
                }
                value
            }
            Some(other) => other,
            None => break,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
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
        let output =
            parallax_exec::program::output("git", arguments, directory, &[], 1 << 20, time);
        assert!(output.is_some(), "{directory:?}");
    }

    struct ScratchRepository {
        _folder: tempfile::TempDir,
        top: PathBuf,
    }

    impl ScratchRepository {
        /// Creates a repository `main` with a commit.
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let top = directory.path().canonicalize().expect("a path");
            fs::create_dir(top.join("main")).expect("a directory");
            git(&top.join("main"), &["init", "-q"]);
            fs::write(top.join("main/a"), "a").expect("a file");
            git(&top.join("main"), &["add", "-A"]);
            git(&top.join("main"), &["commit", "-qm", "a"]);
            Self { _folder: directory, top }
        }

        fn folders(&self, known: &GitDirectories, root: &str) -> Vec<PathBuf> {
            let roots = [self.top.join(root)];
            let found = known.for_roots(&roots);
            found.iter().flat_map(|git| known.for_repository(git, &roots)).collect()
        }
    }

    #[test]
    fn client_of_the_repo_tool_includes_its_project_objects() {
        let scratch = ScratchRepository::new();
        let client = scratch.top.join("client");
        fs::create_dir_all(client.join(".repo/projects")).expect("a directory");
        fs::create_dir_all(client.join(".repo/project-objects")).expect("a directory");
        fs::create_dir(client.join("foo")).expect("a directory");
        let repository = client.join(".repo/projects/foo.git");
        git(&scratch.top, &["clone", "-q", "--bare", "main", "client/.repo/projects/foo.git"]);
        git(&repository, &["config", "core.bare", "false"]);
        let objects = client.join(".repo/project-objects/foo.git");
        fs::rename(repository.join("objects"), &objects).expect("moved");
        symlink("../../project-objects/foo.git", repository.join("objects")).expect("a link");
        symlink("../.repo/projects/foo.git", client.join("foo/.git")).expect("a link");
        git(&client.join("foo"), &["checkout", "-qf"]);
        let found = scratch.folders(&GitDirectories::default(), "client/foo");
        assert_eq!(found, [repository.clone(), objects]);
        // A link to anything else gives no access.
        fs::remove_file(repository.join("objects")).expect("removed");
        symlink(scratch.top.join("main/.git/objects"), repository.join("objects")).expect("a link");
        assert_eq!(scratch.folders(&GitDirectories::default(), "client/foo"), [repository]);
    }

    #[test]
    fn objects_borrowed_through_other_clones_are_found() {
        let scratch = ScratchRepository::new();
        let top = &scratch.top;
        git(top, &["clone", "-q", "--shared", "main", "one"]);
        git(top, &["clone", "-q", "--shared", "one", "two"]);
        let objects = |name: &str| top.join(name).join(".git/objects");
        fs::write(
            objects("main").join("info/alternates"),
            objects("two").as_os_str().as_encoded_bytes(),
        )
        .expect("a circle");
        let mut found = borrowed_objects(&top.join("two/.git"));
        found.sort();
        assert_eq!(found, [objects("main"), objects("one"), objects("two")]);
    }

    #[test]
    fn borrowed_objects_are_found_through_links_and_quoted_lines() {
        let scratch = ScratchRepository::new();
        let top = &scratch.top;
        fs::create_dir(top.join("s 1")).expect("a directory");
        fs::rename(top.join("main"), top.join("s 1/main")).expect("moved");
        symlink("s 1", top.join("link")).expect("a link");
        git(top, &["clone", "-q", "s 1/main", "user"]);
        let file = top.join("user/.git/objects/info/alternates");
        let real = top.join("s 1/main/.git/objects");
        let linked = top.join("link/main/.git/objects");
        let shown = |path: &Path| path.display().to_string();
        for (line, expected) in [
            (shown(&linked), vec![real.clone()]),
            (format!("\"{}\"", shown(&real)), vec![real.clone()]),
            (format!("\"{}\"", shown(&real).replace(' ', "\\040")), vec![real.clone()]),
            ("../../../s 1/main/.git/objects".to_owned(), vec![real.clone()]),
            (format!("# {}", shown(&real)), vec![]),
            (shown(&top.join("s 1/main/.git")), vec![]),
        ] {
            fs::write(&file, format!("{line}\n")).expect("a file");
            assert_eq!(borrowed_objects(&top.join("user/.git")), expected, "{line}");
        }
        // The object directory itself is a link.
        fs::rename(&real, top.join("store")).expect("moved");
        symlink(top.join("store"), &real).expect("a link");
        fs::write(&file, shown(&real)).expect("a file");
        assert_eq!(borrowed_objects(&top.join("user/.git")), [top.join("store")]);
    }

    #[test]
    fn git_directories_outside_the_workspace_are_found() {
        let scratch = ScratchRepository::new();
        let (top, known) = (&scratch.top, GitDirectories::default());
        git(&top.join("main"), &["worktree", "add", "-q", "../tree"]);
        git(top, &["clone", "-q", "main", "super"]);
        git(&top.join("super"), &["submodule", "add", "-q", "../main", "sub"]);
        git(top, &["init", "-q", "--separate-git-dir", "away", "apart"]);
        fs::create_dir_all(top.join("main/packages/x")).expect("a directory");
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
    fn planted_git_file_does_not_open_an_outside_directory() {
        let scratch = ScratchRepository::new();
        let (top, known) = (&scratch.top, GitDirectories::default());
        git(top, &["init", "-q", "--bare", "bare"]);
        git(top, &["init", "-q", "--separate-git-dir", "away", "apart"]);
        let root = top.join("planted");
        fs::create_dir(&root).expect("a directory");
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
        // What was not there when the session started is ignored.
        assert!(scratch.folders(&known, "planted").is_empty());
        fs::write(root.join(".git"), "gitdir: ../away\n").expect("a file");
        assert!(scratch.folders(&known, "planted").is_empty());
        assert_eq!(scratch.folders(&GitDirectories::default(), "planted"), [top.join("away")]);
        // Once it has files, it belongs to the working tree that has them.
        git(&top.join("apart"), &["commit", "-q", "--allow-empty", "-m", "a"]);
        assert!(scratch.folders(&GitDirectories::default(), "planted").is_empty());
        fs::write(top.join("apart/a"), "a").expect("a file");
        git(&top.join("apart"), &["add", "-A"]);
        fs::copy(top.join("apart/a"), root.join("a")).expect("a copy");
        assert!(scratch.folders(&GitDirectories::default(), "planted").is_empty());
        assert_eq!(scratch.folders(&GitDirectories::default(), "apart"), [top.join("away")]);
    }

    #[test]
    fn pointer_written_in_the_session_does_not_open_an_outside_directory() {
        let scratch = ScratchRepository::new();
        let top = &scratch.top;
        git(&top.join("main"), &["worktree", "add", "-q", "../tree"]);
        git(&top.join("main"), &["init", "-q", "inner"]);
        for (before, change) in [
            // A linked worktree whose pointer the user removed.
            ("tree", "rm .git"),
            // The repository around the workspace is another one.
            ("main/inner", "mv .git old"),
        ] {
            let known = GitDirectories::default();
            let roots = [top.join(before)];
            let text = fs::read(top.join(before).join(".git"));
            let shell = |line: &str| {
                let time = Duration::from_secs(5);
                let line = ["-c", line];
                parallax_exec::program::output("sh", line, &roots[0], &[], 1 << 20, time)
            };
            shell(change).expect("a change");
            known.record(&roots);
            let at_start = scratch.folders(&known, before);
            if let Ok(text) = text {
                fs::write(roots[0].join(".git"), text).expect("a file");
                assert!(scratch.folders(&known, before).is_empty(), "{before}");
            } else {
                // Without its own repository, the one around it counts …
                assert_eq!(at_start, [top.join("main/.git")]);
                // … but not if its own was moved away meanwhile.
                shell("mv old .git").expect("a change");
                let known = GitDirectories::default();
                assert_eq!(scratch.folders(&known, before), [roots[0].join(".git")]);
                shell(change).expect("a change");
                assert!(scratch.folders(&known, before).is_empty(), "{before}");
            }
        }
        // A part of the workspace that becomes its own root.
        let known = GitDirectories::default();
        known.record(&[top.join("main")]);
        fs::create_dir(top.join("main/later")).expect("a directory");
        git(top, &["init", "-q", "--separate-git-dir", "away", "apart"]);
        fs::write(top.join("main/later/.git"), "gitdir: ../../away\n").expect("a file");
        assert!(scratch.folders(&known, "main/later").is_empty());
    }

    #[test]
    fn common_directory_is_found_only_in_the_repository_of_the_worktree() {
        let scratch = ScratchRepository::new();
        let top = &scratch.top;
        let root = top.join("w");
        for common in ["../..", "/", "..", "../../main/.git", "../../../main", "../../../main/.git"]
        {
            let _ = fs::remove_dir_all(&root);
            for directory in ["worktrees/gd/objects", "worktrees/gd/refs"] {
                fs::create_dir_all(root.join(directory)).expect("folders");
            }
            fs::write(root.join(".git"), "gitdir: worktrees/gd\n").expect("a file");
            let directory = root.join("worktrees/gd");
            fs::write(directory.join("HEAD"), "ref: refs/heads/m\n").expect("a file");
            fs::write(directory.join("gitdir"), "../../.git\n").expect("a file");
            fs::write(directory.join("commondir"), format!("{common}\n")).expect("a file");
            for known in [GitDirectories::default(), GitDirectories::default()] {
                assert_eq!(
                    scratch.folders(&known, "w"),
                    std::slice::from_ref(&directory),
                    "{common}"
                );
            }
            // The same below the root.
            let known = GitDirectories::default();
            let found = known.for_repository(&root.join(".git"), &[top.join("w")]);
            assert_eq!(found, [directory], "{common}");
        }
        // A bare repository around a workspace called `worktrees`.
        git(top, &["init", "-q", "--bare", "bare"]);
        let root = top.join("bare/worktrees");
        fs::create_dir_all(root.join("gd")).expect("folders");
        fs::write(root.join(".git"), "gitdir: gd\n").expect("a file");
        fs::write(root.join("gd/gitdir"), "../.git\n").expect("a file");
        fs::write(root.join("gd/commondir"), "../..\n").expect("a file");
        let known = GitDirectories::default();
        assert_eq!(scratch.folders(&known, "bare/worktrees"), [root.join("gd")]);
    }

    #[test]
    fn empty_repository_belongs_to_the_pointer_that_was_created_with_it() {
        let scratch = ScratchRepository::new();
        git(&scratch.top, &["init", "-q", "--separate-git-dir", "away", "apart"]);
        let pointer = scratch.top.join("apart/.git");
        assert!(was_created_with(&scratch.top.join("away"), &pointer));
        // Older than any test.
        assert!(!was_created_with(Path::new("/usr"), &pointer));
    }

    #[test]
    fn pipe_in_place_of_a_pointer_blocks_nothing() {
        let scratch = ScratchRepository::new();
        let root = scratch.top.join("w");
        fs::create_dir_all(root.join("gd")).expect("folders");
        fs::write(root.join(".git"), "gitdir: gd\n").expect("a file");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("gd/gitdir"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        assert!(scratch.folders(&GitDirectories::default(), "w").is_empty());
    }
}
