//! Answers that must match a schema: instructs the model and checks its answers.

use parallax_protocol::content::Part;
use parallax_protocol::op::{Op, Prompt};
use serde_json::Value;

use crate::failure::RunOutcome;
use crate::schema::OutputSchema;

/// How often the model is asked to correct an answer.
const SCHEMA_RETRIES: u32 = 2;

/// The schema of the final answers of a run.
pub(crate) struct AnswerSchema {
    schema: OutputSchema,
    retries: u32,
}

/// Result of checking the answer of a turn.
pub(crate) enum AnswerCheck {
    /// The turn is over. Contains the answer as JSON if it matches.
    Finished(RunOutcome, Option<Value>),
    /// The model must correct its answer.
    AskAgain(Op),
}

impl AnswerSchema {
    pub(crate) fn new(schema: OutputSchema) -> Self {
        Self { schema, retries: 0 }
    }

    /// Adds the required format to the prompt.
    pub(crate) fn add_instructions(&self, prompt: &mut Prompt) {
        prompt.attachments.push(Part::text(self.schema.instruction()));
    }

    /// Checks the answer of a turn with this outcome.
    pub(crate) fn check(&mut self, outcome: RunOutcome, answer: &str) -> AnswerCheck {
        if outcome.error.is_some() {
            self.retries = 0;
            return AnswerCheck::Finished(outcome, None);
        }
        match self.schema.validate(answer) {
            Ok(value) => {
                self.retries = 0;
                AnswerCheck::Finished(outcome, Some(value))
            }
            Err(problems) if self.retries == SCHEMA_RETRIES || outcome.reason != "done" => {
                self.retries = 0;
                AnswerCheck::Finished(RunOutcome::schema_mismatch(&problems), None)
            }
            Err(problems) => {
                self.retries += 1;
                AnswerCheck::AskAgain(Op::Prompt(Prompt {
                    text: format!(
                        "Your answer does not match the required JSON Schema:\n{problems}\nAnswer \
                         again with the corrected JSON document only."
                    ),
                    ..Prompt::default()
                }))
            }
        }
    }
}
