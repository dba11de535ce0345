//! The interface of output formats, and the data they share.

use parallax_protocol::event::{Event, EventBody, Level};
use serde_json::Value;

use crate::answer::LastAnswer;
use crate::failure::RunOutcome;
use crate::options::{OutputFormat, RunOptions};
use crate::output::PendingOutput;
use parallax_sessions::stats::Stats;

/// Data about the run for the end of the output.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) stats: Stats,
    /// Stored only if it is printed at the end, because a copy of the answer takes memory.
    pub(crate) answer: Option<LastAnswer>,
    /// The answer as parsed with the schema.
    pub(crate) structured: Option<Value>,
    pub(crate) scripted: bool,
    /// Time spent in turns, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl Summary {
    pub(crate) fn new(options: &RunOptions) -> Self {
        let reads_answer = options.format == OutputFormat::Json || options.schema.is_some();
        Self {
            answer: reads_answer.then(LastAnswer::default),
            scripted: options.scripted,
            ..Self::default()
        }
    }

    /// Processes the next event.
    pub(crate) fn event(&mut self, event: &Event) {
        self.stats.count_event(event);
        match &event.body {
            EventBody::SessionReady(ready) => self.scripted |= ready.scripted,
            EventBody::TurnEnded(end) => self.duration_ms += end.duration_ms,
            _ => {}
        }
        if let Some(answer) = &mut self.answer {
            answer.event(event);
        }
    }

    /// Returns the text of the last message, if it is stored.
    pub(crate) fn answer_text(&self) -> &str {
        self.answer.as_ref().map_or("", LastAnswer::text)
    }
}

/// Whether there is more to write after the pending output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushState {
    Yes,
    No,
}

/// An output format, which converts events to bytes.
pub(crate) trait OutputFormatter: Send {
    /// Called before the first event.
    fn begin(&mut self, summary: &Summary, pending: &mut PendingOutput);
    /// Called for each event.
    fn event(&mut self, event: &Event, pending: &mut PendingOutput);
    /// Called for a notice, of an event or not. `kind`: see [`ItemDone::Notice`].
    ///
    /// [`ItemDone::Notice`]: parallax_protocol::event::ItemDone::Notice
    fn notice(&mut self, level: Level, kind: Option<&str>, text: &str, pending: &mut PendingOutput);
    /// Reports a line of the input, counted from 1, that cannot be carried out.
    fn report_rejected_line(&mut self, number: u64, problem: &str, pending: &mut PendingOutput) {
        self.notice(Level::Error, None, &format!("line {number}: {problem}"), pending);
    }
    /// Called at the end of the run, or of a turn of a conversation. Called again while it returns
    /// [`FlushState::Yes`], so that a long answer is never in memory twice.
    fn end(
        &mut self,
        outcome: &RunOutcome,
        summary: &Summary,
        pending: &mut PendingOutput,
    ) -> FlushState;
}

/// Describes a retry.
pub(crate) fn retry_words(retry: &parallax_protocol::model::Retry) -> String {
    let status = retry.status.map(|status| format!(" {status}")).unwrap_or_default();
    let seconds = retry.delay_ms / 1000;
    let tenths = retry.delay_ms % 1000 / 100;
    format!(
        "retrying in {seconds}.{tenths} s (attempt {} of {}; {}{status}): {}",
        retry.attempt.saturating_add(1),
        retry.max_attempts,
        retry.class,
        retry.message
    )
}

/// Notice that responses are scripted.
pub(crate) const SCRIPTED: &str = "the responses come from a script or a recording, not from a \
                                   model";
