//! The options and components of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::agent::Agents;
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::content::SealedContent;
use parallax_protocol::context::{EditorContext, FolderContext, ResultLocation, Source};
use parallax_protocol::hooks::Hooks;
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::policy::{ApprovalMode, RuleStore};
use parallax_protocol::routing::{FallbackPolicy, RoutingMode};
use parallax_protocol::shell::Shell;
use parallax_protocol::store::{CompactionRecord, RewindTarget, Store, UnfinishedAnswer};
use parallax_protocol::tool::{Tool, ToolSource};
use serde_json::value::RawValue;

use crate::approved_plan::ApprovedPlan;
use crate::budget::Budget;
use crate::shared_policy::SharedPolicyEngine;

/// Time limit of the classifier. The user waits for it.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// The score from which the strong model is used.
const THRESHOLD: u64 = 90;

/// Adds a workspace directory: returns its real path, or the error.
pub type AddDirectory = Box<dyn Fn(PathBuf) -> Result<PathBuf, String> + Send + Sync>;

/// Called when the model changes, for other users of the model.
pub type ModelChanged = Box<dyn Fn(&str) + Send + Sync>;

/// Saves the full text of a result where the model can read it: tool, text.
pub type SaveOutput = Arc<dyn Fn(&str, &str) -> Result<PathBuf, String> + Send + Sync>;

/// Describes directories for the model.
pub type DescribeDirectories = Arc<dyn Fn(&[PathBuf]) -> String + Send + Sync>;

/// Builds the system prompt for a mode and the declared tools. Equal inputs give equal bytes.
pub type SystemPrompt = Box<dyn Fn(ApprovalMode, &[String]) -> Arc<str> + Send + Sync>;

/// The options and components of a session.
pub struct SessionOptions {
    /// The id.
    pub id: SessionId,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The configured model: a name or an alias.
    pub model_name: String,
    /// The tools, in declaration order.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Dynamic tools, declared after the others.
    pub more_tools: Option<Arc<dyn ToolSource>>,
    /// Agents that it can start; enables the `invoke_agent` tool.
    pub agents: Option<Arc<dyn Agents>>,
    /// Decides about calls.
    pub policy_engine: SharedPolicyEngine,
    /// Receives the records.
    pub store: Arc<dyn Store>,
    /// The initial approval mode.
    pub mode: ApprovalMode,
    /// Whether a user can respond.
    pub interactive: bool,
    /// Whether events keep whole files next to the diffs of edits, for editors.
    pub includes_file_texts: bool,
    /// Whether it replaces a session that was cleared ([`Op::Clear`]).
    pub is_replacement: bool,
    /// Whether the directory is trusted.
    pub trusted: bool,
    /// The current workspace directories.
    pub workspace: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Adds a workspace directory.
    pub add_directory: AddDirectory,
    /// Describes added directories for the model. Blocking.
    pub describe_directories: DescribeDirectories,
    /// The additional directories that the journal has recorded.
    pub directories: Vec<PathBuf>,
    /// Called when the model changes.
    pub model_changed: ModelChanged,
    /// The system prompt.
    pub system: SystemPrompt,
    /// Context for the first prompt of this process: the session context of a new session, or a
    /// note on what changed since.
    pub preface: Option<String>,
    /// The contents of a resumed session.
    pub history: Vec<SealedContent>,
    /// Whether its newest turn was interrupted: the last content may be a partial response.
    pub was_interrupted: bool,
    /// The unfinished answer of that turn, which the service can continue.
    pub unfinished_answer: Option<UnfinishedAnswer>,
    /// The active compactions of a resumed session, oldest first.
    pub compactions: Vec<CompactionRecord>,
    /// When the history is compacted, and what stays.
    pub compaction: CompactionOptions,
    /// Results that the user pinned.
    pub pins: BTreeSet<ResultLocation>,
    /// The files that the system prompt and the context were made from.
    pub sources: Vec<Source>,
    /// Finds context files for directories that tools use.
    pub folder_context: Option<Arc<dyn FolderContext>>,
    /// The files that are open in the user's editor.
    pub editor_context: Option<Arc<dyn EditorContext>>,
    /// Results of the last, unfinished batch of a resumed session (the program was killed), by call
    /// index: wire parts as journaled.
    pub pending: BTreeMap<usize, Box<RawValue>>,
    /// Generation settings from the user, with wire names.
    pub generation: Object,
    /// Maximum number of model requests in this process; `None` = no limit.
    pub max_turns: Option<u32>,
    /// The budget.
    pub budget: Budget,
    /// How models are routed, and what happens when one is unavailable.
    pub routing: RoutingOptions,
    /// Attempts of one request before its first chunk; `None` = the model's default.
    pub max_attempts: Option<u32>,
    /// Whether loop detection is enabled.
    pub loop_detection: bool,
    /// The first wait after a broken stream; it doubles.
    pub retry_base: Duration,
    /// How long approvals may apply.
    pub approvals: ApprovalPersistence,
    /// Saves rules on disk.
    pub rule_store: Option<Arc<dyn RuleStore>>,
    /// Checkpoints of the files that the agent changes.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    /// Whether changing the file changes what the next build runs.
    pub is_build_file: fn(&Path) -> bool,
    /// The number of the session's last prompt before this process, including rewound ones.
    pub turns: u64,
    /// The prompts in `history`.
    pub prompts: Vec<RewindTarget>,
    /// The approved plan of a resumed session.
    pub plan: Option<ApprovedPlan>,
    /// Runs the user's commands; `None`: this session has none.
    pub shell: Option<Arc<dyn Shell>>,
    /// The user's hooks, if any.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Values (keys) that neither the model nor the journal may get; redacted in tool results and
    /// prompts.
    pub secrets: Vec<String>,
}

