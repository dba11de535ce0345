//! Decodes terminal input into events: keys, pastes, the mouse, and the answers to queries, which
//! may come anywhere in between.
//!
//! Pure: bytes in, events out. The result does not depend on how the bytes were split. An
//! unfinished sequence waits; [`Decoder::wait_time`] returns how long until [`Decoder::give_up`]
//! decides it as it is.

mod csi;
mod keys;
mod strings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::key::{InputEvent, Key, KeyCode, Modifiers};

const ESC: u8 = 0x1b;
/// A key that arrives this soon after Escape was pressed with Alt.
const ALT_TIMEOUT: Duration = Duration::from_millis(25);
/// After this time a lone Escape is the key: networks and multiplexers may split what a terminal
/// sends, even after its first byte.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(80);
/// The same over a network.
const REMOTE_ESCAPE_TIMEOUT: Duration = Duration::from_millis(200);
/// After this time the two bytes that begin sequences are Alt and a key.
const TORN_TIMEOUT: Duration = Duration::from_millis(200);
/// After this time the rest of a sequence is considered lost.
const SEQUENCE_TIMEOUT: Duration = Duration::from_secs(1);
/// After this time the end of a paste is considered lost.
const PASTE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a paste event in bytes; longer pastes are split.
const PASTE_PIECE: usize = 16 << 20;
const PASTE_END: &[u8] = b"\x1b[201~";
/// Bytes that may follow an Escape after a while: the beginnings of sequences, and Enter, which
/// would send a prompt.
const CONTINUES_ESCAPE: &[u8] = b"[]OP_\r";

/// An answer of the terminal about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalReply {
    /// It supports the kitty keyboard protocol.
    Kitty,
    /// The level of modifyOtherKeys.
    ModifyOtherKeys(u16),
    /// Whether a mode is known (DECRPM).
    Mode { mode: u16, known: bool },
    /// The device attributes (DA1); every terminal sends them, and last.
    Attributes { sixel: bool },
    /// Whether the kitty graphics protocol is supported.
    KittyGraphics(bool),
    /// Maximum number of colors in a sixel image.
    SixelColors(u16),
    /// The size of a cell in pixels: width, height.
    Cell(u16, u16),
    /// The name and version (XTVERSION).
    Version(String),
    /// The cursor position: row and column, from 1.
    Cursor(u16, u16),
    /// The window size as the terminal sees it: columns, rows.
    Size(u16, u16),
    /// The colors changed between dark and light.
    ColorScheme,
    /// The background color.
    Background(u8, u8, u8),
}

/// A decoded sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecodedInput {
    Event(InputEvent),
    Answer(TerminalReply),
}

/// Options that depend on the environment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DecoderOptions {
    /// Whether the user writes Greek: Ω and µ are letters, not Option keys.
    pub greek: bool,
    /// Whether the terminal is at the other end of a network.
    pub remote: bool,
}

/// The decoder state between two reads.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    options: DecoderOptions,
    /// Bytes that are not decided yet.
    buffer: Vec<u8>,
    /// How much of the buffer was searched for the end of a string or paste.
    searched_bytes: usize,
    pasting: bool,
    /// Whether the lone Escape in the buffer is too old to be Alt.
    no_alt: bool,
    /// Whether the newest byte was an Escape decided to be the key. The rest of a sequence may
    /// still follow.
    escape_was_key: bool,
    /// Whether a `\r` ended the last piece of the paste.
    paste_return: bool,
    /// Number of pending cursor reports, which look like F3 with modifiers.
    pub cursor_reports: u32,
    /// Whether an answer of the kitty graphics protocol may arrive, which looks like Alt with an
    /// underscore. It may be late: some terminals answer after the query that ends all.
    pub awaits_graphics: bool,
}

/// The meaning of the start of the buffer.
enum DecodeStep {
    /// The number of bytes of the sequence, and what it means.
    Done(usize, Option<DecodedInput>),
    /// More bytes are needed.
    More,
    /// A paste begins after this many bytes.
    Paste(usize),
}

impl Decoder {
    pub fn new(options: DecoderOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Adds bytes and returns what they decide.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<DecodedInput>) {
        if std::mem::take(&mut self.no_alt)
            && self.buffer == [ESC]
            && !bytes.first().is_some_and(|byte| CONTINUES_ESCAPE.contains(byte))
        {
            self.buffer.clear();
            out.extend(key(Key::plain(KeyCode::Escape)));
        }
        if std::mem::take(&mut self.escape_was_key) && self.is_delayed_sequence(bytes) {
            self.buffer.push(ESC);
        }
        self.buffer.extend_from_slice(bytes);
        self.run(false, out);
    }

