//! Tools: their declarations, prepared calls, and results.

mod display;
mod outcome;
mod progress;

use crate::approval_mode::ApprovalMode;
use crate::approval_response::ApprovalResponse;
use crate::ids::CallId;
use crate::notice_level::Level;
use crate::permissions::Permissions;
use crate::{BoxFuture, CancellationToken, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use self::display::{Display, FileContents, FileDiff, Preview, Todo, TodoStatus};
pub use self::outcome::{
    HookOutput, ModelOutput, SandboxOverhead, SessionChange, ToolError, ToolErrorKind, ToolResult,
};
pub use self::progress::{NoProgress, Progress, ProgressUpdate};

/// The kind of a tool, with the names that ACP uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files.
    Read,
    /// Changes files.
    Edit,
    /// Deletes files.
    Delete,
    /// Moves files.
    Move,
    /// Searches files or the web.
    Search,
    /// Runs a program.
    Execute,
    /// Only records thoughts.
    Think,
    /// Starts a subagent.
    Agent,
    /// Fetches from the network.
    Fetch,
    /// Communicates with the user.
    Communicate,
    /// Maintains a plan.
    Plan,
    /// Switches the approval mode.
    SwitchMode,
    /// None of these.
    Other,
}

/// The declaration of a tool for the model, and what the scheduler needs to know before it reads
/// the arguments.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name that the model calls: `[A-Za-z0-9_-]`, at most 64 characters.
    pub name: String,
    /// The name that users see (`ReadFile`).
    pub display_name: String,
    /// Markdown description for the model, as short as possible.
    pub description: String,
    /// JSON Schema of the arguments, sent as `parametersJsonSchema`.
    pub parameters: Value,
    /// The kind.
    pub kind: ToolKind,
    /// Whether calls run alone: an exclusive call is prepared and run only after all earlier calls
    /// finished, and all later calls wait for it.
    pub concurrency: Concurrency,
    /// Other names of the same tool (old names; class-style names of settings such as
    /// `ReadFileTool`). A response carries the name that the model used.
    pub aliases: Vec<String>,
}

/// Whether a call may run concurrently with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// Concurrently with other shared calls.
    Shared,
    /// Alone.
    Exclusive,
}

/// What a prepared call would access, for the policy engine and the approval request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Effects {
    /// Files and directories that are read; resolved, absolute.
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub reads: Vec<PathBuf>,
    /// Files that are written; resolved, absolute.
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub writes: Vec<PathBuf>,
    /// The paths in `writes` that do not exist yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub creates: Vec<PathBuf>,
    /// Command lines passed to a shell, as written.
    pub runs: Vec<String>,
    /// Hosts that are contacted.
    pub hosts: Vec<String>,
    /// The permissions beyond the sandbox that the call requests.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// For commands and edits: paths that the call names, and the targets that symbolic links
    /// resolve them to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(with = "crate::path_text::map")]
    #[schemars(with = "BTreeMap<PathBuf, PathBuf>")]
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// For commands that call git: the aliases defined in the applicable git configuration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub git_aliases: BTreeMap<String, String>,
    /// For commands: whether they are known to change nothing.
    #[serde(rename = "only_reads", skip_serializing_if = "std::ops::Not::not")]
    pub is_read_only: bool,
    /// For commands: the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default, with = "crate::path_text::option")]
    #[schemars(with = "Option<PathBuf>")]
    pub directory: Option<PathBuf>,
    /// Whether a program that is already running (an MCP server) does the work, so that the changed
    /// files are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_change_files: bool,
}

/// The session information that a tool receives when it prepares a call.
#[derive(Debug, Clone)]
pub struct PrepareContext {
    /// The call id, for the names of files that hold its output.
    pub call: CallId,
    /// The tool name that the model used.
    pub name: String,
    /// The approval mode in effect.
    pub mode: ApprovalMode,
    /// Whether the user (or a program acting for the user) can answer requests.
    pub interactive: bool,
}

/// The context of a running call.
#[derive(Clone)]
pub struct RunContext {
    /// Cancels the call. A cancelled call returns immediately with what it has.
    pub cancel: CancellationToken,
    /// Receives live output.
    pub progress: Arc<dyn Progress>,
    /// The permissions beyond the sandbox.
    pub permissions: Permissions,
    /// The permissions among them that the call itself requested; the others come from rules.
    pub requested: Permissions,
    /// The approval mode in which the call was approved.
    pub mode: ApprovalMode,
    /// The approval response from the user; `None` if a rule approved the call.
    pub response: Option<ApprovalResponse>,
    /// The user's answers, for calls with [`Preview::Questions`]; `None` if the user gave none.
    pub answers: Option<Object>,
}

