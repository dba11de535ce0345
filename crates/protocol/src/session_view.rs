//! What a front end in another process needs to show a running session, besides its journal and
//! its events.

use serde::{Deserialize, Serialize};

use crate::store::Record;

/// The state of a running session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Whether model responses are scripted or replayed.
    pub scripted: bool,
    /// Whether the session's directory is trusted.
    pub is_trusted: bool,
    /// Which records of the journal the events do not repeat.
    pub journal: JournalPosition,
    /// How long the running turn has been running, in milliseconds.
    pub turn_ms: Option<u64>,
    /// Whether the first events of the running turn were dropped because there were too many.
    pub is_truncated: bool,
}

/// The position in the journal after which the events of a session report what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPosition {
    /// The number of records with which the process of the session began.
    pub initial_records: usize,
    /// The turn whose prompt comes next, or is the one of the running turn
    /// ([`crate::store::ContentRecord::turn`]).
    pub prompt_turn: u64,
    /// If the running turn continues an earlier one: the number of turns that have ended since the
    /// process began.
    pub ended_turns: Option<usize>,
}

impl JournalPosition {
    /// Returns the number of records before the position. The journal may be longer than it was
    /// when the position was taken.
    pub fn find(&self, records: &[Record]) -> usize {
        let new = records.iter().enumerate().skip(self.initial_records);
        let mut ended_turns = 0;
        for (index, record) in new {
            if self.ended_turns == Some(ended_turns) {
                return index;
            }
            match record {
                Record::TurnEnd { .. } => ended_turns += 1,
                Record::Content(content)
                    if content.turn.is_some_and(|turn| turn >= self.prompt_turn) =>
                {
                    return index;
                }
                _ => {}
            }
        }
        records.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &[&str]) -> Vec<Record> {
        lines.iter().map(|line| serde_json::from_str(line).expect("a record")).collect()
    }

    const PROMPT_1: &str = r#"{"content":{"time":"","wire":{"role":"user","parts":[]},"turn":1}}"#;
    const PROMPT_2: &str = r#"{"content":{"time":"","wire":{"role":"user","parts":[]},"turn":2}}"#;
    const ANSWER: &str = r#"{"content":{"time":"","wire":{"role":"model","parts":[]}}}"#;
    const END: &str = r#"{"turn_end":{"time":"","reason":"done"}}"#;

    #[test]
    fn journal_position_precedes_the_prompt_of_the_running_turn() {
        let records = records(&[PROMPT_1, ANSWER, END, PROMPT_2, ANSWER]);
        let position = |prompt_turn| JournalPosition { prompt_turn, ..JournalPosition::default() };
        assert_eq!(position(1).find(&records), 0);
        assert_eq!(position(2).find(&records), 3);
        assert_eq!(position(3).find(&records), 5);
    }

    #[test]
    fn continued_turn_begins_after_the_records_of_the_process_before() {
        let records = records(&[PROMPT_1, ANSWER, ANSWER, END, ANSWER]);
        let position = |ended| JournalPosition {
            initial_records: 2,
            prompt_turn: 2,
            ended_turns: Some(ended),
        };
        assert_eq!(position(0).find(&records), 2);
        assert_eq!(position(1).find(&records), 4);
    }
}
