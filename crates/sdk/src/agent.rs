//! The agent API for other programs: build an agent, open a session, send prompts, and read typed
//! events.
//!
//! ```no_run
//! use parallax_sdk::agent::Agent;
//!
//! # async fn example() -> Result<(), parallax_sdk::agent::AgentError> {
//! let agent = Agent::builder().cwd(".").model("gemini-3.8-flash").build();
//! let mut session = agent.session()?;
//! println!("{}", session.send("What does src/main.rs do?").await?);
//! session.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Everything must run on a tokio runtime. The other modules of this crate are internal to Parallax
//! and may change with any release.

mod function_tool;
mod session;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::event::{ApprovalRequest, Failure};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::Tool;
use parallax_sessions::SessionChoice;

use crate::options::{EmbeddedTools, LaunchOptions, Recording, ResponseSource};
use crate::session_config::SessionConfig;

pub use function_tool::function_tool;
pub use session::{AgentEvent, AgentSession, AgentTurn};

/// The program version that providers see.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why an agent returned no answer.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The session could not be opened, or the turn failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The turn ended before its answer because of an interruption, a limit, or a hook.
    #[error("the turn ended early: {0}")]
    Ended(String),
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
}

/// Whether a tool call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalResponse {
    /// Runs the tool call once.
    Allow,
    /// Denies the tool call. The model receives the text, if there is one.
    Deny(Option<String>),
}

/// Responds to approval requests.
pub(crate) type Approver = Arc<dyn Fn(&ApprovalRequest) -> ApprovalResponse + Send + Sync>;

/// The configuration of sessions. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    options: LaunchOptions,
    approver: Option<Approver>,
}

impl Agent {
    /// Returns a builder that uses the settings of the user and of the working directory.
    pub fn builder() -> AgentBuilder {
        let options = LaunchOptions {
            directory: std::env::current_dir().unwrap_or_default(),
            variables: std::env::vars_os().collect(),
            version: VERSION,
            ..LaunchOptions::default()
        };
        AgentBuilder { agent: Agent { options, approver: None } }
    }

    /// Opens a new session.
    ///
    /// # Errors
    /// Returns an error if credentials are missing, settings are invalid, or the directory is not
    /// trusted.
    pub fn session(&self) -> Result<AgentSession, AgentError> {
        self.open(SessionChoice::New)
    }

    /// Opens an earlier session, given as its id, an unambiguous id prefix, or `latest`.
    ///
    /// # Errors
    /// Returns an error as [`Agent::session`] does, and if the session is not found.
    pub fn resume(&self, id: &str) -> Result<AgentSession, AgentError> {
        self.open(SessionChoice::Resume(id.to_owned()))
    }

    fn open(&self, session: SessionChoice) -> Result<AgentSession, AgentError> {
        let options = LaunchOptions { session, ..self.options.clone() };
        let (open, events) = SessionConfig::prepare(options)?.open()?;
        Ok(AgentSession::new(open, events, self.approver.clone()))
    }
}

/// Builds an [`Agent`].
pub struct AgentBuilder {
    agent: Agent,
}

impl AgentBuilder {
    fn with(mut self, set: impl FnOnce(&mut LaunchOptions)) -> Self {
        set(&mut self.agent.options);
        self
    }

    /// Sets the working directory. Its settings apply only if it is trusted.
    #[must_use]
    pub fn cwd(self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        let directory = std::fs::canonicalize(&directory).unwrap_or(directory);
        self.with(|options| options.directory = directory)
    }

    /// Trusts the working directory in these sessions.
    #[must_use]
    pub fn trusted(self) -> Self {
        self.with(|options| options.skip_trust = true)
    }

    /// Sets the model, as `--model` does.
    #[must_use]
    pub fn model(self, name: impl Into<String>) -> Self {
        self.with(|options| options.model = Some(name.into()))
    }

    /// Appends text to the system prompt.
    #[must_use]
    pub fn instructions(self, text: impl Into<String>) -> Self {
        self.with(|options| options.append_system_prompt = Some(text.into()))
    }

    /// Sets the approval mode, which determines the tool calls that run without approval.
    #[must_use]
    pub fn policy(self, mode: ApprovalMode) -> Self {
        self.with(|options| options.approval_mode = Some(mode))
    }

    /// Adds a tool of this program ([`function_tool`]). Its calls need no approval, because the
    /// program defines what the tool does.
    #[must_use]
    pub fn tool(self, tool: Arc<dyn Tool>) -> Self {
        self.with(|options| {
            options.allowed_tools.push(tool.spec().name.clone());
            options.tools.0.push(tool);
        })
    }

    /// Sets an environment variable for the sessions, overriding that of the process.
    #[must_use]
    pub fn env(self, name: &str, value: impl Into<OsString>) -> Self {
        self.with(|options| {
            options.variables.retain(|(known, _)| known != name);
            options.variables.push((name.into(), value.into()));
        })
    }

    /// Adds a directory of skills, which take precedence over the user's skills.
    #[must_use]
    pub fn skill_dir(self, directory: impl Into<PathBuf>) -> Self {
        self.with(|options| options.skill_directories.push(directory.into()))
    }

    /// Sets the function that responds to approval requests. Without it, they are denied.
    #[must_use]
    pub fn on_approval(
        mut self,
        decide: impl Fn(&ApprovalRequest) -> ApprovalResponse + Send + Sync + 'static,
    ) -> Self {
        self.agent.approver = Some(Arc::new(decide));
        self.with(|options| options.interactive = true)
    }

    /// Records the model's responses in a file.
    #[must_use]
    pub fn record(self, file: impl Into<PathBuf>) -> Self {
        self.with(|options| options.recording = Some(Recording::Full(file.into())))
    }

    /// Takes responses from a recording; needs no API key and no network.
    #[must_use]
    pub fn replay(self, file: impl Into<PathBuf>) -> Self {
        let answers = ResponseSource::Replay { file: file.into(), strict: false };
        self.with(|options| options.answers = answers)
    }

    /// Takes responses from a script (see "Scripts and recordings" in the documentation); needs no
    /// API key and no network.
    #[must_use]
    pub fn script(self, name: &'static str, text: &'static str) -> Self {
        self.with(|options| options.answers = ResponseSource::Embedded { name, text })
    }

    /// Returns the agent.
    pub fn build(self) -> Agent {
        self.agent
    }
}

impl std::fmt::Debug for EmbeddedTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|tool| &tool.spec().name)).finish()
    }
}
