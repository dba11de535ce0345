//! Continues printing a message whose earlier attempt was printed already and became invalid.

/// Tracks one message. Nothing is stored until an attempt becomes invalid; the text of that attempt
/// is then compared with the next one.
#[derive(Debug, Default)]
pub(crate) struct Continuation {
    /// The printed text, after an attempt became invalid.
    printed_text: String,
    /// Number of bytes of `printed_text` that match the current attempt.
    matched_bytes: usize,
    /// Whether an attempt became invalid.
    retried: bool,
}

impl Continuation {
    /// Processes the next piece of the message and appends to `out` what has to be printed: nothing
    /// while the text repeats, the rest if it is longer, and the current line again if it differs.
    pub(crate) fn push(&mut self, mut text: &str, out: &mut String) {
        if !self.retried {
            out.push_str(text);
            return;
        }
        let remaining = self.printed_text.get(self.matched_bytes..).unwrap_or("");
        if !remaining.is_empty() {
            let same = common_prefix(remaining, text);
            self.matched_bytes += same;
            text = text.get(same..).unwrap_or("");
            if text.is_empty() {
                return;
            }
            if self.matched_bytes < self.printed_text.len() {
                self.restart_line(out);
            }
        }
        out.push_str(text);
        self.printed_text.push_str(text);
        self.matched_bytes = self.printed_text.len();
    }

    /// Marks the attempt with the text `attempt` as invalid; another one follows.
    pub(crate) fn invalidate(&mut self, attempt: &str) {
        if !std::mem::replace(&mut self.retried, true) {
            attempt.clone_into(&mut self.printed_text);
        }
        self.matched_bytes = 0;
    }

    /// Ends the message. If the attempt is shorter than the printed text, nothing more is printed.
    pub(crate) fn finish(&mut self) {
        *self = Self::default();
    }

    /// Starts a new line with the current line of the attempt.
    fn restart_line(&mut self, out: &mut String) {
        if !self.printed_text.ends_with('\n') {
            out.push('\n');
        }
        self.printed_text.truncate(self.matched_bytes);
        let start = self.printed_text.rfind('\n').map_or(0, |offset| offset + 1);
        out.push_str(self.printed_text.get(start..).unwrap_or(""));
    }
}

/// Returns the length of the common prefix of two strings, at a character boundary of both.
fn common_prefix(a: &str, b: &str) -> usize {
    let mut same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    while !a.is_char_boundary(same) || !b.is_char_boundary(same) {
        same -= 1;
    }
    same
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Prints a first attempt, invalidates it, and prints a second one in pieces.
    fn retried(first: &str, second: &[&str]) -> String {
        let (mut message, mut out) = (Continuation::default(), String::new());
        message.push(first, &mut out);
        message.invalidate(first);
        for piece in second {
            message.push(piece, &mut out);
        }
        message.finish();
        out
    }

    #[test]
    fn repeated_answer_is_printed_once() {
        assert_eq!(retried("Hello wor", &["Hel", "lo world", "!"]), "Hello world!");
    }

    #[test]
    fn different_answer_restarts_its_line() {
        assert_eq!(
            retried("One\nTwo apples", &["One\nTwo ", "pears\nEnd"]),
            "One\nTwo apples\nTwo pears\nEnd"
        );
        assert_eq!(retried("Yes.\n", &["No."]), "Yes.\nNo.");
        assert_eq!(retried("für", &["fünf"]), "für\nfünf");
    }

    #[test]
    fn shorter_answer_adds_nothing() {
        assert_eq!(retried("Hello world", &["Hello"]), "Hello world");
        assert_eq!(retried("Hello world", &[]), "Hello world");
    }

    proptest! {
        #[test]
        fn longer_retry_continues_the_answer(
            first in "[ab\\né]{0,12}", second in "[ab\\né]{1,12}", cut in 0usize..12,
        ) {
            let cut = (0..=cut.min(second.len())).rev().find(|&offset| second.is_char_boundary(offset)).unwrap_or(0);
            let out = retried(&first, &[&second[..cut], &second[cut..]]);
            // The second answer is complete from the line where it diverges.
            let last = second.rsplit('\n').next().unwrap_or("");
            prop_assert!(out.ends_with(last) || first.starts_with(&second), "{out:?}");
            let repeated = retried(&second, &[&second]);
            prop_assert_eq!(repeated, second);
        }
    }
}
