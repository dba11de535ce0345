//! Reads and commits what is in a worktree without trusting anything that commands in it can
//! write: its `.git`, `HEAD`, index, and logs. Git runs on the main repository, with an index of
//! its own, and changes no reference but the branch of the worktree.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use parallax_config::worktrees::{WorktreeRecord, record_file};
use parallax_protocol::event::Failure;

use crate::git::Git;
use crate::{carry, failure};

/// Identity for commits if git has none configured.
pub(super) const IDENTITY: [&str; 4] =
    ["-c", "user.name=Parallax", "-c", "user.email=parallax@localhost.invalid"];
/// A larger index is built again.
const LARGEST_INDEX: u64 = 1024 * 1024 * 1024;
/// Maximum size of a file with a path.
const LARGEST_LINK: u64 = 16 * 1024;
/// Paths of one command line.
const PATHS_AT_ONCE: usize = 200;

/// The contents of a worktree.
pub(super) struct Contents<'r> {
    record: &'r WorktreeRecord,
    git: Git,
    common: PathBuf,
    /// The directory of the worktree in the repository, unless it is gone.
    own: Option<PathBuf>,
    /// The private index.
    index: PathBuf,
}

impl<'r> Contents<'r> {
    pub(super) fn of(record: &'r WorktreeRecord) -> Result<Self, Failure> {
        let main = Git::at(&record.main)?;
        let common = PathBuf::from(main.line(&["rev-parse", "--git-common-dir"])?);
        let common = record.main.join(common);
        let project = record.path.parent().unwrap_or(&record.path);
        let index = record_file(project, &record.name).with_extension("index");
        let git = main
            .with_variable("GIT_DIR", common.clone().into())
            .with_variable("GIT_WORK_TREE", record.path.clone().into())
            .with_variable("GIT_INDEX_FILE", index.clone().into());
        let own = own_directory(&common, &record.path);
        Ok(Self { record, git, common, own, index })
    }

    /// Returns git with a private index of the worktree, on the main repository.
    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    fn commit_of(&self, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        let found = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        self.git.line(&found).ok().filter(|commit| !commit.is_empty())
    }

    fn own_head(&self) -> Option<String> {
        let id = self.own.as_ref()?.file_name()?.to_str()?;
        Some(format!("worktrees/{id}/HEAD"))
    }

    /// Returns the full name of the branch that was created for the worktree.
    pub(super) fn branch(&self) -> String {
        format!("refs/heads/{}", self.record.branch)
    }

    /// Returns the branch that is checked out, if any.
    pub(super) fn current_branch(&self) -> Option<String> {
        let branch = self.git.line(&["symbolic-ref", "--quiet", &self.own_head()?]).ok()?;
        branch.strip_prefix("refs/heads/").map(str::to_owned)
    }

    /// Returns the commit that is checked out.
    pub(super) fn head(&self) -> String {
        let head = self.own_head().and_then(|name| self.commit_of(&name));
        let head = head.or_else(|| self.commit_of(&self.branch()));
        head.unwrap_or_else(|| self.record.base.clone())
    }

    /// Returns the commits that removing the worktree could lose.
    pub(super) fn tips(&self) -> Vec<String> {
        let mut tips: Vec<String> = self.commit_of(&self.branch()).into_iter().collect();
        let head = self.own_head().and_then(|name| self.commit_of(&name));
        tips.extend(head.filter(|head| !tips.contains(head)));
        tips
    }

    /// Returns whether files differ from the commit that is checked out.
    pub(super) fn is_dirty(&self) -> Result<bool, Failure> {
        let head = self.head();
        self.prepare_index(&head)?;
        // It reports files that need no update, too.
        let _ = self.git.run(&["update-index", "-q", "--refresh"]);
        let plain = ["--quiet", "--no-ext-diff"];
        let staged = [["diff-index", "--cached"].as_slice(), &plain, &[head.as_str(), "--"]];
        if self.git.run(&staged.concat()).is_err() {
            return Ok(true);
        }
        if self.git.run(&[["diff-files"].as_slice(), &plain].concat()).is_err() {
            return Ok(true);
        }
        let new = ["ls-files", "-z", "--others", "--exclude-standard", "--directory"];
        let new = self.git.paths(&[new.as_slice(), &["--no-empty-directory"]].concat())?;
        let included = carry::included_files(&self.record.main)?;
        Ok(new.iter().any(|path| !included.contains(path)))
    }

