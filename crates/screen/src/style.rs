//! Colors, attributes, and styles of cells.

/// A color. `None` in a [`Style`] is the terminal's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Color {
    /// One of the terminal's 16 colors (8 to 15 are the bright ones).
    Ansi(u8),
    /// One of 256 colors.
    Indexed(u8),
    /// A 24-bit color.
    Rgb(u8, u8, u8),
}

/// Text attributes; a set of bits.
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
    /// Foreground and background swapped.
    pub const REVERSE: Self = Self(16);
    /// Struck through.
    pub const STRIKE: Self = Self(32);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set without `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Attributes that are visible on a space.
const SHOWS_ON_BLANK: u8 = Attributes::UNDERLINE.0 | Attributes::REVERSE.0 | Attributes::STRIKE.0;

/// The style of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Style {
    /// The foreground color.
    pub fg: Option<Color>,
    /// The background color.
    pub bg: Option<Color>,
    /// The attributes.
    pub attributes: Attributes,
}

impl Style {
    /// The terminal's default style.
    pub const PLAIN: Self = Self { fg: None, bg: None, attributes: Attributes(0) };

    /// Creates a style with this foreground color.
    pub fn fg(color: Color) -> Self {
        Self { fg: Some(color), ..Self::PLAIN }
    }

    /// Sets the background color.
    #[must_use]
    pub fn on(mut self, color: Color) -> Self {
        self.bg = Some(color);
        self
    }

    /// Adds attributes.
    #[must_use]
    pub fn with(mut self, attributes: Attributes) -> Self {
        self.attributes = self.attributes.union(attributes);
        self
    }

    /// Adds bold.
    #[must_use]
    pub fn bold(self) -> Self {
        self.with(Attributes::BOLD)
    }

    /// Adds faint.
    #[must_use]
    pub fn dim(self) -> Self {
        self.with(Attributes::DIM)
    }

    /// Adds italic.
    #[must_use]
    pub fn italic(self) -> Self {
        self.with(Attributes::ITALIC)
    }

    /// Adds underline.
    #[must_use]
    pub fn underline(self) -> Self {
        self.with(Attributes::UNDERLINE)
    }

    /// Returns the part that is visible on a space: the background and a few attributes. The rest
    /// would only cost bytes.
    pub(crate) fn visible_on_space(self) -> Self {
        let attributes = Attributes(self.attributes.0 & SHOWS_ON_BLANK);
        let fg = if attributes.0 == 0 { None } else { self.fg };
        Self { fg, bg: self.bg, attributes }
    }

    /// Applies what `over` sets on top of this style.
    #[must_use]
    pub fn patch(self, over: Self) -> Self {
        Self {
            fg: over.fg.or(self.fg),
            bg: over.bg.or(self.bg),
            attributes: self.attributes.union(over.attributes),
        }
    }
}
