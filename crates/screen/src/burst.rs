//! Pasted text from terminals that do not mark it: only the pace of the keys tells a paste
//! from typing.
//!
//! Keys that arrive within [`GAP`] of each other are a burst. A burst of one line is typed
//! text, and a line ending that closes it is Enter: `tmux send-keys 'text' Enter` and expect
//! scripts send that. A burst of several lines is one paste, whatever its line ends.
//!
//! Pure: decoded items and times in, decoded items out.

use std::time::{Duration, Instant};

use crate::decode::DecodedInput;
use crate::key::{InputEvent, Key, KeyCode, Modifiers};

/// The longest pause within a burst.
const GAP: Duration = Duration::from_millis(30);
/// Maximum number of keys in a paste event; longer pastes are split.
const PIECE: usize = 1 << 20;

/// The keys of the current burst that are not delivered yet.
#[derive(Debug, Default)]
pub(crate) struct KeyBurst {
    pending_keys: Vec<Key>,
    /// When the newest key of the burst arrived.
    newest: Option<Instant>,
    /// Whether text of this burst was delivered as keys.
    delivered_text: bool,
    /// Whether the burst has several lines.
    is_paste: bool,
}

impl KeyBurst {
    /// Takes the items decoded at `now` and leaves those that can be delivered now.
    pub fn take(&mut self, decoded: &mut Vec<DecodedInput>, now: Instant) {
        let mut out = Vec::with_capacity(decoded.len());
        if self.time_left(now) == Some(Duration::ZERO) {
            self.end(&mut out);
        }
        for item in decoded.drain(..) {
            match item {
                // The terminal may answer at any time.
                DecodedInput::Answer(_) => {
                    self.deliver_unambiguous(&mut out);
                    out.push(item);
                }
                DecodedInput::Event(InputEvent::Key(key)) if key.burst_character().is_some() => {
                    self.pending_keys.push(key);
                    self.newest = Some(now);
                }
                DecodedInput::Event(event) => {
                    self.deliver_unambiguous(&mut out);
                    // In a paste of several lines, it is a character of the text.
                    let is_control = |key: Key| {
                        key.modifiers == Modifiers::CTRL && matches!(key.code, KeyCode::Char(_))
                    };
                    if self.is_paste && matches!(event, InputEvent::Key(key) if is_control(key)) {
                        self.newest = Some(now);
                        continue;
                    }
                    self.end(&mut out);
                    out.push(DecodedInput::Event(event));
                }
            }
        }
        self.deliver_unambiguous(&mut out);
        *decoded = out;
    }

    /// Returns how long to wait for more of the burst, or `None` if nothing is held.
    pub fn wait_time(&self, now: Instant) -> Option<Duration> {
        self.time_left(now).filter(|_| !self.pending_keys.is_empty())
    }

    fn time_left(&self, now: Instant) -> Option<Duration> {
        self.newest.map(|newest| GAP.saturating_sub(now.saturating_duration_since(newest)))
    }

    /// Ends the burst because nothing more arrived.
    pub fn end(&mut self, out: &mut Vec<DecodedInput>) {
        self.release(out);
        *self = Self::default();
    }

    /// Delivers the keys whose meaning does not depend on what follows.
    fn deliver_unambiguous(&mut self, out: &mut Vec<DecodedInput>) {
        if !self.is_paste {
            // Line ends at the end are undecided; text after one makes several lines.
            let ends = self.pending_keys.iter().rev().take_while(|key| key.ends_line()).count();
            let text = self.pending_keys.len() - ends;
            self.is_paste = self.pending_keys.iter().take(text).any(|key| key.ends_line());
            if !self.is_paste {
                let keys = self.pending_keys.drain(..text);
                self.delivered_text |= keys.len() > 0;
                out.extend(keys.map(key_event));
                if !self.delivered_text {
                    // Enter with nothing before it was pressed alone.
                    out.extend(self.pending_keys.drain(..).map(key_event));
                    self.newest = None;
                }
            }
        }
        if self.pending_keys.len() > PIECE {
            self.release(out);
        }
    }

    fn release(&mut self, out: &mut Vec<DecodedInput>) {
        if self.pending_keys.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.pending_keys);
        if !self.is_paste {
            return out.extend(held.into_iter().map(key_event));
        }
        out.push(DecodedInput::Event(InputEvent::Burst(held)));
    }
}

