//! Reads and commits what is in a worktree without trusting anything that commands in it can
//! write: its `.git`, `HEAD`, index, and logs. Git runs on the main repository, with an index of
//! its own, and changes no reference but the branch of the worktree.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use parallax_config::worktrees::WorktreeRecord;
use parallax_files::git_files::git_directory;
use parallax_protocol::event::Failure;

use crate::git::Git;
use crate::ignored_files::IgnoredFiles;
use crate::nested_repositories::{self, NestedRepositories};
use crate::regular_file::{have_equal_contents, open_regular};
use crate::{carry, failure, lock, special_files};

/// Identity for commits if git has none configured.
pub(super) const IDENTITY: [&str; 4] =
    ["-c", "user.name=Parallax", "-c", "user.email=parallax@localhost.invalid"];
/// A larger index is built again.
const MAX_INDEX_BYTES: u64 = 1024 * 1024 * 1024;
/// Maximum size of a file with a path.
const MAX_LINK_BYTES: u64 = 16 * 1024;
/// Maximum number of paths on one command line.
const PATHS_AT_ONCE: usize = 200;

/// The contents of a worktree.
pub(super) struct Contents<'r> {
    record: &'r WorktreeRecord,
    git: Git,
    common: PathBuf,
    /// The directory of the worktree in the repository, unless it is gone.
    worktree_directory: Option<PathBuf>,
    /// The private index.
    index: PathBuf,
}

impl<'r> Contents<'r> {
    pub(super) fn read(record: &'r WorktreeRecord) -> Result<Self, Failure> {
        let main = Git::at(&record.main)?;
        let common = PathBuf::from(main.line(&["rev-parse", "--git-common-dir"])?);
        let common = record.main.join(common);
        let project = record.path.parent().unwrap_or(&record.path);
        // No worktree has a name with a dot at its start.
        let index = project.join(format!(".{}.index", record.name));
        let git = main
            .with_variable("GIT_DIR", common.clone().into())
            .with_variable("GIT_WORK_TREE", record.path.clone().into())
            // Those in the worktree may name any filter and encoding.
            .with_variable("GIT_ATTR_SOURCE", record.base.clone().into())
            .with_variable("GIT_INDEX_FILE", index.clone().into());
        let worktree_directory = own_directory(&common, &record.path);
        let contents = Self { record, git, common, worktree_directory, index };
        contents.remove_special_files()?;
        Ok(contents)
    }

    /// Returns git with a private index of the worktree, on the main repository.
    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    /// Returns the checkout that the worktree was created from.
    pub(super) fn main_checkout(&self) -> &Path {
        &self.record.main
    }

    /// Returns the commit that the worktree started from.
    pub(super) fn base(&self) -> &str {
        &self.record.base
    }

    fn commit_of(&self, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        let found = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        self.git.line(&found).ok().filter(|commit| !commit.is_empty())
    }

    /// Returns the name of `HEAD` of the worktree, if it is a file: git would wait for a pipe.
    fn worktree_head(&self) -> Option<String> {
        let own = self.worktree_directory.as_ref()?;
        let is_file = own.join("HEAD").symlink_metadata().is_ok_and(|data| data.is_file());
        is_file.then(|| Some(format!("worktrees/{}/HEAD", own.file_name()?.to_str()?)))?
    }

    /// Returns the full name of the branch that was created for the worktree.
    pub(super) fn branch(&self) -> String {
        format!("refs/heads/{}", self.record.branch)
    }

    /// Returns the branch that is checked out, if any.
    pub(super) fn current_branch(&self) -> Option<String> {
        let branch = self.git.line(&["symbolic-ref", "--quiet", &self.worktree_head()?]).ok()?;
        branch.strip_prefix("refs/heads/").map(str::to_owned)
    }

    /// Returns the commit that is checked out.
    pub(super) fn head(&self) -> String {
        let head = self.worktree_head().and_then(|name| self.commit_of(&name));
        let head = head.or_else(|| self.commit_of(&self.branch()));
        head.unwrap_or_else(|| self.record.base.clone())
    }

