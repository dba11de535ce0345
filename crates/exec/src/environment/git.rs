//! The git configuration of child processes.

use std::ffi::OsString;

/// How `git` in a child treats the user's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GitConfiguration {
    /// The user's identity, aliases, and hooks apply; only prompts are disabled.
    #[default]
    User,
    /// For untrusted folders: the global configuration is ignored, and so are keys with which a
    /// repository starts programs.
    Isolated,
}

/// A repository may configure a program as its file monitor, which `git status` runs.
pub(super) const NO_MONITOR: (&str, &str) = ("core.fsmonitor", "false");

/// Isolates git from the user's configuration and from programs that a repository configures.
pub(super) fn isolate_git(parent: &[(OsString, OsString)], set: &mut Vec<(OsString, OsString)>) {
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        set.push((name.into(), "/dev/null".into()));
    }
    set.push(("GIT_CONFIG_NOSYSTEM".into(), "1".into()));
    let keys = [
        NO_MONITOR,
        ("credential.helper", ""),
        ("core.hooksPath", ""),
        ("core.sshCommand", ""),
        ("core.editor", ""),
        ("sequence.editor", ""),
        ("diff.external", ""),
        ("core.pager", "cat"),
    ];
    configure_git(parent, &keys, set);
}

/// Adds git configuration. Numbered pairs of the parent process are kept; the added ones follow and
/// take precedence.
pub(super) fn configure_git(
    parent: &[(OsString, OsString)],
    keys: &[(&str, &str)],
    set: &mut Vec<(OsString, OsString)>,
) {
    let first = parent
        .iter()
        .find(|(name, _)| name == "GIT_CONFIG_COUNT")
        .and_then(|(_, value)| value.to_str()?.parse::<usize>().ok())
        .filter(|count| *count < 10_000)
        .unwrap_or(0);
    for (offset, (key, value)) in keys.iter().enumerate() {
        let number = first + offset;
        set.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
        set.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
    }
    set.push(("GIT_CONFIG_COUNT".into(), (first + keys.len()).to_string().into()));
}
