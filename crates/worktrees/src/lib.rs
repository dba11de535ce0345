//! Git worktrees in which sessions work next to the main checkout: in
//! `~/.parallax/worktrees/<project>/<name>`, on the branch `parallax/<name>`. Git creates them
//! without running anything that the repository configures.

mod apply;
mod carry;
mod children;
mod contents;
mod filters;
mod git;
mod ignored_files;
mod lock;
mod manage;
mod nested_repositories;
mod record;
mod regular_file;
mod repository_url;
mod review_diff;
mod special_files;
mod subagent;
mod unattended;
mod working_tree_update;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use parallax_config::worktrees::{WorktreeRecord, directory, is_valid_name};
use parallax_config::{Environment, UserDirs};
use parallax_files::git_files::{linked_directory, read_git_file};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_tools::WorktreeAccess;

pub use apply::{PatchOutcome, apply_patch, create_branch};
use git::Git;
pub use ignored_files::IgnoredFiles;
pub use manage::{ListedWorktree, Worktrees};
pub use nested_repositories::NestedRepositories;
pub use regular_file::open_regular;
pub use repository_url::without_credentials;
pub use review_diff::{ReviewScope, review_diff};
pub use subagent::{SubagentChanges, SubagentWorktreeOutcome};
pub use unattended::{SessionProgress, WorktreeChanges, clone_repository};

/// The request of `--worktree`, `--from`, and `--carry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeRequest {
    /// Name of the worktree; `None` generates one.
    pub name: Option<String>,
    /// Revision to start from instead of `HEAD`.
    pub revision: Option<String>,
    /// Whether to copy uncommitted changes.
    pub include_changes: bool,
}

/// A worktree that this process works in. Other processes cannot remove it meanwhile.
#[derive(Debug)]
pub struct Worktree {
    record: WorktreeRecord,
    /// The record file; its lock marks the worktree as in use.
    lock: File,
    /// The directory in it that corresponds to the original working directory.
    working_directory: PathBuf,
}

/// What happened to a worktree at the end of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeOutcome {
    /// It was removed, because it contained nothing new but these files.
    Removed(IgnoredFiles),
    /// It was kept. The text describes its contents and the commands for it.
    Retained(String),
}

pub(crate) fn failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

/// Returns the user's directories according to the variables of this process.
pub(crate) fn dirs(directory: &Path) -> Result<UserDirs, Failure> {
    UserDirs::find(&Environment::new(std::env::vars_os()), directory)
        .map_err(|error| failure(error.to_string()))
}

/// The checkout that contains a directory.
struct Checkout {
    /// The top directory.
    top: PathBuf,
    /// The path of the directory in it.
    relative: PathBuf,
}

/// Returns whether a directory is in a working tree of git. Blocking.
pub fn is_in_working_tree(directory: &Path) -> bool {
    top_of(directory).is_some()
}

/// Returns the top directory of the working tree around a directory. Blocking.
pub fn top_of(directory: &Path) -> Option<PathBuf> {
    let top = Git::at(directory).ok()?.line(&["rev-parse", "--show-toplevel"]).ok()?;
    Some(PathBuf::from(top))
}

impl Checkout {
    /// Finds the checkout. In a worktree that Parallax created, this is the main checkout.
    fn find(dirs: &UserDirs, directory: &Path) -> Result<Self, Failure> {
        if let Some((record, relative)) = parallax_config::worktrees::worktree_of(dirs, directory) {
            return Ok(Self { top: record.main, relative });
        }
        let git = Git::at(directory)?;
        let top = git.line(&["rev-parse", "--show-toplevel"]).map_err(|error| {
            let display = directory.display();
            let otherwise =
                format!("`{display}` is not in a git working tree; worktrees require one");
            git::no_working_tree_failure(&error, otherwise)
        })?;
        let real = |path: &Path| {
            path.canonicalize()
                .map_err(|error| failure(format!("Failed to read `{}`: {error}", path.display())))
        };
        let (top, directory) = (real(Path::new(&top))?, real(directory)?);
        let relative = directory.strip_prefix(&top).map(Path::to_owned).unwrap_or_default();
        Ok(Self { top, relative })
    }

    /// Returns the directory of its worktrees.
    fn worktrees(&self, dirs: &UserDirs) -> PathBuf {
        directory(dirs).join(parallax_store::project_folder(&self.top))
    }
}

impl Worktree {
    /// Creates a worktree of the repository that contains `from`. Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no repository or commit, the name is taken, or git fails.
    pub fn create(from: &Path, request: &WorktreeRequest) -> Result<Self, Failure> {
        Self::create_child(from, request, None)
    }

