//! Tools: their declarations, prepared calls, and results.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::AgentProgress;
use crate::budget::BudgetSpent;
use crate::checkpoint::Reach;
use crate::content::Part;
use crate::event::Level;
use crate::ids::CallId;
use crate::op::AskOutcome;
use crate::permissions::Permissions;
use crate::policy::ApprovalMode;
use crate::question::UserQuestion;
use crate::shell::{ProcessControl, Screen};
use crate::{BoxFuture, CancellationToken, Object};

/// The kind of a tool, with the names that UIs and ACP use.
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
    /// Talks to the user.
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
    pub sharing: Sharing,
    /// Other names of the same tool (old names; class-style names of settings such as
    /// `ReadFileTool`). A response carries the name that the model used.
    pub aliases: Vec<String>,
}

/// Whether a call may run concurrently with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
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
    /// For commands: paths that the command line names, and the targets that symbolic links resolve
    /// them to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(with = "crate::path_text::map")]
    #[schemars(with = "BTreeMap<PathBuf, PathBuf>")]
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// For commands that call git: the aliases defined in the applicable git configuration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub git_aliases: BTreeMap<String, String>,
    /// For commands: whether they are known to change nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_reads: bool,
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

/// What the user sees before a call runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Preview {
    /// A change to one file.
    Diff(FileDiff),
    /// A command line.
    Command {
        /// The text for the shell.
        command: String,
        /// The working directory.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        directory: PathBuf,
    },
    /// URLs to be fetched.
    Urls {
        /// The prompt about their contents.
        prompt: String,
        /// The URLs.
        urls: Vec<String>,
    },
    /// A tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool, by the server's own name.
        tool: String,
        /// The server's description of the tool.
        description: String,
        /// The arguments.
        arguments: Object,
    },
    /// A skill to be activated.
    Skill {
        /// Its description.
        description: String,
        /// Its directory, absolute.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        folder: PathBuf,
        /// The files in the directory, with relative paths; truncated if there are many.
        files: Vec<String>,
    },
    /// A plan to be approved.
    Plan {
        /// The file, absolute.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        path: PathBuf,
        /// The plan in Markdown.
        text: String,
    },
    /// Questions of the model. Calls with questions always need an answer of the user.
    Questions {
        /// One to four questions.
        questions: Vec<UserQuestion>,
    },
    /// A budget that is spent; not about a tool call.
    Budget(BudgetSpent),
}

/// A change to one file, as a unified diff with line counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// The absolute path.
    #[serde(with = "crate::path_text::one")]
    #[schemars(with = "PathBuf")]
    pub file_path: PathBuf,
    /// The unified diff with three lines of context, limited in size.
    pub diff: String,
    /// Lines added.
    pub lines_added: u64,
    /// Lines removed.
    pub lines_removed: u64,
    /// Whether the file did not exist before.
    pub is_new_file: bool,
    /// The whole file before and after the change, for hooks. Front ends and journals do not use
    /// it.
    #[serde(skip)]
    #[schemars(skip)]
    pub texts: Option<Arc<FileTexts>>,
}

/// The contents of a file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTexts {
    /// The contents before; empty if the file did not exist.
    pub old: String,
    /// The contents after.
    pub new: String,
}

/// One item of the model's todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What is to be done.
    pub description: String,
    /// The status.
    pub status: TodoStatus,
}

/// The status of a [`Todo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// In progress; at most one item has this status.
    InProgress,
    /// Done.
    Completed,
    /// No longer needed.
    Cancelled,
    /// Blocked by something else.
    Blocked,
}

impl TodoStatus {
    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Blocked => "blocked",
        }
    }
}

/// What the user sees of a finished call. Limited in size by the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Display {
    /// Plain text. The front end sanitizes control sequences.
    Text {
        /// The text.
        text: String,
    },
    /// A file was changed.
    Diff(FileDiff),
    /// The todo list was replaced.
    Todos {
        /// The new list.
        todos: Vec<Todo>,
    },
    /// The work of a subagent.
    Agent(AgentProgress),
    /// A heading for the following items.
    Topic {
        /// The heading; empty if only the intent changed.
        title: String,
        /// The summary.
        summary: String,
        /// The next goal, in one sentence.
        intent: String,
    },
}

