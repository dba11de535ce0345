//! Tools: what they declare, what a prepared call is, and what comes back.

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

/// What a tool is for, as UIs and ACP name it.
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
    /// Only thinks.
    Think,
    /// Starts another agent.
    Agent,
    /// Fetches from the network.
    Fetch,
    /// Talks to the user.
    Communicate,
    /// Plans.
    Plan,
    /// Switches the mode.
    SwitchMode,
    /// None of these.
    Other,
}

/// What the model is told of a tool, and what the scheduler must know of it
/// before its arguments are read.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name the model calls, `[A-Za-z0-9_-]`, at most 64 characters.
    pub name: String,
    /// The name people see (`ReadFile`).
    pub display_name: String,
    /// Markdown for the model: as few words as serve.
    pub description: String,
    /// JSON Schema of the arguments, sent as `parametersJsonSchema`.
    pub parameters: Value,
    /// What it is for.
    pub kind: ToolKind,
    /// Whether calls run alone: such a call is prepared and run only when all
    /// calls before it are done, and holds up all behind it.
    pub sharing: Sharing,
    /// Other names the same tool answers to (old names; class-style names of
    /// settings such as `ReadFileTool`). A response carries the name used.
    pub aliases: Vec<String>,
}

/// Whether a call may run beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Together with other shared calls.
    Shared,
    /// Alone.
    Exclusive,
}

/// What a prepared call would touch, for policy and for the person asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Effects {
    /// Files and folders read; resolved, absolute.
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub reads: Vec<PathBuf>,
    /// Files written; resolved, absolute.
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub writes: Vec<PathBuf>,
    /// Those of `writes` that do not exist yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub creates: Vec<PathBuf>,
    /// Command lines handed to a shell, as typed.
    pub runs: Vec<String>,
    /// Hosts contacted.
    pub hosts: Vec<String>,
    /// What the call asks to do beyond the sandbox.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// For commands: paths that their words name, by the text, and where on this
    /// disk links lead them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(with = "crate::path_text::map")]
    #[schemars(with = "BTreeMap<PathBuf, PathBuf>")]
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// For commands that call git: the aliases that git's configuration gives there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub git_aliases: BTreeMap<String, String>,
    /// For commands: they are known to change nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_reads: bool,
    /// For commands: the folder that they run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default, with = "crate::path_text::option")]
    #[schemars(with = "Option<PathBuf>")]
    pub directory: Option<PathBuf>,
    /// A program that is running already does the work (an MCP server), and nobody
    /// knows which files it changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_change_files: bool,
}

/// What a person sees before a call runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Preview {
    /// A change to one file.
    Diff(FileDiff),
    /// A command line.
    Command {
        /// The text for the shell.
        command: String,
        /// Where it runs.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        directory: PathBuf,
    },
    /// Addresses to be fetched.
    Urls {
        /// What is asked of them.
        prompt: String,
        /// The addresses.
        urls: Vec<String>,
    },
    /// A tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool, by the server's own name.
        tool: String,
        /// What the server says of it.
        description: String,
        /// The arguments.
        arguments: Object,
    },
    /// A skill that would be followed.
    Skill {
        /// What it says of itself.
        description: String,
        /// Its folder, absolute.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        folder: PathBuf,
        /// The files in it, relative to it; not all of them when they are many.
        files: Vec<String>,
    },
    /// A plan that the work would follow.
    Plan {
        /// Its file, absolute.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        path: PathBuf,
        /// Its Markdown.
        text: String,
    },
    /// Questions of the model's. A call with these is always put to a person.
    Questions {
        /// One to four.
        questions: Vec<UserQuestion>,
    },
    /// A budget that is spent; about no call.
    Budget(BudgetSpent),
}

/// A change to one file, as unified diff with counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// The absolute path.
    #[serde(with = "crate::path_text::one")]
    #[schemars(with = "PathBuf")]
    pub file_path: PathBuf,
    /// Unified diff, three lines of context, bounded in size.
    pub diff: String,
    /// Lines added.
    pub lines_added: u64,
    /// Lines removed.
    pub lines_removed: u64,
    /// Whether the file did not exist before.
    pub is_new_file: bool,
    /// The whole file before and after, for hooks; faces and journals have no use
    /// for it.
    #[serde(skip)]
    #[schemars(skip)]
    pub texts: Option<Arc<FileTexts>>,
}

/// A file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTexts {
    /// What it held; empty when it did not exist.
    pub old: String,
    /// What it holds then.
    pub new: String,
}

/// One item of the model's todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What is to be done.
    pub description: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a [`Todo`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done; at most one item.
    InProgress,
    /// Done.
    Completed,
    /// No longer wanted.
    Cancelled,
    /// Waits for something.
    Blocked,
}

