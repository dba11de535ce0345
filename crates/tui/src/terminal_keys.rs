//! Encodes keys as the bytes that a terminal sends, for the process with the keyboard focus. Uses
//! the classic xterm encodings.

use parallax_screen::{Key, KeyCode, Modifiers};

/// Returns the bytes of a key; empty for keys without an encoding. `application` is whether
/// application cursor keys are enabled.
pub(crate) fn bytes(key: Key, application: bool) -> Vec<u8> {
    let alt = key.modifiers.contains(Modifiers::ALT);
    let ctrl = key.modifiers.contains(Modifiers::CTRL);
    let shift = key.modifiers.contains(Modifiers::SHIFT);
    let number = 1 + u8::from(shift) + 2 * u8::from(alt) + 4 * u8::from(ctrl);
    let letter = |letter: char| match number {
        1 if application => format!("\x1bO{letter}"),
        1 => format!("\x1b[{letter}"),
        _ => format!("\x1b[1;{number}{letter}"),
    };
    let tilde = |code: u8| match number {
        1 => format!("\x1b[{code}~"),
        _ => format!("\x1b[{code};{number}~"),
    };
    let plain = |text: &str| if alt { format!("\x1b{text}") } else { text.to_owned() };
    let text = match key.code {
        KeyCode::Char(char) if ctrl => match control(char) {
            Some(byte) => plain(char::from(byte).encode_utf8(&mut [0; 4])),
            None => return Vec::new(),
        },
        KeyCode::Char(char) => plain(char.encode_utf8(&mut [0; 4])),
        KeyCode::Enter => plain("\r"),
        KeyCode::Escape => plain("\x1b"),
        KeyCode::Tab if shift => "\x1b[Z".to_owned(),
        KeyCode::Tab => plain("\t"),
        KeyCode::Backspace => plain("\x7f"),
        KeyCode::Delete => tilde(3),
        KeyCode::Insert => tilde(2),
        KeyCode::Up => letter('A'),
        KeyCode::Down => letter('B'),
        KeyCode::Right => letter('C'),
        KeyCode::Left => letter('D'),
        KeyCode::Home => letter('H'),
        KeyCode::End => letter('F'),
        KeyCode::PageUp => tilde(5),
        KeyCode::PageDown => tilde(6),
        KeyCode::F(number @ 1..=4) => {
            return format!("\x1bO{}", char::from(b'P' + number - 1)).into_bytes();
        }
        KeyCode::F(number) => match [15, 17, 18, 19, 20, 21, 23, 24].get(usize::from(number) - 5) {
            Some(code) => tilde(*code),
            None => return Vec::new(),
        },
    };
    text.into_bytes()
}

/// Returns the control character of a key pressed with Ctrl.
fn control(char: char) -> Option<u8> {
    match char.to_ascii_lowercase() {
        letter @ 'a'..='z' => Some(letter as u8 - b'a' + 1),
        '@' | ' ' => Some(0),
        '[' => Some(27),
        '\\' => Some(28),
        ']' => Some(29),
        '^' => Some(30),
        '_' | '/' => Some(31),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_sequences_match_terminal_conventions() {
        for (key, expected) in [
            (Key::plain(KeyCode::Char('é')), "é"),
            (Key::ctrl('c'), "\x03"),
            (Key::alt('f'), "\x1bf"),
            (Key::plain(KeyCode::Up), "\x1b[A"),
            (Key::with(KeyCode::Left, Modifiers::CTRL), "\x1b[1;5D"),
            (Key::plain(KeyCode::F(1)), "\x1bOP"),
            (Key::plain(KeyCode::F(12)), "\x1b[24~"),
            (Key::plain(KeyCode::F(24)), ""),
            (Key::plain(KeyCode::Delete), "\x1b[3~"),
            (Key::plain(KeyCode::Enter), "\r"),
        ] {
            assert_eq!(bytes(key, false), expected.as_bytes(), "{key:?}");
        }
        assert_eq!(bytes(Key::plain(KeyCode::Up), true), b"\x1bOA");
    }
}