impl Display {
    /// Creates a text display.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The kind of a tool failure. Hooks, scripts, and telemetry consumers match on the wire names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the wire strings are the documentation")]
pub enum ToolErrorKind {
    PolicyViolation,
    InvalidToolParams,
    Unknown,
    UnhandledException,
    ToolNotRegistered,
    ExecutionFailed,
    FileNotFound,
    FileWriteFailure,
    ReadContentFailure,
    AttemptToCreateExistingFile,
    FileTooLarge,
    PermissionDenied,
    NoSpaceLeft,
    TargetIsDirectory,
    PathNotInWorkspace,
    SearchPathNotFound,
    SearchPathNotADirectory,
    EditPreparationFailure,
    EditNoOccurrenceFound,
    EditExpectedOccurrenceMismatch,
    EditNoChange,
    FileChangedOnDisk,
    GlobExecutionError,
    GrepExecutionError,
    LsExecutionError,
    PathIsNotADirectory,
    ReadManyFilesSearchError,
    ShellExecuteError,
    WebFetchNoUrlInPrompt,
    WebFetchFallbackFailed,
    WebFetchProcessingError,
    WebSearchFailed,
    McpToolError,
    McpResourceNotFound,
    SandboxExpansionRequired,
    DiscoveredToolExecutionError,
    StopExecution,
}

impl ToolErrorKind {
    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        use ToolErrorKind as K;
        match self {
            K::PolicyViolation => "policy_violation",
            K::InvalidToolParams => "invalid_tool_params",
            K::Unknown => "unknown",
            K::UnhandledException => "unhandled_exception",
            K::ToolNotRegistered => "tool_not_registered",
            K::ExecutionFailed => "execution_failed",
            K::FileNotFound => "file_not_found",
            K::FileWriteFailure => "file_write_failure",
            K::ReadContentFailure => "read_content_failure",
            K::AttemptToCreateExistingFile => "attempt_to_create_existing_file",
            K::FileTooLarge => "file_too_large",
            K::PermissionDenied => "permission_denied",
            K::NoSpaceLeft => "no_space_left",
            K::TargetIsDirectory => "target_is_directory",
            K::PathNotInWorkspace => "path_not_in_workspace",
            K::SearchPathNotFound => "search_path_not_found",
            K::SearchPathNotADirectory => "search_path_not_a_directory",
            K::EditPreparationFailure => "edit_preparation_failure",
            K::EditNoOccurrenceFound => "edit_no_occurrence_found",
            K::EditExpectedOccurrenceMismatch => "edit_expected_occurrence_mismatch",
            K::EditNoChange => "edit_no_change",
            K::FileChangedOnDisk => "file_changed_on_disk",
            K::GlobExecutionError => "glob_execution_error",
            K::GrepExecutionError => "grep_execution_error",
            K::LsExecutionError => "ls_execution_error",
            K::PathIsNotADirectory => "path_is_not_a_directory",
            K::ReadManyFilesSearchError => "read_many_files_search_error",
            K::ShellExecuteError => "shell_execute_error",
            K::WebFetchNoUrlInPrompt => "web_fetch_no_url_in_prompt",
            K::WebFetchFallbackFailed => "web_fetch_fallback_failed",
            K::WebFetchProcessingError => "web_fetch_processing_error",
            K::WebSearchFailed => "web_search_failed",
            K::McpToolError => "mcp_tool_error",
            K::McpResourceNotFound => "mcp_resource_not_found",
            K::SandboxExpansionRequired => "sandbox_expansion_required",
            K::DiscoveredToolExecutionError => "discovered_tool_execution_error",
            K::StopExecution => "stop_execution",
        }
    }

    /// Whether the failure ends the run instead of being reported to the model (a full disk).
    pub fn is_fatal(self) -> bool {
        self == Self::NoSpaceLeft
    }
}

/// A tool failure, sent to the model as `response.error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ToolError {
    /// The kind.
    pub kind: ToolErrorKind,
    /// What happened, to which thing, and what to do.
    pub message: String,
}

