//! Subagents: agents that a session starts for a task. Each has its own history and tools; only its
//! result is returned.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::checkpoint::Checkpoints;
use crate::content::SealedContent;
use crate::context::FolderContext;
use crate::notice_level::Level;
use crate::store::{CompactionRecord, Store};
use crate::tool::Tool;
use crate::trace_headers::TraceHeaders;
use crate::{BoxFuture, CancellationToken, Object};

pub use crate::agent_progress::{AgentEnd, AgentProgress, AgentStep};

/// The part of a subagent definition that the engine needs.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefinition {
    /// The name: `[a-z0-9_-]+`.
    pub name: String,
    /// The description for the calling model.
    pub description: String,
    /// The model: a name or an alias; `None`: the model of the session.
    pub model: Option<String>,
    /// Generation settings, with wire names.
    pub generation: Object,
    /// The maximum number of model requests, excluding the final turn.
    pub max_turns: u32,
    /// The time limit, excluding time spent waiting for the user.
    pub time: Duration,
    /// Whether the result must match a schema. Without a schema, a text answer is also a result.
    pub has_schema: bool,
    /// Whether it may start subagents, which cannot start further ones.
    pub may_delegate: bool,
    /// The address of the program that runs it; `None` if it runs here.
    pub remote: Option<String>,
}

/// A subagent that another program runs.
pub trait RemoteAgent: Send + Sync {
    /// Sends a task and waits for the answer.
    ///
    /// # Errors
    /// Returns a message for the calling model: what failed, where, and what the user can do.
    fn run(&self, task: RemoteTask) -> BoxFuture<'static, Result<String, String>>;
}

/// A task for a remote agent.
pub struct RemoteTask {
    /// The text of the task.
    pub prompt: String,
    /// Receives what the agent reports while it works. Must not block.
    pub status: Box<dyn Fn(String) + Send + Sync>,
    /// The trace context of the call, to be passed on.
    pub trace: Option<TraceHeaders>,
    /// Ends the task, including at the agent.
    pub cancel: CancellationToken,
}

/// The task of a subagent that is about to start.
#[derive(Debug, Clone, Copy)]
pub struct AgentTask<'a> {
    /// The prompt.
    pub prompt: &'a str,
    /// The id of its journal; `None` if the run is not recorded.
    pub run: Option<&'a str>,
    /// Whether it resumes an interrupted run.
    pub is_resumed: bool,
}

/// The tools, prompts, and resources of a started subagent.
pub struct SubagentResources {
    /// The tools, including the one that accepts its result.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The system prompt.
    pub system: Arc<str>,
    /// Text that precedes its first prompt.
    pub preface: Option<String>,
    /// Problems to report to the user, one sentence each.
    pub problems: Vec<String>,
    /// Releases the resources that were started for it.
    pub close: Option<CloseAgent>,
    /// Its own workspace; `None` if it works in that of the session.
    pub workspace: Option<AgentWorkspace>,
}

/// A subagent's own copy of the project.
pub struct AgentWorkspace {
    /// The directories, the working directory first.
    pub roots: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Checkpoints of its files.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    /// Context files of its directories.
    pub folder_context: Arc<dyn FolderContext>,
    /// Ends the work there; must be called after [`SubagentResources::close`].
    pub finish: FinishWorkspace,
}

/// Ends the work in a workspace. The argument says whether the run was cut off and can be resumed.
pub type FinishWorkspace = Box<dyn FnOnce(bool) -> BoxFuture<'static, FinishedWorkspace> + Send>;

/// What a subagent left in its workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedWorkspace {
    /// What changed and where it is, for the calling model.
    pub report: String,
    /// The same as data; `None` if nothing is left.
    pub data: Option<Value>,
}

