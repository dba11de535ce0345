//! Where a user's own files are.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::ConfigError;

/// The two homes: `.gemini` is read, `.parallax` is read and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homes {
    /// The home directory itself (or what `GEMINI_CLI_HOME` puts in its place).
    pub user: PathBuf,
    /// `~/.gemini`.
    pub gemini: PathBuf,
    /// `~/.parallax`.
    pub parallax: PathBuf,
}

impl Homes {
    /// From `GEMINI_CLI_HOME` (the parent of both), `PARALLAX_HOME` (the
    /// `.parallax` folder itself), and the home directory. Relative values count
    /// from `cwd`.
    ///
    /// # Errors
    /// When none of them is set.
    pub fn find(environment: &Environment, cwd: &Path) -> Result<Self, ConfigError> {
        let variable = |name: &str| environment.get(name).map(|path| cwd.join(path));
        let user = variable("GEMINI_CLI_HOME")
            .or_else(|| variable("HOME"))
            .or_else(|| variable("USERPROFILE"));
        let ours = variable("PARALLAX_HOME");
        let user = user.ok_or(ConfigError::NoHome)?;
        Ok(Self {
            gemini: user.join(".gemini"),
            parallax: ours.unwrap_or_else(|| user.join(".parallax")),
            user,
        })
    }

    /// Whether a folder is the home directory. What a project would keep in it is
    /// the user's then.
    pub fn is_home(&self, folder: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        real(folder) == real(&self.user)
    }
}
