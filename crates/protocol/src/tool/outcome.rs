//! The result of a tool call: for the model, for hooks, and for the session.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::display::Display;
use crate::approval_mode::ApprovalMode;
use crate::content::Part;
use crate::permissions::Permissions;
use crate::write_scope::WriteScope;

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
pub struct ModelOutput {
    /// The text of `response.output` on success. Limited in size by the tool.
    pub output: String,
    /// Media parts (`inlineData`). The engine places them where the model accepts them.
    pub media: Vec<Part>,
    /// A file with the complete output, if the tool truncated the text and saved the rest.
    pub output_file: Option<PathBuf>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// What the model reads on success; on failure a partial output, often empty.
    pub for_model: ModelOutput,
    /// What the user sees; `None` if there is nothing to show.
    pub for_user: Option<Display>,
    /// The failure, if the call failed. The model then reads its message.
    pub error: Option<ToolError>,
    /// Structured data for machine-readable output; never sent to the model.
    pub data: Option<Value>,
    /// The permissions that the sandbox denied: the call may be run again with them.
    pub denied_permissions: Permissions,
    /// How the call changes the session, if it succeeded.
    pub change: Option<SessionChange>,
    /// What hooks read instead of the text for the model and the user.
    pub for_hooks: HookOutput,
    /// What the program that the call ran could have written.
    pub write_scope: WriteScope,
    /// The time that the sandbox took, if the call ran a program in it.
    pub sandbox_overhead: Option<SandboxOverhead>,
}

/// The time that the sandbox took next to the program in it. What the sandbox does in the program's
/// own process counts as the program's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxOverhead {
    /// Milliseconds to plan and start it.
    pub before: u64,
    /// Milliseconds to find out what it denied.
    pub after: u64,
}

/// Results in the formats that Gemini CLI hooks expect. If a field is absent, hooks read the
/// text for the model or the user.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutput {
    /// Replaces the text for the model: a list of parts.
    pub content: Option<Value>,
    /// Replaces the display for the user.
    pub display: Option<Value>,
}

/// A change to the session by a tool call: entering or leaving plan mode.
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

impl ToolResult {
    /// Creates a success with text for the model.
    pub fn text(output: impl Into<String>) -> Self {
        Self {
            for_model: ModelOutput { output: output.into(), ..ModelOutput::default() },
            for_user: None,
            error: None,
            data: None,
            denied_permissions: Permissions::default(),
            change: None,
            for_hooks: HookOutput::default(),
            write_scope: WriteScope::default(),
            sandbox_overhead: None,
        }
    }
    /// Creates a failure.
    pub fn failure(error: ToolError) -> Self {
        Self {
            for_user: Some(Display::text(error.message.clone())),
            for_model: ModelOutput::default(),
            error: Some(error),
            data: None,
            denied_permissions: Permissions::default(),
            change: None,
            for_hooks: HookOutput::default(),
            write_scope: WriteScope::default(),
            sandbox_overhead: None,
        }
    }
    /// Sets what the user sees.
    #[must_use]
    pub fn with_display(mut self, display: Display) -> Self {
        self.for_user = Some(display);
        self
    }
    /// Sets what hooks read instead of what the user sees.
    #[must_use]
    pub fn with_hook_display(mut self, display: Value) -> Self {
        self.for_hooks.display = Some(display);
        self
    }
}
