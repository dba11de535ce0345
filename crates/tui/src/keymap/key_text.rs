//! Keys as text: `ctrl+shift+z` in `keybindings.json`, `Ctrl+Shift+Z` on the screen.

use parallax_screen::{Key, KeyCode, Modifiers};

use super::platform::Platform;

/// Why a string is not a valid key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyTextError {
    /// Unknown key or modifier.
    Unknown(String),
    /// A key that terminals do not report.
    NotReported(String),
    /// A numeric keypad key, which terminals report as the character that it types.
    AsTyped(String, char),
}

impl std::fmt::Display for KeyTextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "`{name}` is not a key or modifier"),
            Self::NotReported(name) => write!(f, "terminals do not report `{name}`"),
            Self::AsTyped(name, char) => {
                write!(
                    f,
                    "terminals report `{name}` as `{char}`, which could then no longer be typed"
                )
            }
        }
    }
}

/// Parses a key such as `ctrl+x`, `alt+enter`, `G` or `numpad_add`.
///
/// # Errors
/// Returns an error if the text names no key, or one that terminals do not report.
pub fn parse(text: &str) -> Result<Key, KeyTextError> {
    let text = text.trim();
    let mut modifiers = Modifiers::NONE;
    let mut rest = text;
    // The key itself may be `+`, so the text is split only at a `+` that is followed by a
    // character.
    while let Some((before, behind)) = rest.split_once('+') {
        if before.is_empty() || behind.is_empty() {
            break;
        }
        modifiers = modifiers.union(modifier(before)?);
        rest = behind;
    }
    let code = code(rest)?;
    // `A` means Shift and `a`; terminals report only the character.
    if let KeyCode::Char(char) = code
        && char.is_uppercase()
    {
        modifiers = modifiers.union(Modifiers::SHIFT);
    }
    let key = normalize(Key::with(code, modifiers));
    match key.character() {
        Some(char) if rest.len() > 1 && char.is_ascii_graphic() => {
            Err(KeyTextError::AsTyped(rest.to_owned(), char))
        }
        _ => Ok(key),
    }
}

/// Normalizes a key for comparison: typed characters have no Shift; with Ctrl, Alt, or Cmd, the
/// character is lowercase and Shift is a modifier.
pub fn normalize(key: Key) -> Key {
    let KeyCode::Char(char) = key.code else { return key };
    let others = Modifiers(key.modifiers.0 & !Modifiers::SHIFT.0);
    let shift = key.modifiers.contains(Modifiers::SHIFT);
    if others == Modifiers::NONE {
        let char = if shift { single_char(char.to_uppercase(), char) } else { char };
        return Key::plain(KeyCode::Char(char));
    }
    let lower = single_char(char.to_lowercase(), char);
    let modifiers = if lower == char { key.modifiers } else { others.union(Modifiers::SHIFT) };
    Key::with(KeyCode::Char(lower), modifiers)
}

fn single_char(mut chars: impl Iterator<Item = char>, otherwise: char) -> char {
    match (chars.next(), chars.next()) {
        (Some(char), None) => char,
        _ => otherwise,
    }
}

fn modifier(name: &str) -> Result<Modifiers, KeyTextError> {
    match name.trim().to_ascii_lowercase().as_str() {
        "ctrl" => Ok(Modifiers::CTRL),
        "shift" => Ok(Modifiers::SHIFT),
        "alt" | "opt" | "option" => Ok(Modifiers::ALT),
        "cmd" | "meta" => Ok(Modifiers::CMD),
        _ => Err(KeyTextError::Unknown(name.to_owned())),
    }
}

fn code(name: &str) -> Result<KeyCode, KeyTextError> {
    let mut chars = name.chars();
    if let (Some(char), None) = (chars.next(), chars.next()) {
        return Ok(KeyCode::Char(char));
    }
    let lower = name.to_ascii_lowercase();
    let code = match lower.as_str() {
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "tab" => KeyCode::Tab,
        "enter" => KeyCode::Enter,
        "escape" => KeyCode::Escape,
        "space" => KeyCode::Char(' '),
        "backspace" => KeyCode::Backspace,
        "delete" => KeyCode::Delete,
        "insert" => KeyCode::Insert,
        // Terminals report the digits and signs of the numeric keypad as characters, so they can
        // only be bound with Ctrl or similar.
        "numpad_add" => KeyCode::Char('+'),
        "numpad_subtract" => KeyCode::Char('-'),
        "numpad_multiply" => KeyCode::Char('*'),
        "numpad_divide" => KeyCode::Char('/'),
        "numpad_decimal" => KeyCode::Char('.'),
        "numpad_separator" => KeyCode::Char(','),
        "clear" | "printscreen" | "capslock" | "numlock" | "scrolllock" | "pausebreak" => {
            return Err(KeyTextError::NotReported(name.to_owned()));
        }
        _ => {
            return parse_numbered(&lower)
                .unwrap_or_else(|| Err(KeyTextError::Unknown(name.to_owned())));
        }
    };
    Ok(code)
}

