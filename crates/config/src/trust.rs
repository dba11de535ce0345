//! Whether a folder's own files may count.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::homes::Homes;
use crate::jsonc;

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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    TrustFolder,
    TrustParent,
    DoNotTrust,
}

/// Decides, reading no file of the project. `enabled` is the setting
/// `security.folderTrust.enabled` without the project's own layer.
pub(crate) fn decide(
    environment: &Environment,
    homes: &Homes,
    cwd: &Path,
    skip_trust: bool,
    enabled: bool,
) -> Result<Trust, ConfigError> {
    if skip_trust {
        return Ok(Trust { trusted: true, reason: TrustReason::Flag });
    }
    match environment.get("GEMINI_CLI_TRUST_WORKSPACE") {
        Some("true") => return Ok(Trust { trusted: true, reason: TrustReason::Variable }),
        Some("false") => return Ok(Trust { trusted: false, reason: TrustReason::Variable }),
        _ => {}
    }
    if !enabled {
        return Ok(Trust { trusted: true, reason: TrustReason::FeatureOff });
    }
    let files = match environment.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") {
        Some(path) => vec![cwd.join(path)],
        None => vec![
            homes.parallax.join("trustedFolders.json"),
            homes.gemini.join("trustedFolders.json"),
        ],
    };
    let folder = real(cwd);
    for file in files {
        if let Some((trusted, rule)) = look_up(&file, &folder)? {
            return Ok(Trust { trusted, reason: TrustReason::Rule { file, folder: rule } });
        }
    }
    Ok(Trust { trusted: false, reason: TrustReason::Unknown })
}

/// What the file says of the folder: the longest rule, and of equally long ones
/// the refusal.
fn look_up(file: &Path, folder: &Path) -> Result<Option<(bool, String)>, ConfigError> {
    let Some(rules) = jsonc::read_object(file)? else { return Ok(None) };
    let mut best: Option<(usize, Value, String)> = None;
    for (path, value) in rules {
        let value = match value.as_str() {
            Some("TRUST_FOLDER") => Value::TrustFolder,
            Some("TRUST_PARENT") => Value::TrustParent,
            Some("DO_NOT_TRUST") => Value::DoNotTrust,
            _ => {
                return Err(ConfigError::TrustValue {
                    path: file.to_owned(),
                    folder: path,
                    value: value.to_string().chars().take(80).collect(),
                });
            }
        };
        let rule = real(Path::new(&path));
        // A relative rule would cover whatever folder one happens to be in.
        if !rule.is_absolute() {
            continue;
        }
        let covered =
            if value == Value::TrustParent { rule.parent().unwrap_or(&rule) } else { &rule };
        let length = rule.components().count();
        let better = best.as_ref().is_none_or(|(other, kind, _)| (length, value) > (*other, *kind));
        if folder.starts_with(covered) && better {
            best = Some((length, value, path));
        }
    }
    Ok(best.map(|(_, value, path)| (value != Value::DoNotTrust, path)))
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
