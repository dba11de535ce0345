//! Stepping through what was sent before. What was changed on the way is kept
//! until something is sent.

use std::collections::HashMap;

use super::buffer::Buffer;
use super::text::Position;

/// Earlier inputs, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<String>,
    /// How many steps back the input is; 0 is what is being written.
    level: usize,
    /// Texts that were left by stepping, with their cursors.
    left: HashMap<usize, (String, Position)>,
    /// The buffer's version after the last step.
    stepped: Option<u64>,
}

impl History {
    /// Earlier inputs, the oldest first.
    pub fn new(entries: Vec<String>) -> Self {
        let mut history = Self::default();
        for entry in entries {
            history.push(&entry);
        }
        history
    }

    /// All, the oldest first.
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Takes in what was sent, and goes back to the present.
    pub fn add(&mut self, text: &str) {
        self.push(text);
        self.reset();
    }

    fn push(&mut self, text: &str) {
        if !text.trim().is_empty() && self.entries.last().is_none_or(|last| last != text) {
            self.entries.push(text.to_owned());
        }
    }

    /// Back to the present.
    pub fn reset(&mut self) {
        self.level = 0;
        self.left.clear();
        self.stepped = None;
    }

    /// Whether the last thing that happened to the buffer was a step.
    pub fn just_stepped(&self, buffer: &Buffer) -> bool {
        self.stepped == Some(buffer.version())
    }

    /// A step to older inputs; `false` at the oldest.
    pub fn previous(&mut self, buffer: &mut Buffer) -> bool {
        if self.level >= self.entries.len() {
            return false;
        }
        self.go(buffer, self.level + 1);
        true
    }

    /// A step to newer inputs; `false` at the present.
    pub fn next(&mut self, buffer: &mut Buffer) -> bool {
        let Some(level) = self.level.checked_sub(1) else { return false };
        self.go(buffer, level);
        true
    }

    fn go(&mut self, buffer: &mut Buffer, level: usize) {
        let back = level > self.level;
        self.left.insert(self.level, (buffer.text().to_string(), buffer.cursor()));
        self.level = level;
        let index = self.entries.len().checked_sub(level);
        if let Some((text, cursor)) = self.left.get(&level) {
            buffer.set_text(text);
            buffer.set_cursor(*cursor);
        } else if let Some(entry) = index.and_then(|index| self.entries.get(index)) {
            buffer.set_text(entry);
            // Where the next step in the same direction needs no way.
            let line = if back { 0 } else { buffer.text().last_line() };
            buffer.set_cursor(buffer.text().line_end(line));
        }
        self.stepped = Some(buffer.version());
    }
}