/// Parses `f1` to `f35` and `numpad0` to `numpad9`.
fn parse_numbered(name: &str) -> Option<Result<KeyCode, KeyTextError>> {
    if let Some(digit) = name.strip_prefix("numpad") {
        let mut chars = digit.chars();
        let digit = chars.next().filter(char::is_ascii_digit)?;
        return chars.next().is_none().then_some(Ok(KeyCode::Char(digit)));
    }
    let digits = name.strip_prefix('f').filter(|digits| !digits.starts_with(['0', '+']))?;
    match digits.parse::<u8>().ok()? {
        number @ 1..=24 => Some(Ok(KeyCode::F(number))),
        25..=35 => Some(Err(KeyTextError::NotReported(name.to_owned()))),
        _ => None,
    }
}

/// Formats a key for display: `Ctrl+Shift+Z`, on a Mac `Option+Z`.
pub fn label(key: Key, platform: Platform) -> String {
    let mac = platform == Platform::Mac;
    let mut text = String::new();
    for (modifier, name) in [
        (Modifiers::CTRL, "Ctrl+"),
        (Modifiers::ALT, if mac { "Option+" } else { "Alt+" }),
        (Modifiers::SHIFT, "Shift+"),
        (Modifiers::CMD, if mac { "Cmd+" } else { "Super+" }),
    ] {
        if key.modifiers.contains(modifier) {
            text.push_str(name);
        }
    }
    let name = match key.code {
        KeyCode::Char(' ') => "Space",
        KeyCode::Char(char) => {
            if key.modifiers == Modifiers::NONE && char.is_uppercase() {
                text.push_str("Shift+");
            }
            text.extend(char.to_uppercase());
            return text;
        }
        KeyCode::F(number) => {
            text.push_str(&format!("F{number}"));
            return text;
        }
        KeyCode::Enter => "Enter",
        KeyCode::Escape => "Esc",
        KeyCode::Tab => "Tab",
        KeyCode::Backspace => "Backspace",
        KeyCode::Delete => "Delete",
        KeyCode::Insert => "Insert",
        KeyCode::Up => "Up",
        KeyCode::Down => "Down",
        KeyCode::Left => "Left",
        KeyCode::Right => "Right",
        KeyCode::Home => "Home",
        KeyCode::End => "End",
        KeyCode::PageUp => "PageUp",
        KeyCode::PageDown => "PageDown",
    };
    text.push_str(name);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_text_is_parsed() {
        for (text, key) in [
            ("ctrl+x", Key::ctrl('x')),
            ("Ctrl+X", Key::with(KeyCode::Char('x'), Modifiers::CTRL.union(Modifiers::SHIFT))),
            (
                "ctrl+shift+x",
                Key::with(KeyCode::Char('x'), Modifiers::CTRL.union(Modifiers::SHIFT)),
            ),
            ("option+left", Key::with(KeyCode::Left, Modifiers::ALT)),
            ("meta+z", Key::with(KeyCode::Char('z'), Modifiers::CMD)),
            ("G", Key::plain(KeyCode::Char('G'))),
            ("shift+g", Key::plain(KeyCode::Char('G'))),
            ("ctrl++", Key::ctrl('+')),
            ("+", Key::plain(KeyCode::Char('+'))),
            ("ctrl+[", Key::ctrl('[')),
            ("space", Key::plain(KeyCode::Char(' '))),
            ("ctrl+numpad7", Key::ctrl('7')),
            ("alt+numpad_add", Key::alt('+')),
            ("F12", Key::plain(KeyCode::F(12))),
            ("shift+tab", Key::with(KeyCode::Tab, Modifiers::SHIFT)),
            ("ü", Key::plain(KeyCode::Char('ü'))),
        ] {
            assert_eq!(parse(text), Ok(key), "{text}");
        }
    }

    #[test]
    fn invalid_key_is_rejected() {
        for text in ["", "ctrl+", "hyper+x", "ctrl+xy", "f0", "f36", "numpad12", "f+1"] {
            assert!(matches!(parse(text), Err(KeyTextError::Unknown(_))), "{text}");
        }
        for text in ["numpad7", "shift+numpad_add"] {
            assert!(matches!(parse(text), Err(KeyTextError::AsTyped(..))), "{text}");
        }
        for text in ["f30", "ctrl+printscreen", "clear"] {
            assert!(matches!(parse(text), Err(KeyTextError::NotReported(_))), "{text}");
        }
    }

    #[test]
    fn key_labels_match_the_keyboard() {
        let shown = |text| label(parse(text).unwrap(), Platform::Linux);
        assert_eq!(shown("ctrl+shift+z"), "Ctrl+Shift+Z");
        assert_eq!(shown("cmd+enter"), "Super+Enter");
        assert_eq!(shown("R"), "Shift+R");
        assert_eq!(label(parse("alt+z").unwrap(), Platform::Mac), "Option+Z");
    }
}
