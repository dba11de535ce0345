//! Transfers the changes of a task to the repository: to the working tree, or to a branch.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use parallax_protocol::event::Failure;

use crate::failure;
use crate::git::{Git, no_working_tree_failure};
use crate::working_tree_update::{FileVersion, PathChange, WorkingTreeUpdate};

/// The mode of a commit of a submodule in a tree.
const SUBMODULE_MODE: &str = "160000";

/// Result of applying a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchOutcome {
    /// It was applied to the working tree.
    Applied,
    /// It was merged with other changes to the same files.
    Merged,
    /// It conflicts with the working tree, and nothing was changed. Contains git's message.
    Conflict(String),
}

/// Applies a patch to the working tree that contains `directory`, either completely or not at all.
/// The index does not change. Blocking.
///
/// # Errors
/// Returns an error if there is no repository, git fails, or files cannot be written.
pub fn apply_patch(directory: &Path, patch: &Path) -> Result<PatchOutcome, Failure> {
    let git = git_at_top(directory)?.with_variable("GIT_LITERAL_PATHSPECS", "1".into());
    let git_directory = PathBuf::from(git.line(&["rev-parse", "--absolute-git-dir"])?);
    let head = git.line(&["rev-parse", "--verify", "--quiet", "HEAD"]).unwrap_or_default();
    let update = WorkingTreeUpdate::begin(git.directory(), &git_directory, head)?;
    // git runs in another directory.
    let patch = patch
        .canonicalize()
        .map_err(|error| failure(format!("Failed to read `{}`: {error}", patch.display())))?;
    let patched = PatchedTree { git, git_directory, update };
    let (changes, is_merged) = match patched.build(&patch)? {
        Err(conflict) => return Ok(PatchOutcome::Conflict(conflict)),
        Ok(built) => built,
    };
    patched.update.finish(&changes)?;
    Ok(if is_merged { PatchOutcome::Merged } else { PatchOutcome::Applied })
}

/// The contents of the working tree with a patch, built in temporary indexes, so that a conflict
/// changes nothing.
struct PatchedTree {
    git: Git,
    git_directory: PathBuf,
    update: WorkingTreeUpdate,
}

impl PatchedTree {
    /// Writes the new contents of all files that the patch changes, and returns the changes, and
    /// whether they were merged with others. The inner error is a conflict.
    fn build(&self, patch: &Path) -> Result<Result<(Vec<PathChange>, bool), String>, Failure> {
        let numstat = ["apply", "--numstat", "-z"].map(OsString::from);
        let listed = self.git.paths(&[numstat.as_slice(), &[patch.into()]].concat())?;
        let mut paths: BTreeSet<PathBuf> =
            listed.iter().filter_map(|line| numstat_path(line)).collect();
        // Unmerged ones have no tree.
        paths.extend(self.unmerged_files()?);
        loop {
            let mut versions = BTreeMap::new();
            paths.extend(self.attribute_files(&paths));
            let before = match self.write_tree_with(&paths, &mut versions) {
                Ok(tree) => tree,
                Err(conflict) => return Ok(Err(conflict.message)),
            };
            let is_merged = match self.patch_index(patch) {
                Ok(is_merged) => is_merged,
                Err(conflict) => return Ok(Err(conflict_reason(&conflict.message))),
            };
            let after = self.index_git("index").line(&["write-tree"])?;
            let changed = self.changed_files(&before, &after)?;
            let unknown: Vec<PathBuf> = changed
                .iter()
                .map(|(path, _)| path.clone())
                .filter(|path| !paths.contains(path))
                .collect();
            // Such as the earlier name of a file that the patch renames.
            if !unknown.is_empty() {
                paths.extend(unknown);
                continue;
            }
            self.check_out(&after, &changed)?;
            let change = |(path, is_deleted): (PathBuf, bool)| {
                let before = versions.get(&path).copied().flatten();
                PathChange { path, before, is_deleted }
            };
            return Ok(Ok((changed.into_iter().map(change).collect(), is_merged)));
        }
    }

    /// Returns git with a temporary index.
    fn index_git(&self, name: &str) -> Git {
        let index = self.update.scratch_file(name);
        self.git.clone().with_variable("GIT_INDEX_FILE", index.into())
    }

