//! Long pastes, which the input shows as labels.

use super::boundary::{LABEL_START, Labels};

/// Longer pastes are shown as labels.
const MAX_LINES: usize = 5;
const MAX_CHARS: usize = 500;

/// The pasted text by label.
#[derive(Debug, Clone, Default)]
pub struct Pastes {
    entries: Vec<(String, String)>,
    labels: Labels,
}

impl Pastes {
    /// Returns the labels, for cursor movements.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Whether a string is long enough for a label.
    pub fn is_long(text: &str) -> bool {
        text.len() > MAX_CHARS && text.chars().count() > MAX_CHARS
            || text.lines().count() > MAX_LINES
    }

    /// Adds pasted text and returns its label, which is unique and does not occur in `written`.
    pub fn add(&mut self, text: String, written: &str) -> String {
        let lines = text.lines().count();
        let size = if lines > MAX_LINES {
            format!("{lines} lines")
        } else {
            format!("{} chars", text.chars().count())
        };
        let plain = format!("{LABEL_START}{size}]");
        let mut label = plain;
        let mut number = 1;
        while self.content(&label).is_some() || written.contains(&label) {
            number += 1;
            label = format!("{LABEL_START}{size} #{number}]");
        }
        self.labels.add(label.clone());
        self.entries.push((label.clone(), text));
        label
    }

    /// Returns the text of a label.
    pub fn content(&self, label: &str) -> Option<&str> {
        self.entries.iter().find(|(known, _)| known == label).map(|(_, text)| text.as_str())
    }

    /// Replaces the labels in `text` with the pasted text.
    pub fn expand(&self, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut from = 0;
        for range in self.labels.ranges(text) {
            expanded.push_str(text.get(from..range.start).unwrap_or(""));
            let label = text.get(range.clone()).unwrap_or("");
            expanded.push_str(self.content(label).unwrap_or(label));
            from = range.end;
        }
        expanded.push_str(text.get(from..).unwrap_or(""));
        expanded
    }

    /// Removes all pasted text.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.labels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pastes_get_unique_labels() {
        assert!(!Pastes::is_long("1\n2\n3\n4\n5"));
        assert!(Pastes::is_long("1\n2\n3\n4\n5\n6"));
        assert!(!Pastes::is_long(&"ü".repeat(500)));
        assert!(Pastes::is_long(&"x".repeat(501)));
        let mut pastes = Pastes::default();
        let first = pastes.add("a\n".repeat(6), "");
        let second = pastes.add("b\n".repeat(6), "");
        assert_eq!(first, "[Pasted Text: 6 lines]");
        assert_eq!(second, "[Pasted Text: 6 lines #2]");
        assert_eq!(pastes.add("x".repeat(600), ""), "[Pasted Text: 600 chars]");
        let typed = "see [Pasted Text: 601 chars]";
        assert_eq!(pastes.add("x".repeat(601), typed), "[Pasted Text: 601 chars #2]");
        assert_eq!(pastes.expand(typed), typed);
        let text = pastes.expand(&format!("<{second}|{first}>"));
        assert_eq!(text, format!("<{}|{}>", "b\n".repeat(6), "a\n".repeat(6)));
    }
}