    /// Whether bytes after an Escape key are the rest of a sequence and nothing else: users do not
    /// type one at once.
    fn is_delayed_sequence(&self, bytes: &[u8]) -> bool {
        // Otherwise, it is a character of several bytes.
        if !bytes.first().is_some_and(|byte| CONTINUES_ESCAPE.contains(byte)) {
            return false;
        }
        let sequence = [&[ESC], bytes].concat();
        let is_string = matches!(bytes.first(), Some(b']' | b'P'));
        match self.step(&sequence) {
            DecodeStep::Done(length, decoded) => {
                length > 2
                    && (decoded.is_some() || is_string)
                    && matches!(sequence.get(length), None | Some(&ESC))
            }
            // The start of an answer, `]11;` or `P>|`.
            DecodeStep::More => is_string && bytes.len() > 3,
            DecodeStep::Paste(_) => true,
        }
    }

    /// Returns how long to wait for more bytes before giving up, or `None` if nothing waits.
    pub fn wait_time(&self) -> Option<Duration> {
        if self.pasting {
            return Some(PASTE_TIMEOUT);
        }
        match self.buffer.as_slice() {
            [] if self.escape_was_key => Some(SEQUENCE_TIMEOUT),
            [] => None,
            [ESC] | [ESC, ESC, ..] if !self.no_alt => Some(ALT_TIMEOUT),
            [ESC] | [ESC, ESC, ..] if self.options.remote => Some(REMOTE_ESCAPE_TIMEOUT),
            [ESC] | [ESC, ESC, ..] => Some(ESCAPE_TIMEOUT),
            // Possibly Alt and a key, but more often a sequence split by a network.
            [ESC, byte] if byte.is_ascii() => Some(TORN_TIMEOUT),
            // This includes partial characters, which no key sends.
            _ => Some(SEQUENCE_TIMEOUT),
        }
    }

    /// Decides the pending bytes as they are, because nothing followed.
    pub fn give_up(&mut self, out: &mut Vec<DecodedInput>) {
        if self.pasting {
            self.pasting = false;
            let text = std::mem::take(&mut self.buffer);
            self.searched_bytes = 0;
            self.paste(&text, true, out);
            return;
        }
        if self.buffer == [ESC] && !self.no_alt {
            self.no_alt = true;
            return;
        }
        self.no_alt = false;
        self.escape_was_key = self.buffer == [ESC];
        self.run(true, out);
    }

    fn run(&mut self, last: bool, out: &mut Vec<DecodedInput>) {
        let mut at = 0;
        loop {
            if self.pasting {
                self.buffer.drain(..at);
                at = 0;
                if !self.paste_piece(out) {
                    return;
                }
            }
            let rest = self.buffer.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let step = match self.step(rest) {
                DecodeStep::More if last => match self.decode_unfinished(rest) {
                    Some((length, decoded)) => DecodeStep::Done(length, decoded),
                    None => break,
                },
                step => step,
            };
            match step {
                DecodeStep::Done(length, decoded) => {
                    at += length.max(1);
                    self.searched_bytes = 0;
                    if let Some(DecodedInput::Answer(TerminalReply::Cursor(..))) = decoded {
                        self.cursor_reports = self.cursor_reports.saturating_sub(1);
                    }
                    if let Some(DecodedInput::Answer(TerminalReply::KittyGraphics(_))) = decoded {
                        self.awaits_graphics = false;
                    }
                    out.extend(decoded);
                }
                DecodeStep::More => {
                    self.searched_bytes = rest.len().saturating_sub(1);
                    break;
                }
                DecodeStep::Paste(length) => {
                    at += length;
                    self.searched_bytes = 0;
                    self.pasting = true;
                    self.paste_return = false;
                }
            }
        }
        self.buffer.drain(..at.min(self.buffer.len()));
    }

    fn step(&self, bytes: &[u8]) -> DecodeStep {
        match bytes {
            [] | [ESC] => DecodeStep::More,
            [ESC, b'[', ..] => csi::step(bytes, self.cursor_reports > 0),
            [ESC, b'O', ..] => keys::ss3(bytes),
            [ESC, b']', ..] => strings::osc(bytes, self.searched_bytes),
            [ESC, b'P', ..] => strings::dcs(bytes, self.searched_bytes),
            [ESC, b'_', rest @ ..] if self.awaits_graphics && strings::is_graphics(rest) => {
                strings::apc(bytes, self.searched_bytes)
            }
            // Escape followed by a key, or Alt with a key whose bytes start this way.
            [ESC, ESC] => DecodeStep::More,
            [ESC, ESC, b'[' | b'O'] => DecodeStep::More,
            [ESC, ESC, b'[' | b'O', ..] => self.alt_sequence(bytes),
            [ESC, ESC, ..] => DecodeStep::Done(1, key(Key::plain(KeyCode::Escape))),
            [ESC, rest @ ..] => match keys::character(rest, self.options) {
                Some((length, pressed)) => DecodeStep::Done(length + 1, key(with_alt(pressed))),
                None => DecodeStep::More,
            },
            _ => match keys::character(bytes, self.options) {
                Some((length, pressed)) => DecodeStep::Done(length, key(pressed)),
                None => DecodeStep::More,
            },
        }
    }