    /// Returns the newest commit in the log of the worktree, which commands of other worktrees cannot
    /// write; `None` without a log.
    pub(super) fn logged_commit(&self) -> Option<String> {
        use std::io::{Seek as _, SeekFrom};
        let mut log = open_regular(&self.worktree_directory.as_ref()?.join("logs/HEAD")).ok()?;
        let start = log.metadata().ok()?.len().saturating_sub(MAX_LINK_BYTES);
        log.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        log.take(MAX_LINK_BYTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let newest = text.lines().rev().find(|line| !line.trim().is_empty())?;
        self.commit_of(newest.split(' ').nth(1)?)
    }

    /// Whether the branch that was created for the worktree points to the commit.
    pub(super) fn is_branch_tip(&self, commit: &str) -> bool {
        self.commit_of(&self.branch()).as_deref() == Some(commit)
    }

    /// Returns the commits that removing the worktree could lose.
    pub(super) fn tips(&self) -> Vec<String> {
        let mut tips: Vec<String> = self.commit_of(&self.branch()).into_iter().collect();
        let head = self.worktree_head().and_then(|name| self.commit_of(&name));
        tips.extend(head.filter(|head| !tips.contains(head)));
        tips
    }

    /// Returns whether files differ from the commit that is checked out.
    pub(super) fn is_dirty(&self) -> Result<bool, Failure> {
        let head = self.head();
        match self.changes_attributes(&head)? {
            true => self.with_attributes_of(&head).differs_from(&head),
            false => self.differs_from(&head),
        }
    }

    fn differs_from(&self, head: &str) -> Result<bool, Failure> {
        self.prepare_index(head)?;
        // It reports files that need no update, too.
        let _ = self.git.run(&["update-index", "-q", "--refresh"]);
        // Git would run in submodules, with their configuration.
        if !self.nested_repositories()?.is_empty() || !self.submodule_git_directories().is_empty() {
            return Ok(true);
        }
        let plain = ["--quiet", "--no-ext-diff", "--ignore-submodules=all"];
        let staged = [["diff-index", "--cached"].as_slice(), &plain, &[head, "--"]];
        if self.git.run(&staged.concat()).is_err() {
            return Ok(true);
        }
        if self.git.run(&[["diff-files"].as_slice(), &plain].concat()).is_err() {
            return Ok(true);
        }
        let new = ["ls-files", "-z", "--others", "--exclude-standard", "--directory"];
        let new = self.git.paths(&[new.as_slice(), &["--no-empty-directory"]].concat())?;
        let included = carry::included_files(&self.record.main)?;
        Ok(new.iter().any(|path| !included.contains(path))
            || included.iter().any(|path| self.has_changed_copy(path)))
    }

    /// Returns the ignored files that were not copied from the main checkout and are not in one of
    /// these repositories.
    pub(super) fn ignored_files(&self, repositories: &[PathBuf]) -> Result<IgnoredFiles, Failure> {
        let list = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        let paths = self.git.paths(&list)?;
        let mut passed = carry::included_files(&self.record.main)?;
        passed.extend(repositories.iter().cloned());
        Ok(IgnoredFiles::count(&self.record.path, paths, &passed))
    }

    /// Whether a copied file of the main checkout was changed here: git does not know it.
    fn has_changed_copy(&self, path: &Path) -> bool {
        let (Ok(copy), Ok(original)) = (
            open_regular(&self.record.path.join(path)),
            open_regular(&self.record.main.join(path)),
        ) else {
            return false;
        };
        !have_equal_contents(copy, original).unwrap_or(false)
    }

    /// Commits all files, and moves the branch of the worktree to the commit that is checked out.
    /// Files that were copied from the list of the project stay out. Returns the commit.
    pub(super) fn commit(&self, message: &str) -> Result<String, Failure> {
        let head = self.head();
        self.check_objects()?;
        let mut tree = self.write_tree(&head)?;
        // Filters that the repository configures do not run, and it is an error to need one.
        self.check_filters(&tree)?;
        if self.changes_attributes(&tree)? {
            let attributed = self.with_attributes_of(&tree);
            tree = attributed.write_tree(&head)?;
            // The index is published, so it must be that of the commit.
            fs::rename(&attributed.index, &self.index).map_err(|error| {
                failure(format!("Failed to write `{}`: {error}", self.index.display()))
            })?;
        }
        let before = self.git.line(&["rev-parse", "--verify", &format!("{head}^{{tree}}")])?;
        let commit = match tree == before {
            true => head,
            false => {
                let commit = ["commit-tree", &tree, "-p", &head, "-m", message];
                // Prefer the identity that the user configured.
                self.git
                    .line(&commit)
                    .or_else(|_| self.git.line(&[IDENTITY.as_slice(), &commit].concat()))?
            }
        };
        if commit != self.record.base || self.commit_of(&self.branch()).is_none() {
            self.move_branch(&commit)?;
        }
        Ok(commit)
    }

    /// Adds all files to the private index and writes its tree.
    fn write_tree(&self, head: &str) -> Result<String, Failure> {
        self.prepare_index(head)?;
        if self.add_all().is_err() {
            self.build_index(head)?;
            self.add_all()?;
        }
        self.unstage_included(head)?;
        self.git.line(&["write-tree"])
    }

    /// Whether a commit or tree has other `.gitattributes` files than the base.
    fn changes_attributes(&self, tree: &str) -> Result<bool, Failure> {
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--name-only"];
        let changed = self.git.paths(&[words.as_slice(), &[self.base(), tree]].concat())?;
        Ok(changed.iter().any(|path| path.ends_with(".gitattributes")))
    }

    /// Returns the contents as git sees them with the attributes of a tree, which may assign the
    /// user's filters, such as those of Git LFS, to more files.
    fn with_attributes_of(&self, tree: &str) -> Self {
        let mut index = self.index.clone().into_os_string();
        index.push(".attributes");
        let index = PathBuf::from(index);
        let git = self.git.clone();
        let git = git.with_variable("GIT_ATTR_SOURCE", tree.into());
        let git = git.with_variable("GIT_INDEX_FILE", index.clone().into());
        let (common, worktree_directory) = (self.common.clone(), self.worktree_directory.clone());
        Self { record: self.record, git, common, worktree_directory, index }
    }

    /// Adds all files to the index. Submodules are taken out of it first: git would run in them, with
    /// their configuration. It adds those that are there by the commit that they have checked out.
    fn add_all(&self) -> Result<(), Failure> {
        let links = self.links()?;
        let paths: Vec<PathBuf> = links.iter().map(|(path, _)| path.clone()).collect();
        self.unstage(&paths)?;
        // Files outside of a sparse checkout that were created are changes, too; git keeps those that
        // it did not check out.
        let words = ["add", "--all", "--sparse", "--", ":/"].map(OsString::from);
        // A commit would contain only the name of their commit, and without one, git fails.
        let known = |path: &PathBuf| paths.contains(path);
        let mut foreign = self.untracked_repositories()?;
        foreign.retain(|path| !known(path));
        let excluded = self.without_ignored(foreign)?.into_iter().map(|path| {
            let mut word = OsString::from(":(top,exclude,literal)");
            word.push(path);
            word
        });
        self.git.run(&words.into_iter().chain(excluded).collect::<Vec<_>>())?;
        for (path, commit) in links {
            if !self.is_repository(&path) && self.record.path.join(&path).is_dir() {
                let mut entry = OsString::from(format!("160000,{commit},"));
                entry.push(&path);
                // Git added files of a directory without a repository.
                let words = ["update-index", "--add", "--replace", "--cacheinfo"];
                let words = words.map(OsString::from);
                self.git.run(&words.into_iter().chain([entry]).collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// Returns the untracked directories without those that are ignored: git adds none of these, but
    /// fails if it is given one, even to exclude it.
    fn without_ignored(&self, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, Failure> {
        let mut listed = Vec::new();
        for some in paths.chunks(PATHS_AT_ONCE) {
            let words = ["ls-files", "-z", "--others", "--exclude-standard", "--directory", "--"];
            let literal = some.iter().map(|path| {
                let mut word = OsString::from(":(top,literal)");
                word.push(path);
                word
            });
            let words = words.map(OsString::from).into_iter().chain(literal);
            listed.extend(self.git.paths(&words.collect::<Vec<_>>())?);
        }
        let is_listed =
            |path: &PathBuf| listed.iter().any(|it| it.starts_with(path) || path.starts_with(it));
        Ok(paths.into_iter().filter(is_listed).collect())
    }

    /// Returns the submodules in the index, with their commits.
    fn links(&self) -> Result<Vec<(PathBuf, String)>, Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        let entries = self.git.bytes(&["ls-files", "--stage", "-z"])?;
        let link = |entry: &[u8]| {
            let index = entry.iter().position(|byte| *byte == b'\t')?;
            let (header, path) = entry.split_at_checked(index)?;
            let mut columns = std::str::from_utf8(header).ok()?.split(' ');
            let (mode, commit) = (columns.next()?, columns.next()?);
            let path = PathBuf::from(OsStr::from_bytes(path.get(1..)?));
            (mode == "160000").then(|| (path, commit.to_owned()))
        };
        Ok(entries.split(|byte| *byte == 0).filter_map(link).collect())
    }

    /// Returns the directories of submodules and other repositories that contain files: removing
    /// the worktree loses these, and no commit of the worktree contains them.
    pub(super) fn nested_repositories(&self) -> Result<Vec<PathBuf>, Failure> {
        let has_files =
            |path: &PathBuf| nested_repositories::has_files(&self.record.path.join(path));
        let mut paths: Vec<PathBuf> =
            self.links()?.into_iter().map(|(path, _)| path).filter(has_files).collect();
        paths.extend(self.untracked_repositories()?);
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// Returns the repositories that git does not track, whether they are ignored or not, without
    /// those that were copied from the main checkout.
    fn untracked_repositories(&self) -> Result<Vec<PathBuf>, Failure> {
        let untracked = self.git.paths(&["ls-files", "-z", "--others", "--directory"])?;
        let found = nested_repositories::find(&self.record.path, untracked);
        if found.is_empty() {
            return Ok(found);
        }
        let copied = carry::included_files(&self.record.main)?;
        let is_copied = |path: &PathBuf| {
            let git = path.join(".git");
            copied.contains(&git) || copied.contains(&git.join("HEAD"))
        };
        Ok(found.into_iter().filter(|path| !is_copied(path)).collect())
    }

    /// Returns the git directories of all submodules that were checked out here, relative to the
    /// worktree's own git directory. Removing the worktree also removes these, with commits and
    /// stashes that may exist nowhere else.
    fn submodule_git_directories(&self) -> Vec<PathBuf> {
        let own = self.worktree_directory.as_deref();
        own.map(nested_repositories::submodule_git_directories).unwrap_or_default()
    }

    /// Returns the state of each repository in the worktree, and of each git directory of a submodule
    /// (as `.git/modules/NAME`).
    pub(super) fn nested_repository_states(&self) -> Result<NestedRepositories, Failure> {
        self.prepare_index(&self.head())?;
        let with_state = |path: PathBuf| Some((self.nested_repository_state(&path)?, path));
        let repositories = self.nested_repositories()?;
        let states = repositories.into_iter().chain(self.named_submodules()).filter_map(with_state);
        Ok(states.map(|(state, path)| (path, state)).collect())
    }

    /// Returns the git directories of submodules under the names that they have in a main checkout.
    fn named_submodules(&self) -> impl Iterator<Item = PathBuf> {
        self.submodule_git_directories().into_iter().map(|path| Path::new(".git").join(path))
    }

    /// Returns the state of a repository in the worktree, or of a git directory of a submodule;
    /// `None` if it cannot be read completely.
    fn nested_repository_state(&self, path: &Path) -> Option<u64> {
        nested_repositories::state(&self.nested_path(path)).ok()
    }

    fn nested_path(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix(".git"), &self.worktree_directory) {
            (Ok(module), Some(own)) => own.join(module),
            _ => self.record.path.join(path),
        }
    }

    /// Returns which of these repositories, and of the git directories of submodules that are not
    /// checked out in one of them, are not in a known state.
    pub(super) fn changed_repositories(
        &self,
        repositories: Vec<PathBuf>,
        known: &NestedRepositories,
    ) -> Vec<PathBuf> {
        let used: Vec<PathBuf> = repositories
            .iter()
            .filter_map(|path| git_directory(&self.record.path.join(path))?.canonicalize().ok())
            .collect();
        let is_unused = |path: &PathBuf| {
            let git = self.nested_path(path).canonicalize();
            git.map_or(true, |git| !used.contains(&git))
        };
        let mut changed = repositories;
        changed.extend(self.named_submodules().filter(is_unused));
        changed.retain(|path| {
            let before = known.get(path);
            before.is_none() || before != self.nested_repository_state(path).as_ref()
        });
        changed
    }

    /// Whether a directory of the worktree is its own repository.
    fn is_repository(&self, path: &Path) -> bool {
        self.record.path.join(path).join(".git").symlink_metadata().is_ok()
    }

    /// Takes paths out of the index.
    fn unstage(&self, paths: &[PathBuf]) -> Result<(), Failure> {
        for some in paths.chunks(PATHS_AT_ONCE) {
            let words = ["update-index", "--force-remove", "--"].map(OsString::from);
            let paths = some.iter().map(|path| path.clone().into_os_string());
            self.git.run(&words.into_iter().chain(paths).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Points the branch of the worktree to a commit, even if commands changed the reference.
    pub(super) fn move_branch(&self, commit: &str) -> Result<(), Failure> {
        let branch = self.branch();
        self.remove_special_files()?;
        let quiet = ["-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref"];
        let update = [quiet.as_slice(), &[&branch, commit]].concat();
        self.git.run(&update).or_else(|_| {
            // Commands left a lock, a directory, or an invalid reference.
            let file = self.common.join(&branch);
            let mut lock = file.clone().into_os_string();
            lock.push(".lock");
            for path in [PathBuf::from(lock), file] {
                let _ = match path.is_dir() {
                    true => parallax_files::remove_tree(&path),
                    false => fs::remove_file(&path),
                };
            }
            self.git.run(&update)
        })
    }

    /// Removes the branch of the worktree.
    pub(super) fn delete_branch(&self) -> Result<(), Failure> {
        let branch = self.branch();
        if self.git.line(&["rev-parse", "--verify", "--quiet", &branch]).is_err() {
            return Ok(());
        }
        self.remove_special_files()?;
        self.git.run(&["update-ref", "--no-deref", "-d", &branch])
    }

    /// Removes the worktree and its directory in the repository.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        let remove = |path: &Path| match parallax_files::remove_tree(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failure(format!("Failed to remove `{}`: {error}", path.display())))
            }
            _ => Ok(()),
        };
        remove(&self.record.path)?;
        if let Some(own) = &self.worktree_directory {
            lock::unlock(own).map_err(|error| {
                failure(format!("Failed to unlock `{}`: {error}", own.display()))
            })?;
            remove(own)?;
        }
        self.git.run(&["worktree", "prune"])
    }

    /// Removes special files from the directory of the worktree, from the branches that commands can
    /// write, and from their logs.
    fn remove_special_files(&self) -> Result<(), Failure> {
        let branch = self.branch();
        let Some((folder, _)) = branch.rsplit_once('/') else { return Ok(()) };
        if let Some(own) = &self.worktree_directory {
            special_files::remove_of_worktree(own)?;
        }
        special_files::remove(&self.common.join(folder))?;
        special_files::remove(&self.common.join("logs").join(folder))
    }

    /// Gives the worktree the index of its last commit, so that it has no changes.
    pub(super) fn publish_index(&self) -> Result<(), Failure> {
        let Some(own) = &self.worktree_directory else { return Ok(()) };
        let index = own.join("index");
        // A rename replaces whatever commands put there.
        let part = own.join(format!("index.{}", uuid::Uuid::new_v4().simple()));
        let copied = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        let copied = copied.and_then(|mut to| io::copy(&mut open_regular(&self.index)?, &mut to));
        copied.and_then(|_| fs::rename(&part, &index)).map_err(|error| {
            let _ = fs::remove_file(&part);
            failure(format!("Failed to write `{}`: {error}", index.display()))
        })
    }

    /// Returns the files that differ between the base and a commit, with the kind of change.
    pub(super) fn changed_since_base(&self, commit: &str) -> Result<Vec<(char, PathBuf)>, Failure> {
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--name-status"];
        let words = [words.as_slice(), &[self.record.base.as_str(), commit]];
        let listed = self.git.paths(&words.concat())?;
        let mut files: Vec<(char, PathBuf)> = Vec::new();
        for pair in listed.chunks(2) {
            let [kind, path] = pair else { continue };
            let kind = kind.to_string_lossy().chars().next().unwrap_or('M');
            files.push((kind, path.clone()));
        }
        Ok(files)
    }

    /// Checks that commands left no symbolic link through which git or its filters would write
    /// objects.
    fn check_objects(&self) -> Result<(), Failure> {
        special_files::reject_links(&self.common.join("objects"), 1)?;
        // The filters of Git LFS write here, in `objects/ab/cd`.
        special_files::reject_links(&self.common.join("lfs"), 3)
    }

    /// Copies the index of the worktree, which knows the state of unchanged files; without a usable
    /// one, builds it from the commit.
    pub(super) fn prepare_index(&self, head: &str) -> Result<(), Failure> {
        let copied = self
            .worktree_directory
            .as_ref()
            .is_some_and(|own| self.copy_index(&own.join("index")).is_ok());
        if copied && self.git.run(&["diff-index", "--cached", "--name-only", head, "--"]).is_ok() {
            return self.clear_flags();
        }
        self.build_index(head)
    }

    /// Clears the flags with which an index passes over changed files. Those of a sparse checkout
    /// stay.
    fn clear_flags(&self) -> Result<(), Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        let listed = self.git.bytes(&["ls-files", "-v", "-z"])?;
        let (mut assumed, mut skipped) = (Vec::new(), Vec::new());
        for entry in listed.split(|byte| *byte == 0) {
            let [flag, b' ', path @ ..] = entry else { continue };
            let path = OsStr::from_bytes(path).to_owned();
            if flag.is_ascii_lowercase() {
                assumed.push(path.clone());
            }
            if flag.eq_ignore_ascii_case(&b'S') {
                skipped.push(path);
            }
        }
        if !skipped.is_empty() && self.is_sparse() {
            skipped.clear();
        }
        for (flag, paths) in [("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)] {
            for some in paths.chunks(PATHS_AT_ONCE) {
                let words = ["update-index", flag, "--"].map(OsString::from);
                let words = words.into_iter().chain(some.iter().cloned());
                self.git.run(&words.collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// Whether the worktree is a sparse checkout, by configurations that commands cannot change.
    fn is_sparse(&self) -> bool {
        const KEY: &str = "core.sparseCheckout";
        let is_true = |words: &[&OsStr]| self.git.line(words).is_ok_and(|value| value == "true");
        let words = ["config", "--type=bool"].map(OsStr::new);
        let own = self.worktree_directory.as_ref().map(|own| own.join("config.worktree"));
        is_true(&[words.as_slice(), &[OsStr::new(KEY)]].concat())
            || own.is_some_and(|own| {
                let file = [OsStr::new("--file"), own.as_os_str(), OsStr::new(KEY)];
                is_true(&[words.as_slice(), &file].concat())
            })
    }

    fn build_index(&self, head: &str) -> Result<(), Failure> {
        // A damaged copy cannot be replaced by git.
        let _ = fs::remove_file(&self.index);
        self.git.run(&["read-tree", head])
    }

    fn copy_index(&self, from: &Path) -> io::Result<()> {
        let mut from = open_regular(from)?;
        if from.metadata()?.len() > MAX_INDEX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let _ = fs::remove_file(&self.index);
        let mut to =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.index)?;
        io::copy(&mut from, &mut to).map(drop)
    }

    /// Takes files that were copied into the worktree, and are in no commit, out of the index.
    fn unstage_included(&self, head: &str) -> Result<(), Failure> {
        let included = carry::included_files(&self.record.main)?;
        if included.is_empty() {
            return Ok(());
        }
        let added = ["diff-index", "--cached", "--name-only", "-z", "--diff-filter=A"];
        let mut added =
            self.git.paths(&[added.as_slice(), &["--no-renames", head, "--"]].concat())?;
        added.retain(|path| included.contains(path));
        self.unstage(&added)
    }
}

impl Drop for Contents<'_> {
    fn drop(&mut self) {
        // It is usually there.
        let _ = fs::remove_file(&self.index);
    }
}

/// Returns the directory in the repository whose `gitdir`, which commands cannot change, leads to
/// the worktree.
fn own_directory(common: &Path, worktree: &Path) -> Option<PathBuf> {
    let link = worktree.join(".git");
    let entries = fs::read_dir(common.join("worktrees")).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|own| {
        read_line(&own.join("gitdir")).is_some_and(|line| {
            let path = own.join(PathBuf::from(line));
            path == link
                || path.parent().and_then(|path| path.canonicalize().ok())
                    == Some(worktree.to_owned())
        })
    })
}

fn read_line(file: &Path) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut bytes = Vec::new();
    open_regular(file).ok()?.take(MAX_LINK_BYTES).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    Some(OsStr::from_bytes(line).to_owned())
}