    /// Creates a worktree for a session in the worktree with the id `parent`.
    fn create_child(
        from: &Path,
        request: &WorktreeRequest,
        parent: Option<String>,
    ) -> Result<Self, Failure> {
        let dirs = dirs(from)?;
        let checkout = Checkout::find(&dirs, from)?;
        let git = Git::at(&checkout.top)?;
        let start = request.revision.as_deref().unwrap_or("HEAD");
        let commit = format!("{start}^{{commit}}");
        let base = git.line(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]);
        let base = base.map_err(|_| match &request.revision {
            Some(from) => failure(format!("`--from {from}`: not a commit of this repository")),
            None => failure("The repository has no commit yet; worktrees require one".to_owned()),
        })?;
        let name = match &request.name {
            Some(name) if is_valid_name(name) => name.clone(),
            Some(name) => {
                return Err(failure(format!(
                    "Invalid worktree name `{name}`: use at most 64 letters, digits, `-`, `_`, \
                     and `.`"
                )));
            }
            None => new_name(),
        };
        let project = checkout.worktrees(&dirs);
        parallax_store::create_private_dir(&project).map_err(|error| {
            failure(format!("Failed to create `{}`: {error}", project.display()))
        })?;
        let project = project.canonicalize().unwrap_or(project);
        let record = WorktreeRecord {
            path: project.join(&name),
            main: checkout.top.clone(),
            branch: format!("parallax/{name}"),
            name,
            base,
            id: uuid::Uuid::new_v4().simple().to_string(),
            parent,
        };
        let lock = record::write(&project, &record)?;
        if let Err(failure) = check_branch(&git, &record.branch) {
            // The branch is not part of the worktree that failed.
            let _ = manage::remove_record(&record);
            return Err(failure);
        }
        let working_directory = record.path.join(&checkout.relative);
        let mut worktree = Self { record, lock, working_directory };
        if let Err(failure) = worktree.fill(&git, request.include_changes) {
            worktree.discard();
            return Err(failure);
        }
        if !worktree.working_directory.is_dir() {
            worktree.working_directory.clone_from(&worktree.record.path);
        }
        Ok(worktree)
    }

    /// Creates the worktree with git and copies additional files.
    fn fill(&self, git: &Git, carry: bool) -> Result<(), Failure> {
        let WorktreeRecord { path, branch, base, .. } = &self.record;
        let common = git.directory().join(git.line(&["rev-parse", "--git-common-dir"])?);
        special_files::remove_of_project(&common, path.parent().unwrap_or(path))?;
        let text = path.to_string_lossy();
        let add = ["worktree", "add", "--quiet", "--lock"];
        let what = ["--no-track", "-b", branch, &text, base];
        git.run(&[add.as_slice(), &what].concat())?;
        lock::lock_all(&common, path.parent().unwrap_or(path));
        if carry {
            carry::changes(git, &self.record)?;
        }
        carry::copy_included(&self.record)
    }

    /// Returns the working directory of the session.
    pub fn directory(&self) -> &Path {
        &self.working_directory
    }

    /// Returns the top directory of the worktree.
    pub fn path(&self) -> &Path {
        &self.record.path
    }

    /// Returns the top directory of the checkout that it was created from.
    pub fn main_checkout(&self) -> &Path {
        &self.record.main
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Returns its branch.
    pub fn branch(&self) -> &str {
        &self.record.branch
    }

    /// Returns the commit that it started from.
    pub fn base(&self) -> &str {
        &self.record.base
    }

    /// Ends the work in it. Removes it if it has no changes and no commits. Blocking.
    ///
    /// # Errors
    /// Returns an error if git fails; the worktree is kept then.
    pub fn finish(self) -> Result<WorktreeOutcome, Failure> {
        let state = manage::state(&self.record)?;
        if state.is_unchanged() {
            return Ok(WorktreeOutcome::Removed(manage::delete_unchanged(&self.record)?));
        }
        let WorktreeRecord { name, branch, path, .. } = &self.record;
        let mut holds = Vec::new();
        match state.commits_ahead {
            0 => {}
            1 => holds.push("1 commit".to_owned()),
            ahead => holds.push(format!("{ahead} commits")),
        }
        if state.has_changes {
            holds.push("uncommitted changes".to_owned());
        }
        let holds = if holds.is_empty() { "other branch".to_owned() } else { holds.join(", ") };
        // Its commits may be on another branch, or on none.
        let contents = contents::Contents::read(&self.record)?;
        let (mut place, mut merged) = (String::new(), branch.clone());
        match contents.current_branch() {
            Some(current) if current == *branch => {
                // Sessions of other worktrees can write all branches of worktrees.
                let logged =
                    contents.logged_commit().filter(|commit| !contents.is_branch_tip(commit));
                if let Some(commit) = logged {
                    place = format!(
                        "\n  warning:  another process moved {branch}; the last commit here is \
                         {commit}\n  restore:  git update-ref refs/heads/{branch} {commit}"
                    );
                }
            }
            Some(current) => {
                place = format!("\n  branch:   {current} (checked out instead of {branch})");
                merged = current;
            }
            None => {
                let head = contents.head();
                if !contents.is_branch_tip(&head) {
                    place = format!("\n  keep:     git branch NAME {head} (not on a branch yet)");
                }
                merged = head;
            }
        }
        let merge = match contents.check_filters_of_files(&merged) {
            Ok(()) => format!("merge:    git merge {merged}"),
            Err(failure) => format!("warning:  {}", failure.message),
        };
        Ok(WorktreeOutcome::Retained(format!(
            "Kept worktree `{name}` ({holds}): {}{place}\n  continue: parallax worktrees open \
             {name}\n  {merge}\n  remove:   parallax worktrees remove --force {name}",
            path.display()
        )))
    }

    /// Removes the worktree and everything in it. Blocking.
    pub fn discard(self) {
        // `worktrees prune` removes what is left.
        let _ = manage::delete(&self.record);
        drop(self.lock);
    }
}

