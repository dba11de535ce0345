//! What the settings say of shell commands.

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

use parallax_protocol::secret::Redact;
use parallax_protocol::shell::BackgroundCompletion;

use crate::sandbox_options::SandboxOptions;

/// The settings `tools.shell.*`, `tools.truncateToolOutputThreshold` and
/// `security.environmentVariableRedaction`, and what the session adds.
#[derive(Debug, Clone)]
pub struct ShellOptions {
    /// `PAGER` and `GIT_PAGER` of commands.
    pub pager: String,
    /// How long a command may be silent; `None` = for ever.
    pub inactivity_timeout: Option<Duration>,
    /// How long a command may run; `None` = for ever.
    pub max_runtime: Option<Duration>,
    /// Whether commands of an interactive session get a terminal.
    pub interactive_shell: bool,
    /// The size of that terminal at its start.
    pub terminal_size: TerminalSize,
    /// What follows when a process in the background ends.
    pub background_completion: BackgroundCompletion,
    /// Whether people see the colours of the output.
    pub show_color: bool,
    /// Whether the model is asked to keep outputs short.
    pub output_efficiency: bool,
    /// Longer outputs are cut for the model: characters, 0 = never.
    pub truncate_threshold: usize,
    /// Which variables commands do not get.
    pub redaction: RedactionOptions,
    /// What takes secrets out of copies of outputs and of logs; `None` leaves them.
    pub redact: Option<Arc<dyn Redact>>,
    /// Variables that the project's `.env` brought into this process.
    pub dotenv_names: Vec<String>,
    /// What the user's own `.env` adds to the variables of this process.
    pub own_variables: Vec<(OsString, OsString)>,
    /// Whether the folder is trusted; if not, git runs without the user's
    /// configuration and without what a repository could start.
    pub trusted_folder: bool,
    /// The session's folder for the complete copies of long outputs. The model
    /// must be allowed to read it.
    pub output_dir: PathBuf,
    /// `tools.shell.commandSubstitution` = `block`: lines with substitutions are
    /// refused, except in yolo mode.
    pub block_substitution: bool,
    /// The sandbox of commands; `None` starts them as they are.
    pub sandbox: Option<SandboxOptions>,
    /// The folder for logs of processes in the background, for
    /// [`parallax_exec::Processes::new`].
    pub background_dir: PathBuf,
}

/// `security.environmentVariableRedaction`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactionOptions {
    /// Whether names and values are judged.
    pub enabled: bool,
    /// Names that pass.
    pub allowed: Vec<String>,
    /// Names that do not.
    pub blocked: Vec<String>,
    /// Variables that hold keys of model providers.
    pub credentials: Vec<String>,
}

impl Default for RedactionOptions {
    fn default() -> Self {
        Self { enabled: true, allowed: Vec::new(), blocked: Vec::new(), credentials: Vec::new() }
    }
}

impl ShellOptions {
    /// The defaults, with the two folders of the session.
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
            own_variables: Vec::new(),
            trusted_folder: true,
            output_dir,
            block_substitution: false,
            sandbox: None,
            background_dir,
        }
    }

    /// The environment of a command, from the variables of this process, and
    /// the names of those it does not get (for a notice).
    pub fn environment(&self) -> Environment {
        build(self.variables(), &self.judged(), &self.pager, self.git())
    }

    /// The environment of a hook outside of the sandbox: it is a program of the
    /// person's, which may open windows and ask. `of_user`: nobody else wrote it, so
    /// it may use their keys through the agents that hold them.
    pub fn hook_environment(&self, of_user: bool) -> Environment {
        let mut redaction = self.judged();
        // Names that look like secrets and hold the name of a program or a socket.
        let mut allow = |names: &[&str]| {
            redaction.allowed.extend(names.iter().map(|name| (*name).to_owned()));
        };
        allow(&["SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "GIT_ASKPASS", "SUDO_ASKPASS"]);
        if of_user {
            allow(&["SSH_AUTH_SOCK"]);
        }
        hook_environment(self.variables(), &redaction, self.git())
    }

    /// Those of this process, and what the user's own file adds.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().chain(self.own_variables.iter().cloned()).collect()
    }

    /// The same for a command that a person types: all that the process has, and no
    /// secrets of the file, for the model reads the output.
    pub(crate) fn user_command_environment(&self) -> Vec<(OsString, OsString)> {
        let own = pass(self.own_variables.iter().cloned(), &self.judged()).variables;
        user_command_environment(std::env::vars_os().chain(own), &self.pager)
    }

    fn judged(&self) -> Redaction {
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
