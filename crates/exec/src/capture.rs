//! The part of an output that is kept in memory: its beginning and its end.

/// How many characters of an output to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Characters of the beginning.
    pub head: usize,
    /// Characters of the end.
    pub tail: usize,
}

/// Number of characters to keep if the user disabled truncation: enough for any model, but bounded.
const UNTRUNCATED: usize = 4_000_000;

impl CaptureLimits {
    /// Returns limits with a fifth of the threshold for the beginning and the rest for the end. 0
    /// means as much as memory reasonably allows.
    pub fn from_threshold(threshold: usize) -> Self {
        let total = if threshold == 0 { UNTRUNCATED } else { threshold };
        Self { head: total / 5, tail: total - total / 5 }
    }
}

/// The beginning and the end of a possibly endless text.
#[derive(Debug)]
pub struct Capture {
    limits: CaptureLimits,
    head: String,
    head_characters: usize,
    tail: String,
    tail_characters: usize,
    total_characters: u64,
}

impl Capture {
    /// Creates an empty capture.
    pub fn new(limits: CaptureLimits) -> Self {
        Self {
            limits,
            head: String::new(),
            head_characters: 0,
            tail: String::new(),
            tail_characters: 0,
            total_characters: 0,
        }
    }

    /// Adds text.
    pub fn push(&mut self, text: &str) {
        self.push_untrimmed(text);
        // Trim in large steps, so that each character is moved about once.
        if self.tail_characters > self.limits.tail.saturating_mul(2) {
            self.trim();
        }
    }

    /// Adds text without trimming.
    pub(crate) fn push_untrimmed(&mut self, text: &str) {
        let mut rest = text;
        let mut characters = rest.chars().count();
        self.total_characters += characters as u64;
        if self.head_characters < self.limits.head {
            let count = characters.min(self.limits.head - self.head_characters);
            let (head, tail) = rest.split_at(offset_of(rest, characters, count));
            self.head.push_str(head);
            self.head_characters += count;
            rest = tail;
            characters -= count;
        }
        self.tail.push_str(rest);
        self.tail_characters += characters;
    }

    pub(crate) fn trim(&mut self) {
        if self.tail_characters > self.limits.tail {
            let excess = self.tail_characters - self.limits.tail;
            let offset = offset_of(&self.tail, self.tail_characters, excess);
            self.tail.drain(..offset);
            self.tail_characters = self.limits.tail;
        }
    }

    /// Whether more text was added than is kept.
    pub fn is_truncated(&self) -> bool {
        self.total_characters > (self.limits.head + self.limits.tail) as u64
    }

    /// Returns all text so far, provided that nothing was trimmed.
    pub(crate) fn pieces(&self) -> [&str; 2] {
        [&self.head, &self.tail]
    }

    /// Returns the number of characters added.
    pub fn total_characters(&self) -> u64 {
        self.total_characters
    }

    /// Clears the capture.
    pub fn clear(&mut self) {
        *self = Self::new(self.limits);
    }

    /// Returns the captured text, split at line endings where possible.
    pub fn captured_text(&mut self) -> CapturedText {
        self.trim();
        if !self.is_truncated() {
            let mut text = String::with_capacity(self.head.len() + self.tail.len());
            text.push_str(&self.head);
            text.push_str(&self.tail);
            text.truncate(text.trim_end().len());
            return CapturedText { head: text, tail: None, omitted_characters: 0 };
        }
        let head = match self.head.rfind('\n') {
            Some(border) if border >= self.head.len() / 2 => self.head.get(..border),
            _ => None,
        }
        .unwrap_or(&self.head);
        let tail = match self.tail.find('\n') {
            Some(border) if border <= self.tail.len() / 2 => self.tail.get(border + 1..),
            _ => None,
        }
        .unwrap_or(&self.tail);
        let captured_length = head.chars().count() + tail.chars().count();
        CapturedText {
            head: head.to_owned(),
            tail: Some(tail.trim_end().to_owned()),
            omitted_characters: self.total_characters.saturating_sub(captured_length as u64),
        }
    }
}

/// The captured part of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedText {
    /// The beginning, or all of it.
    pub head: String,
    /// The end, if something before it was omitted.
    pub tail: Option<String>,
    /// Number of characters that were omitted.
    pub omitted_characters: u64,
}

/// Returns the byte offset after the first `count` of `total` characters.
fn offset_of(text: &str, total: usize, count: usize) -> usize {
    if count >= total {
        text.len()
    } else if total == text.len() {
        count
    } else {
        text.char_indices().nth(count).map_or(text.len(), |(offset, _)| offset)
    }
}

/// The newest part of streamed text for display, bounded in bytes.
#[derive(Debug)]
pub struct TailBuffer {
    text: String,
    limit: usize,
}

impl TailBuffer {
    /// Creates a buffer that keeps at most about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { text: String::new(), limit }
    }

    /// Adds text.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if self.text.len() > self.limit.saturating_mul(2) {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let mut from = self.text.len().saturating_sub(self.limit);
        while !self.text.is_char_boundary(from) {
            from += 1;
        }
        // Do not cut within a line, which could split a control sequence.
        if let Some(border) = self.text.get(from..).and_then(|rest| rest.find('\n')) {
            from += border + 1;
        }
        self.text.drain(..from);
    }

    /// Removes and returns the text.
    pub fn take(&mut self) -> String {
        if self.text.len() > self.limit {
            self.trim();
        }
        std::mem::take(&mut self.text)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_below_the_threshold_is_complete() {
        let mut capture = Capture::new(CaptureLimits::from_threshold(10));
        capture.push("äbcd");
        capture.push("efghiü");
        let captured = capture.captured_text();
        assert_eq!((captured.head.as_str(), captured.tail), ("äbcdefghiü", None));
    }

    #[test]
    fn output_above_the_threshold_keeps_a_fifth_and_the_end() {
        for step in [1, 7, 1000] {
            let mut capture = Capture::new(CaptureLimits::from_threshold(100));
            let text: Vec<char> = ('a'..='z').cycle().take(1000).collect();
            for piece in text.chunks(step) {
                capture.push(&piece.iter().collect::<String>());
            }
            let captured = capture.captured_text();
            assert_eq!(captured.head, text[..20].iter().collect::<String>());
            assert_eq!(captured.tail, Some(text[920..].iter().collect()));
            assert_eq!(captured.omitted_characters, 900);
        }
    }

    #[test]
    fn output_is_truncated_between_lines() {
        let mut capture = Capture::new(CaptureLimits::from_threshold(100));
        for number in 0..100 {
            capture.push(&format!("line {number}\n"));
        }
        let captured = capture.captured_text();
        assert_eq!(captured.head, "line 0\nline 1");
        let tail = captured.tail.unwrap_or_default();
        assert!(tail.starts_with("line ") && tail.ends_with("line 99"), "{tail}");
    }

    #[test]
    fn newest_part_starts_at_a_line() {
        let mut newest = TailBuffer::new(20);
        for number in 0..100 {
            newest.push(&format!("line {number}\n"));
        }
        assert_eq!(newest.take(), "line 98\nline 99\n");
        assert!(newest.is_empty());
    }
}
