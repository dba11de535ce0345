//! Decodes string answers: colors and the clipboard (OSC), the terminal's name (DCS), and graphics
//! support (APC).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{DecodeStep, DecodedInput, ESC, TerminalReply, key};
use crate::key::{InputEvent, Key, KeyCode, Modifiers};

/// Maximum length of an answer other than the clipboard.
const LENGTH_CAP: usize = 4 << 10;
/// Maximum size of clipboard contents.
const CLIPBOARD_CAP: usize = 24 << 20;

/// Decodes `ESC ]`, a number, `;` and text up to BEL or ST.
pub(super) fn osc(bytes: &[u8], searched: usize) -> DecodeStep {
    let body = bytes.get(2..).unwrap_or_default();
    let digits = body.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match body.get(digits) {
        None if digits <= 4 => return DecodeStep::More,
        Some(b';') if (1..=4).contains(&digits) => {}
        // Not an answer: Alt with a bracket followed by something else.
        _ => return DecodeStep::Done(2, key(Key::with(KeyCode::Char(']'), Modifiers::ALT))),
    }
    let is_clipboard = body.starts_with(b"52;");
    let cap = if is_clipboard { CLIPBOARD_CAP } else { LENGTH_CAP };
    match end(bytes, searched.max(2), cap) {
        StringTerminator::At(at, length) => {
            let text = bytes.get(2..at).unwrap_or_default();
            DecodeStep::Done(at + length, interpret_osc(text))
        }
        StringTerminator::Unterminated(at) => DecodeStep::Done(at, None),
        StringTerminator::Incomplete => DecodeStep::More,
    }
}

fn interpret_osc(text: &[u8]) -> Option<DecodedInput> {
    if let Some(data) = text.strip_prefix(b"52;") {
        let from = data.iter().position(|byte| *byte == b';')? + 1;
        let decoded = STANDARD.decode(data.get(from..)?.trim_ascii()).ok()?;
        let text = String::from_utf8_lossy(&decoded).into_owned();
        return Some(DecodedInput::Event(InputEvent::Clipboard(text)));
    }
    let color = std::str::from_utf8(text.strip_prefix(b"11;")?).ok()?;
    let (red, green, blue) = color_of(color)?;
    Some(DecodedInput::Answer(TerminalReply::Background(red, green, blue)))
}

/// Parses `rgb:ffff/ffff/ffff`, with 1 to 4 digits each, or `#ffffff`.
fn color_of(text: &str) -> Option<(u8, u8, u8)> {
    if let Some(digits) = text.strip_prefix('#') {
        let step = digits.len() / 3;
        let part = |at: usize| level(digits.get(at * step..(at + 1) * step)?);
        return Some((part(0)?, part(1)?, part(2)?));
    }
    let levels = text.strip_prefix("rgb:").or_else(|| text.strip_prefix("rgba:"))?;
    let mut levels = levels.split('/').map(level);
    Some((levels.next()??, levels.next()??, levels.next()??))
}

/// Scales one to four hexadecimal digits to 0–255.
fn level(digits: &str) -> Option<u8> {
    let length = u32::try_from(digits.len()).ok().filter(|length| (1..=4).contains(length))?;
    let value = u32::from_str_radix(digits, 16).ok()?;
    u8::try_from(value * 255 / (16_u32.pow(length) - 1)).ok()
}

/// Decodes `ESC P` and text up to ST.
pub(super) fn dcs(bytes: &[u8], searched: usize) -> DecodeStep {
    let body = bytes.get(2..).unwrap_or_default();
    let known = |prefix: &[u8]| body.iter().zip(prefix).all(|(a, b)| a == b);
    // The name, and the answers to DECRQSS and XTGETTCAP, which other programs may have requested.
    if ![&b">|"[..], b"0$r", b"1$r", b"0+r", b"1+r"].iter().any(|prefix| known(prefix)) {
        let held = Modifiers::ALT.union(Modifiers::SHIFT);
        return DecodeStep::Done(2, key(Key::with(KeyCode::Char('p'), held)));
    }
    match end(bytes, searched.max(2), LENGTH_CAP) {
        StringTerminator::At(at, length) => {
            let name = bytes.get(2..at).unwrap_or_default().strip_prefix(b">|");
            let name = name.map(|name| String::from_utf8_lossy(name).into_owned());
            DecodeStep::Done(
                at + length,
                name.map(|name| DecodedInput::Answer(TerminalReply::Version(name))),
            )
        }
        StringTerminator::Unterminated(at) => DecodeStep::Done(at, None),
        StringTerminator::Incomplete => DecodeStep::More,
    }
}

/// Whether the text after `ESC _` begins like an answer: `Gi=1;`.
pub(super) fn is_graphics(body: &[u8]) -> bool {
    body.iter().zip(b"Gi=1").all(|(a, b)| a == b)
}

/// Decodes `ESC _` and text up to ST.
pub(super) fn apc(bytes: &[u8], searched: usize) -> DecodeStep {
    match end(bytes, searched.max(2), LENGTH_CAP) {
        StringTerminator::At(at, length) => {
            let knows = bytes.get(2..at).is_some_and(|text| text.ends_with(b";OK"));
            DecodeStep::Done(
                at + length,
                Some(DecodedInput::Answer(TerminalReply::KittyGraphics(knows))),
            )
        }
        StringTerminator::Unterminated(at) => DecodeStep::Done(at, None),
        StringTerminator::Incomplete => DecodeStep::More,
    }
}

enum StringTerminator {
    /// The position of the terminator, and its length.
    At(usize, usize),
    /// Something else begins here, or the string is too long.
    Unterminated(usize),
    Incomplete,
}

fn end(bytes: &[u8], from: usize, cap: usize) -> StringTerminator {
    for (index, byte) in bytes.iter().enumerate().skip(from) {
        if index > cap {
            return StringTerminator::Unterminated(index);
        }
        match (*byte, bytes.get(index + 1)) {
            (0x07, _) => return StringTerminator::At(index, 1),
            (ESC, Some(b'\\')) => return StringTerminator::At(index, 2),
            (ESC, Some(_)) => return StringTerminator::Unterminated(index),
            (ESC, None) => return StringTerminator::Incomplete,
            _ => {}
        }
    }
    StringTerminator::Incomplete
}
