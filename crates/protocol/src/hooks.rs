//! Hooks: programs of the user that observe the events of a session and can influence them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{ItemDone, Level};
use crate::trace_headers::TraceHeaders;
use crate::{BoxFuture, CancellationToken, Object};

/// Names hooks in a sentence.
pub fn hook_names(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "hooks".to_owned(),
        false => format!("the hook {}", names.join(", ")),
    }
}

/// The events that hooks can subscribe to.
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
    /// A session starts, is resumed, or is cleared.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// The user submitted a prompt.
    BeforeAgent,
    /// The final answer to a prompt is complete.
    AfterAgent,
    /// A request is about to be sent to the model.
    BeforeModel,
    /// An answer was received.
    AfterModel,
    /// The tools of a request are chosen.
    BeforeToolSelection,
    /// A tool call is about to be evaluated.
    BeforeTool,
    /// A tool call ran.
    AfterTool,
    /// The conversation is about to be compacted.
    PreCompress,
    /// The user is asked for a response.
    Notification,
    /// A plan was approved.
    PlanApproved,
    /// A subagent starts.
    SubagentStart,
    /// A subagent ended.
    SubagentEnd,
    /// A tool changed a file.
    FileChanged,
}

impl HookEvent {
    /// All events.
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

    /// Returns the name used in settings and in the input of a hook.
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

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Whether this event exists only in Parallax. Hooks receive such events only if the user
    /// enables them.
    pub fn is_extra(self) -> bool {
        matches!(
            self,
            Self::PlanApproved | Self::SubagentStart | Self::SubagentEnd | Self::FileChanged
        )
    }

    /// Whether matchers are patterns: for names of tools or subagents, or for paths.
    pub fn has_patterns(self) -> bool {
        self.matches_tools()
            || matches!(self, Self::SubagentStart | Self::SubagentEnd | Self::FileChanged)
    }

    /// Whether hooks can block the event. For other events, they are only notified.
    pub fn can_be_denied(self) -> bool {
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

    /// Whether matchers are patterns for tool names.
    pub fn matches_tools(self) -> bool {
        matches!(self, Self::BeforeTool | Self::AfterTool)
    }
}

/// The input of a hook.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// The event.
    pub event: HookEvent,
    /// The text that matchers are applied to: the tool name, the source, or the trigger.
    pub matcher_subject: String,
    /// The fields of the event besides the common fields.
    pub input: Object,
    /// For `AfterModel`: whether this is one chunk of an answer.
    pub chunk: bool,
    /// The trace context of what the hook runs for, for its process.
    pub trace: Option<TraceHeaders>,
}

impl HookCall {
    /// Creates the input of a hook.
    pub fn new(event: HookEvent, subject: impl Into<String>, input: Object) -> Self {
        Self { event, matcher_subject: subject.into(), input, chunk: false, trace: None }
    }
}

/// The decision of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookDecision {
    /// Continue.
    Allow,
    /// Ask the user.
    Ask,
    /// Block.
    Deny,
}

/// A message from a hook for the user.
#[derive(Debug, Clone, PartialEq)]
pub struct HookMessage {
    /// The name of the hook.
    pub hook: String,
    /// The severity.
    pub level: Level,
    /// The text.
    pub text: String,
}

impl HookMessage {
    /// Creates a notice, of one kind with the others of this hook at this event.
    pub fn notice(&self, event: HookEvent) -> ItemDone {
        let kind = Some(format!("{} {}", event.as_str(), self.hook));
        ItemDone::Notice { level: self.level, text: self.text.clone(), kind }
    }
}

/// The combined result of all hooks of an event. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    /// The decision.
    pub decision: Option<HookDecision>,
    /// The reason, for the model.
    pub reason: String,
    /// The names of the hooks that made the decision or ended the agent loop.
    pub deciding_hooks: Vec<String>,
    /// The reason to end the agent loop, if a hook requested that.
    pub stop: Option<String>,
    /// Messages for the user.
    pub messages: Vec<HookMessage>,
    /// Lines shown to an interactive user but omitted from machine-readable output.
    pub asides: Vec<String>,
    /// Additional context for the model, sanitized and marked as coming from hooks.
    pub context: Option<String>,
    /// `tool_input`, `tailToolCallRequest`, `clearContext`, `llm_request`, `llm_response`,
    /// `toolConfig`.
    pub output: Object,
}

impl HookOutcome {
    /// Returns the reason if the hooks denied.
    pub fn denial(&self) -> Option<&str> {
        (self.decision == Some(HookDecision::Deny)).then_some(self.reason.as_str())
    }

    /// Returns a reason with the names of the hooks that gave it, for the user.
    pub fn with_hook_names(&self, reason: &str) -> String {
        let unnamed = |name: &&String| !reason.contains(name.as_str());
        let names: Vec<String> =
            self.deciding_hooks.iter().filter(unnamed).map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [] => reason.to_owned(),
            [one] => format!("{reason} (hook {one})"),
            several => format!("{reason} (hooks {})", several.join(", ")),
        }
    }

    /// Returns a field of the combined output.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.output.get(name)
    }
}

/// Runs hooks.
pub trait Hooks: Send + Sync {
    /// Whether any hook subscribes to the event. Cheap, because it is called for every event.
    fn has_subscriber(&self, event: HookEvent, chunk: bool) -> bool;
    /// Returns the names of the hooks that would run, to show to a waiting user; empty if the user
    /// disabled that.
    fn titles(&self, _call: &HookCall) -> Vec<String> {
        Vec::new()
    }
    /// Runs the matching hooks. Never fails: an error becomes a message, or a denial if the hook is
    /// configured that way. Limited in time.
    fn run(&self, call: HookCall, cancel: CancellationToken) -> BoxFuture<'static, HookOutcome>;
}
