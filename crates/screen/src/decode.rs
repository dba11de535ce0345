//! Bytes from the terminal to events: keys, pastes, the mouse, and the answers to
//! what the terminal was asked, anywhere between them.
//!
//! Pure: bytes in, events out. What comes out does not depend on how the bytes
//! were split. An unfinished sequence waits; [`Decoder::patience`] says how long
//! until [`Decoder::give_up`] takes it for what it is.

mod csi;
mod keys;
mod strings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::key::{InputEvent, Key, KeyCode, Modifiers};

const ESC: u8 = 0x1b;
/// A key that comes this soon behind Escape was pressed with Alt.
const ALT_PATIENCE: Duration = Duration::from_millis(25);
/// After this a lone Escape is the key: a network and a multiplexer may tear what a terminal
/// sends, right behind its first byte too.
const ESCAPE_PATIENCE: Duration = Duration::from_millis(80);
/// The same over a network.
const REMOTE_ESCAPE_PATIENCE: Duration = Duration::from_millis(200);
/// After this the two bytes that sequences begin with are Alt and a key.
const TORN_PATIENCE: Duration = Duration::from_millis(200);
/// After this the rest of a sequence does not come any more.
const SEQUENCE_PATIENCE: Duration = Duration::from_secs(1);
/// After this a paste is taken to have lost its end.
const PASTE_PATIENCE: Duration = Duration::from_secs(30);
/// A longer paste comes in several pieces.
const PASTE_PIECE: usize = 16 << 20;
const PASTE_END: &[u8] = b"\x1b[201~";
/// What may follow an Escape after a while: the beginnings of sequences, and Enter, which
/// would send a prompt.
const CONTINUES_ESCAPE: &[u8] = b"[]OP_\r";

/// What the terminal says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It knows the kitty keyboard protocol.
    Kitty,
    /// Its level of modifyOtherKeys.
    ModifyOtherKeys(u16),
    /// Whether it knows a mode (DECRPM).
    Mode { mode: u16, known: bool },
    /// What it is (DA1); comes from every terminal, and last.
    Attributes { sixel: bool },
    /// Whether it knows the kitty graphics protocol.
    KittyGraphics(bool),
    /// How many colours a sixel picture may have.
    SixelColors(u16),
    /// A cell's size in pixels: width, height.
    Cell(u16, u16),
    /// Its name and version (XTVERSION).
    Version(String),
    /// Where the cursor is: row and column, from 1.
    Cursor(u16, u16),
    /// The window's size as the terminal sees it: columns, rows.
    Size(u16, u16),
    /// Its colours changed between dark and light.
    ColorScheme,
    /// The background's colour.
    Background(u8, u8, u8),
}

/// What a sequence was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decoded {
    Event(InputEvent),
    Answer(Answer),
}

/// Details that depend on where the program runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DecoderOptions {
    /// The user writes Greek: Ω and µ are letters, not Option keys.
    pub greek: bool,
    /// The terminal is at the other end of a network.
    pub remote: bool,
}

/// The state between two reads.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    options: DecoderOptions,
    /// What has come and is not decided.
    buffer: Vec<u8>,
    /// How much of it has been searched for the end of a string or paste.
    searched: usize,
    pasting: bool,
    /// The lone Escape in the buffer came too long ago to be Alt.
    no_alt: bool,
    /// The newest byte was an Escape that was decided to be the key. The rest of a sequence
    /// may follow all the same.
    escape_was_key: bool,
    /// A `\r` ended the last piece of the paste.
    paste_return: bool,
    /// Cursor reports that were asked for: they look like F3 with modifiers.
    pub cursor_reports: u32,
    /// The answer to a question of the kitty graphics protocol may come: it looks like
    /// Alt with an underscore.
    pub awaits_graphics: bool,
}

/// What the beginning of the buffer is.
enum Step {
    /// So many bytes, and what they mean.
    Done(usize, Option<Decoded>),
    /// More bytes are needed.
    More,
    /// A paste begins behind so many bytes.
    Paste(usize),
}

