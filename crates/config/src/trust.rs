//! Whether a folder's own files may count.

mod file;

use std::path::{Path, PathBuf};

pub use file::{TrustFiles, TrustLevel, TrustRule, set};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::homes::Homes;
use crate::layers::OuterSettings;
use crate::load::{self, LoadOptions};
use crate::worktrees;

/// The variable that says, for one run, whether the working directory is trusted.
pub const TRUST_VARIABLE: &str = "GEMINI_CLI_TRUST_WORKSPACE";

/// The decision about the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// Whether it is trusted.
    pub trusted: bool,
    /// What decided.
    pub reason: TrustReason,
}

/// What decided about trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustReason {
    /// `--skip-trust`.
    Flag,
    /// `GEMINI_CLI_TRUST_WORKSPACE`.
    Variable,
    /// The setting `security.folderTrust.enabled` is off.
    FeatureOff,
    /// A rule.
    Rule {
        /// The file it stands in.
        file: PathBuf,
        /// Its folder, as written.
        folder: String,
    },
    /// Nothing is known of the folder, so it is not trusted.
    Unknown,
}

/// What is known of a folder without reading anything of it.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Where the user's files are.
    pub homes: Homes,
    /// Whether the folder is trusted, and why.
    pub trust: Trust,
    /// Where rules of trust stand.
    pub files: TrustFiles,
    /// The settings outside of the folder.
    pub outer: OuterSettings,
}

/// Looks up how a folder stands, reading nothing of it: only files of the
/// machine and of the user.
///
/// # Errors
/// A file that is there and cannot be used (exit code 52).
pub fn standing(options: &LoadOptions, folder: &Path) -> Result<Standing, ConfigError> {
    let environment = Environment::new(options.variables.clone());
    let homes = Homes::find(&environment, &options.cwd)?;
    let (outer, enabled) = load::outer(&environment, &homes, &options.cwd)?;
    let files = TrustFiles::find(&environment, &homes)?;
    let project = worktrees::project_of(&homes, folder);
    let trust = decide(&environment, &files, &project, options.skip_trust, enabled)?;
    Ok(Standing { homes, trust, files, outer })
}

/// Decides, reading no file of the project. `enabled` is the setting
/// `security.folderTrust.enabled` without the project's own layer.
pub(crate) fn decide(
    environment: &Environment,
    files: &TrustFiles,
    cwd: &Path,
    skip_trust: bool,
    enabled: bool,
) -> Result<Trust, ConfigError> {
    if skip_trust {
        return Ok(Trust { trusted: true, reason: TrustReason::Flag });
    }
    match environment.get(TRUST_VARIABLE) {
        Some("true") => return Ok(Trust { trusted: true, reason: TrustReason::Variable }),
        // In doubt it is no: `FALSE`, `0`, `no`.
        Some(other) if ["false", "0", "no"].contains(&other.to_lowercase().as_str()) => {
            return Ok(Trust { trusted: false, reason: TrustReason::Variable });
        }
        _ => {}
    }
    if !enabled {
        return Ok(Trust { trusted: true, reason: TrustReason::FeatureOff });
    }
    let unknown = Trust { trusted: false, reason: TrustReason::Unknown };
    // Files that cannot be used are told even where no rule could match.
    let rules = files.rules()?;
    // A folder whose real path cannot be told is like no other.
    let Ok(folder) = std::fs::canonicalize(cwd) else { return Ok(unknown) };
    Ok(file::best(rules, &folder).map_or(unknown, |rule| Trust {
        trusted: rule.level != TrustLevel::DoNotTrust,
        reason: TrustReason::Rule { file: rule.file, folder: rule.folder },
    }))
}
