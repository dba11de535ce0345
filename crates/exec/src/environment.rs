//! The environment of child processes: variables that are passed, withheld, and set.
//!
//! All functions are pure: the caller supplies the variables of the parent process.

use std::ffi::OsString;

mod drop_reason;
mod git;
mod names;
mod secrets;
mod variable_filter;

use parallax_protocol::secret::{Secret, SecretVariables};

use git::{NO_MONITOR, configure_git, isolate_git};
use names::OF_SYSTEM;
use secrets::{is_secret_value, secret_name_part};
use variable_filter::VariableFilter;

pub use drop_reason::{DropReason, DroppedVariable};
pub use git::GitConfiguration;

/// The settings `security.environmentVariableRedaction`, and what the caller knows about the
/// environment.
#[derive(Debug, Clone)]
pub struct Redaction {
    /// Whether names and values are checked at all. Variables from the project's `.env` and
    /// credentials of Parallax are withheld even if this is false.
    pub enabled: bool,
    /// Names that are always passed (case-insensitive).
    pub allowed: Vec<String>,
    /// Names that are never passed (case-insensitive).
    pub blocked: Vec<String>,
    /// Names that the project's `.env` file set in this process.
    pub dotenv_names: Vec<String>,
    /// The variables from which the configuration takes secrets.
    pub credentials: SecretVariables,
}

impl Default for Redaction {
    fn default() -> Self {
        Self {
            enabled: true,
            allowed: Vec::new(),
            blocked: Vec::new(),
            dotenv_names: Vec::new(),
            credentials: SecretVariables::default(),
        }
    }
}

/// An environment and what was withheld from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Names and values in the order of the parent process, followed by variables that Parallax
    /// sets.
    pub variables: Vec<(OsString, OsString)>,
    /// The withheld variables by name, for a notice; never with values.
    pub dropped: Vec<DroppedVariable>,
}

/// Builds the environment of a command.
pub fn build(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
    pager: &str,
    git: GitConfiguration,
) -> Environment {
    let parent: Vec<_> = parent.into_iter().collect();
    let set = fixed_variables(&parent, pager, git);
    let is_inherited = |name: &OsString| !set.iter().any(|(other, _)| other == name);
    let mut environment =
        pass(parent.iter().filter(|(name, _)| is_inherited(name)).cloned(), redaction);
    environment.variables.extend(set);
    environment
}

/// Returns only the variables of the parent process that a child may have. Intended for programs
/// that are not commands of the model, such as servers.
pub fn pass(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
) -> Environment {
    let parent: Vec<_> = parent.into_iter().collect();
    let strict = is_strict(&parent);
    let filter = VariableFilter::new(redaction, strict);
    let mut variables = Vec::with_capacity(parent.len());
    let mut dropped = Vec::new();
    for (name, value) in parent {
        match filter.drop_reason(&name.to_string_lossy(), &value.to_string_lossy()) {
            None => variables.push((name, value)),
            Some(reason) => dropped.push(DroppedVariable {
                name: name.to_string_lossy().into_owned(),
                reason,
                override_setting: reason.override_setting(strict),
            }),
        }
    }
    dropped.sort_by(|one, other| one.name.cmp(&other.name));
    Environment { variables, dropped }
}

/// Returns the environment of a hook, which is a program of the user: the variables of the parent
/// process except secrets, plus markers. In an untrusted folder, git ignores the configuration of
/// the repository.
pub fn hook_environment(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
    git: GitConfiguration,
) -> Environment {
    let parent: Vec<_> = parent.into_iter().collect();
    let mut set: Vec<(OsString, OsString)> =
        [("GEMINI_CLI", "1"), ("PARALLAX", "1")].map(|(n, v)| (n.into(), v.into())).to_vec();
    if git == GitConfiguration::Isolated {
        isolate_git(&parent, &mut set);
    }
    let is_inherited = |name: &OsString| !set.iter().any(|(other, _)| other == name);
    let mut environment =
        pass(parent.iter().filter(|(name, _)| is_inherited(name)).cloned(), redaction);
    environment.variables.extend(set);
    environment
}

/// Returns the values of variables that are secrets by name or format, for [`crate::Redactor`].
/// File names are not secrets.
pub fn secret_values(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
) -> Vec<Secret> {
    let redaction = Redaction { dotenv_names: Vec::new(), ..redaction.clone() };
    let filter = VariableFilter::new(&redaction, false);
    let secrets = variables.into_iter().filter_map(|(name, value)| {
        let value = value.into_string().ok()?;
        let reason = filter.drop_reason(&name.to_string_lossy(), &value)?;
        (reason != DropReason::KnownName && !value.starts_with('/')).then(|| Secret::new(value))
    });
    secrets.collect()
}

/// Whether a value with this name is a secret, by name or format. Intended for logs.
pub fn is_secret(name: &str, text: &str) -> bool {
    secret_name_part(&name.to_uppercase()).is_some() || is_secret_value(text)
}

/// Whether a variable describes the host and the login session of the user rather than configuring
/// a program. Such variables are passed to third-party programs (extensions).
pub fn is_system_variable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    OF_SYSTEM.contains(&upper.as_str()) || upper.starts_with("LC_") || upper.starts_with("XDG_")
}

/// Returns the environment of a command that the user typed: all variables of this process,
/// markers, and non-interactive pagers.
pub fn user_command_environment(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    pager: &str,
) -> Vec<(OsString, OsString)> {
    let set = [
        ("GEMINI_CLI", "1"),
        ("PARALLAX", "1"),
        ("TERM", "xterm-256color"),
        ("PAGER", pager),
        ("GIT_PAGER", pager),
    ];
    let parent = parent.into_iter().filter(|(name, _)| !set.iter().any(|(other, _)| name == other));
    let mut variables: Vec<_> = parent.collect();
    variables.extend(set.map(|(name, value)| (name.into(), value.into())));
    variables
}

/// Whether the process runs on a GitHub runner, which holds other secrets, so that only known names
/// are passed.
fn is_strict(parent: &[(OsString, OsString)]) -> bool {
    parent.iter().any(|(name, value)| {
        (name == "GITHUB_SHA" && !value.is_empty()) || (name == "SURFACE" && value == "Github")
    })
}

/// Returns the variables that are set for every command: markers, and settings that disable
/// interactive prompts.
fn fixed_variables(
    parent: &[(OsString, OsString)],
    pager: &str,
    git: GitConfiguration,
) -> Vec<(OsString, OsString)> {
    let mut set: Vec<(OsString, OsString)> = [
        ("GEMINI_CLI", "1"),
        ("PARALLAX", "1"),
        ("TERM", "xterm-256color"),
        ("PAGER", pager),
        ("GIT_PAGER", pager),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", ""),
        ("SSH_ASKPASS", ""),
        ("GH_PROMPT_DISABLED", "1"),
        ("GCM_INTERACTIVE", "never"),
        ("DISPLAY", ""),
        ("DBUS_SESSION_BUS_ADDRESS", ""),
        // Makes `cd` resolve relative paths only from the current directory.
        ("CDPATH", ""),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect();
    match git {
        GitConfiguration::User => configure_git(parent, &[NO_MONITOR], &mut set),
        GitConfiguration::Isolated => isolate_git(parent, &mut set),
    }
    set
}

#[cfg(test)]
mod tests;