impl Decoder {
    pub fn new(options: DecoderOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes bytes and gives what they decide.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Decoded>) {
        if std::mem::take(&mut self.no_alt)
            && self.buffer == [ESC]
            && !bytes.first().is_some_and(|byte| CONTINUES_ESCAPE.contains(byte))
        {
            self.buffer.clear();
            out.extend(key(Key::plain(KeyCode::Escape)));
        }
        if std::mem::take(&mut self.escape_was_key) && self.is_late_rest(bytes) {
            self.buffer.push(ESC);
        }
        self.buffer.extend_from_slice(bytes);
        self.run(false, out);
    }

    /// Whether bytes that follow an Escape key are the rest of a sequence and nothing else: a
    /// hand does not type one at once.
    fn is_late_rest(&self, bytes: &[u8]) -> bool {
        let sequence = [&[ESC], bytes].concat();
        let is_string = matches!(bytes.first(), Some(b']' | b'P'));
        match self.step(&sequence) {
            Step::Done(length, decoded) => {
                length > 2
                    && (decoded.is_some() || is_string)
                    && matches!(sequence.get(length), None | Some(&ESC))
            }
            // The beginning of an answer, `]11;` or `P>|`.
            Step::More => is_string && bytes.len() > 3,
            Step::Paste(_) => true,
        }
    }

    /// How long to wait for more bytes before giving up; `None` if nothing waits.
    pub fn patience(&self) -> Option<Duration> {
        if self.pasting {
            return Some(PASTE_PATIENCE);
        }
        match self.buffer.as_slice() {
            [] if self.escape_was_key => Some(SEQUENCE_PATIENCE),
            [] => None,
            [ESC] | [ESC, ESC, ..] if !self.no_alt => Some(ALT_PATIENCE),
            [ESC] | [ESC, ESC, ..] if self.options.remote => Some(REMOTE_ESCAPE_PATIENCE),
            [ESC] | [ESC, ESC, ..] => Some(ESCAPE_PATIENCE),
            // Alt and a key too, but more often what a network tore.
            [ESC, byte] if byte.is_ascii() => Some(TORN_PATIENCE),
            // So is half a character, which no key sends.
            _ => Some(SEQUENCE_PATIENCE),
        }
    }

    /// Nothing more came: what waits is decided as it is.
    pub fn give_up(&mut self, out: &mut Vec<Decoded>) {
        if self.pasting {
            self.pasting = false;
            let text = std::mem::take(&mut self.buffer);
            self.searched = 0;
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

    fn run(&mut self, last: bool, out: &mut Vec<Decoded>) {
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
                Step::More if last => match self.forced(rest) {
                    Some((length, decoded)) => Step::Done(length, decoded),
                    None => break,
                },
                step => step,
            };
            match step {
                Step::Done(length, decoded) => {
                    at += length.max(1);
                    self.searched = 0;
                    if let Some(Decoded::Answer(Answer::Cursor(..))) = decoded {
                        self.cursor_reports = self.cursor_reports.saturating_sub(1);
                    }
                    if let Some(Decoded::Answer(Answer::Attributes { .. })) = decoded {
                        self.awaits_graphics = false;
                    }
                    out.extend(decoded);
                }
                Step::More => {
                    self.searched = rest.len().saturating_sub(1);
                    break;
                }
                Step::Paste(length) => {
                    at += length;
                    self.searched = 0;
                    self.pasting = true;
                    self.paste_return = false;
                }
            }
        }
        self.buffer.drain(..at.min(self.buffer.len()));
    }

    fn step(&self, bytes: &[u8]) -> Step {
        match bytes {
            [] | [ESC] => Step::More,
            [ESC, b'[', ..] => csi::step(bytes, self.cursor_reports > 0),
            [ESC, b'O', ..] => keys::ss3(bytes),
            [ESC, b']', ..] => strings::osc(bytes, self.searched),
            [ESC, b'P', ..] => strings::dcs(bytes, self.searched),
            [ESC, b'_', rest @ ..] if self.awaits_graphics && strings::is_graphics(rest) => {
                strings::apc(bytes, self.searched)
            }
            // Escape, and then a key; or Alt with a key whose bytes begin so.
            [ESC, ESC] => Step::More,
            [ESC, ESC, b'[' | b'O'] => Step::More,
            [ESC, ESC, b'[' | b'O', ..] => self.alt_sequence(bytes),
            [ESC, ESC, ..] => Step::Done(1, key(Key::plain(KeyCode::Escape))),
            [ESC, rest @ ..] => match keys::character(rest, self.options) {
                Some((length, pressed)) => Step::Done(length + 1, key(with_alt(pressed))),
                None => Step::More,
            },
            _ => match keys::character(bytes, self.options) {
                Some((length, pressed)) => Step::Done(length, key(pressed)),
                None => Step::More,
            },
        }
    }