/// Checks that the branch of a new worktree does not exist.
fn check_branch(git: &Git, branch: &str) -> Result<(), Failure> {
    let reference = format!("refs/heads/{branch}");
    match git.line(&["rev-parse", "--verify", "--quiet", &reference]) {
        Ok(_) => Err(failure(format!(
            "The branch `{branch}` already exists; choose another name, or delete it with \
             `git branch -D {branch}`"
        ))),
        Err(_) => Ok(()),
    }
}

/// Generates a unique name.
fn new_name() -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("w{}", &id[..8])
}

/// Returns what the commands of a session in `directory` may write of the worktree and its
/// repository, or `None` if Parallax did not create a worktree there.
pub fn access(dirs: &UserDirs, directory: &Path) -> Option<WorktreeAccess> {
    let (record, _) = parallax_config::worktrees::worktree_of(dirs, directory)?;
    let path = record.path.canonicalize().ok()?;
    // Commands can change the link, so the directory it points to must point back.
    let link = read_git_file(&path.join(".git"))?;
    let own = linked_directory(&path, &link)?.canonicalize().ok()?;
    let back = fs::read_to_string(own.join("gitdir")).ok()?;
    if own.join(back.trim()).canonicalize().ok()? != path.join(".git").canonicalize().ok()? {
        return None;
    }
    let common = fs::read_to_string(own.join("commondir")).ok()?;
    let common = own.join(common.trim()).canonicalize().ok()?;
    if own.parent() != Some(&common.join("worktrees")) {
        return None;
    }
    // An earlier version may have created it.
    lock::lock(&own).ok()?;
    let refs = [common.join("refs/heads/parallax"), common.join("logs/refs/heads/parallax")];
    // Only what exists can be protected. Git reads it only if the repository says so.
    let configuration = own.join("config.worktree");
    if configuration.symlink_metadata().is_err() {
        File::create_new(&configuration).ok()?;
    }
    // Files that could redirect to another repository are protected in every mode.
    // The lock keeps sessions elsewhere from removing the directory.
    let links = ["commondir", "gitdir", "config.worktree", "locked"].map(|name| own.join(name));
    let mut read_only: Vec<PathBuf> = links.into_iter().filter(|link| link.exists()).collect();
    read_only.push(path.join(".git"));
    // It can name other directories with objects.
    let info = common.join("objects/info");
    read_only.extend(info.is_dir().then_some(info));
    let mut git = vec![own, common.join("objects")];
    git.extend(lfs_directory(&common, &record.main));
    // All references are in the same files there, so commands cannot commit.
    if !common.join("reftable").is_dir() {
        for directory in refs {
            // Packing refs removes the directory, but git needs it to write the branch.
            fs::create_dir_all(&directory).ok()?;
            if directory.starts_with(common.join("refs")) {
                unpack_branches(&common, &directory);
            }
            let others = fs::read_dir(&directory).into_iter().flatten().flatten();
            read_only.extend(
                others.filter(|entry| entry.file_name() != *record.name).map(|entry| entry.path()),
            );
            git.push(directory);
        }
    }
    let main = common.parent().filter(|_| common.ends_with(".git")).map(Path::to_path_buf);
    Some(WorktreeAccess { path, git, read_only, main })
}

/// Returns the directory to which filters of Git LFS write, creating it if they are configured.
fn lfs_directory(common: &Path, main: &Path) -> Option<PathBuf> {
    let directory = common.join("lfs");
    match directory.symlink_metadata() {
        Ok(data) => data.is_dir().then_some(directory),
        Err(_) => {
            let filter = ["config", "--get-regexp", "^filter\\.lfs\\.(clean|process)$", "."];
            Git::at(main).ok()?.run(&filter).ok()?;
            fs::create_dir(&directory).ok()?;
            Some(directory)
        }
    }
}

/// Gives packed branches of other worktrees their files, which can be protected.
fn unpack_branches(common: &Path, directory: &Path) {
    let Ok(packed) = fs::read_to_string(common.join("packed-refs")) else { return };
    for line in packed.lines() {
        let Some((commit, name)) = line.split_once(" refs/heads/parallax/") else { continue };
        if is_valid_name(name) && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            // It may have a newer value there.
            if let Ok(mut file) = File::create_new(directory.join(name)) {
                let _ = writeln!(file, "{commit}");
            }
        }
    }
}