impl ToolError {
    /// Creates a failure.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The part of a tool result that the model reads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForModel {
    /// The text of `response.output` on success. Limited in size by the tool.
    pub output: String,
    /// Media parts (`inlineData`). The engine places them where the model accepts them.
    pub media: Vec<Part>,
    /// A file with the complete output, if the tool truncated the text and saved the rest.
    pub whole: Option<PathBuf>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the model reads on success; on failure a partial output, often empty.
    pub for_model: ForModel,
    /// What the user sees; `None` if there is nothing to show.
    pub for_user: Option<Display>,
    /// The failure, if the call failed. The model then reads its message.
    pub error: Option<ToolError>,
    /// Structured data for machine-readable output; never sent to the model.
    pub data: Option<Value>,
    /// The permissions that the sandbox denied: the call may be run again with them.
    pub refused: Permissions,
    /// How the call changes the session, if it succeeded.
    pub change: Option<SessionChange>,
    /// What hooks read instead of the text for the model and the user.
    pub for_hooks: ForHooks,
    /// What the program that the call ran could have written.
    pub reach: Reach,
}

/// Results in the formats that hooks of Gemini CLI expect. If a field is absent, hooks read the
/// text for the model or the user.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForHooks {
    /// Replaces the text for the model: a list of parts.
    pub content: Option<Value>,
    /// Replaces the display for the user.
    pub display: Option<Value>,
}

/// A change of the session by a tool call: entering or leaving plan mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// Plan mode starts.
    Planning,
    /// A plan was approved and plan mode ends.
    PlanApproved {
        /// The plan's file, absolute.
        plan: PathBuf,
        /// The approval mode for carrying out the plan.
        mode: ApprovalMode,
    },
    /// The user rejected the plan and plan mode continues.
    PlanRejected {
        /// The plan's file, absolute.
        plan: PathBuf,
        /// The user's feedback.
        feedback: Option<String>,
    },
}

impl Outcome {
    /// Creates a success with text for the model.
    pub fn text(output: impl Into<String>) -> Self {
        Self {
            for_model: ForModel { output: output.into(), ..ForModel::default() },
            for_user: None,
            error: None,
            data: None,
            refused: Permissions::default(),
            change: None,
            for_hooks: ForHooks::default(),
            reach: Reach::default(),
        }
    }
    /// Creates a failure.
    pub fn failure(error: ToolError) -> Self {
        Self {
            for_user: Some(Display::text(error.message.clone())),
            for_model: ForModel::default(),
            error: Some(error),
            data: None,
            refused: Permissions::default(),
            change: None,
            for_hooks: ForHooks::default(),
            reach: Reach::default(),
        }
    }
    /// Sets what the user sees.
    #[must_use]
    pub fn shown(mut self, display: Display) -> Self {
        self.for_user = Some(display);
        self
    }
    /// Sets what hooks read instead of what the user sees.
    #[must_use]
    pub fn shown_to_hooks(mut self, display: Value) -> Self {
        self.for_hooks.display = Some(display);
        self
    }
}

/// Receives the live output of a running call. Implementations must be cheap to clone and must not
/// block; the engine merges and limits the output.
pub trait Progress: Send + Sync {
    /// Emits a piece of output text, for the user only.
    fn output(&self, text: &str);
    /// Emits a one-line notice for the user.
    fn notice(&self, _level: Level, _text: &str) {}
    /// Emits one line that is shown to an interactive user but omitted from machine-readable
    /// output.
    fn aside(&self, _text: &str) {}
    /// Reports the process group of the call.
    fn process_group(&self, _pgid: i32) {}
    /// Reports the progress of the call. The default emits it as a line of output.
    fn advance(&self, advance: &Advance) {
        self.output(&format!("{advance}\n"));
    }
    /// Reports the current terminal screen of the call's command.
    fn screen(&self, _screen: Screen) {}
    /// Returns the W3C `traceparent` of the call, for a process that it starts.
    fn traceparent(&self) -> Option<String> {
        None
    }
    /// Returns the W3C `traceparent` of the request that the call sends to an MCP server.
    fn traceparent_of_mcp_request(&self) -> Option<String> {
        None
    }
    /// Registers the controls of the call's process. They are valid until the call ends.
    fn control(&self, _control: Arc<dyn ProcessControl>) {}
}

/// The progress of a call as reported by its server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Advance {
    /// The amount done; never decreases.
    pub progress: f64,
    /// The total amount, if known; greater than zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The current activity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Advance {
    /// Returns the percentage done, rounded down, so that it is 100 only when everything is done.
    pub fn percent(&self) -> Option<u8> {
        let total = self.total.filter(|total| *total > 0.0 && total.is_finite())?;
        let share = self.progress / total;
        // Truncated, not rounded.
        share.is_finite().then(|| (share.clamp(0.0, 1.0) * 100.0) as u8)
    }
}

