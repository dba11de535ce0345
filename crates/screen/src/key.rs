//! Decoded input of the terminal.

/// Modifier keys; a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Modifiers(pub u8);

impl Modifiers {
    /// No modifiers.
    pub const NONE: Self = Self(0);
    /// Shift. Not set for characters that are typed with it (`A`, `?`).
    pub const SHIFT: Self = Self(1);
    /// Alt or Option.
    pub const ALT: Self = Self(2);
    /// Control.
    pub const CTRL: Self = Self(4);
    /// Command, Super, or Meta.
    pub const CMD: Self = Self(8);

    /// Whether all modifiers of `other` are pressed.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A key without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum KeyCode {
    /// A character: as typed without modifiers; with Ctrl, Alt, or Cmd the lowercase character, and
    /// Shift as a modifier.
    Char(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Delete,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// F1 to F24.
    F(u8),
}

/// A key press or repeat. Releases are not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The key.
    pub code: KeyCode,
    /// The modifiers.
    pub modifiers: Modifiers,
}

impl Key {
    /// Creates a key without modifiers.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: Modifiers::NONE }
    }

    /// Creates a key with modifiers.
    pub const fn with(code: KeyCode, modifiers: Modifiers) -> Self {
        Self { code, modifiers }
    }

    /// Creates a character with Ctrl.
    pub const fn ctrl(char: char) -> Self {
        Self { code: KeyCode::Char(char), modifiers: Modifiers::CTRL }
    }

    /// Creates a character with Alt.
    pub const fn alt(char: char) -> Self {
        Self { code: KeyCode::Char(char), modifiers: Modifiers::ALT }
    }

    /// Returns the character that the key adds to the text of a burst.
    pub(crate) fn burst_character(self) -> Option<char> {
        match self {
            _ if self == Self::plain(KeyCode::Enter) => Some('\r'),
            _ if self == Self::ctrl('j') => Some('\n'),
            _ if self == Self::plain(KeyCode::Tab) => Some('\t'),
            key => key.character(),
        }
    }

    /// Whether the key ends a line in a burst.
    pub fn ends_line(self) -> bool {
        matches!(self.burst_character(), Some('\r' | '\n'))
    }

    /// Returns the character that the key types, if any.
    pub fn character(self) -> Option<char> {
        match self.code {
            KeyCode::Char(char) if self.modifiers.0 & !Modifiers::SHIFT.0 == 0 => Some(char),
            _ => None,
        }
    }
}

/// Returns the text of the keys of a burst with `\n` line endings.
pub fn burst_text(keys: &[Key]) -> String {
    let text: String = keys.iter().filter_map(|key| key.burst_character()).collect();
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The kind of mouse event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum MouseKind {
    LeftDown,
    LeftDrag,
    LeftUp,
    RightDown,
    WheelUp,
    WheelDown,
}

/// A mouse event while the mouse is captured (full screen only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MouseEvent {
    /// The kind of event.
    pub kind: MouseKind,
    /// The column, from 0.
    pub column: u16,
    /// The row, from 0.
    pub row: u16,
}

/// An input event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputEvent {
    /// A key.
    Key(Key),
    /// Pasted text with `\n` line endings.
    Paste(String),
    /// Several lines that arrived in one burst, as from a terminal that does not mark pasted text:
    /// characters, tabs, and line endings.
    Burst(Vec<Key>),
    /// A mouse event.
    Mouse(MouseEvent),
    /// The window got (`true`) or lost the focus.
    Focus(bool),
    /// The window's size changed (columns, rows).
    Resize(u16, u16),
    /// The terminal's background color was reported (red, green, blue).
    Background(u8, u8, u8),
    /// The clipboard text requested with OSC 52.
    Clipboard(String),
    /// The terminal is gone (hang-up or end of input).
    Closed,
    /// The program was suspended and continues: everything must be redrawn.
    Resumed,
}
