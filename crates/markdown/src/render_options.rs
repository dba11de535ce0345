//! The options of rendering.

use parallax_screen::Style;
use parallax_screen::theme::Theme;

/// Minimum width for rendering, in columns.
pub const MIN_WIDTH: usize = 8;

/// Rendering options.
#[derive(Debug, Clone, Copy)]
pub struct RenderOptions<'a> {
    /// The theme.
    pub theme: &'a Theme,
    /// The width in columns; at least [`MIN_WIDTH`] is used.
    pub width: usize,
    /// The style of plain text.
    pub base: Style,
    /// Whether code has line numbers.
    pub line_numbers: bool,
    /// Whether to omit boxes, bars, and drawn signs, for screen readers.
    pub plain: bool,
    /// Whether to show the source with highlighted markup.
    pub raw: bool,
}

impl<'a> RenderOptions<'a> {
    /// Creates the default options for a theme and a width.
    pub fn new(theme: &'a Theme, width: usize) -> Self {
        Self { theme, width, base: theme.response, line_numbers: false, plain: false, raw: false }
    }

    pub(crate) fn columns(&self) -> usize {
        self.width.max(MIN_WIDTH)
    }
}