    /// Commits all files, and moves the branch of the worktree to the commit that is checked out.
    /// Files that were copied from the list of the project stay out. Returns the commit.
    pub(super) fn commit(&self, message: &str) -> Result<String, Failure> {
        let head = self.head();
        self.check_objects()?;
        self.prepare_index(&head)?;
        if self.git.run(&["add", "--all"]).is_err() {
            self.build_index(&head)?;
            self.git.run(&["add", "--all"])?;
        }
        self.leave_out_included(&head)?;
        let tree = self.git.line(&["write-tree"])?;
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

    /// Points the branch of the worktree to a commit, whatever commands made of the reference.
    pub(super) fn move_branch(&self, commit: &str) -> Result<(), Failure> {
        let branch = self.branch();
        self.remove_links()?;
        let quiet = ["-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref"];
        self.git.run(&[quiet.as_slice(), &[&branch, commit]].concat())
    }

    /// Removes the branch of the worktree.
    pub(super) fn delete_branch(&self) -> Result<(), Failure> {
        let branch = self.branch();
        if self.git.line(&["rev-parse", "--verify", "--quiet", &branch]).is_err() {
            return Ok(());
        }
        self.remove_links()?;
        self.git.run(&["update-ref", "--no-deref", "-d", &branch])
    }

    /// Removes the worktree and its directory in the repository.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        for path in std::iter::once(&self.record.path).chain(&self.own) {
            match parallax_files::remove_tree(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failure(format!("Failed to remove `{}`: {error}", path.display())));
                }
                _ => {}
            }
        }
        self.git.run(&["worktree", "prune"])
    }

    /// Removes symbolic links at the branch's file and its log. Git would write through them.
    fn remove_links(&self) -> Result<(), Failure> {
        let branch = self.branch();
        for path in [self.common.join(&branch), self.common.join("logs").join(&branch)] {
            if path.symlink_metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
                fs::remove_file(&path).map_err(|error| {
                    failure(format!("Failed to remove `{}`: {error}", path.display()))
                })?;
            }
        }
        Ok(())
    }

    /// Checks that commands left no symbolic link through which git would write objects.
    fn check_objects(&self) -> Result<(), Failure> {
        let objects = self.common.join("objects");
        let entries = fs::read_dir(&objects).into_iter().flatten().flatten();
        let link = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let mut links = entries.filter(link);
        links.next().map_or(Ok(()), |link| {
            Err(failure(format!("`{}` is a symbolic link; remove it", link.path().display())))
        })
    }

    /// Copies the index of the worktree, which knows the state of unchanged files; without a usable
    /// one, builds it from the commit.
    fn prepare_index(&self, head: &str) -> Result<(), Failure> {
        let copied =
            self.own.as_ref().is_some_and(|own| self.copy_index(&own.join("index")).is_ok());
        if copied && self.git.run(&["diff-index", "--cached", "--name-only", head, "--"]).is_ok() {
            return Ok(());
        }
        self.build_index(head)
    }

    fn build_index(&self, head: &str) -> Result<(), Failure> {
        // A damaged copy cannot be replaced by git.
        let _ = fs::remove_file(&self.index);
        self.git.run(&["read-tree", head])
    }

    fn copy_index(&self, from: &Path) -> io::Result<()> {
        let mut from = open_regular(from)?;
        if from.metadata()?.len() > LARGEST_INDEX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let _ = fs::remove_file(&self.index);
        let mut to =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.index)?;
        io::copy(&mut from, &mut to).map(drop)
    }

    /// Takes files that were copied into the worktree, and are in no commit, out of the index.
    fn leave_out_included(&self, head: &str) -> Result<(), Failure> {
        let included = carry::included_files(&self.record.main)?;
        if included.is_empty() {
            return Ok(());
        }
        let added = ["diff-index", "--cached", "--name-only", "-z", "--diff-filter=A"];
        let mut added =
            self.git.paths(&[added.as_slice(), &["--no-renames", head, "--"]].concat())?;
        added.retain(|path| included.contains(path));
        for some in added.chunks(PATHS_AT_ONCE) {
            let words = ["update-index", "--force-remove", "--"].map(OsString::from);
            let paths = some.iter().map(|path| path.clone().into_os_string());
            self.git.run(&words.into_iter().chain(paths).collect::<Vec<_>>())?;
        }
        Ok(())
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
    open_regular(file).ok()?.take(LARGEST_LINK).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    Some(OsStr::from_bytes(line).to_owned())
}

/// Opens a file unless it is a link or something else.
fn open_regular(file: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    match opened.metadata()?.is_file() {
        true => Ok(opened),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}
