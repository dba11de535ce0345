//! What a front end configures before it opens a session.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_config::LoadOptions;
use parallax_protocol::policy::{ApprovalMode, SuggestedRule};
use parallax_protocol::routing::FallbackPolicy;
use parallax_protocol::tool::Tool;
use parallax_sessions::SessionChoice;
use parallax_sessions::export::SyntaxHighlighter;

/// Source of the model's responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResponseSource {
    /// A model provider.
    #[default]
    Service,
    /// `--fake-responses`: a file of recorded responses in Gemini CLI's format.
    Fake(PathBuf),
    /// `--fake-responses-non-strict`.
    FakeNonStrict(PathBuf),
    /// `--replay`: a recording made with `--record`.
    Replay {
        /// The recording.
        file: PathBuf,
        /// Whether requests must match the recorded ones.
        strict: bool,
    },
    /// A script that is built into the program.
    Embedded {
        /// Name of the script, for error messages.
        name: &'static str,
        /// Text of the script.
        text: &'static str,
    },
}

/// Where to record the model's responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// `--record`: everything that a replay needs.
    Full(PathBuf),
    /// `--record-responses`: Gemini CLI's format.
    Reference(PathBuf),
}

/// Everything a front end configures before it opens a session.
#[derive(Debug, Clone, Default)]
pub struct LaunchOptions {
    /// The working directory.
    pub directory: PathBuf,
    /// The environment variables of the process.
    pub variables: Vec<(OsString, OsString)>,
    /// The authentication method to use instead of the selected one, as in
    /// `security.auth.selectedType`.
    pub auth_method: Option<String>,
    /// `--skip-trust`.
    pub skip_trust: bool,
    /// `--policy`. If empty, the setting `policyPaths` applies, then the user's policy directories.
    pub policy_paths: Vec<PathBuf>,
    /// `--admin-policy`. If empty, the setting `adminPolicyPaths` applies.
    pub admin_policy_paths: Vec<PathBuf>,
    /// `--sandbox`, as typed.
    pub sandbox: Option<String>,
    /// `--ignore-env`.
    pub ignore_env: bool,
    /// `-m`.
    pub model: Option<String>,
    /// `--approval-mode`, `-y`.
    pub approval_mode: Option<ApprovalMode>,
    /// `--plan-exit-mode`: the approval mode after a plan in a non-interactive session.
    pub plan_exit_mode: Option<ApprovalMode>,
    /// `--include-directories`.
    pub include_directories: Vec<PathBuf>,
    /// `--allowed-tools`.
    pub allowed_tools: Vec<String>,
    /// `--exclude-tools`.
    pub exclude_tools: Vec<String>,
    /// `--allowed-mcp-server-names`.
    pub allowed_mcp_servers: Vec<String>,
    /// MCP servers of the embedding program, as entries of `mcpServers`.
    pub mcp_servers: parallax_protocol::Object,
    /// `--skill-dir`: absolute paths of directories that contain skills.
    pub skill_directories: Vec<PathBuf>,
    /// `--append-system-prompt`.
    pub append_system_prompt: Option<String>,
    /// `-e`: the only extensions to load. `none` loads no extension; an empty list loads those that
    /// are enabled.
    pub extensions: Vec<String>,
    /// `--max-turns`.
    pub max_turns: Option<u32>,
    /// `--fallback`.
    pub fallback: Option<FallbackPolicy>,
    /// `--max-cost`, `--max-tokens`, `--timeout`.
    pub limits: RunLimits,
    /// Which session to open.
    pub session: SessionChoice,
    /// Rules that the user added in this session before it was reopened in this process.
    pub session_rules: Vec<SuggestedRule>,
    /// Whether to resume exactly the named session or none: the name is an id, and a session that
    /// another process uses is not continued in a copy.
    pub exact_session: bool,
    /// Whether the user can answer questions.
    pub interactive: bool,
    /// Whether the first prompt of an interactive session waits for MCP servers whose tools are not
    /// known yet. Set for clients that send a prompt right after opening the session.
    pub waits_for_servers: bool,
    /// Whether to ask the user when a budget is used up. Otherwise the turn ends.
    pub budget_questions: bool,
    /// Whether events carry whole files besides the diffs of edits, for editors.
    pub includes_file_texts: bool,
    /// The editor that reads and writes the text files of the workspace.
    pub editor: parallax_protocol::editor_files::SessionEditor,
    /// The connection to the companion extension of an editor.
    pub companion: Option<parallax_ide::Companion>,
    /// Tools of the embedding program.
    pub tools: EmbeddedTools,
    /// Source of the model's responses.
    pub answers: ResponseSource,
    /// Where to record the model's responses.
    pub recording: Option<Recording>,
    /// Version of the program, sent to the provider.
    pub version: &'static str,
    /// Whether the session writes no journal, as in the demo.
    pub ephemeral: bool,
    /// Whether the caller only inspects the configuration. The directory need not be trusted then,
    /// because nothing from an untrusted directory is read.
    pub is_read_only: bool,
    /// Whether the `main` function of this program calls `parallax_sandbox::main` first, so that
    /// the program can start itself again to confine and supervise commands.
    pub calls_sandbox_main: bool,
    /// Highlights code in exported sessions.
    pub highlighter: Option<SyntaxHighlighter>,
}

impl LaunchOptions {
    /// Returns what reading the settings needs.
    pub(crate) fn load_options(&self) -> LoadOptions {
        LoadOptions {
            cwd: self.directory.clone(),
            variables: self.variables.clone(),
            skip_trust: self.skip_trust,
            ignore_env: self.ignore_env,
        }
    }
}

/// Tools of the program that embeds the session ([`crate::agent`]).
#[derive(Clone, Default)]
pub struct EmbeddedTools(pub(crate) Vec<Arc<dyn Tool>>);

/// Limits for this run from the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunLimits {
    /// `--max-cost`, in US dollars.
    pub cost: Option<f64>,
    /// `--max-tokens`.
    pub tokens: Option<u64>,
    /// `--timeout`.
    pub time: Option<Duration>,
}
