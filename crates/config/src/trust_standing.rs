//! The trust state of a folder, determined without reading anything in it.

use std::path::Path;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::homes::Homes;
use crate::load::{self, LoadOptions};
use crate::outer_settings::OuterSettings;
use crate::trust::{Trust, TrustFiles, decide};
use crate::worktrees;

/// The trust state of a folder, determined without reading anything in it.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The user's directories.
    pub homes: Homes,
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
pub fn standing(options: &LoadOptions, folder: &Path) -> Result<Standing, ConfigError> {
    let environment = Environment::new(options.variables.clone());
    let homes = Homes::find(&environment, &options.cwd)?;
    let (outer, enabled) = load::outer(&environment, &homes, &options.cwd)?;
    let files = TrustFiles::find(&environment, &homes)?;
    let project = worktrees::project_of(&homes, folder);
    let trust = decide(&environment, &files, &project, options.skip_trust, enabled)?;
    Ok(Standing { homes, trust, files, outer })
}
