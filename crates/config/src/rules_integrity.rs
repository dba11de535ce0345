//! Detects changes to a project's policy rules. They can only tighten the policy, so a change is
//! not dangerous, but the user is notified.

use std::path::{Path, PathBuf};

use parallax_policy::{RuleFile, Tier};
use serde_json::Value;

use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

/// How the rules of a project compare to the accepted ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesChange {
    /// There are no rules, and none were accepted.
    None,
    /// The rules are unchanged.
    Same,
    /// The project had no rules before, or is new.
    New,
    /// The rules differ from the accepted ones, or were removed.
    Changed,
}

/// Compares the workspace files among `files` with the accepted ones.
///
/// # Errors
/// Returns an error if `~/.parallax/policy-integrity.json` cannot be used.
pub fn workspace_rules_changed(
    dirs: &UserDirs,
    cwd: &Path,
    files: &[RuleFile],
) -> Result<RulesChange, ConfigError> {
    let current = hash(files);
    let Some(known) = jsonc::read_object(&register(dirs))? else {
        return Ok(if current.is_some() { RulesChange::New } else { RulesChange::None });
    };
    let before = known.get(&project_key(cwd)).and_then(Value::as_str);
    Ok(match (before, current) {
        (None, None) => RulesChange::None,
        (None, Some(_)) => RulesChange::New,
        (Some(before), Some(current)) if before == current => RulesChange::Same,
        (Some(_), _) => RulesChange::Changed,
    })
}

/// Stores the workspace files among `files` as accepted.
///
/// # Errors
/// Returns an error if `~/.parallax/policy-integrity.json` cannot be used or written.
pub fn accept_workspace_rules(
    dirs: &UserDirs,
    cwd: &Path,
    files: &[RuleFile],
) -> Result<(), ConfigError> {
    let current = hash(files);
    let name = project_key(cwd);
    json_state_file::update(&register(dirs), |known| match (known.get(&name), current) {
        (Some(entry), Some(current)) => entry.set_value(current.into()),
        (Some(entry), None) => entry.remove(),
        (None, Some(current)) => drop(known.append(&name, current.into())),
        (None, None) => {}
    })
}

/// Whether the user accepted that the current workspace files among `files` may also allow calls.
/// If the record cannot be used, they may not.
pub fn workspace_rules_may_allow(dirs: &UserDirs, cwd: &Path, files: &[RuleFile]) -> bool {
    let known = jsonc::read_object(&register(dirs)).ok().flatten();
    let agreed = known.as_ref().and_then(|known| known.get(&allow_name(cwd))?.as_str());
    agreed.is_some() && agreed == hash(files).as_deref()
}

/// Stores that the user accepted this.
///
/// # Errors
/// Returns an error if `~/.parallax/policy-integrity.json` cannot be used or written.
pub fn save_accepted_rules(
    dirs: &UserDirs,
    cwd: &Path,
    files: &[RuleFile],
) -> Result<(), ConfigError> {
    accept_workspace_rules(dirs, cwd, files)?;
    let current = hash(files);
    let name = allow_name(cwd);
    json_state_file::update(&register(dirs), |known| match (known.get(&name), current) {
        (Some(entry), Some(current)) => entry.set_value(current.into()),
        (Some(entry), None) => entry.remove(),
        (None, Some(current)) => drop(known.append(&name, current.into())),
        (None, None) => {}
    })
}

/// Returns a key with a prefix that no path begins with.
fn allow_name(cwd: &Path) -> String {
    format!("allow {}", project_key(cwd))
}

fn register(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("policy-integrity.json")
}

fn project_key(cwd: &Path) -> String {
    let real = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    real.to_string_lossy().into_owned()
}

/// Hashes names and contents; `None` if there are no files of the workspace tier.
fn hash(files: &[RuleFile]) -> Option<String> {
    let files: Vec<&RuleFile> = files.iter().filter(|file| file.tier == Tier::Workspace).collect();
    let pieces = files.iter().flat_map(|file| {
        let (ok, text) = match &file.text {
            Ok(text) => (&b"read"[..], text),
            Err(reason) => (&b"not read"[..], reason),
        };
        [file.path.as_os_str().as_encoded_bytes(), ok, text.as_bytes()]
    });
    (!files.is_empty()).then(|| json_state_file::digest(pieces))
}

#[cfg(test)]
mod tests {
    use parallax_policy::{RuleFile, Tier};

    use super::{RulesChange, accept_workspace_rules, workspace_rules_changed};
    use crate::user_dirs::UserDirs;

    #[test]
    fn changed_project_rules_are_detected() {
        let directory = tempfile::tempdir().expect("directory");
        let cwd = directory.path();
        let dirs = UserDirs {
            user: cwd.join("home"),
            gemini: cwd.join("home/.gemini"),
            parallax: cwd.join("home/.parallax"),
        };
        let rules = |text: &str| {
            let file = |tier| RuleFile { tier, path: "a.toml".into(), text: Ok(text.to_owned()) };
            [file(Tier::Workspace), file(Tier::User)]
        };
        let look = |files: &[RuleFile]| workspace_rules_changed(&dirs, cwd, files).expect("look");
        let accept = |files: &[RuleFile]| accept_workspace_rules(&dirs, cwd, files).expect("write");
        assert_eq!(look(&rules("1")[1..]), RulesChange::None);
        assert_eq!(look(&rules("1")), RulesChange::New);
        accept(&rules("1"));
        assert_eq!(look(&rules("1")), RulesChange::Same);
        assert_eq!(look(&rules("2")), RulesChange::Changed);
        assert_eq!(look(&[]), RulesChange::Changed);
        accept(&rules("2"));
        assert_eq!(look(&rules("2")), RulesChange::Same);
        accept(&[]);
        assert_eq!(look(&[]), RulesChange::None);
    }
}
