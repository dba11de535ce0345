//! What comes in from the terminal, decoded.

/// Keys held while another is pressed; a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Modifiers(pub u8);

impl Modifiers {
    /// None.
    pub const NONE: Self = Self(0);
    /// Shift. Not set for characters that are typed with it (`A`, `?`).
    pub const SHIFT: Self = Self(1);
    /// Alt, Option.
    pub const ALT: Self = Self(2);
    /// Control.
    pub const CTRL: Self = Self(4);
    /// Command, Super, Meta.
    pub const CMD: Self = Self(8);

    /// Whether all of `other` are held.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum KeyCode {
    /// A character: as typed without modifiers; with Ctrl, Alt or Cmd the lower
    /// case of the key, and Shift as a modifier.
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

/// A key press (repeats too; releases are not told).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Which.
    pub code: KeyCode,
    /// What is held with it.
    pub modifiers: Modifiers,
}

impl Key {
    /// A key alone.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: Modifiers::NONE }
    }

    /// A key with others held.
    pub const fn with(code: KeyCode, modifiers: Modifiers) -> Self {
        Self { code, modifiers }
    }

    /// Ctrl and a character.
    pub const fn ctrl(char: char) -> Self {
        Self { code: KeyCode::Char(char), modifiers: Modifiers::CTRL }
    }

    /// Alt and a character.
    pub const fn alt(char: char) -> Self {
        Self { code: KeyCode::Char(char), modifiers: Modifiers::ALT }
    }

    /// The character that it adds to the text of a burst.
    pub(crate) fn in_burst(self) -> Option<char> {
        match self {
            _ if self == Self::plain(KeyCode::Enter) => Some('\r'),
            _ if self == Self::ctrl('j') => Some('\n'),
            _ if self == Self::plain(KeyCode::Tab) => Some('\t'),
            key => key.typed(),
        }
    }

    /// Whether it ends a line in a burst.
    pub fn ends_line(self) -> bool {
        matches!(self.in_burst(), Some('\r' | '\n'))
    }

    /// The character that it types, if it is one.
    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(char) if self.modifiers.0 & !Modifiers::SHIFT.0 == 0 => Some(char),
            _ => None,
        }
    }
}

/// The text of the keys of a burst; line ends are `\n`.
pub fn burst_text(keys: &[Key]) -> String {
    let text: String = keys.iter().filter_map(|key| key.in_burst()).collect();
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// What the mouse did.
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

/// The mouse, where it is captured (full screen only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MouseEvent {
    /// What it did.
    pub kind: MouseKind,
    /// The column, from 0.
    pub column: u16,
    /// The row, from 0.
    pub row: u16,
}

/// What comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputEvent {
    /// A key.
    Key(Key),
    /// Text that was pasted; line ends are `\n`.
    Paste(String),
    /// Several lines that came in one burst, as from a terminal that does not mark pasted
    /// text: characters, tabs and line ends.
    Burst(Vec<Key>),
    /// The mouse.
    Mouse(MouseEvent),
    /// The window has the focus or lost it.
    Focus(bool),
    /// The window's size changed (columns, rows).
    Resize(u16, u16),
    /// The terminal's background is known, or changed (red, green, blue).
    Background(u8, u8, u8),
    /// The clipboard's text, as asked for with OSC 52.
    Clipboard(String),
    /// The terminal is gone (hang-up, end of input).
    Closed,
    /// The program was suspended and continues: everything must be redrawn.
    Resumed,
}