/// How long responses may apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalPersistence {
    /// For the whole session (`security.disableAlwaysAllow` disables this).
    pub allow_session: bool,
    /// On disk (`security.enablePermanentToolApproval`, in a trusted folder).
    pub permanent: bool,
}

impl Default for ApprovalPersistence {
    fn default() -> Self {
        Self { allow_session: true, permanent: false }
    }
}

/// How models are routed, and what happens when one is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutingOptions {
    /// The routing mode.
    pub router: RoutingMode,
    /// Whether plan mode uses the strong model and work on an approved plan the fast one.
    pub plan: bool,
    /// The score, up to 100, from which the strong model is used.
    pub threshold: u64,
    /// Time limit of the classifier.
    pub time_limit: Duration,
    /// The fallback policy.
    pub fallback: FallbackPolicy,
}

impl Default for RoutingOptions {
    fn default() -> Self {
        Self {
            router: RoutingMode::On,
            plan: true,
            threshold: THRESHOLD,
            time_limit: TIMEOUT,
            fallback: FallbackPolicy::Ask,
        }
    }
}

/// When the history is compacted, and what stays.
#[derive(Clone)]
pub struct CompactionOptions {
    /// The share of the context window, 0 to 1, from which the history is compacted.
    pub share: f64,
    /// The token count from which the history is compacted, if that is less.
    pub tokens: u64,
    /// Tokens of the newest results that are not masked.
    pub protect: u64,
    /// Tokens of older results from which they are masked on their own.
    pub min_masked: u64,
    /// Whether the newest results are always kept.
    pub protect_newest: bool,
    /// Whether a second pass of the model looks for omissions in the summary.
    pub probe: bool,
    /// Maximum characters of one result, the rest of which goes to a file; `None`: as many as fit.
    pub max_result_characters: Option<usize>,
    /// Saves full results to files; without it they are only in the journal.
    pub save_output: Option<SaveOutput>,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            share: 0.5,
            tokens: 100_000,
            protect: 50_000,
            min_masked: 30_000,
            protect_newest: true,
            probe: true,
            max_result_characters: Some(40_000),
            save_output: None,
        }
    }
}

impl CompactionOptions {
    /// Returns the compaction threshold in tokens for a context window.
    pub(crate) fn threshold(&self, window: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a count of tokens; `as` saturates"
        )]
        let share = (window as f64 * self.share.clamp(0.05, 1.0)) as u64;
        share.min(self.tokens).max(1)
    }
}