fn key_event(key: Key) -> DecodedInput {
    DecodedInput::Event(InputEvent::Key(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyCode, burst_text};

    /// Returns what is delivered for pieces of text that arrive at these times (milliseconds).
    fn delivered(pieces: &[(u64, &str)]) -> String {
        let start = Instant::now();
        let mut burst = KeyBurst::default();
        let mut out = Vec::new();
        for (at, text) in pieces {
            let now = start + Duration::from_millis(*at);
            if burst.wait_time(now) == Some(Duration::ZERO) {
                burst.end(&mut out);
            }
            let key = |char| match char {
                '\r' => Key::plain(KeyCode::Enter),
                '\n' => Key::ctrl('j'),
                '\t' => Key::plain(KeyCode::Tab),
                '^' => Key::plain(KeyCode::Up),
                '\u{3}' => Key::ctrl('c'),
                '\u{4}' => Key::ctrl('d'),
                char => Key::plain(KeyCode::Char(char)),
            };
            let mut decoded: Vec<DecodedInput> = text.chars().map(key).map(key_event).collect();
            burst.take(&mut decoded, now);
            out.extend(decoded);
        }
        burst.end(&mut out);
        let shown = out.into_iter().map(|item| match item {
            DecodedInput::Event(InputEvent::Key(key)) => match key.code {
                KeyCode::Enter => "<enter>".to_owned(),
                KeyCode::Tab => "<tab>".to_owned(),
                KeyCode::Up => "<up>".to_owned(),
                _ if key == Key::ctrl('j') => "<ctrl+j>".to_owned(),
                _ if key == Key::ctrl('c') => "<ctrl+c>".to_owned(),
                KeyCode::Char(char) => char.to_string(),
                code => format!("{code:?}"),
            },
            DecodedInput::Event(InputEvent::Burst(keys)) => {
                format!("<paste {:?}>", burst_text(&keys))
            }
            other => format!("{other:?}"),
        });
        shown.collect()
    }

    #[test]
    fn burst_of_several_lines_is_one_paste() {
        for (pieces, expected) in [
            (&[(0, "one\rtwo\rthree")][..], r#"<paste "one\ntwo\nthree">"#),
            (&[(0, "one\rtwo\r")], r#"<paste "one\ntwo\n">"#),
            (&[(0, "one\ntwo")], r#"<paste "one\ntwo">"#),
            (&[(0, "one\r\n\ttwo\r\n")], r#"<paste "one\n\ttwo\n">"#),
            (&[(0, "\rone")], r#"<paste "\none">"#),
            (&[(0, "a\r\r\rb")], r#"<paste "a\n\n\nb">"#),
            (&[(0, "ä\r漢字")], r#"<paste "ä\n漢字">"#),
            // Control characters of the text press no keys.
            (&[(0, "a\rb\u{3}\rc")], r#"<paste "a\nb\nc">"#),
            (&[(0, "a\rb"), (9, "\u{4}\u{3}"), (18, "\rc")], r#"<paste "a\nb\nc">"#),
            // A read may end anywhere.
            (&[(0, "one\r"), (20, "two\r"), (40, "three")], r#"one<paste "\ntwo\nthree">"#),
            (&[(0, "o"), (5, "ne"), (9, "\r"), (12, "two\r")], r#"one<paste "\ntwo\n">"#),
            (&[(0, "one\r\n"), (29, "two\r\n")], r#"one<paste "\ntwo\n">"#),
        ] {
            assert_eq!(delivered(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn burst_of_one_line_is_typed_and_its_end_is_enter() {
        for (pieces, expected) in [
            (&[(0, "text\r")][..], "text<enter>"),
            (&[(0, "text"), (10, "\r")], "text<enter>"),
            (&[(0, "text"), (500, "\r")], "text<enter>"),
            (&[(0, "text\r"), (31, "more\r")], "text<enter>more<enter>"),
            (&[(0, "\r"), (5, "text")], "<enter>text"),
            (&[(0, "\r\r")], "<enter><enter>"),
            (&[(0, "text\n")], "text<ctrl+j>"),
            (&[(0, "/he\t")], "/he<tab>"),
            // A key that types no text ends the burst.
            (&[(0, "text\r^text\r")], "text<enter><up>text<enter>"),
            (&[(0, "^\r")], "<up><enter>"),
            (&[(0, "text\u{3}")], "text<ctrl+c>"),
            (&[(0, "text\r\u{3}")], "text<enter><ctrl+c>"),
        ] {
            assert_eq!(delivered(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn typed_keys_are_delivered_immediately() {
        let now = Instant::now();
        let mut burst = KeyBurst::default();
        let mut decoded = vec![key_event(Key::plain(KeyCode::Char('a')))];
        burst.take(&mut decoded, now);
        assert_eq!(decoded.len(), 1);
        let mut decoded = vec![key_event(Key::plain(KeyCode::Enter))];
        burst.take(&mut decoded, now + GAP);
        assert_eq!(decoded.len(), 1, "a pause came before it");
    }

    #[test]
    fn huge_paste_is_delivered_in_pieces() {
        let now = Instant::now();
        let mut burst = KeyBurst::default();
        let keys = |count| std::iter::repeat_n(key_event(Key::plain(KeyCode::Char('x'))), count);
        let mut decoded: Vec<DecodedInput> =
            keys(1).chain([key_event(Key::plain(KeyCode::Enter))]).collect();
        decoded.extend(keys(PIECE));
        burst.take(&mut decoded, now);
        assert!(
            matches!(&decoded[..], [DecodedInput::Event(InputEvent::Burst(keys))] if keys.len() == PIECE + 2)
        );
    }
}
