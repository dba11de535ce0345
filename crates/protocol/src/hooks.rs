//! Hooks: programs of the user's that hear of what happens in a session and may
//! have a say in it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Level;
use crate::{BoxFuture, CancellationToken, Object};

/// What hooks may hear of.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub enum HookEvent {
    /// A session starts, goes on, or begins anew.
    SessionStart,
    /// It ends.
    SessionEnd,
    /// A prompt was typed.
    BeforeAgent,
    /// The last answer to it is there.
    AfterAgent,
    /// A request goes to the model.
    BeforeModel,
    /// An answer came.
    AfterModel,
    /// The tools of a request are chosen.
    BeforeToolSelection,
    /// A call is about to be judged.
    BeforeTool,
    /// A call was run.
    AfterTool,
    /// The conversation is about to be compressed.
    PreCompress,
    /// A person is asked something.
    Notification,
    /// A plan was agreed to.
    PlanApproved,
    /// A sub-agent begins.
    SubagentStart,
    /// It ended.
    SubagentEnd,
    /// A tool changed a file.
    FileChanged,
}

impl HookEvent {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::SessionStart,
        Self::SessionEnd,
        Self::BeforeAgent,
        Self::AfterAgent,
        Self::BeforeModel,
        Self::AfterModel,
        Self::BeforeToolSelection,
        Self::BeforeTool,
        Self::AfterTool,
        Self::PreCompress,
        Self::Notification,
        Self::PlanApproved,
        Self::SubagentStart,
        Self::SubagentEnd,
        Self::FileChanged,
    ];

    /// The name in settings and in the input of a hook.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::BeforeAgent => "BeforeAgent",
            Self::AfterAgent => "AfterAgent",
            Self::BeforeModel => "BeforeModel",
            Self::AfterModel => "AfterModel",
            Self::BeforeToolSelection => "BeforeToolSelection",
            Self::BeforeTool => "BeforeTool",
            Self::AfterTool => "AfterTool",
            Self::PreCompress => "PreCompress",
            Self::Notification => "Notification",
            Self::PlanApproved => "PlanApproved",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentEnd => "SubagentEnd",
            Self::FileChanged => "FileChanged",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Whether it is one of ours beyond those of other agents, of which hooks hear
    /// only where the person wants that.
    pub fn is_extra(self) -> bool {
        matches!(
            self,
            Self::PlanApproved | Self::SubagentStart | Self::SubagentEnd | Self::FileChanged
        )
    }

    /// Whether matchers are patterns: over names of tools, agents, paths.
    pub fn has_patterns(self) -> bool {
        self.is_of_tools()
            || matches!(self, Self::SubagentStart | Self::SubagentEnd | Self::FileChanged)
    }

    /// Whether hooks of it can keep something from happening. Others only hear of it.
    pub fn can_be_refused(self) -> bool {
        match self {
            Self::BeforeAgent
            | Self::AfterAgent
            | Self::BeforeModel
            | Self::AfterModel
            | Self::BeforeToolSelection
            | Self::BeforeTool
            | Self::AfterTool
            | Self::SubagentStart => true,
            Self::SessionStart
            | Self::SessionEnd
            | Self::PreCompress
            | Self::Notification
            | Self::PlanApproved
            | Self::SubagentEnd
            | Self::FileChanged => false,
        }
    }

    /// Whether matchers are patterns over the names of tools.
    pub fn is_of_tools(self) -> bool {
        matches!(self, Self::BeforeTool | Self::AfterTool)
    }
}

/// What a hook is told.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// What happens.
    pub event: HookEvent,
    /// What matchers look at: the tool's name, the source, the trigger.
    pub subject: String,
    /// What the event has beyond the fields of all events.
    pub input: Object,
    /// Of `AfterModel`: whether it is one piece of an answer.
    pub chunk: bool,
}

impl HookCall {
    /// A call.
    pub fn new(event: HookEvent, subject: impl Into<String>, input: Object) -> Self {
        Self { event, subject: subject.into(), input, chunk: false }
    }
}

/// What hooks decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookDecision {
    /// It may go on.
    Allow,
    /// A person must be asked.
    Ask,
    /// It may not go on.
    Deny,
}

/// What all hooks of a call came to together. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    /// What they decided.
    pub decision: Option<HookDecision>,
    /// Why, for the model.
    pub reason: String,
    /// The hooks that decided so, or ended the agent loop, by name.
    pub deciders: Vec<String>,
    /// The agent loop must end, with this reason.
    pub stop: Option<String>,
    /// For people.
    pub messages: Vec<(Level, String)>,
    /// For a person who looks on, and no program: one line each.
    pub asides: Vec<String>,
    /// More for the model, harmless and marked as coming from hooks.
    pub context: Option<String>,
    /// `tool_input`, `tailToolCallRequest`, `clearContext`, `llm_request`,
    /// `llm_response`, `toolConfig`.
    pub output: Object,
}

impl HookOutcome {
    /// The reason, when they said no.
    pub fn denial(&self) -> Option<&str> {
        (self.decision == Some(HookDecision::Deny)).then_some(self.reason.as_str())
    }

    /// A reason with the names of the hooks that gave it, for the user.
    pub fn named(&self, reason: &str) -> String {
        let unnamed = |name: &&String| !reason.contains(name.as_str());
        let names: Vec<String> =
            self.deciders.iter().filter(unnamed).map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [] => reason.to_owned(),
            [one] => format!("{reason} (hook {one})"),
            several => format!("{reason} (hooks {})", several.join(", ")),
        }
    }

    /// A part of what they gave.
    pub fn given(&self, name: &str) -> Option<&Value> {
        self.output.get(name)
    }
}

/// Runs hooks.
pub trait Hooks: Send + Sync {
    /// Whether a hook wants to hear of it. Cheap: asked each time.
    fn listens(&self, event: HookEvent, chunk: bool) -> bool;
    /// What those that do and match are called, for a person who waits for them;
    /// none where people do not want to be told.
    fn titles(&self, _call: &HookCall) -> Vec<String> {
        Vec::new()
    }
    /// Runs those that do and match. Never fails: what goes wrong is a message,
    /// or a denial where a hook says so. Bounded in time.
    fn run(&self, call: HookCall, cancel: CancellationToken) -> BoxFuture<'static, HookOutcome>;
}
