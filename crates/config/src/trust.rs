//! Decides whether a folder's own files may be used.

mod file;

use std::path::{Path, PathBuf};

pub use file::{TrustFiles, TrustLevel, TrustRule, set};

use crate::environment::Environment;
use crate::error::ConfigError;

/// The variable that overrides, for one run, whether the working directory is trusted.
pub const TRUST_VARIABLE: &str = "GEMINI_CLI_TRUST_WORKSPACE";

/// The trust decision for the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// Whether it is trusted.
    pub trusted: bool,
    /// The reason for the decision.
    pub reason: TrustReason,
}

/// The reason for a trust decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustReason {
    /// `--skip-trust`.
    Flag,
    /// `GEMINI_CLI_TRUST_WORKSPACE`.
    Variable,
    /// The setting `security.folderTrust.enabled` is `false`.
    FeatureOff,
    /// A rule.
    Rule {
        /// The file that contains the rule.
        file: PathBuf,
        /// The folder of the rule, unexpanded.
        folder: String,
    },
    /// No rule matches, so the folder is not trusted.
    Unknown,
}

/// Decides without reading a project file. `enabled` is the setting `security.folderTrust.enabled`
/// without the project layers.
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
        // `FALSE`, `0`, and `no` also deny trust.
        Some(other) if ["false", "0", "no"].contains(&other.to_lowercase().as_str()) => {
            return Ok(Trust { trusted: false, reason: TrustReason::Variable });
        }
        _ => {}
    }
    if !enabled {
        return Ok(Trust { trusted: true, reason: TrustReason::FeatureOff });
    }
    let unknown = Trust { trusted: false, reason: TrustReason::Unknown };
    // Invalid trust files are reported even if no rule could match.
    let rules = files.rules()?;
    // A folder whose real path is unknown matches no rule.
    let Ok(folder) = std::fs::canonicalize(cwd) else { return Ok(unknown) };
    Ok(file::most_specific_rule(rules, &folder).map_or(unknown, |rule| Trust {
        trusted: rule.level != TrustLevel::DoNotTrust,
        reason: TrustReason::Rule { file: rule.file, folder: rule.folder },
    }))
}
