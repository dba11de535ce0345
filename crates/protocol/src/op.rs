//! What a face asks of the engine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::content::Part;
use crate::ids::AskId;
use crate::policy::{ApprovalMode, RuleDraft, RuleScope};

/// An order from a face. Orders are taken in the order they come, also while a
/// turn runs.
#[derive(Debug, Clone)]
pub enum Op {
    /// A prompt: starts a turn, or waits until the running one ends.
    Prompt(Prompt),
    /// A message for the running turn: it reaches the model with the next
    /// results. Without a running turn it is a prompt.
    Steer(String),
    /// Ends the running turn; what is there is kept.
    Interrupt,
    /// Answers an [`crate::event::Ask`].
    Decide(Box<Decide>),
    /// Gives files the bytes back that they had before a turn; the answer is an
    /// event.
    Undo {
        /// The turn (prompts count from 1); without one, the last that changed
        /// anything.
        turn: Option<u64>,
        /// Also files that somebody changed since.
        force: bool,
    },
    /// Widens the workspace.
    AddDirectory(PathBuf),
    /// Another model from the next request on.
    SetModel(String),
    /// Another approval mode from the next call on.
    SetMode(ApprovalMode),
    /// Ends the session when the running turn is cancelled and saved.
    Shutdown,
}

/// A prompt as the face hands it over.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// What the person typed.
    pub text: String,
    /// Parts after the text (expanded files, images), already read.
    pub attachments: Vec<Part>,
}

/// An answer to a question, with all that belongs to it.
#[derive(Debug, Clone)]
pub struct Decide {
    /// The question.
    pub ask: AskId,
    /// The answer.
    pub outcome: AskOutcome,
    /// Words for the model, on a refusal.
    pub feedback: Option<String>,
    /// The rule to keep, when not the first of those offered: one of the others,
    /// or as the person changed it.
    pub rule: Option<RuleDraft>,
    /// How long that rule holds; without it, as the outcome says.
    pub scope: Option<RuleScope>,
    /// The arguments as the person changed them
    /// ([`AskOutcome::ModifyWithEditor`]).
    pub arguments: Option<Object>,
}

impl Decide {
    /// An answer without more.
    pub fn new(ask: AskId, outcome: AskOutcome) -> Self {
        Self { ask, outcome, feedback: None, rule: None, scope: None, arguments: None }
    }
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskOutcome {
    /// Run it.
    ProceedOnce,
    /// Run it, and do not ask for its like again in this session.
    ProceedAlways,
    /// Run it, and keep the rule on disk.
    ProceedAlwaysAndSave,
    /// Run it, and this tool of an MCP server from now on.
    ProceedAlwaysTool,
    /// Run it, and all tools of the MCP server from now on.
    ProceedAlwaysServer,
    /// Take changed arguments, and ask again.
    ModifyWithEditor,
    /// Do not run it.
    Cancel,
}
