//! Keys, as terminals send them.

/// A key that is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Key {
    Char(char),
    Ctrl(char),
    Alt(char),
    Enter,
    ShiftEnter,
    Tab,
    BackTab,
    Esc,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    F(u8),
}

impl Key {
    /// Returns the bytes of the key; `kitty` selects the kitty keyboard protocol with disambiguated
    /// escape codes.
    pub fn bytes(self, kitty: bool) -> Vec<u8> {
        let text = match self {
            Self::Char(character) => character.to_string(),
            Self::Ctrl(letter) if kitty => format!("\x1b[{};5u", u32::from(letter)),
            Self::Ctrl(letter) => char::from(letter.to_ascii_uppercase() as u8 & 0x1f).to_string(),
            Self::Alt(letter) if kitty => format!("\x1b[{};3u", u32::from(letter)),
            Self::Alt(letter) => format!("\x1b{letter}"),
            Self::Enter => "\r".to_owned(),
            Self::ShiftEnter if kitty => "\x1b[13;2u".to_owned(),
            // The sequence that terminals are configured to send.
            Self::ShiftEnter => "\\\r".to_owned(),
            Self::Tab => "\t".to_owned(),
            Self::BackTab => "\x1b[Z".to_owned(),
            Self::Esc if kitty => "\x1b[27u".to_owned(),
            Self::Esc => "\x1b".to_owned(),
            Self::Backspace => "\x7f".to_owned(),
            Self::Delete => "\x1b[3~".to_owned(),
            Self::Up => "\x1b[A".to_owned(),
            Self::Down => "\x1b[B".to_owned(),
            Self::Right => "\x1b[C".to_owned(),
            Self::Left => "\x1b[D".to_owned(),
            Self::Home => "\x1b[H".to_owned(),
            Self::End => "\x1b[F".to_owned(),
            Self::PageUp => "\x1b[5~".to_owned(),
            Self::PageDown => "\x1b[6~".to_owned(),
            Self::F(number) => match number {
                1..=4 => format!("\x1bO{}", char::from(b'O' + number)),
                5 => "\x1b[15~".to_owned(),
                6..=10 => format!("\x1b[{}~", number + 11),
                _ => format!("\x1b[{}~", number + 12),
            },
        };
        text.into_bytes()
    }
}