    /// Returns the `.gitattributes` files that apply to paths: their current versions decide how
    /// contents are converted, even if git does not track them.
    fn attribute_files(&self, paths: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let directories: BTreeSet<&Path> =
            paths.iter().flat_map(|path| path.ancestors().skip(1)).collect();
        let files = directories.into_iter().map(|directory| directory.join(".gitattributes"));
        files.filter(|file| self.git.directory().join(file).is_file()).collect()
    }

    fn unmerged_files(&self) -> Result<Vec<PathBuf>, Failure> {
        self.git.paths(&["diff", "--name-only", "--diff-filter=U", "-z"])
    }

    /// Adds the current contents of the paths to a copy of the index, notes their versions, and
    /// writes its tree.
    fn write_tree_with(
        &self,
        paths: &BTreeSet<PathBuf>,
        versions: &mut BTreeMap<PathBuf, Option<FileVersion>>,
    ) -> Result<String, Failure> {
        let git = self.index_git("index");
        let index = PathBuf::from(self.git.line(&["rev-parse", "--git-path", "index"])?);
        let index = git.directory().join(index);
        let copy = self.update.scratch_file("index");
        if index.is_file() {
            fs::copy(&index, &copy).map_err(|error| {
                failure(format!("Failed to copy `{}`: {error}", index.display()))
            })?;
        }
        let (mut present, mut removed) = (Vec::new(), Vec::new());
        for path in paths {
            let full = git.directory().join(path);
            let data = full.symlink_metadata();
            let is_file = data.as_ref().is_ok_and(|data| !data.is_dir());
            versions.insert(path.clone(), FileVersion::of(&full).filter(|_| is_file));
            match data {
                // It has other files, or the commit of a submodule.
                Ok(data) if data.is_dir() => {}
                Ok(_) => {
                    removed.push(path);
                    present.push(path);
                }
                Err(_) => removed.push(path),
            }
        }
        let from_file = |words: &[&str], paths: &[&PathBuf]| -> Result<(), Failure> {
            if paths.is_empty() {
                return Ok(());
            }
            let list = self.path_list(paths.iter().map(|path| path.as_path()))?;
            git.run(&[words, &[list.as_str(), "--pathspec-file-nul"]].concat())
        };
        // git would take some files for unchanged by their times or by a flag in the index.
        from_file(&["rm", "--cached", "--quiet", "--force", "--ignore-unmatch"], &removed)?;
        from_file(&["add", "--force"], &present)?;
        git.line(&["write-tree"])
    }

    /// Writes the paths to a file, and returns the option of git that reads it.
    fn path_list<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<String, Failure> {
        let file = self.update.scratch_file("paths");
        let mut text = Vec::new();
        for path in paths {
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.push(0);
        }
        fs::write(&file, text)
            .map_err(|error| failure(format!("Failed to write `{}`: {error}", file.display())))?;
        Ok(format!("--pathspec-from-file={}", file.display()))
    }

    /// Applies the patch to the temporary index. Returns whether it had to be merged.
    fn patch_index(&self, patch: &Path) -> Result<bool, Failure> {
        let git = self.index_git("index");
        let apply = |options: &[&str]| {
            let words = ["apply", "--whitespace=nowarn", "--cached"].into_iter();
            let words = words.chain(options.iter().copied()).map(OsString::from);
            git.run(&words.chain([patch.into()]).collect::<Vec<_>>())
        };
        apply(&[]).map(|()| false).or_else(|_| apply(&["--3way"]).map(|()| true))
    }

    /// Returns the files that differ between two trees, and whether they are deleted. Commits of
    /// submodules are not files.
    fn changed_files(&self, before: &str, after: &str) -> Result<Vec<(PathBuf, bool)>, Failure> {
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--raw", before, after];
        let fields = self.git.paths(&words)?;
        let mut changed = Vec::new();
        for pair in fields.chunks(2) {
            let [header, path] = pair else { break };
            let header = header.to_string_lossy();
            let mut modes = header.trim_start_matches(':').split(' ');
            let (old, new) = (modes.next().unwrap_or_default(), modes.next().unwrap_or_default());
            let (is_deleted, mode) = if new == "000000" { (true, old) } else { (false, new) };
            if mode != SUBMODULE_MODE {
                changed.push((path.clone(), is_deleted));
            }
        }
        Ok(changed)
    }

