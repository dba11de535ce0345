//! Renders the model's Markdown as rows.
//!
//! Text is rendered while it streams: what can no longer change is returned once, and only the
//! block that is still open is rendered again. [`render`] of a whole text returns the same rows,
//! since it works the same way.
//!
//! The following rules result from this:
//! - `[text][label]` is a link if `label` is defined before the next block; a definition without an
//!   earlier link that refers to it is text;
//! - a footnote stays where it is written, and `[^1]` always refers to one;
//! - a list item is followed by an empty row exactly when the source has an empty line there,
//!   whether or not the list is "loose";
//! - a line break in a paragraph is a line break.

mod block;
mod code;
mod inline;
mod latex;
mod links;
mod mermaid;
mod numbers;
mod open_block;
mod raw;
mod streamed;
mod table;

use parallax_screen::{Line, Style};

pub(crate) use code::code_spans;
pub(crate) use links::href;
pub use streamed::StreamedMarkdown;

use crate::theme::Theme;

/// Minimum width for rendering, in columns.
pub const MIN_WIDTH: usize = 8;

/// Rendering options.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
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

impl<'a> Look<'a> {
    /// Creates the default options for a theme and a width.
    pub fn new(theme: &'a Theme, width: usize) -> Self {
        Self { theme, width, base: theme.response, line_numbers: false, plain: false, raw: false }
    }

    pub(crate) fn columns(&self) -> usize {
        self.width.max(MIN_WIDTH)
    }
}

/// Renders a whole text.
pub fn render(text: &str, look: &Look<'_>) -> Vec<Line> {
    let mut stream = StreamedMarkdown::new();
    stream.push(text);
    stream.finish(look)
}

#[cfg(test)]
mod tests;
