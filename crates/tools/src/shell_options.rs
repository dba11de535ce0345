//! The settings of shell commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_exec::TerminalSize;
use parallax_exec::capture::CaptureLimits;
use parallax_exec::environment::{
    Environment, GitConfiguration, Redaction, build, hook_environment, pass,
    user_command_environment,
};

use parallax_protocol::secret::{Redact, SecretVariables};
use parallax_protocol::shell::BackgroundCompletion;

use crate::repository_variables::is_repository_variable;
use crate::sandbox_options::SandboxOptions;

/// The settings `tools.shell.*`, `tools.truncateToolOutputThreshold`, and
/// `security.environmentVariableRedaction`, plus options of the session.
#[derive(Debug, Clone)]
pub struct ShellOptions {
    /// `PAGER` and `GIT_PAGER` of commands.
    pub pager: String,
    /// How long a command may run without output; `None` disables the limit.
    pub inactivity_timeout: Option<Duration>,
    /// How long a command may run; `None` disables the limit.
    pub max_runtime: Option<Duration>,
    /// Whether commands of an interactive session get a terminal.
    pub interactive_shell: bool,
    /// The initial size of that terminal.
    pub terminal_size: TerminalSize,
    /// What happens when a background process ends.
    pub background_completion: BackgroundCompletion,
    /// Whether the user sees the colors of the output.
    pub show_color: bool,
    /// Whether the model is asked to keep outputs short.
    pub output_efficiency: bool,
    /// Longer outputs are truncated for the model, in characters; 0 disables the limit.
    pub truncate_threshold: usize,
    /// Which variables are removed from the environment of commands.
    pub redaction: RedactionOptions,
    /// Redacts secrets in logs and in copies of outputs; `None` disables redaction.
    pub redact: Option<Arc<dyn Redact>>,
    /// Variables that the project's `.env` added to this process.
    pub dotenv_names: Vec<String>,
    /// Variables that the user's own `.env` adds.
    pub user_variables: Vec<(OsString, OsString)>,
    /// Whether the directory is trusted; if not, git runs without the user's configuration and
    /// without programs of the repository.
    pub trusted_folder: bool,
    /// Whether the directory is a worktree that Parallax created: variables of this process that
    /// make git use another repository are then removed from the environment of commands.
    pub in_own_worktree: bool,
    /// The session's directory for complete copies of long outputs. The model must be allowed to
    /// read it.
    pub output_dir: PathBuf,
    /// Whether `tools.shell.commandSubstitution` is `block`: lines with substitutions are denied,
    /// except in YOLO mode.
    pub block_substitution: bool,
    /// The sandbox of commands; `None` runs them without one.
    pub sandbox: Option<SandboxOptions>,
    /// The directory for logs of background processes, for [`parallax_exec::Processes::new`].
    pub background_dir: PathBuf,
}

/// `security.environmentVariableRedaction`.
#[derive(Debug, Clone)]
pub struct RedactionOptions {
    /// Whether variables are checked by name and value.
    pub enabled: bool,
    /// Names that are passed on.
    pub allowed: Vec<String>,
    /// Names that are removed.
    pub blocked: Vec<String>,
    /// Variables from which the configuration takes secrets.
    pub credentials: SecretVariables,
}

impl Default for RedactionOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            allowed: Vec::new(),
            blocked: Vec::new(),
            credentials: SecretVariables::default(),
        }
    }
}

impl ShellOptions {
    /// Returns the defaults with the two directories of the session.
    pub fn new(output_dir: PathBuf, background_dir: PathBuf) -> Self {
        Self {
            pager: "cat".into(),
            inactivity_timeout: Some(Duration::from_secs(300)),
            max_runtime: None,
            interactive_shell: true,
            terminal_size: TerminalSize::default(),
            background_completion: BackgroundCompletion::default(),
            show_color: true,
            output_efficiency: true,
            truncate_threshold: 40_000,
            redaction: RedactionOptions::default(),
            redact: None,
            dotenv_names: Vec::new(),
            user_variables: Vec::new(),
            trusted_folder: true,
            in_own_worktree: false,
            output_dir,
            block_substitution: false,
            sandbox: None,
            background_dir,
        }
    }

    /// Returns the environment of a command, derived from this process, and the names of the
    /// removed variables (for a notice).
    pub fn environment(&self) -> Environment {
        build(self.variables(), &self.redaction(), &self.pager, self.git())
    }

    /// Returns the environment of a hook outside of the sandbox: it runs for the user and may open
    /// windows and prompt. `of_user`: only the user wrote the hook, so it may use the user's keys
    /// through SSH and GPG agents.
    pub fn hook_environment(&self, is_user_hook: bool) -> Environment {
        let mut redaction = self.redaction();
        // Names that look like secrets but hold the name of a program or a socket.
        let mut allow = |names: &[&str]| {
            redaction.allowed.extend(names.iter().map(|name| (*name).to_owned()));
        };
        allow(&["SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "GIT_ASKPASS", "SUDO_ASKPASS"]);
        if is_user_hook {
            allow(&["SSH_AUTH_SOCK"]);
        }
        hook_environment(self.variables(), &redaction, self.git())
    }

    /// Returns the variables of this process and those of the user's `.env`.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.process_variables().chain(self.user_variables.iter().cloned()).collect()
    }

    fn process_variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        let is_kept = |name: &OsString| !(self.in_own_worktree && is_repository_variable(name));
        std::env::vars_os().filter(move |(name, _)| is_kept(name))
    }

    /// Returns the environment of a command that the user types: all variables of the process, but
    /// none of the `.env` files, because the model reads the output.
    pub(crate) fn user_command_environment(&self) -> Vec<(OsString, OsString)> {
        let own = pass(self.user_variables.iter().cloned(), &self.redaction()).variables;
        user_command_environment(self.process_variables().chain(own), &self.pager)
    }

    fn redaction(&self) -> Redaction {
        Redaction {
            enabled: self.redaction.enabled,
            allowed: self.redaction.allowed.clone(),
            blocked: self.redaction.blocked.clone(),
            dotenv_names: self.dotenv_names.clone(),
            credentials: self.redaction.credentials.clone(),
        }
    }

    fn git(&self) -> GitConfiguration {
        match self.trusted_folder {
            true => GitConfiguration::User,
            false => GitConfiguration::Isolated,
        }
    }

    pub(crate) fn limits(&self) -> parallax_exec::Limits {
        parallax_exec::Limits {
            capture: CaptureLimits::from_threshold(self.truncate_threshold),
            inactivity: self.inactivity_timeout,
            runtime: self.max_runtime,
            ..parallax_exec::Limits::default()
        }
    }
}
