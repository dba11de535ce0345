//! Finds what a command missed, or wrote in vain, because commands have a private `/tmp`.

use std::path::{Path, PathBuf};

use parallax_policy::bash::{self, ShellLine};

use super::denied_access::{DeniedAccess, SandboxRun};
use super::granted_paths::resolve_links;
use super::{predicted_permissions, repository};

/// The variable that names the repository for git.
const GIT_DIRECTORY: &str = "GIT_DIR";
/// Maximum number of paths in the output that are examined.
const MAX_QUOTED: usize = 16;

/// Returns the path of this machine that the command missed according to its output.
pub(super) fn missed_path(
    line: &ShellLine,
    directories: &[PathBuf],
    home: &Path,
    ran: &SandboxRun,
    output: &str,
) -> Option<PathBuf> {
    let names = |path: &Path| {
        let path = path.display().to_string();
        output.lines().any(|line| line.contains("No such file") && line.contains(&path))
    };
    let written = predicted_permissions::written_paths(line, directories, home).into_iter();
    let is_written = written.filter(|path| names(path));
    let repositories = match bash::uses_git(line) && reports_missing_repository(output) {
        true => repository_paths(directories, output),
        false => Vec::new(),
    };
    is_written.chain(repositories).find(|path| is_concealed(path, ran))
}

/// Returns the path of this machine that a successful command wrote only in its private `/tmp`.
pub(super) fn private_target(
    line: &ShellLine,
    directories: &[PathBuf],
    home: &Path,
    ran: &SandboxRun,
) -> Option<PathBuf> {
    let targets = predicted_permissions::known_targets(line, directories, home).into_iter();
    targets
        .map(|path| resolve_links(&path))
        .find(|path| ran.is_read_only_below_tmp(path, DeniedAccess::Write))
}

/// Returns the note for the model about such a path.
pub(super) fn private_note(path: &Path) -> String {
    format!(
        "\n[Commands have a private `/tmp`, which is removed when the session ends: `{}` was \
         written there and not on this machine. Write inside the workspace, or ask the user for \
         permission to write this path]",
        path.display()
    )
}

/// Returns the note for the model about a path that a command missed.
pub(super) fn note(path: &Path) -> String {
    format!(
        "\n[Commands have a private `/tmp`, in which `{}` of this machine does not exist: ask the \
         user to copy it into the workspace or to move it out of `/tmp`]",
        path.display()
    )
}

/// Whether git did not find a repository.
fn reports_missing_repository(output: &str) -> bool {
    ["not a git repository", "does not appear to be a git repository"]
        .iter()
        .any(|message| output.contains(message))
}

/// Returns the paths of the repositories that the command may have meant: quoted in the output,
/// named by the environment, the parts of the repositories around it, and their remotes.
fn repository_paths(directories: &[PathBuf], output: &str) -> Vec<PathBuf> {
    let quoted = output.split('\'').skip(1).step_by(2).take(MAX_QUOTED).map(PathBuf::from);
    let named: Vec<PathBuf> =
        quoted.chain(std::env::var_os(GIT_DIRECTORY).map(PathBuf::from)).collect();
    let paths_from = |directory: &PathBuf| {
        let parts = repository::linked_parts(directory);
        let named: Vec<PathBuf> = named.iter().map(|path| directory.join(path)).collect();
        named.into_iter().chain(parts).chain(repository::local_remotes(directory))
    };
    directories.iter().flat_map(paths_from).filter_map(|path| path.canonicalize().ok()).collect()
}

/// Whether the path exists only in the machine's `/tmp`.
fn is_concealed(path: &Path, ran: &SandboxRun) -> bool {
    let open = ran.plan.readable.iter().chain(&ran.plan.writable).chain(&ran.plan.overlays);
    ["/tmp", "/var/tmp"].iter().any(|tmp| path.starts_with(tmp))
        && !open.into_iter().any(|open| path.starts_with(open))
        && path.symlink_metadata().is_ok()
}
