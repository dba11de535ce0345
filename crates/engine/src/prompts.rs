//! The prompts of the session and their positions in the history.

use parallax_protocol::store::RewindTarget;
use parallax_protocol::tool::FileDiff;

use crate::history::now;

/// The prompts in the history, oldest first.
#[derive(Default)]
pub(crate) struct Prompts {
    marks: Vec<RewindTarget>,
}

impl Prompts {
    pub(crate) fn new(marks: Vec<RewindTarget>) -> Self {
        Self { marks }
    }

    pub(crate) fn marks(&self) -> &[RewindTarget] {
        &self.marks
    }

    /// Adds a prompt that becomes the content after the first `at`.
    pub(crate) fn add(&mut self, turn: u64, at: usize, text: &str) {
        let (text, time) = (text.to_owned(), now());
        self.marks.push(RewindTarget { turn, at, text, time, lines_added: 0, lines_removed: 0 });
    }

    /// Counts the lines of an edit in the running turn.
    pub(crate) fn count_lines(&mut self, diff: &FileDiff) {
        if let Some(mark) = self.marks.last_mut() {
            mark.lines_added = mark.lines_added.saturating_add(diff.lines_added);
            mark.lines_removed = mark.lines_removed.saturating_add(diff.lines_removed);
        }
    }

    /// Removes prompts that are not among the first `keep` contents.
    pub(crate) fn truncate(&mut self, keep: usize) {
        self.marks.retain(|mark| mark.at < keep);
    }
}
