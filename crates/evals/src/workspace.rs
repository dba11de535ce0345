//! A fresh copy of a case's project for one run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parallax_exec::{PipedChild, ProcessExit};

use crate::agent::{describe_exit, run_confined};
use crate::case::Case;
use crate::error::EvalError;

/// Maximum number of files and directories of a project.
const MAX_ENTRIES: usize = 100_000;
/// Maximum number of output bytes kept per command.
const MAX_OUTPUT: usize = 64 << 10;
/// Time limit of a setup command.
const SETUP_LIMIT: Duration = Duration::from_secs(600);

/// The copy. It is removed when dropped.
pub(crate) struct CaseWorkspace {
    root: PathBuf,
    directory: PathBuf,
    is_persistent: bool,
}

impl CaseWorkspace {
    /// Copies the project of a case and makes it a git repository, if git is available. Blocking.
    pub(crate) fn create(case: &Case) -> Result<Self, EvalError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("parallax-eval-{}-{time:x}-{number}", std::process::id());
        let temporary = std::env::temp_dir();
        let root = temporary.canonicalize().unwrap_or(temporary).join(name);
        create_private(&root).map_err(|error| EvalError::path(&root, error))?;
        let last = Path::new(&case.name).file_name();
        let directory = root.join(last.unwrap_or("project".as_ref()));
        let workspace = Self { root, directory, is_persistent: false };
        let project = case.directory.join("project");
        let copied = match project.is_dir() {
            true => copy(&project, &workspace.directory),
            false => fs::create_dir(&workspace.directory),
        };
        copied.map_err(|error| EvalError::path(&project, error))?;
        Ok(workspace)
    }

    /// Returns the directory of the project.
    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// Returns a directory next to the project, for files that the agent must not see.
    pub(crate) fn outside_directory(&self) -> &Path {
        &self.root
    }

    /// Keeps the files on disk.
    pub(crate) fn persist(&mut self) {
        self.is_persistent = true;
    }

    /// Runs the setup commands, then commits everything, so that later changes can be determined.
    ///
    /// # Errors
    /// Returns what failed.
    pub(crate) async fn prepare(&self, setup: &[String]) -> Result<(), String> {
        if !self.directory.join(".git").exists() {
            self.git(&["init", "--quiet"]).await;
        }
        for command in setup {
            let result = match PipedChild::start("sh", ["-c", command], &self.directory) {
                Ok(child) => child.output(MAX_OUTPUT, SETUP_LIMIT).await,
                Err(error) => Err(error),
            };
            let problem = match result {
                Ok(output) if output.exit == (ProcessExit::Exited { code: 0 }) => continue,
                Ok(output) => {
                    let error_text = String::from_utf8_lossy(&output.stderr).into_owned();
                    format!("{}: {}", describe_exit(output.exit), error_text.trim())
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    format!("it ran for more than {} s", SETUP_LIMIT.as_secs())
                }
                Err(error) => error.to_string(),
            };
            return Err(format!("the setup command `{command}` failed: {problem}"));
        }
        self.git(&["add", "--all"]).await;
        let author = ["-c", "user.name=Parallax", "-c", "user.email=eval@localhost"];
        let commit = ["-c", "commit.gpgSign=false", "commit", "--quiet", "--allow-empty"];
        self.git(
            &[&author[..], &commit[..], &["--no-verify", "-m", "Project of the case"]].concat(),
        )
        .await;
        Ok(())
    }

    /// Returns the changes since [`CaseWorkspace::prepare`] as a diff. Git runs in the sandbox,
    /// because the agent may have changed what git executes.
    pub(crate) async fn changes(&self, program: &Path) -> String {
        let command = "git add --all --intent-to-add && git diff --no-ext-diff --no-color";
        match run_confined(program, &self.directory, command, SETUP_LIMIT).await {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(_) => String::new(),
        }
    }

    /// Runs git, if it is available.
    async fn git(&self, arguments: &[&str]) {
        let safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
        let arguments = safe.iter().chain(arguments);
        if let Ok(child) = PipedChild::start("git", arguments, &self.directory) {
            // The project of a case need not be a repository.
            let _ = child.output(MAX_OUTPUT, SETUP_LIMIT).await;
        }
    }
}

impl Drop for CaseWorkspace {
    fn drop(&mut self) {
        if !self.is_persistent {
            // Remaining files are in the temporary directory.
            let _ = parallax_files::remove_tree(&self.root);
        }
    }
}

fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Copies a directory with its permissions and links.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut waiting = vec![(from.to_owned(), to.to_owned())];
    let mut entries = 0;
    while let Some((from, to)) = waiting.pop() {
        fs::create_dir(&to)?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(io::Error::other(format!("it has more than {MAX_ENTRIES} files")));
            }
            let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() {
                waiting.push((entry.path(), target));
            } else if kind.is_symlink() {
                link(&fs::read_link(entry.path())?, &target)?;
            } else if kind.is_file() {
                fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn link(to: &Path, at: &Path) -> io::Result<()> {
    Err(io::Error::other(format!("`{}` is a link to `{}`", at.display(), to.display())))
}