impl RunContext {
    /// Creates a run without permissions beyond the sandbox, in the default mode.
    pub fn new(cancel: CancellationToken, progress: Arc<dyn Progress>) -> Self {
        Self {
            cancel,
            progress,
            permissions: Permissions::default(),
            requested: Permissions::default(),
            mode: ApprovalMode::default(),
            response: None,
            answers: None,
        }
    }
}

/// The origin of a tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpOrigin {
    /// The server name in the settings.
    pub server: String,
    /// The tool name on the server.
    pub tool: String,
    /// The annotations of the server, as sent (`readOnlyHint` and similar).
    pub annotations: Object,
    /// How the server is reached: `command`, `args`, and `cwd`, or `url`.
    pub endpoint: Object,
}

/// A tool: declares itself and prepares calls.
pub trait Tool: Send + Sync {
    /// Returns the declaration, which does not change during the session.
    fn spec(&self) -> &ToolSpec;

    /// Whether the tool is declared to the model in this mode.
    fn is_declared(&self, _mode: ApprovalMode) -> bool {
        true
    }

    /// Returns the description for the model in this mode.
    fn description(&self, _mode: ApprovalMode) -> Cow<'_, str> {
        Cow::Borrowed(&self.spec().description)
    }

    /// Returns the MCP server that provides the tool, if any.
    fn mcp_origin(&self) -> Option<&McpOrigin> {
        None
    }

    /// Returns why the user must approve the next call even if a rule allows it: the tool changed
    /// since it was approved.
    fn approval_reason(&self) -> Option<String> {
        None
    }

    /// Checks the arguments and resolves all paths, without changing anything. It may read files
    /// (for a preview), so the engine calls it on a blocking thread. `args` no longer contains
    /// `wait_for_previous`.
    ///
    /// # Errors
    /// Returns a message that the model can act on if the call is invalid.
    fn prepare(
        &self,
        args: Object,
        scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError>;
}

/// A prepared call. What was shown and evaluated is exactly what runs.
pub trait Invocation: Send {
    /// Returns one line for the user: what will be done, to which thing.
    fn title(&self) -> String;
    /// Returns what the call will access.
    fn effects(&self) -> &Effects;
    /// Returns what to show before the call runs.
    fn preview(&self) -> Option<Preview> {
        None
    }
    /// Returns broader permissions that can be granted instead of `permissions`, for a command that
    /// does more around the named files than write them: the directories that contain them. Empty
    /// if they would not exceed the request. Accesses the disk.
    fn broader_permissions(&self, _permissions: &Permissions) -> Permissions {
        Permissions::default()
    }
    /// Returns what the model reads when the user declined, for tools where that is an answer and
    /// not a rejection; `None`: the usual text for a rejected call.
    fn decline(self: Box<Self>, _feedback: Option<&str>) -> Option<ToolResult> {
        None
    }
    /// Runs the call. The future is polled on the async runtime, so blocking work must use
    /// `spawn_blocking`.
    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult>;
}

/// A source of tools that may change while a session runs, such as MCP servers.
pub trait ToolSource: Send + Sync {
    /// Returns a version that changes whenever [`ToolSource::tools`] would return different tools.
    fn version(&self) -> u64;
    /// Returns the current tools, in a stable order.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
    /// Checks whether files that define tools changed, and returns notices for the user. Blocking;
    /// called before a prompt.
    fn refresh(&self) -> Vec<(Level, String)> {
        Vec::new()
    }
    /// Resolves when the first request no longer needs to wait. Limited in time.
    fn wait_until_ready(&self) -> BoxFuture<'static, ()>;
    /// Returns tools that are available but not declared: the model searches for them, or a
    /// subagent lists them by name.
    fn deferred(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
    /// Returns a message for the user about unavailable tools; each is reported once.
    fn take_warning(&self) -> Option<String> {
        None
    }
    /// Returns information for the model beyond the tool descriptions, to be placed before the
    /// first prompt.
    fn context(&self) -> Option<String>;
    /// Resolves when it is known whether a tool with this name exists, so that
    /// [`ToolSource::tools`] then includes it. Limited in time.
    fn wait_for_tool(&self, name: &str) -> BoxFuture<'static, ()>;
}
