//! Decodes control sequences: keys with modifiers, the mouse, and most answers.

use super::keys::{key_for_final, key_for_number, key_from_code_point, modifiers, normalize};
use super::{DecodeStep, DecodedInput, ESC, TerminalReply, key};
use crate::key::{InputEvent, Key, KeyCode, Modifiers, MouseEvent, MouseKind};

/// Maximum length of a sequence with a meaning.
const LENGTH_CAP: usize = 128;

/// Decodes the sequence at the start of `bytes`, which begins with `ESC [`.
pub(super) fn step(bytes: &[u8], cursor_report: bool) -> DecodeStep {
    let body = bytes.get(2..).unwrap_or_default();
    match body {
        // F1 to F5 of the Linux console.
        [b'[', letter @ b'A'..=b'E', ..] => {
            return DecodeStep::Done(4, key(Key::plain(KeyCode::F(letter - b'A' + 1))));
        }
        [b'['] => return DecodeStep::More,
        // rxvt's Shift with a key, which ends with a dollar sign.
        [a @ b'1'..=b'8', b'$', ..] => return DecodeStep::Done(4, rxvt(&[*a], Modifiers::SHIFT)),
        [a @ b'1'..=b'3', b @ b'0'..=b'9', b'$', ..] => {
            return DecodeStep::Done(5, rxvt(&[*a, *b], Modifiers::SHIFT));
        }
        // The old mouse report: three bytes of any value.
        [b'M', rest @ ..] => {
            return match rest {
                [button, column, row, ..] => DecodeStep::Done(6, x10(*button, *column, *row)),
                _ => DecodeStep::More,
            };
        }
        _ => {}
    }
    let length =
        body.iter().take(LENGTH_CAP).take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
    match body.get(length) {
        _ if length == LENGTH_CAP => DecodeStep::Done(2 + length, None),
        None => DecodeStep::More,
        Some(b'~') if body.get(..length) == Some(b"200") => DecodeStep::Paste(length + 3),
        Some(last @ 0x40..=0x7e) => {
            let parameters = body.get(..length).unwrap_or_default();
            DecodeStep::Done(length + 3, interpret_csi(parameters, *last, cursor_report))
        }
        // Not a sequence: Alt with a bracket, or interrupted by another sequence.
        Some(&ESC) if length > 0 => DecodeStep::Done(2 + length, None),
        Some(_) if length == 0 => {
            DecodeStep::Done(2, key(Key::with(KeyCode::Char('['), Modifiers::ALT)))
        }
        Some(_) => DecodeStep::Done(2 + length, None),
    }
}

fn interpret_csi(parameters: &[u8], last: u8, cursor_report: bool) -> Option<DecodedInput> {
    let text = std::str::from_utf8(parameters).ok()?;
    match (text.as_bytes().first(), last) {
        (Some(b'?'), _) => decode_private(text.get(1..)?, last),
        (Some(b'>'), b'm') => {
            let numbers = Parameters::new(text.get(1..)?);
            (numbers.first(0) == 4).then(|| {
                DecodedInput::Answer(TerminalReply::ModifyOtherKeys(short(numbers.first(1))))
            })
        }
        (Some(b'<'), b'M' | b'm') => sgr_mouse(&Parameters::new(text.get(1..)?), last == b'm'),
        (Some(b'<' | b'=' | b'>'), _) => None,
        (_, b'^') => rxvt(parameters, Modifiers::CTRL),
        (_, b'@') => rxvt(parameters, Modifiers::CTRL.union(Modifiers::SHIFT)),
        _ => decode_plain(&Parameters::new(text), last, cursor_report),
    }
}

/// Decodes answers with `?`.
fn decode_private(text: &str, last: u8) -> Option<DecodedInput> {
    let numbers = Parameters::new(text.trim_end_matches('$'));
    let answer = match last {
        b'u' => TerminalReply::Kitty,
        b'c' => TerminalReply::Attributes {
            sixel: (1..numbers.count()).any(|at| numbers.first(at) == 4),
        },
        b'S' if numbers.first(0) == 1 && numbers.count() == 3 && numbers.first(1) == 0 => {
            TerminalReply::SixelColors(short(numbers.first(2)))
        }
        b'y' if text.ends_with('$') => TerminalReply::Mode {
            mode: short(numbers.first(0)),
            known: matches!(numbers.first(1), 1..=3),
        },
        b'n' if numbers.first(0) == 997 => TerminalReply::ColorScheme,
        b'R' => TerminalReply::Cursor(short(numbers.first(0)), short(numbers.first(1))),
        _ => return None,
    };
    Some(DecodedInput::Answer(answer))
}

