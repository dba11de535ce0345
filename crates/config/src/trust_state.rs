//! The trust state of a folder, determined without reading anything in it.

use std::path::Path;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::load::{self, LoadOptions};
use crate::outer_settings::OuterSettings;
use crate::trust::{Trust, TrustFiles, decide};
use crate::user_dirs::UserDirs;
use crate::worktrees;

/// The trust state of a folder, determined without reading anything in it.
#[derive(Debug, Clone)]
pub struct TrustState {
    /// The user's directories.
    pub dirs: UserDirs,
    /// Whether the folder is trusted, and why.
    pub trust: Trust,
    /// The files with trust rules.
    pub files: TrustFiles,
    /// The settings outside of the folder.
    pub outer: OuterSettings,
}

/// Determines the trust state of a folder from system and user files only, without reading the
/// folder.
///
/// # Errors
/// Returns an error if an existing file cannot be used (exit code 52).
pub fn trust_state(options: &LoadOptions, folder: &Path) -> Result<TrustState, ConfigError> {
    let environment = Environment::new(options.variables.clone());
    let dirs = UserDirs::find(&environment, &options.cwd)?;
    let (outer, enabled) = load::read_outer(&environment, &dirs, &options.cwd)?;
    let files = TrustFiles::find(&environment, &dirs)?;
    let project = worktrees::project_of(&dirs, folder);
    let trust = decide(&environment, &files, &project, options.skip_trust, enabled)?;
    Ok(TrustState { dirs, trust, files, outer })
}
