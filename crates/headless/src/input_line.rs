//! What a line of the input stream asks for.

use parallax_protocol::Object;
use parallax_protocol::context::ResultPlace;
use parallax_protocol::op::AskOutcome;
use parallax_protocol::policy::{RuleDraft, RuleScope};
use serde::Deserialize;
use serde_json::Value;

/// One order from the program at the other end.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum InputLine {
    /// A prompt.
    Message {
        /// Its text.
        content: String,
    },
    /// Words for the running turn.
    Steer {
        /// Its text.
        content: String,
    },
    /// Ends the running turn.
    Interrupt,
    /// Continues an interrupted turn.
    Continue,
    /// Answers a question whether a call may run.
    Decide(Box<DecideLine>),
    /// Gives files back what they were before a turn.
    Undo {
        /// The turn; the last that changed anything when absent.
        #[serde(default)]
        turn: Option<u64>,
        /// Also files that changed since.
        #[serde(default)]
        force: bool,
    },
    /// Makes the history shorter.
    Compact {
        /// What matters most.
        #[serde(default)]
        focus: Option<String>,
    },
    /// Takes the newest compaction back.
    UndoCompaction,
    /// Asks what fills the model's context.
    Context,
    /// Puts notes in the place of results.
    LeaveOut {
        /// Their places, as a `context` line tells them.
        places: Vec<ResultPlace>,
    },
    /// Holds on to a result, or lets go of it.
    Pin {
        /// Its place.
        place: ResultPlace,
        /// Whether it is to stay.
        #[serde(default = "yes")]
        on: bool,
    },
    /// Answers any other question.
    Answer {
        /// The question.
        id: String,
        /// The answers by the places of the questions (`{"0": "…"}`), or the
        /// answer to the only one; `null`: none is given.
        value: Value,
    },
    /// Changes the model of the session.
    SetModel {
        /// A name or an alias.
        model: String,
    },
    /// Changes the approval mode of the session.
    SetMode {
        /// `default`, `auto_edit`, `plan`, or `yolo`.
        mode: String,
    },
    /// A slash command.
    Command {
        /// As typed, slash included.
        text: String,
    },
}

fn yes() -> bool {
    true
}

/// An answer to a question.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub(crate) struct DecideLine {
    /// The question.
    pub(crate) id: String,
    /// The answer.
    pub(crate) outcome: AskOutcome,
    /// Words for the model, on a refusal.
    #[serde(default)]
    pub(crate) feedback: Option<String>,
    /// The rule to keep, when not the first one offered.
    #[serde(default)]
    pub(crate) rule: Option<RuleDraft>,
    /// How long the rule holds.
    #[serde(default)]
    pub(crate) scope: Option<RuleScope>,
    /// Changed arguments (`modify_with_editor`).
    #[serde(default)]
    pub(crate) arguments: Option<Object>,
    /// The call gets what the question names as `wider`.
    #[serde(default)]
    pub(crate) wider: bool,
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it and what was expected.
pub(crate) fn parse(line: &str) -> Result<InputLine, String> {
    let line = line.trim_start_matches('\u{feff}');
    if !line.trim_start().starts_with('{') {
        return Err(format!("the line is not a JSON object; {EXPECTED}"));
    }
    serde_json::from_str(line).map_err(|error| format!("{error}; {EXPECTED}"))
}

/// What a line should be.
const EXPECTED: &str = "expected one JSON object such as \
                        {\"type\":\"message\",\"content\":\"…\"}, with a type of message, steer, \
                        interrupt, continue, decide, undo, compact, undo_compaction, context, \
                        leave_out, pin, answer, set_model, set_mode, or command";