/// Releases the resources of a subagent.
pub type CloseAgent = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// The tools of the session that starts a subagent.
#[derive(Clone, Default)]
pub struct SessionTools {
    /// Tools declared to its model.
    pub declared: Vec<Arc<dyn Tool>>,
    /// Tools that its model must search for. A subagent gets them if its definition lists them.
    pub deferred: Vec<Arc<dyn Tool>>,
}

/// The journal of one subagent run. It is deleted when the run finishes, so a remaining journal
/// belongs to an interrupted run.
pub struct AgentJournal {
    /// The id, for resuming the run.
    pub id: String,
    /// The store for new records.
    pub store: Arc<dyn Store>,
    /// The first message to the subagent; `None` for a new run.
    pub task: Option<String>,
    /// The contents so far.
    pub contents: Vec<SealedContent>,
    /// Compactions that replace the first contents.
    pub compactions: Vec<CompactionRecord>,
    /// The results of an unfinished step, by the index of the call.
    pub pending: BTreeMap<usize, Box<RawValue>>,
}

/// An interrupted subagent run that can be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedRun {
    /// The id of the run.
    pub id: String,
    /// The name of the subagent.
    pub agent: String,
    /// The first message to the subagent.
    pub task: String,
}

/// The subagents that a session can start.
pub trait Agents: Send + Sync {
    /// Returns the current definitions, in a stable order.
    fn list(&self) -> Vec<Arc<AgentDefinition>>;
    /// Reloads definitions whose files changed, and returns notices for the user. Blocking; called
    /// before a prompt.
    fn refresh(&self) -> Vec<(Level, String)> {
        Vec::new()
    }
    /// Creates the journal of a run, or opens the journal with this id; `None` if nothing is saved
    /// or it does not exist. Blocking.
    fn journal(&self, _agent: &str, _id: Option<&str>) -> Option<AgentJournal> {
        None
    }
    /// Returns the interrupted runs. Blocking.
    fn interrupted_runs(&self) -> Vec<InterruptedRun> {
        Vec::new()
    }
    /// Deletes the journal of a finished run. Blocking.
    fn delete_run(&self, _id: &str) {}
    /// Returns a remote agent ([`AgentDefinition::remote`]); `None` if it was removed.
    fn remote(&self, _name: &str) -> Option<Arc<dyn RemoteAgent>> {
        None
    }
    /// Prepares the tools and prompts of a subagent for a task. `tools` are those of the session
    /// that starts it; `result` receives what it submits. Blocking.
    ///
    /// # Errors
    /// Returns a message for the calling model if the subagent cannot be started.
    fn prepare_run(
        &self,
        agent: &AgentDefinition,
        task: AgentTask<'_>,
        tools: SessionTools,
        result: AgentResult,
    ) -> Result<SubagentResources, String>;
}

/// The first words of a prompt for coordinator mode, in which the model only coordinates subagents.
/// During that turn, it has no tools that change anything.
pub const COORDINATION: &str =
    "Reach the goal below as a coordinator: you plan and review, and subagents do the work.";

/// The name of the tool with which a subagent submits its result.
pub const COMPLETE_TASK: &str = "complete_task";

/// Holds the result of a subagent. The first result counts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AgentResult {
    value: Arc<Mutex<Option<Value>>>,
}

impl AgentResult {
    fn value(&self) -> MutexGuard<'_, Option<Value>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a result. Returns `false` if there is one already.
    pub fn submit(&self, result: Value) -> bool {
        let mut value = self.value();
        if value.is_some() {
            return false;
        }
        *value = Some(result);
        true
    }

    /// Whether a result was submitted.
    pub fn is_submitted(&self) -> bool {
        self.value().is_some()
    }

    /// Returns the result.
    pub fn get(&self) -> Option<Value> {
        self.value().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_subagent_result_wins() {
        let result = AgentResult::default();
        assert!(!result.is_submitted());
        assert!(result.submit("one".into()) && !result.submit("two".into()));
        assert_eq!(result.get(), Some("one".into()));
    }
}
