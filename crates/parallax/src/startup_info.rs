//! The environment of the process: terminals and variables.

use std::ffi::OsString;
use std::io::IsTerminal;

/// Facts that are read once at startup.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StartupInfo {
    pub(crate) stdin_is_terminal: bool,
    pub(crate) stdout_is_terminal: bool,
    /// Whether this is a CI run, where no user can answer.
    pub(crate) is_build_server: bool,
    pub(crate) stderr_is_terminal: bool,
    /// Whether stderr may be colored.
    pub(crate) stderr_color: bool,
    /// `DEBUG` or `DEBUG_MODE`.
    pub(crate) debug: bool,
    /// `PARALLAX_COMPAT_SIGNALS`.
    pub(crate) compatible_signals: bool,
}

impl StartupInfo {
    /// Reads the environment.
    pub(crate) fn read() -> Self {
        Self {
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            ..Self::from_environment(
                &|name| std::env::var_os(name),
                std::io::stderr().is_terminal(),
            )
        }
    }

    fn from_environment(
        variable: &dyn Fn(&str) -> Option<OsString>,
        stderr_is_terminal: bool,
    ) -> Self {
        let is = |name: &str, values: &[&str]| {
            variable(name).is_some_and(|value| values.iter().any(|known| value == *known))
        };
        let is_integration_test = variable("GEMINI_CLI_INTEGRATION_TEST").is_some();
        let no_color = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            is_build_server: !is_integration_test
                && (is("CI", &["true"]) || is("GITHUB_ACTIONS", &["true"])),
            stderr_is_terminal,
            stderr_color: stderr_is_terminal && !no_color && !is("TERM", &["dumb"]),
            debug: is("DEBUG", &["true", "1"]) || is("DEBUG_MODE", &["true", "1"]),
            compatible_signals: is("PARALLAX_COMPAT_SIGNALS", &["1", "true"]),
            ..Self::default()
        }
    }

    /// Whether no user can interact through a terminal.
    pub(crate) fn is_headless(&self) -> bool {
        self.is_build_server || !self.stdin_is_terminal || !self.stdout_is_terminal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ci_runner_is_detected_unless_simulated() {
        let with = |names: &'static [(&str, &str)]| {
            StartupInfo::from_environment(
                &move |name| {
                    let found = names.iter().find(|(known, _)| *known == name);
                    found.map(|(_, value)| OsString::from(value))
                },
                true,
            )
        };
        assert!(with(&[("CI", "true")]).is_build_server);
        assert!(!with(&[("CI", "1")]).is_build_server);
        assert!(!with(&[("CI", "true"), ("GEMINI_CLI_INTEGRATION_TEST", "true")]).is_build_server);
        assert!(with(&[("DEBUG", "1")]).debug);
        assert!(with(&[]).stderr_color && !with(&[("NO_COLOR", "1")]).stderr_color);
    }
}
