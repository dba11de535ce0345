//! Sub-agents: agents that a session starts for a piece of work. Each has a
//! history and tools of its own; only its result comes back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::content::Sealed;
use crate::event::{Level, ToolStatus};
use crate::store::{CompactionRecord, Store};
use crate::tool::Tool;
use crate::{BoxFuture, Object};

/// What an agent is, as far as the engine must know it.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefinition {
    /// What it is called by: `[a-z0-9_-]+`.
    pub name: String,
    /// What the calling model reads of it.
    pub description: String,
    /// Its model: a name or an alias; `None`: that of the session.
    pub model: Option<String>,
    /// Generation settings of its own, in wire spelling.
    pub generation: Object,
    /// Model requests that it may make, the last chance not counted.
    pub max_turns: u32,
    /// How long it may take; the time that people need to answer does not count.
    pub time: Duration,
    /// Whether its result must have a certain form. Without one an answer in
    /// words is a result too.
    pub has_schema: bool,
    /// Whether it may start agents itself; those may not.
    pub may_delegate: bool,
}

/// What a started agent works with.
pub struct AgentKit {
    /// Its tools, the one that takes its result among them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Its system prompt.
    pub system: Arc<str>,
    /// What goes before its first prompt.
    pub preface: Option<String>,
    /// What people should hear, one sentence each.
    pub problems: Vec<String>,
    /// Ends what was started for it.
    pub close: Option<CloseAgent>,
}

/// Ends what was started for an agent.
pub type CloseAgent = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// The tools of the session that starts an agent.
#[derive(Clone, Default)]
pub struct SessionTools {
    /// Those that its model is told of.
    pub declared: Vec<Arc<dyn Tool>>,
    /// Those that it must look for: an agent has them when it names them.
    pub deferred: Vec<Arc<dyn Tool>>,
}

/// The journal of one piece of work of an agent. It is let go when the work is done, so that
/// what is left of one was interrupted.
pub struct AgentJournal {
    /// What it is called by, for who goes on with it.
    pub id: String,
    /// Where it is written.
    pub store: Arc<dyn Store>,
    /// What the agent was told at first; `None`: the work begins.
    pub task: Option<String>,
    /// What was said so far.
    pub contents: Vec<Sealed>,
    /// What is sent in the place of the first of it.
    pub compactions: Vec<CompactionRecord>,
    /// The results of a round that was not finished.
    pub pending: BTreeMap<usize, Box<RawValue>>,
}

/// A piece of work that was interrupted and can be gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWork {
    /// What it is called by.
    pub id: String,
    /// Whose it is.
    pub agent: String,
    /// What the agent was told at first.
    pub task: String,
}

/// The agents that a session can start.
pub trait Agents: Send + Sync {
    /// Those that there are now, in a stable order.
    fn list(&self) -> Vec<Arc<AgentDefinition>>;
    /// Reads definitions anew whose files changed; says what people should hear of that.
    /// Blocking; called before a prompt.
    fn refresh(&self) -> Vec<(Level, String)> {
        Vec::new()
    }
    /// Begins the journal of a piece of work, or opens the one of that id; `None` where
    /// nothing is kept, or there is none. Blocking.
    fn journal(&self, _agent: &str, _id: Option<&str>) -> Option<AgentJournal> {
        None
    }
    /// The work that was interrupted. Blocking.
    fn kept(&self) -> Vec<KeptWork> {
        Vec::new()
    }
    /// The work is done: its journal goes. Blocking.
    fn forget(&self, _id: &str) {}
    /// Makes what one of them works with on that prompt. `tools` are those of the session that
    /// starts it; `result` takes what it hands over. Blocking.
    fn equip(
        &self,
        agent: &AgentDefinition,
        prompt: &str,
        tools: SessionTools,
        result: AgentResult,
    ) -> AgentKit;
}

/// How a prompt begins whose model only coordinates sub-agents. While it works on
/// that prompt it has nothing that changes anything.
pub const COORDINATION: &str =
    "Reach the goal below as a coordinator: you plan and judge, and sub-agents do the work.";

/// The name of the tool that an agent hands its result over with.
pub const COMPLETE_TASK: &str = "complete_task";

/// Where an agent's result is put. The first one counts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AgentResult {
    value: Arc<Mutex<Option<Value>>>,
}

impl AgentResult {
    fn value(&self) -> MutexGuard<'_, Option<Value>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a result over; `false` when there is one already.
    pub fn give(&self, result: Value) -> bool {
        let mut value = self.value();
        if value.is_some() {
            return false;
        }
        *value = Some(result);
        true
    }

    /// Whether there is one.
    pub fn is_given(&self) -> bool {
        self.value().is_some()
    }

    /// The result.
    pub fn get(&self) -> Option<Value> {
        self.value().clone()
    }
}

/// Why an agent came to its end. The words are those that readers of results
/// know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AgentEnd {
    /// It handed over its result.
    Goal,
    /// Something failed.
    Error,
    /// Its time was up.
    Timeout,
    /// It made as many requests as it may.
    MaxTurns,
    /// It was interrupted.
    Aborted,
    /// It stopped without handing over a result of the form it must have.
    ErrorNoCompleteTaskCall,
}

impl AgentEnd {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Goal => "GOAL",
            Self::Error => "ERROR",
            Self::Timeout => "TIMEOUT",
            Self::MaxTurns => "MAX_TURNS",
            Self::Aborted => "ABORTED",
            Self::ErrorNoCompleteTaskCall => "ERROR_NO_COMPLETE_TASK_CALL",
        }
    }
}

/// What a sub-agent is at, and in the end what it did. Bounded in size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentProgress {
    /// Its name.
    pub agent: String,
    /// Whether it goes on with work that was interrupted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Model requests it made.
    pub turns: u32,
    /// Calls that are done.
    pub calls: u64,
    /// Tokens that it used.
    pub tokens: u64,
    /// How long it has been at work, in milliseconds.
    pub duration_ms: u64,
    /// What it thinks about, in one line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thought: String,
    /// Its newest calls, oldest first.
    pub steps: Vec<AgentStep>,
    /// Whether a person must answer before it goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// Why it came to its end, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<AgentEnd>,
    /// The beginning of its result.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
}

/// A call that a sub-agent made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStep {
    /// The tool.
    pub name: String,
    /// What is done, in one line.
    pub title: String,
    /// How it ended; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// What went wrong, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_result_counts() {
        let result = AgentResult::default();
        assert!(!result.is_given());
        assert!(result.give("one".into()) && !result.give("two".into()));
        assert_eq!(result.get(), Some("one".into()));
    }

    #[test]
    fn ends_are_written_as_they_are_named() {
        for end in [AgentEnd::Goal, AgentEnd::MaxTurns, AgentEnd::ErrorNoCompleteTaskCall] {
            assert_eq!(serde_json::to_value(end).expect("json"), end.as_str());
        }
    }
}