impl TodoStatus {
    /// The wire word.
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

/// What a person sees of a finished call. Bounded in size by the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Display {
    /// Plain text (control sequences already made harmless by the face).
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
    /// A sub-agent did its work.
    Agent(AgentProgress),
    /// A heading for what comes next.
    Topic {
        /// The heading; empty where only the intent is new.
        title: String,
        /// What it is about.
        summary: String,
        /// What is to be done next, in one sentence.
        intent: String,
    },
}

impl Display {
    /// A text display.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The kind of a tool failure. The wire strings are matched by hooks, scripts
/// and telemetry readers.
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
    /// The wire string.
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

    /// Whether the run ends instead of telling the model (a full disk).
    pub fn is_fatal(self) -> bool {
        self == Self::NoSpaceLeft
    }
}

/// A failure that goes back to the model as `response.error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ToolError {
    /// The kind.
    pub kind: ToolErrorKind,
    /// What went wrong, to which thing, and what to do.
    pub message: String,
}

impl ToolError {
    /// Builds a failure.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// What the model reads of a finished call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForModel {
    /// The text of `response.output` (on success). Bounded by the tool.
    pub output: String,
    /// Media parts (`inlineData`), placed by the engine as the model takes them.
    pub media: Vec<Part>,
    /// A file with all of it, where the tool cut the text and kept the whole.
    pub whole: Option<PathBuf>,
}

/// What comes out of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the model reads on success; on failure a partial output, often empty.
    pub for_model: ForModel,
    /// What a person sees; `None` means nothing worth showing.
    pub for_user: Option<Display>,
    /// The failure, if it failed. Its message is what the model reads then.
    pub error: Option<ToolError>,
    /// Structured data for machine faces, never sent to the model.
    pub data: Option<Value>,
    /// What the sandbox refused it: the call may be run again with that.
    pub refused: Permissions,
    /// What it changes of the session itself, when it succeeded.
    pub change: Option<SessionChange>,
    /// What hooks read in place of the texts above.
    pub for_hooks: ForHooks,
    /// What the program that it ran could have written.
    pub reach: Reach,
}

/// Results in the forms that hooks of Gemini CLI know. Where there is none, the
/// texts for the model and for people are what they read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForHooks {
    /// In place of the text for the model: a list of parts.
    pub content: Option<Value>,
    /// In place of what people see.
    pub display: Option<Value>,
}

/// What a call changes of the session: plan mode begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// Plan mode begins.
    Planning,
    /// A plan was agreed to: plan mode ends.
    PlanApproved {
        /// The plan's file, absolute.
        plan: PathBuf,
        /// The mode that the work is done in.
        mode: ApprovalMode,
    },
    /// A person wants another plan: plan mode goes on.
    PlanRejected {
        /// The plan's file, absolute.
        plan: PathBuf,
        /// What the person said of it.
        feedback: Option<String>,
    },
}

impl Outcome {
    /// A success with text for the model.
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
    /// A failure.
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
    /// Adds what a person sees.
    #[must_use]
    pub fn shown(mut self, display: Display) -> Self {
        self.for_user = Some(display);
        self
    }
    /// Adds what hooks read in place of what a person sees.
    #[must_use]
    pub fn shown_to_hooks(mut self, display: Value) -> Self {
        self.for_hooks.display = Some(display);
        self
    }
}

/// Where a running call sends its live output. Cheap to clone; never blocks
/// (the engine merges and bounds what it takes).
pub trait Progress: Send + Sync {
    /// A piece of output text, for people only.
    fn output(&self, text: &str);
    /// Something that people should know, one line.
    fn notice(&self, _level: Level, _text: &str) {}
    /// Something for a person who looks on that no program needs to read, one line.
    fn aside(&self, _text: &str) {}
    /// The process group that the call runs in, when it has one.
    fn process_group(&self, _pgid: i32) {}
    /// How far the call is. Who listens to no more than text gets it as a line.
    fn advance(&self, advance: &Advance) {
        self.output(&format!("{advance}\n"));
    }
    /// What the terminal of the call's command shows now.
    fn screen(&self, _screen: Screen) {}
    /// The W3C `traceparent` of the call, for a process that it starts.
    fn traceparent(&self) -> Option<String> {
        None
    }
    /// The same of the request that the call sends to an MCP server.
    fn traceparent_of_mcp_request(&self) -> Option<String> {
        None
    }
    /// The call's process can be reached so, until the call ends.
    fn control(&self, _control: Arc<dyn ProcessControl>) {}
}

/// How far a call is, as its server tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Advance {
    /// How much is done; it only grows.
    pub progress: f64,
    /// How much there is to do, where that is known; more than nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Advance {
    /// What is done of all, in hundredths; a hundred only when all is done.
    pub fn percent(&self) -> Option<u8> {
        let total = self.total.filter(|total| *total > 0.0 && total.is_finite())?;
        let share = self.progress / total;
        // Cut, not rounded.
        share.is_finite().then(|| (share.clamp(0.0, 1.0) * 100.0) as u8)
    }
}

/// The message and how much is done.
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

