//! The lines of the input stream.

use parallax_protocol::Object;
use parallax_protocol::context::ResultLocation;
use parallax_protocol::lenient::repair_json;
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::policy::{RuleScope, SuggestedRule};
use serde::Deserialize;
use serde_json::Value;

/// One operation from the client.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum InputLine {
    /// Sends a prompt.
    Message {
        /// Text of the prompt.
        content: String,
    },
    /// Sends a message to the running turn.
    Steer {
        /// Text of the message.
        content: String,
    },
    /// Interrupts the running turn.
    Interrupt,
    /// Resumes an interrupted turn.
    Continue,
    /// Responds to an approval request.
    Decide(Box<DecideLine>),
    /// Undoes the file changes of a turn.
    Undo {
        /// The turn. If absent, the last turn that changed files.
        #[serde(default)]
        turn: Option<u64>,
        /// Also reverts files that have changed since.
        #[serde(default)]
        force: bool,
    },
    /// Compacts the history.
    Compact {
        /// What the summary should focus on.
        #[serde(default)]
        focus: Option<String>,
    },
    /// Undoes the latest compaction.
    UndoCompaction,
    /// Requests the context breakdown.
    Context,
    /// Replaces tool results in the context by short notes.
    LeaveOut {
        /// Places of the results, as in a `context` line.
        places: Vec<ResultLocation>,
    },
    /// Pins or unpins a tool result, so that it stays in the context.
    Pin {
        /// Place of the result.
        place: ResultLocation,
        /// Whether to pin it.
        #[serde(default = "default_true")]
        on: bool,
    },
    /// Answers a question from the model.
    Answer {
        /// Id of the question.
        id: String,
        /// The answers by question index (`{"0": "…"}`), or the answer to a single question; `null`
        /// cancels.
        value: Value,
    },
    /// Changes the model of the session.
    SetModel {
        /// A model name or an alias.
        model: String,
    },
    /// Changes the approval mode of the session.
    SetMode {
        /// `default`, `auto_edit`, `plan`, or `yolo`.
        mode: String,
    },
    /// Runs a slash command.
    Command {
        /// The command as typed, including the slash.
        text: String,
    },
}

fn default_true() -> bool {
    true
}

/// Response to an approval request.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub(crate) struct DecideLine {
    /// Id of the approval request.
    pub(crate) id: String,
    /// The response.
    pub(crate) outcome: ApprovalResponse,
    /// Message for the model if the call is denied.
    #[serde(default)]
    pub(crate) feedback: Option<String>,
    /// The rule to save, if not the first suggested rule.
    #[serde(default)]
    pub(crate) rule: Option<SuggestedRule>,
    /// Scope of the rule.
    #[serde(default)]
    pub(crate) scope: Option<RuleScope>,
    /// Modified arguments (`modify_with_editor`).
    #[serde(default)]
    pub(crate) arguments: Option<Object>,
    /// Whether to grant the broader permissions that the approval request names as `wider`.
    #[serde(rename = "wider")]
    #[serde(default)]
    pub(crate) broader_permissions: bool,
}

/// Parses a line.
///
/// # Errors
/// Returns what is wrong and what was expected.
pub(crate) fn parse(line: &str) -> Result<InputLine, String> {
    let line = line.trim_start_matches('\u{feff}');
    if !line.trim_start().starts_with('{') {
        return Err(format!("the line is not a JSON object; {EXPECTED}"));
    }
    let parsed = serde_json::from_str(line)
        .or_else(|error| serde_json::from_str(&repair_json(line)).map_err(|_| error));
    parsed.map_err(|error| format!("{error}; {EXPECTED}"))
}

/// Description of a valid line.
const EXPECTED: &str = "expected one JSON object such as \
                        {\"type\":\"message\",\"content\":\"…\"}, with a type of message, steer, \
                        interrupt, continue, decide, undo, compact, undo_compaction, context, \
                        leave_out, pin, answer, set_model, set_mode, or command";
