//! How a cell looks.

/// A colour. `None` in a [`Style`] is the terminal's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Color {
    /// One of the terminal's 16 colours (8 to 15 are the bright ones).
    Ansi(u8),
    /// One of 256.
    Indexed(u8),
    /// 24 bits.
    Rgb(u8, u8, u8),
}

/// What a cell is besides its colours; a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub u8);

impl Attributes {
    /// Bold.
    pub const BOLD: Self = Self(1);
    /// Faint.
    pub const DIM: Self = Self(2);
    /// Italic.
    pub const ITALIC: Self = Self(4);
    /// Underlined.
    pub const UNDERLINE: Self = Self(8);
    /// Foreground and background exchanged.
    pub const REVERSE: Self = Self(16);
    /// Struck through.
    pub const STRIKE: Self = Self(32);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Attributes that are visible on a space.
const SHOWS_ON_BLANK: u8 = Attributes::UNDERLINE.0 | Attributes::REVERSE.0 | Attributes::STRIKE.0;

/// How a cell looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Style {
    /// The colour of the text.
    pub fg: Option<Color>,
    /// The colour behind it.
    pub bg: Option<Color>,
    /// Bold and its kin.
    pub attributes: Attributes,
}

impl Style {
    /// The terminal's own.
    pub const PLAIN: Self = Self { fg: None, bg: None, attributes: Attributes(0) };

    /// Text of this colour.
    pub fn fg(color: Color) -> Self {
        Self { fg: Some(color), ..Self::PLAIN }
    }

    /// With this colour behind it.
    #[must_use]
    pub fn on(mut self, color: Color) -> Self {
        self.bg = Some(color);
        self
    }

    /// With these attributes too.
    #[must_use]
    pub fn with(mut self, attributes: Attributes) -> Self {
        self.attributes = self.attributes.union(attributes);
        self
    }

    /// Bold too.
    #[must_use]
    pub fn bold(self) -> Self {
        self.with(Attributes::BOLD)
    }

    /// Faint too.
    #[must_use]
    pub fn dim(self) -> Self {
        self.with(Attributes::DIM)
    }

    /// Italic too.
    #[must_use]
    pub fn italic(self) -> Self {
        self.with(Attributes::ITALIC)
    }

    /// Underlined too.
    #[must_use]
    pub fn underline(self) -> Self {
        self.with(Attributes::UNDERLINE)
    }

    /// The part that is visible on a space: the background and a few attributes. The rest
    /// would only cost bytes.
    pub(crate) fn on_blank(self) -> Self {
        let attributes = Attributes(self.attributes.0 & SHOWS_ON_BLANK);
        let fg = if attributes.0 == 0 { None } else { self.fg };
        Self { fg, bg: self.bg, attributes }
    }

    /// What `over` sets, on top of this.
    #[must_use]
    pub fn patch(self, over: Self) -> Self {
        Self {
            fg: over.fg.or(self.fg),
            bg: over.bg.or(self.bg),
            attributes: self.attributes.union(over.attributes),
        }
    }
}
