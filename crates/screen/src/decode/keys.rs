//! Decodes characters, control codes, and the short sequences of function keys.

use super::{DecodeStep, DecoderOptions, ESC, key};
use crate::key::{Key, KeyCode, Modifiers};

/// Characters that Option types on a Mac keyboard if the terminal does not send Alt.
const OPTION_KEYS: [(char, char, bool); 7] = [
    ('∫', 'b', false),
    ('ƒ', 'f', false),
    ('µ', 'm', true),
    ('Ω', 'z', true),
    ('¸', 'Z', false),
    ('∂', 'd', false),
    // The Greek letter as typed by some keyboards.
    ('Ω', 'z', true),
];

/// Normalizes a key: with Ctrl, Alt, or Cmd, the character is lowercase and Shift is a modifier;
/// otherwise the character is as typed.
pub(super) fn normalize(code: KeyCode, modifiers: Modifiers) -> Key {
    let KeyCode::Char(char) = code else {
        return Key::with(code, modifiers);
    };
    let command = Modifiers(modifiers.0 & !Modifiers::SHIFT.0);
    if command == Modifiers::NONE {
        if !modifiers.contains(Modifiers::SHIFT) {
            return Key::plain(code);
        }
        return Key::plain(KeyCode::Char(single_char(char.to_uppercase(), char)));
    }
    if char.is_uppercase() {
        let lower = single_char(char.to_lowercase(), char);
        return Key::with(KeyCode::Char(lower), modifiers.union(Modifiers::SHIFT));
    }
    Key::with(code, modifiers)
}

/// Returns the case mapping if it is one character.
fn single_char(mut mapped: impl Iterator<Item = char>, otherwise: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(char), None) => char,
        _ => otherwise,
    }
}

/// Decodes a character or control code at the start of `bytes`. Returns its length and key, or
/// `None` if it is incomplete.
pub(super) fn character(bytes: &[u8], options: DecoderOptions) -> Option<(usize, Key)> {
    let first = *bytes.first()?;
    if first.is_ascii() {
        return Some((1, control(first)));
    }
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let available = bytes.get(..length.min(bytes.len()))?;
    match std::str::from_utf8(available) {
        Ok(text) => {
            let char = text.chars().next()?;
            Some((length, option_key(char, options)))
        }
        // An incomplete character.
        Err(error) if error.error_len().is_none() => None,
        Err(error) => {
            let skipped = error.error_len().unwrap_or(1);
            Some((skipped, Key::plain(KeyCode::Char(char::REPLACEMENT_CHARACTER))))
        }
    }
}

fn option_key(char: char, options: DecoderOptions) -> Key {
    let mapped = OPTION_KEYS
        .iter()
        .find(|(typed, _, is_greek)| *typed == char && !(options.greek && *is_greek));
    match mapped {
        Some((_, letter, _)) => normalize(KeyCode::Char(*letter), Modifiers::ALT),
        None => Key::plain(KeyCode::Char(char)),
    }
}

fn control(byte: u8) -> Key {
    match byte {
        0 => Key::ctrl(' '),
        b'\t' => Key::plain(KeyCode::Tab),
        b'\r' => Key::plain(KeyCode::Enter),
        ESC => Key::plain(KeyCode::Escape),
        0x7f => Key::plain(KeyCode::Backspace),
        1..=26 => Key::ctrl(char::from(byte - 1 + b'a')),
        28..=31 => Key::ctrl(char::from(byte + 0x40)),
        _ => Key::plain(KeyCode::Char(char::from(byte))),
    }
}