/// A [`Progress`] that drops everything.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn output(&self, _text: &str) {}
}

/// What a tool may know of the session while it prepares a call.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The call's id, for names of files that hold its output.
    pub call: CallId,
    /// The name the model used.
    pub name: String,
    /// The approval mode in force.
    pub mode: ApprovalMode,
    /// Whether a person (or a program in their place) can answer questions.
    pub interactive: bool,
}

/// What a running call is given.
#[derive(Clone)]
pub struct Run {
    /// Ends the call. A cancelled call returns at once with what it has.
    pub cancel: CancellationToken,
    /// Live output.
    pub progress: Arc<dyn Progress>,
    /// What it may do beyond the sandbox.
    pub permissions: Permissions,
    /// Of them what the call itself asked for; the rest comes from rules.
    pub asked: Permissions,
    /// The mode in which it was let through.
    pub mode: ApprovalMode,
    /// What a person answered; `None` when a rule let it through.
    pub decided: Option<AskOutcome>,
    /// What a person answered, for calls that ask ([`Preview::Questions`]);
    /// `None` when they gave no answer.
    pub answers: Option<Object>,
}

impl Run {
    /// A run with nothing beyond the sandbox, in the default mode.
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

/// Whose a tool is that an MCP server brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Served {
    /// The server, as the user named it.
    pub server: String,
    /// The tool, by the server's own name.
    pub tool: String,
    /// What the server says of it, as sent (`readOnlyHint` and its kin).
    pub annotations: Object,
    /// Where the server is: `command`, `args` and `cwd`, or `url`.
    pub endpoint: Object,
}

/// A tool: declares itself and prepares calls.
pub trait Tool: Send + Sync {
    /// What it declares. Stable for the life of the session.
    fn spec(&self) -> &ToolSpec;

    /// Whether the model is told of it in a mode.
    fn offered(&self, _mode: ApprovalMode) -> bool {
        true
    }

    /// What the model is told of it in a mode.
    fn description(&self, _mode: ApprovalMode) -> Cow<'_, str> {
        Cow::Borrowed(&self.spec().description)
    }

    /// Whose it is, when an MCP server brought it.
    fn served(&self) -> Option<&Served> {
        None
    }

    /// Why a person must look at the next call even where a rule allows it: the
    /// tool is not what it was when it was let through.
    fn doubt(&self) -> Option<String> {
        None
    }

    /// Checks the arguments and resolves every path, without changing anything.
    /// It may read files (for a preview), so the engine calls it on a blocking
    /// thread. `args` no longer holds `wait_for_previous`.
    ///
    /// # Errors
    /// A refusal that the model can read and act on.
    fn prepare(&self, args: Object, scope: &Scope) -> Result<Box<dyn Invocation>, ToolError>;
}

/// A prepared call: what was shown and judged is what runs.
pub trait Invocation: Send {
    /// One line for people: what will be done, to which thing.
    fn title(&self) -> String;
    /// What it will touch.
    fn effects(&self) -> &Effects;
    /// What to show before it runs.
    fn preview(&self) -> Option<Preview> {
        None
    }
    /// What could be given in place of `permissions` for a command that does more
    /// around the named files than write them: the folders that hold them. The
    /// default when that is no more than what is asked for. It looks at the disk.
    fn wider(&self, _permissions: &Permissions) -> Permissions {
        Permissions::default()
    }
    /// What the model reads when a person said no, where that is an answer and
    /// no refusal; `None`: the usual words for a call that was refused.
    fn declined(self: Box<Self>, _feedback: Option<&str>) -> Option<Outcome> {
        None
    }
    /// Runs it, once. The future is polled on the async runtime: blocking work
    /// goes to `spawn_blocking`.
    fn run(self: Box<Self>, run: Run) -> BoxFuture<'static, Outcome>;
}

/// Tools that come and go while a session runs: those of MCP servers.
pub trait ToolSource: Send + Sync {
    /// Changes whenever [`ToolSource::tools`] would give others.
    fn version(&self) -> u64;
    /// The tools there are now, in a stable order.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
    /// Looks whether files that tools are made of changed; says what people should
    /// hear of that. Blocking; called before a prompt.
    fn refresh(&self) -> Vec<(Level, String)> {
        Vec::new()
    }
    /// Comes back when the first request need not wait any longer. Bounded.
    fn settled(&self) -> BoxFuture<'static, ()>;
    /// Tools that are there too but not declared: the model looks for them, or a
    /// sub-agent has them by name.
    fn deferred(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
    /// What people should hear of tools that are not there; told once each.
    fn trouble(&self) -> Option<String> {
        None
    }
    /// What the model should know of them besides their descriptions, for the
    /// front of the first prompt.
    fn context(&self) -> Option<String>;
    /// Comes back when it is known whether there is a tool of that name, so
    /// that [`ToolSource::tools`] has it then. Bounded.
    fn look_for(&self, name: &str) -> BoxFuture<'static, ()>;
}