/// Formats the message and the amount done.
impl std::fmt::Display for Advance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = match self.percent() {
            Some(percent) => format!("{percent} %"),
            None => format!("{}", self.progress),
        };
        match self.message.is_empty() {
            true => f.write_str(&done),
            false => write!(f, "{} ({done})", self.message),
        }
    }
}

/// A [`Progress`] that discards everything.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn output(&self, _text: &str) {}
}

/// The session information that a tool receives when it prepares a call.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The call id, for the names of files that hold its output.
    pub call: CallId,
    /// The tool name that the model used.
    pub name: String,
    /// The approval mode in force.
    pub mode: ApprovalMode,
    /// Whether the user (or a program acting for the user) can answer requests.
    pub interactive: bool,
}

/// The context of a running call.
#[derive(Clone)]
pub struct Run {
    /// Cancels the call. A cancelled call returns immediately with what it has.
    pub cancel: CancellationToken,
    /// Receives live output.
    pub progress: Arc<dyn Progress>,
    /// The permissions beyond the sandbox.
    pub permissions: Permissions,
    /// The permissions among them that the call itself requested; the others come from rules.
    pub asked: Permissions,
    /// The approval mode in which the call was approved.
    pub mode: ApprovalMode,
    /// The approval response of the user; `None` if a rule approved the call.
    pub decided: Option<AskOutcome>,
    /// The user's answers, for calls with [`Preview::Questions`]; `None` if the user gave none.
    pub answers: Option<Object>,
}

impl Run {
    /// Creates a run without permissions beyond the sandbox, in the default mode.
    pub fn new(cancel: CancellationToken, progress: Arc<dyn Progress>) -> Self {
        Self {
            cancel,
            progress,
            permissions: Permissions::default(),
            asked: Permissions::default(),
            mode: ApprovalMode::default(),
            decided: None,
            answers: None,
        }
    }
}

/// The origin of a tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Served {
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
    fn offered(&self, _mode: ApprovalMode) -> bool {
        true
    }

    /// Returns the description for the model in this mode.
    fn description(&self, _mode: ApprovalMode) -> Cow<'_, str> {
        Cow::Borrowed(&self.spec().description)
    }

    /// Returns the MCP server that provides the tool, if any.
    fn served(&self) -> Option<&Served> {
        None
    }

    /// Returns why the user must approve the next call even if a rule allows it: the tool changed
    /// since it was approved.
    fn doubt(&self) -> Option<String> {
        None
    }

    /// Checks the arguments and resolves all paths, without changing anything. It may read files
    /// (for a preview), so the engine calls it on a blocking thread. `args` no longer contains
    /// `wait_for_previous`.
    ///
    /// # Errors
    /// Returns a message that the model can act on if the call is invalid.
    fn prepare(&self, args: Object, scope: &Scope) -> Result<Box<dyn Invocation>, ToolError>;
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
    fn wider(&self, _permissions: &Permissions) -> Permissions {
        Permissions::default()
    }
    /// Returns what the model reads when the user declined, for tools where that is an answer and
    /// not a rejection; `None`: the usual text for a rejected call.
    fn declined(self: Box<Self>, _feedback: Option<&str>) -> Option<Outcome> {
        None
    }
    /// Runs the call. The future is polled on the async runtime, so blocking work must use
    /// `spawn_blocking`.
    fn run(self: Box<Self>, run: Run) -> BoxFuture<'static, Outcome>;
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
    fn settled(&self) -> BoxFuture<'static, ()>;
    /// Returns tools that are available but not declared: the model searches for them, or a
    /// subagent lists them by name.
    fn deferred(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
    /// Returns a message for the user about unavailable tools; each is reported once.
    fn trouble(&self) -> Option<String> {
        None
    }
    /// Returns information for the model beyond the tool descriptions, to be placed before the
    /// first prompt.
    fn context(&self) -> Option<String>;
    /// Resolves when it is known whether a tool with this name exists, so that
    /// [`ToolSource::tools`] then includes it. Limited in time.
    fn look_for(&self, name: &str) -> BoxFuture<'static, ()>;
}