fn decode_plain(numbers: &Parameters<'_>, last: u8, cursor_report: bool) -> Option<DecodedInput> {
    let modifier = modifiers(numbers.first(1).max(1));
    let code = match last {
        b'I' => return Some(DecodedInput::Event(InputEvent::Focus(true))),
        b'O' => return Some(DecodedInput::Event(InputEvent::Focus(false))),
        b'Z' => {
            let held = modifier.union(Modifiers::SHIFT);
            return key(Key::with(KeyCode::Tab, held));
        }
        b't' if numbers.first(0) == 8 => {
            let (rows, columns) = (short(numbers.first(1)), short(numbers.first(2)));
            return Some(DecodedInput::Answer(TerminalReply::Size(columns, rows)));
        }
        b't' if numbers.first(0) == 6 && numbers.count() == 3 => {
            let (height, width) = (short(numbers.first(1)), short(numbers.first(2)));
            return Some(DecodedInput::Answer(TerminalReply::Cell(width, height)));
        }
        b'R' if cursor_report && numbers.count() == 2 => {
            let (row, column) = (short(numbers.first(0)), short(numbers.first(1)));
            return Some(DecodedInput::Answer(TerminalReply::Cursor(row, column)));
        }
        // Only a key has no number or a 1 here.
        b'R' if numbers.first(0) > 1 => return None,
        b'a' => return key(Key::with(KeyCode::Up, Modifiers::SHIFT)),
        b'b' => return key(Key::with(KeyCode::Down, Modifiers::SHIFT)),
        b'c' => return key(Key::with(KeyCode::Right, Modifiers::SHIFT)),
        b'd' => return key(Key::with(KeyCode::Left, Modifiers::SHIFT)),
        b'u' => {
            let (code, shifted) = (numbers.first(0), numbers.part(0, 1));
            return coded_key(code, shifted, modifier, numbers);
        }
        b'~' if numbers.first(0) == 27 && numbers.count() >= 3 => {
            return coded_key(numbers.first(2), 0, modifier, numbers);
        }
        b'~' => key_for_number(numbers.first(0))?,
        _ => key_for_final(last)?,
    };
    // Numeric keypad keys are reported as keys; releases are ignored.
    if numbers.part(1, 1) == RELEASE {
        return None;
    }
    key(normalize(code, modifier))
}

const RELEASE: u32 = 3;

fn coded_key(
    code: u32,
    shifted: u32,
    held: Modifiers,
    numbers: &Parameters<'_>,
) -> Option<DecodedInput> {
    if numbers.part(1, 1) == RELEASE {
        return None;
    }
    let only_shift = held == Modifiers::SHIFT && shifted > 0;
    let code = key_from_code_point(if only_shift { shifted } else { code })?;
    key(normalize(code, if only_shift { Modifiers::NONE } else { held }))
}

fn rxvt(number: &[u8], held: Modifiers) -> Option<DecodedInput> {
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    key(Key::with(key_for_number(number)?, held))
}

fn x10(button: u8, column: u8, row: u8) -> Option<DecodedInput> {
    let button = u32::from(button.wrapping_sub(32));
    let at = |byte: u8| u32::from(byte.saturating_sub(32));
    // The report does not say which button was released.
    let released = button & 0b11 == 3 && button & 64 == 0;
    mouse(if released { button & !0b11 } else { button }, at(column), at(row), released)
}

fn sgr_mouse(numbers: &Parameters<'_>, released: bool) -> Option<DecodedInput> {
    mouse(numbers.first(0), numbers.first(1), numbers.first(2), released)
}

fn mouse(button: u32, column: u32, row: u32, released: bool) -> Option<DecodedInput> {
    let kind = match (button & 0b11, button & 64 != 0, button & 32 != 0) {
        (0, true, _) => MouseKind::WheelUp,
        (1, true, _) => MouseKind::WheelDown,
        (0, false, _) if released => MouseKind::LeftUp,
        (0, false, true) => MouseKind::LeftDrag,
        (0, false, false) => MouseKind::LeftDown,
        (2, false, false) if !released => MouseKind::RightDown,
        _ => return None,
    };
    let (column, row) = (short(column.saturating_sub(1)), short(row.saturating_sub(1)));
    Some(DecodedInput::Event(InputEvent::Mouse(MouseEvent { kind, column, row })))
}

fn short(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// The parameters of a sequence: `a:b;c` is two, the first with two parts. Missing parts are 0.
struct Parameters<'a>(&'a str);

impl<'a> Parameters<'a> {
    fn new(text: &'a str) -> Self {
        Self(text)
    }

    fn first(&self, at: usize) -> u32 {
        self.part(at, 0)
    }

    fn part(&self, at: usize, part: usize) -> u32 {
        let parameter = self.0.split(';').nth(at).unwrap_or_default();
        parameter.split(':').nth(part).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    fn count(&self) -> usize {
        self.0.split(';').count()
    }
}