    /// Escape before a key's sequence: Alt, as rxvt and old terminals send it.
    fn alt_sequence(&self, bytes: &[u8]) -> Step {
        let rest = bytes.get(1..).unwrap_or_default();
        match self.step(rest) {
            Step::Done(length, Some(Decoded::Event(InputEvent::Key(pressed)))) => {
                Step::Done(length + 1, key(with_alt(pressed)))
            }
            Step::More => Step::More,
            // An answer or a paste behind the Escape key.
            _ => Step::Done(1, key(Key::plain(KeyCode::Escape))),
        }
    }

    /// What an unfinished sequence is when nothing follows.
    fn forced(&self, bytes: &[u8]) -> Option<(usize, Option<Decoded>)> {
        Some(match bytes {
            [] => return None,
            [ESC] => (1, key(Key::plain(KeyCode::Escape))),
            [ESC, ESC, ..] => (1, key(Key::plain(KeyCode::Escape))),
            [ESC, byte] if byte.is_ascii() => {
                let (_, pressed) = keys::character(&[*byte], self.options)?;
                (2, key(with_alt(pressed)))
            }
            // The rest of it got lost: nothing that a key would send.
            [ESC, b'[' | b'O' | b']' | b'P', ..] => (bytes.len(), None),
            [ESC, b'_', b'G', ..] if self.awaits_graphics => (bytes.len(), None),
            // A character that was cut.
            [ESC, rest @ ..] => {
                let replaced = Key::plain(KeyCode::Char(char::REPLACEMENT_CHARACTER));
                (1 + rest.len(), key(with_alt(replaced)))
            }
            _ => (bytes.len(), key(Key::plain(KeyCode::Char(char::REPLACEMENT_CHARACTER)))),
        })
    }

    /// Takes what there is of a paste; whether it has ended.
    fn paste_piece(&mut self, out: &mut Vec<Decoded>) -> bool {
        loop {
            let from = self.searched.saturating_sub(PASTE_END.len());
            let found =
                self.buffer.get(from..).and_then(|rest| memchr::memmem::find(rest, PASTE_END));
            let end = found.map(|found| from + found);
            let available = end.unwrap_or(self.buffer.len());
            if available > PASTE_PIECE + PASTE_END.len() {
                let cut = character_border(&self.buffer, PASTE_PIECE);
                let rest = self.buffer.split_off(cut);
                let piece = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                self.paste(&piece, false, out);
                continue;
            }
            let Some(end) = end else {
                self.searched = self.buffer.len();
                return false;
            };
            let rest = self.buffer.split_off(end + PASTE_END.len());
            let mut piece = std::mem::replace(&mut self.buffer, rest);
            piece.truncate(end);
            self.searched = 0;
            self.pasting = false;
            self.paste(&piece, true, out);
            return true;
        }
    }

    fn paste(&mut self, bytes: &[u8], last: bool, out: &mut Vec<Decoded>) {
        let text = String::from_utf8_lossy(bytes);
        // The first half of a CRLF was in the piece before.
        let text = match text.strip_prefix('\n') {
            Some(rest) if self.paste_return => rest,
            _ => &text,
        };
        self.paste_return = !last && text.ends_with('\r');
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if !text.is_empty() || last {
            out.push(Decoded::Event(InputEvent::Paste(text)));
        }
    }
}

/// The last place at or before `at` where no character is cut.
fn character_border(bytes: &[u8], at: usize) -> usize {
    let is_border = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (at.saturating_sub(3)..=at).rev().find(is_border).unwrap_or(at)
}

#[expect(clippy::unnecessary_wraps, reason = "the form in which steps carry it")]
fn key(key: Key) -> Option<Decoded> {
    Some(Decoded::Event(InputEvent::Key(key)))
}

fn with_alt(pressed: Key) -> Key {
    keys::normal(pressed.code, pressed.modifiers.union(Modifiers::ALT))
}
