//! Steps through the history. Changes to history entries are kept until something is sent.

use std::collections::HashMap;

use super::buffer::Buffer;
use super::text::Position;

/// Earlier inputs, oldest first.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<String>,
    /// How many steps back the shown entry is; 0 is the current input.
    level: usize,
    /// Entries left by stepping, with their cursors.
    edited_entries: HashMap<usize, (String, Position)>,
    /// The buffer version after the last step.
    stepped_version: Option<u64>,
}

impl History {
    /// Creates a history from earlier inputs, oldest first.
    pub fn new(entries: Vec<String>) -> Self {
        let mut history = Self::default();
        for entry in entries {
            history.push(&entry);
        }
        history
    }

    /// Returns all entries, oldest first.
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Adds a sent text and returns to the current input.
    pub fn add(&mut self, text: &str) {
        self.push(text);
        self.reset();
    }

    fn push(&mut self, text: &str) {
        if !text.trim().is_empty() && self.entries.last().is_none_or(|last| last != text) {
            self.entries.push(text.to_owned());
        }
    }

    /// Returns to the current input.
    pub fn reset(&mut self) {
        self.level = 0;
        self.edited_entries.clear();
        self.stepped_version = None;
    }

    /// Whether the buffer is unchanged since the last step.
    pub fn is_unchanged_since_step(&self, buffer: &Buffer) -> bool {
        self.stepped_version == Some(buffer.version())
    }

    /// Steps to the previous entry. Returns `false` at the oldest.
    pub fn previous(&mut self, buffer: &mut Buffer) -> bool {
        if self.level >= self.entries.len() {
            return false;
        }
        self.go_to_level(buffer, self.level + 1);
        true
    }

    /// Steps to the next entry. Returns `false` at the current input.
    pub fn next(&mut self, buffer: &mut Buffer) -> bool {
        let Some(level) = self.level.checked_sub(1) else { return false };
        self.go_to_level(buffer, level);
        true
    }

    fn go_to_level(&mut self, buffer: &mut Buffer, level: usize) {
        let back = level > self.level;
        self.edited_entries.insert(self.level, (buffer.text().to_string(), buffer.cursor()));
        self.level = level;
        let index = self.entries.len().checked_sub(level);
        if let Some((text, cursor)) = self.edited_entries.get(&level) {
            buffer.set_text(text);
            buffer.set_cursor(*cursor);
        } else if let Some(entry) = index.and_then(|index| self.entries.get(index)) {
            buffer.set_text(entry);
            // The next step in the same direction needs no cursor movement.
            let line = if back { 0 } else { buffer.text().last_line() };
            buffer.set_cursor(buffer.text().line_end(line));
        }
        self.stepped_version = Some(buffer.version());
    }
}
