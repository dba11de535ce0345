//! The directories of the user's own files.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::ConfigError;

/// The user's two configuration directories: `.gemini` is read, `.parallax` is read and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserDirs {
    /// The home directory, or the value of `GEMINI_CLI_HOME`.
    pub user: PathBuf,
    /// `~/.gemini`.
    pub gemini: PathBuf,
    /// `~/.parallax`.
    pub parallax: PathBuf,
}

impl UserDirs {
    /// Determines the directories from `GEMINI_CLI_HOME` (the parent of both), `PARALLAX_HOME` (the
    /// `.parallax` directory itself), and the home directory. Relative values are resolved against
    /// `cwd`. A user without a home directory, as in some containers, gets a private directory
    /// among the temporary ones.
    ///
    /// # Errors
    /// Returns an error if none of them is set and the private directory belongs to someone else.
    pub fn find(environment: &Environment, cwd: &Path) -> Result<Self, ConfigError> {
        let variable = |name: &str| environment.get(name).map(|path| cwd.join(path));
        let user = variable("GEMINI_CLI_HOME")
            .or_else(|| variable("HOME"))
            .or_else(|| variable("USERPROFILE"));
        let ours = variable("PARALLAX_HOME");
        let user = user.or_else(private_directory).ok_or(ConfigError::NoHome)?;
        Ok(Self {
            gemini: user.join(".gemini"),
            parallax: ours.unwrap_or_else(|| user.join(".parallax")),
            user,
        })
    }

    /// Whether a directory is the home directory, where project files are the user's.
    pub fn is_home(&self, directory: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        real(directory) == real(&self.user)
    }
}

/// Returns the directory that replaces a home directory; `None` if another user could have prepared
/// it. It may be missing if nothing can be written.
#[cfg(unix)]
fn private_directory() -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};

    let user = rustix::process::geteuid().as_raw();
    let path = std::env::temp_dir().join(format!("parallax-home-{user}"));
    // It may exist already, or the file system may be read-only.
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&path);
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0 => {
            Some(path)
        }
        Ok(_) => None,
        Err(_) => Some(path),
    }
}

#[cfg(not(unix))]
fn private_directory() -> Option<PathBuf> {
    None
}