    /// Decodes Escape before a key sequence as Alt, as rxvt and old terminals send it.
    fn alt_sequence(&self, bytes: &[u8]) -> DecodeStep {
        let rest = bytes.get(1..).unwrap_or_default();
        match self.step(rest) {
            DecodeStep::Done(length, Some(DecodedInput::Event(InputEvent::Key(pressed)))) => {
                DecodeStep::Done(length + 1, key(with_alt(pressed)))
            }
            DecodeStep::More => DecodeStep::More,
            // An answer or a paste after the Escape key.
            _ => DecodeStep::Done(1, key(Key::plain(KeyCode::Escape))),
        }
    }

    /// Returns the meaning of an unfinished sequence when nothing follows.
    fn decode_unfinished(&self, bytes: &[u8]) -> Option<(usize, Option<DecodedInput>)> {
        Some(match bytes {
            [] => return None,
            [ESC] => (1, key(Key::plain(KeyCode::Escape))),
            [ESC, ESC, ..] => (1, key(Key::plain(KeyCode::Escape))),
            [ESC, byte] if byte.is_ascii() => {
                let (_, pressed) = keys::character(&[*byte], self.options)?;
                (2, key(with_alt(pressed)))
            }
            // The rest was lost; no key sends this.
            [ESC, b'[' | b'O' | b']' | b'P', ..] => (bytes.len(), None),
            [ESC, b'_', b'G', b'i', b'=', ..] if self.awaits_graphics => (bytes.len(), None),
            // Keys that looked like the start of an answer.
            [ESC, b'_', ..] => (2, key(Key::with(KeyCode::Char('_'), Modifiers::ALT))),
            // A truncated character.
            [ESC, rest @ ..] => {
                let replaced = Key::plain(KeyCode::Char(char::REPLACEMENT_CHARACTER));
                (1 + rest.len(), key(with_alt(replaced)))
            }
            _ => (bytes.len(), key(Key::plain(KeyCode::Char(char::REPLACEMENT_CHARACTER)))),
        })
    }

    /// Handles the available part of a paste. Returns whether it ended.
    fn paste_piece(&mut self, out: &mut Vec<DecodedInput>) -> bool {
        loop {
            let from = self.searched_bytes.saturating_sub(PASTE_END.len());
            let found =
                self.buffer.get(from..).and_then(|rest| memchr::memmem::find(rest, PASTE_END));
            let end = found.map(|found| from + found);
            let available = end.unwrap_or(self.buffer.len());
            if available > PASTE_PIECE + PASTE_END.len() {
                let cut = character_border(&self.buffer, PASTE_PIECE);
                let rest = self.buffer.split_off(cut);
                let piece = std::mem::replace(&mut self.buffer, rest);
                self.searched_bytes = 0;
                self.paste(&piece, false, out);
                continue;
            }
            let Some(end) = end else {
                self.searched_bytes = self.buffer.len();
                return false;
            };
            let rest = self.buffer.split_off(end + PASTE_END.len());
            let mut piece = std::mem::replace(&mut self.buffer, rest);
            piece.truncate(end);
            self.searched_bytes = 0;
            self.pasting = false;
            self.paste(&piece, true, out);
            return true;
        }
    }

    fn paste(&mut self, bytes: &[u8], last: bool, out: &mut Vec<DecodedInput>) {
        let text = String::from_utf8_lossy(bytes);
        // The first half of a CRLF was in the previous piece.
        let text = match text.strip_prefix('\n') {
            Some(rest) if self.paste_return => rest,
            _ => &text,
        };
        self.paste_return = !last && text.ends_with('\r');
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if !text.is_empty() || last {
            out.push(DecodedInput::Event(InputEvent::Paste(text)));
        }
    }
}

/// Returns the last character boundary at or before `at`.
fn character_border(bytes: &[u8], at: usize) -> usize {
    let is_border = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (at.saturating_sub(3)..=at).rev().find(is_border).unwrap_or(at)
}

#[expect(clippy::unnecessary_wraps, reason = "the form in which steps carry it")]
fn key(key: Key) -> Option<DecodedInput> {
    Some(DecodedInput::Event(InputEvent::Key(key)))
}

fn with_alt(pressed: Key) -> Key {
    keys::normalize(pressed.code, pressed.modifiers.union(Modifiers::ALT))
}