    /// Writes the new files, with the attributes of their tree.
    fn check_out(&self, tree: &str, changed: &[(PathBuf, bool)]) -> Result<(), Failure> {
        let written = changed.iter().filter(|(_, is_deleted)| !is_deleted);
        let written: Vec<&Path> = written.map(|(path, _)| path.as_path()).collect();
        if written.is_empty() {
            return Ok(());
        }
        let git = self.index_git("new-index");
        // Of this working tree without files, git reads all attributes from the index.
        let git = git
            .with_variable("GIT_DIR", self.git_directory.clone().into())
            .with_variable("GIT_WORK_TREE", self.update.new_files().into())
            // The user's files, unlike those of worktrees, have their contents, not pointers.
            .with_variable("GIT_LFS_SKIP_SMUDGE", "0".into());
        git.run(&["read-tree", tree])?;
        let list = self.path_list(written.into_iter())?;
        git.run(&["checkout", "--quiet", tree, &list, "--pathspec-file-nul"])
    }
}

/// Returns the path of an entry of `git apply --numstat`: two numbers, and the path.
fn numstat_path(entry: &Path) -> Option<PathBuf> {
    let bytes = entry.as_os_str().as_bytes();
    let path = bytes.splitn(3, |byte| *byte == b'\t').nth(2)?;
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// Returns what git reports about a conflict, without its progress.
fn conflict_reason(message: &str) -> String {
    let lines = || message.split("; ");
    let conflict = |line: &str| {
        let (_, rest) = line.split_once("Applied patch to '")?;
        Some(format!("conflict in `{}`", rest.strip_suffix("' with conflicts.")?))
    };
    let mut reasons: Vec<String> = lines().filter_map(conflict).collect();
    reasons.extend(lines().filter_map(|line| Some(line.split_once("error: ")?.1.to_owned())));
    match reasons.as_slice() {
        [] => message.to_owned(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// Creates the branch `branch` with the changes of a task, unless it exists. It is created from the
/// task's commit, or from the patch if the commit is not in this repository. Blocking.
///
/// # Errors
/// Returns an error if there is no repository, the base is unknown, or git fails.
pub fn create_branch(
    directory: &Path,
    branch: &str,
    commit: &str,
    base: &str,
    patch: &Path,
    message: &str,
) -> Result<(), Failure> {
    let git = git_at_top(directory)?;
    let full = format!("refs/heads/{branch}");
    let known =
        |name: &str| git.line(&["rev-parse", "--verify", "--quiet", "--end-of-options", name]).ok();
    if let Some(existing) = known(&full) {
        return match existing == commit {
            true => Ok(()),
            false => Err(failure(format!(
                "The branch `{branch}` has other commits; rename it, or delete it with \
                 `git branch -D {branch}`"
            ))),
        };
    }
    git.run(&["check-ref-format", &full])?;
    let commit = match known(&format!("{commit}^{{commit}}")) {
        Some(commit) => commit,
        None => {
            if known(&format!("{base}^{{commit}}")).is_none() {
                return Err(failure(format!(
                    "The commit {base}, which the changes are for, is not in this repository; \
                     fetch it first"
                )));
            }
            commit_patch(directory, base, patch, message)?
        }
    };
    git.run(&["update-ref", &full, &commit, ""])
}

/// Commits the patch on top of `base`.
fn commit_patch(
    directory: &Path,
    base: &str,
    patch: &Path,
    message: &str,
) -> Result<String, Failure> {
    let scratch = ScratchDirectory::new()?;
    let git = git_at_top(directory)?.with_variable("GIT_INDEX_FILE", scratch.file("index").into());
    let patch = patch
        .canonicalize()
        .map_err(|error| failure(format!("Failed to read `{}`: {error}", patch.display())))?;
    git.run(&["read-tree", base])?;
    let apply = ["apply", "--whitespace=nowarn", "--cached"].map(OsString::from);
    git.run(&[apply.as_slice(), &[patch.into_os_string()]].concat())?;
    let tree = git.line(&["write-tree"])?;
    let commit = ["commit-tree", "--no-gpg-sign", "-p", base, "-m", message, &tree];
    git.line(&commit)
        .or_else(|_| git.line(&[super::contents::IDENTITY.as_slice(), &commit].concat()))
}

/// Returns git for the top directory of the working tree.
fn git_at_top(directory: &Path) -> Result<Git, Failure> {
    let top = Git::at(directory)?.line(&["rev-parse", "--show-toplevel"]).map_err(|error| {
        let otherwise = format!("`{}` is not in a git working tree", directory.display());
        no_working_tree_failure(&error, otherwise)
    })?;
    Git::at(Path::new(&top))
}

/// A temporary directory that is removed on drop.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("parallax-{}", uuid::Uuid::new_v4().simple()));
        parallax_store::create_private_dir(&path)
            .map_err(|error| failure(format!("Failed to create `{}`: {error}", path.display())))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // Leftovers are in the system's directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository, and a patch between two of its commits, of which the first is checked out.
    struct TestRepository {
        directory: tempfile::TempDir,
    }

    impl TestRepository {
        fn new(before: &[(&str, &[u8])], change: impl Fn(&Path)) -> Self {
            let test = Self { directory: tempfile::tempdir().expect("a directory") };
            let top = test.top();
            fs::create_dir(&top).expect("a directory");
            test.git(&["init", "-q"]);
            for (name, contents) in before {
                fs::write(top.join(name), contents).expect("a file");
            }
            test.commit();
            change(&top);
            test.commit();
            let patch = format!("--output={}", test.patch().display());
            test.git(&["diff", "-M", "--binary", "--full-index", &patch, "HEAD~", "HEAD"]);
            test.git(&["reset", "-q", "--hard", "HEAD~"]);
            test
        }

        fn top(&self) -> PathBuf {
            self.directory.path().join("top")
        }

        fn patch(&self) -> PathBuf {
            self.directory.path().join("change.patch")
        }

        fn git(&self, words: &[&str]) {
            let identity = ["-c", "user.name=n", "-c", "user.email=e"];
            let git = Git::at(&self.top()).expect("git");
            git.run(&[identity.as_slice(), words].concat()).expect("success");
        }

        fn commit(&self) {
            self.git(&["add", "--all"]);
            self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        }

        fn apply(&self) -> PatchOutcome {
            apply_patch(&self.top(), &self.patch()).expect("applied")
        }

        fn read(&self, name: &str) -> Option<Vec<u8>> {
            fs::read(self.top().join(name)).ok()
        }
    }

    #[test]
    fn files_are_written_with_attributes_that_the_patch_assigns() {
        let utf16 = b"a\0\n\0";
        let test = TestRepository::new(&[("file", b"1\n")], |top| {
            let attributes = "*.u16 text working-tree-encoding=UTF-16LE\n*.crlf text eol=crlf\n";
            fs::write(top.join(".gitattributes"), attributes).expect("written");
            fs::write(top.join("x.u16"), utf16).expect("written");
            fs::write(top.join("y.crlf"), "b\r\n").expect("written");
        });
        assert_eq!(test.apply(), PatchOutcome::Applied);
        assert_eq!(test.read("x.u16").as_deref(), Some(utf16.as_slice()));
        assert_eq!(test.read("y.crlf").as_deref(), Some(b"b\r\n".as_slice()));
        test.git(&["add", "--all"]);
        test.git(&["diff", "--cached", "--exit-code", "HEAD@{1}"]);
    }

    #[test]
    fn patch_that_renames_a_file_keeps_uncommitted_changes_of_it() {
        let lines: Vec<String> = (1..40).map(|number| format!("{number}\n")).collect();
        let test = TestRepository::new(&[("old", lines.concat().as_bytes())], |top| {
            fs::rename(top.join("old"), top.join("new")).expect("renamed");
            let text = lines.concat().replace("30\n", "thirty\n");
            fs::write(top.join("new"), text).expect("written");
        });
        let edited = lines.concat().replacen("5\n", "mine\n", 1);
        fs::write(test.top().join("old"), &edited).expect("written");
        assert!(matches!(test.apply(), PatchOutcome::Applied | PatchOutcome::Merged));
        let expected = edited.replace("30\n", "thirty\n");
        assert_eq!(test.read("new").as_deref(), Some(expected.as_bytes()));
        assert_eq!(test.read("old"), None);
    }

    #[test]
    fn conflict_names_the_file_and_changes_nothing() {
        let test = TestRepository::new(&[("a", b"1\n"), ("b", b"1\n")], |top| {
            fs::write(top.join("a"), "2\n").expect("written");
            fs::write(top.join("b"), "2\n").expect("written");
            fs::write(top.join("c"), "new\n").expect("written");
        });
        fs::write(test.top().join("b"), "mine\n").expect("written");
        let PatchOutcome::Conflict(reason) = test.apply() else { panic!("applied") };
        assert!(reason.contains('b'), "{reason}");
        assert_eq!(test.read("a").as_deref(), Some(b"1\n".as_slice()));
        assert_eq!(test.read("b").as_deref(), Some(b"mine\n".as_slice()));
        fs::write(test.top().join("b"), "1\n").expect("written");
        // An ignored file is the user's, too.
        fs::write(test.top().join(".git/info/exclude"), "c\n").expect("written");
        fs::write(test.top().join("c"), "mine\n").expect("written");
        assert!(matches!(test.apply(), PatchOutcome::Conflict(_)));
        assert_eq!(test.read("c").as_deref(), Some(b"mine\n".as_slice()));
        assert_eq!(test.read("a").as_deref(), Some(b"1\n".as_slice()));
    }

    #[test]
    fn directory_becomes_a_file_unless_it_has_other_files() {
        let test = TestRepository::new(&[("a", b"1\n")], |_| {});
        fs::create_dir(test.top().join("d")).expect("created");
        fs::write(test.top().join("d/x"), "1\n").expect("written");
        test.commit();
        fs::remove_dir_all(test.top().join("d")).expect("removed");
        fs::write(test.top().join("d"), "file\n").expect("written");
        test.commit();
        let patch = format!("--output={}", test.patch().display());
        test.git(&["diff", "--binary", "--full-index", &patch, "HEAD~", "HEAD"]);
        test.git(&["reset", "-q", "--hard", "HEAD~"]);
        fs::write(test.top().join("d/mine"), "mine").expect("written");
        assert!(apply_patch(&test.top(), &test.patch()).is_err());
        assert_eq!(test.read("d/x").as_deref(), Some(b"1\n".as_slice()));
        assert_eq!(test.read("d/mine").as_deref(), Some(b"mine".as_slice()));
        fs::remove_file(test.top().join("d/mine")).expect("removed");
        assert_eq!(test.apply(), PatchOutcome::Applied);
        assert_eq!(test.read("d").as_deref(), Some(b"file\n".as_slice()));
    }

    #[test]
    fn changes_that_git_does_not_see_are_kept() {
        for is_flagged in [true, false] {
            let test = TestRepository::new(&[("a", b"AAAA\n")], |top| {
                fs::write(top.join("a"), "CCCC\n").expect("written");
            });
            if is_flagged {
                test.git(&["update-index", "--assume-unchanged", "a"]);
            }
            // In the second of the checkout, with the same size.
            fs::write(test.top().join("a"), "mine\n").expect("written");
            assert!(matches!(test.apply(), PatchOutcome::Conflict(_)), "{is_flagged}");
            assert_eq!(test.read("a").as_deref(), Some(b"mine\n".as_slice()));
        }
    }

    #[test]
    fn untracked_attributes_of_the_user_apply() {
        let test = TestRepository::new(&[("a.txt", b"1\n2\n")], |top| {
            fs::write(top.join("a.txt"), "1\n3\n").expect("written");
        });
        fs::write(test.top().join(".gitattributes"), "*.txt text eol=crlf\n").expect("written");
        fs::write(test.top().join("a.txt"), "1\r\n2\r\n").expect("written");
        assert_eq!(test.apply(), PatchOutcome::Applied);
        assert_eq!(test.read("a.txt").as_deref(), Some(b"1\r\n3\r\n".as_slice()));
        assert_eq!(
            test.read(".gitattributes").as_deref(),
            Some(b"*.txt text eol=crlf\n".as_slice())
        );
    }
}
