//! The names in the home directory and the workspace that are hidden from commands or protected
//! from changes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use parallax_protocol::protected_names;

/// Parts of `~/.parallax` that are not secret.
const OPEN_OF_OURS: &[&str] =
    &["policies", "commands", "skills", "agents", "extensions", "GEMINI.md", "AGENTS.md"];

/// Parts of a `.git` directory that run programs or redirect git.
pub(super) const OF_GIT: &[&str] =
    &["hooks", "config", "config.worktree", "info", "commondir", "gitdir"];

/// Returns the hidden files and directories of the user's home directories.
pub(super) fn of_homes(home: &Path, ours: &Path) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> =
        protected_names::SECRETS_OF_HOME.iter().map(|name| home.join(name)).collect();
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.take(10_000).map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    hidden
        .extend(names(home).iter().filter(|name| is_secret_name(name)).map(|name| home.join(name)));
    let is_open = |name: &OsStr| OPEN_OF_OURS.iter().any(|open| name == *open);
    hidden.extend(names(ours).iter().filter(|name| !is_open(name)).map(|name| ours.join(name)));
    hidden
}

/// Returns the session directory that contains `temporary` (`tmp/<project>/<session>` in
/// `~/.parallax`), the only part of `tmp` that commands see.
pub(super) fn session_folder<'a>(temporary: &'a Path, ours: &Path) -> &'a Path {
    let depth = temporary.strip_prefix(ours.join("tmp")).map_or(0, |below| below.iter().count());
    temporary.ancestors().nth(depth.saturating_sub(2)).unwrap_or(temporary)
}

/// Returns the directories of a home directory that contain hidden paths: the home directory itself
/// and the directories on the way to them.
pub(super) fn directories_with_hidden<'a>(
    home: &'a Path,
    hidden: &'a [PathBuf],
) -> impl Iterator<Item = PathBuf> + 'a {
    let inside = hidden.iter().filter(move |path| path.starts_with(home) && *path != home);
    let above = inside.flat_map(|path| path.ancestors().skip(1));
    above.filter(move |path| path.starts_with(home)).map(Path::to_path_buf)
}

/// Returns the shell startup files of a home directory.
pub(super) fn start_up(home: &Path) -> Vec<PathBuf> {
    protected_names::START_UP.patterns.iter().map(|name| home.join(name)).collect()
}

/// Whether a file with this name holds secrets of a project.
pub(super) fn is_secret_name(name: &OsStr) -> bool {
    let name = protected_names::fold(&name.to_string_lossy());
    protected_names::is_secret_environment(&name) || name.starts_with("gha-creds-")
}

/// Names of environment files that the user may create while a process left behind by a command
/// still runs: that process must not read them either.
const LATER: &[&str] = &[
    ".env",
    ".env.local",
    ".env.development",
    ".env.development.local",
    ".env.production",
    ".env.production.local",
    ".env.staging",
    ".env.test",
    ".env.test.local",
];

/// Returns the environment files that do not exist yet in these directories.
pub(super) fn that_may_appear(roots: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let paths = roots.iter().flat_map(|root| LATER.iter().map(|name| root.join(name)));
    paths.filter(|path| path.symlink_metadata().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_folder_is_the_one_below_its_project() {
        let ours = Path::new("/h/.parallax");
        for (temporary, folder) in [
            ("/h/.parallax/tmp/p/s/sandbox", "/h/.parallax/tmp/p/s"),
            ("/h/.parallax/tmp/p/s", "/h/.parallax/tmp/p/s"),
            ("/h/.parallax/tmp/p", "/h/.parallax/tmp/p"),
            ("/tmp/parallax-s/sandbox", "/tmp/parallax-s/sandbox"),
        ] {
            assert_eq!(session_folder(Path::new(temporary), ours), Path::new(folder));
        }
    }

    #[test]
    fn files_with_secrets_are_told_from_their_samples() {
        for name in [
            ".env",
            ".env.local",
            ".ENV",
            ".env.production.local",
            ".env-prod",
            ".envrc",
            "gha-creds-1.json",
        ] {
            assert!(is_secret_name(OsStr::new(name)), "{name}");
        }
        for name in
            [".env.example", ".env-sample", ".envrc.template", ".env.local.dist", "env", "x.env"]
        {
            assert!(!is_secret_name(OsStr::new(name)), "{name}");
        }
    }
}
