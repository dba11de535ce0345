//! The valid cursor positions in a line: between grapheme clusters, and at the two ends of
//! a paste label.

use std::ops::Range;

use unicode_segmentation::GraphemeCursor;
#[cfg(test)]
use unicode_segmentation::UnicodeSegmentation;

/// The start of every label.
pub const LABEL_START: &str = "[Pasted Text: ";

/// The active labels; each behaves as one character.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    labels: Vec<String>,
}

impl Labels {
    /// Adds a label.
    pub fn add(&mut self, label: String) {
        self.labels.push(label);
    }

    /// Removes all labels.
    pub fn clear(&mut self) {
        self.labels.clear();
    }

    /// Returns the positions of labels in a line, left to right.
    pub fn ranges(&self, line: &str) -> Vec<Range<usize>> {
        if self.labels.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut from = 0;
        let finder = memchr::memmem::Finder::new(LABEL_START);
        while let Some(offset) = line.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
            let start = from + offset;
            let rest = line.get(start..).unwrap_or("");
            match self.labels.iter().find(|label| rest.starts_with(label.as_str())) {
                Some(label) => {
                    from = start + label.len();
                    found.push(start..from);
                }
                None => from = start + 1,
            }
        }
        found
    }

    /// Returns the label that starts at or contains `byte`.
    pub fn offset(&self, line: &str, byte: usize) -> Option<Range<usize>> {
        self.ranges(line).into_iter().find(|range| range.start <= byte && byte < range.end)
    }

    /// Returns the next position to the right, at most the end of the line.
    pub fn next(&self, line: &str, byte: usize) -> usize {
        let labels = self.ranges(line);
        if let Some(label) = labels.iter().find(|label| label.start <= byte && byte < label.end) {
            return label.end;
        }
        let piece = piece(&labels, line, byte);
        let text = line.get(piece.clone()).unwrap_or("");
        let mut cursor = GraphemeCursor::new(byte - piece.start, text.len(), true);
        let next = cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len());
        piece.start + next
    }

    /// Returns the next position to the left, at least 0.
    pub fn previous(&self, line: &str, byte: usize) -> usize {
        let labels = self.ranges(line);
        if let Some(label) = labels.iter().find(|label| label.start < byte && byte <= label.end) {
            return label.start;
        }
        let piece = piece(&labels, line, byte);
        let text = line.get(piece.clone()).unwrap_or("");
        let mut cursor = GraphemeCursor::new(byte - piece.start, text.len(), true);
        let previous = cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0);
        piece.start + previous
    }

    /// Returns `byte`, or the next valid cursor position to the right.
    pub fn snap(&self, line: &str, byte: usize) -> usize {
        let byte = line.floor_char_boundary(byte);
        if byte == 0 || byte == line.len() {
            return byte;
        }
        let labels = self.ranges(line);
        if let Some(label) = labels.iter().find(|label| label.start <= byte && byte < label.end) {
            return if label.start == byte { byte } else { label.end };
        }
        if labels.iter().any(|label| label.end == byte) {
            return byte;
        }
        let piece = piece(&labels, line, byte);
        let text = line.get(piece.clone()).unwrap_or("");
        let mut cursor = GraphemeCursor::new(byte - piece.start, text.len(), true);
        match cursor.is_boundary(text, 0) {
            Ok(true) => byte,
            _ => piece.start + cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len()),
        }
    }

    /// Returns the clusters and labels of a line, left to right.
    #[cfg(test)]
    pub fn atoms<'a>(&self, line: &'a str) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        let mut parts: Vec<(Range<usize>, bool)> = Vec::new();
        let mut from = 0;
        for label in self.ranges(line) {
            parts.push((from..label.start, false));
            from = label.end;
            parts.push((label, true));
        }
        parts.push((from..line.len(), false));
        parts.into_iter().flat_map(move |(range, whole)| {
            let text = line.get(range.clone()).unwrap_or("");
            let (whole, split) = if whole { (Some(text), "") } else { (None, text) };
            let clusters = split.grapheme_indices(true);
            whole
                .map(|text| (range.start, text))
                .into_iter()
                .chain(clusters.map(move |(at, cluster)| (range.start + at, cluster)))
        })
    }
}

/// Returns the stretch without labels that contains `byte`, which is in no label.
fn piece(labels: &[Range<usize>], line: &str, byte: usize) -> Range<usize> {
    let start = labels.iter().rev().find(|label| label.end <= byte).map_or(0, |label| label.end);
    let end =
        labels.iter().find(|label| label.start >= byte).map_or(line.len(), |label| label.start);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_skips_grapheme_clusters_and_labels_as_units() {
        let mut labels = Labels::default();
        labels.add("[Pasted Text: 6 lines]".to_owned());
        let line = "e\u{301}👩‍👩‍👧[Pasted Text: 6 lines]\u{301}x";
        let mut stops = vec![0];
        while let Some(last) = stops.last().copied().filter(|last| *last < line.len()) {
            stops.push(labels.next(line, last));
        }
        let atoms: Vec<usize> = labels.atoms(line).map(|(at, _)| at).chain([line.len()]).collect();
        assert_eq!(stops, atoms);
        let mut back = vec![line.len()];
        while let Some(last) = back.last().copied().filter(|last| *last > 0) {
            back.push(labels.previous(line, last));
        }
        back.reverse();
        assert_eq!(back, stops);
        for byte in 0..=line.len() {
            let byte = line.floor_char_boundary(byte);
            let expected = stops.iter().copied().find(|stop| *stop >= byte).unwrap();
            assert_eq!(labels.snap(line, byte), expected, "{byte}");
        }
    }
}