/// Decodes `ESC O` and a letter, with modifiers in between in some terminals.
pub(super) fn ss3(bytes: &[u8]) -> DecodeStep {
    let digits = bytes.iter().skip(2).take_while(|byte| byte.is_ascii_digit()).count();
    let Some(letter) = bytes.get(2 + digits) else {
        return if digits > 2 {
            DecodeStep::Done(2, key(Key::with(KeyCode::Char('o'), SHIFT_ALT)))
        } else {
            DecodeStep::More
        };
    };
    let modifier = bytes.get(2..2 + digits).and_then(|digits| std::str::from_utf8(digits).ok());
    let modifiers = modifiers(modifier.and_then(|digits| digits.parse().ok()).unwrap_or(1));
    let pressed = match letter {
        b'a' => Some(Key::with(KeyCode::Up, Modifiers::CTRL)),
        b'b' => Some(Key::with(KeyCode::Down, Modifiers::CTRL)),
        b'c' => Some(Key::with(KeyCode::Right, Modifiers::CTRL)),
        b'd' => Some(Key::with(KeyCode::Left, Modifiers::CTRL)),
        _ => key_for_final(*letter)
            .or_else(|| keypad(*letter))
            .map(|code| normalize(code, modifiers)),
    };
    match pressed {
        Some(pressed) => DecodeStep::Done(3 + digits, key(pressed)),
        // Alt with a capital O, followed by something else.
        None => DecodeStep::Done(2, key(Key::with(KeyCode::Char('o'), SHIFT_ALT))),
    }
}

const SHIFT_ALT: Modifiers = Modifiers(Modifiers::SHIFT.0 | Modifiers::ALT.0);

/// Returns the key whose sequence ends with a letter, after CSI or SS3.
pub(super) fn key_for_final(letter: u8) -> Option<KeyCode> {
    Some(match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'P' => KeyCode::F(1),
        b'Q' => KeyCode::F(2),
        b'R' => KeyCode::F(3),
        b'S' => KeyCode::F(4),
        _ => return None,
    })
}

/// Returns the numeric keypad key in application mode.
fn keypad(letter: u8) -> Option<KeyCode> {
    Some(match letter {
        b'M' => KeyCode::Enter,
        b'I' => KeyCode::Tab,
        b'X' => KeyCode::Char('='),
        b' ' => KeyCode::Char(' '),
        b'j'..=b'y' => KeyCode::Char(char::from(letter - 0x40)),
        _ => return None,
    })
}

/// Returns the key whose sequence ends with `~`.
pub(super) fn key_for_number(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(to_u8(number - 10)),
        17..=21 => KeyCode::F(to_u8(number - 11)),
        23..=26 => KeyCode::F(to_u8(number - 12)),
        28 | 29 => KeyCode::F(to_u8(number - 13)),
        31..=34 => KeyCode::F(to_u8(number - 14)),
        _ => return None,
    })
}

/// Returns the key of the kitty protocol or of modifyOtherKeys by code point, or `None` for keys
/// without their own function.
pub(super) fn key_from_code_point(code: u32) -> Option<KeyCode> {
    Some(match code {
        8 | 127 => KeyCode::Backspace,
        9 => KeyCode::Tab,
        10 | 13 | 57_414 => KeyCode::Enter,
        27 => KeyCode::Escape,
        57_376..=57_387 => KeyCode::F(to_u8(code - 57_376 + 13)),
        57_399..=57_408 => KeyCode::Char(char::from_digit(code - 57_399, 10)?),
        57_409 => KeyCode::Char('.'),
        57_410 => KeyCode::Char('/'),
        57_411 => KeyCode::Char('*'),
        57_412 => KeyCode::Char('-'),
        57_413 => KeyCode::Char('+'),
        57_415 => KeyCode::Char('='),
        57_416 => KeyCode::Char(','),
        57_417 => KeyCode::Left,
        57_418 => KeyCode::Right,
        57_419 => KeyCode::Up,
        57_420 => KeyCode::Down,
        57_421 => KeyCode::PageUp,
        57_422 => KeyCode::PageDown,
        57_423 => KeyCode::Home,
        57_424 => KeyCode::End,
        57_425 => KeyCode::Insert,
        57_426 => KeyCode::Delete,
        57_344..=63_743 => return None,
        _ => KeyCode::Char(char::from_u32(code).filter(|char| !char.is_control())?),
    })
}

/// Decodes a modifier parameter: one more than the bits of Shift, Alt, Ctrl, Super, Hyper, and
/// Meta.
pub(super) fn modifiers(parameter: u32) -> Modifiers {
    let bits = parameter.saturating_sub(1);
    let mut modifiers = Modifiers(to_u8(bits & 0b111));
    if bits & 0b10_1000 != 0 {
        modifiers = modifiers.union(Modifiers::CMD);
    }
    modifiers
}

fn to_u8(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(0)
}
