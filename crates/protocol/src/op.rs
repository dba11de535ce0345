//! What a face asks of the engine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::content::Part;
use crate::ids::AskId;
use crate::policy::ApprovalMode;

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
    Decide {
        /// The question.
        ask: AskId,
        /// The answer.
        outcome: AskOutcome,
        /// Words for the model, on a refusal.
        feedback: Option<String>,
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

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskOutcome {
    /// Run it.
    ProceedOnce,
    /// Run it, and do not ask for its like again in this session.
    ProceedAlways,
    /// Do not run it.
    Cancel,
}
