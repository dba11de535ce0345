//! The model's Markdown as rows.
//!
//! Text is rendered while it streams: what can no longer change is given out
//! once, and only the block that is still open is rendered again. [`render`] of
//! a whole text gives the same rows, since it goes the same way.
//!
//! Rules that follow from it:
//! - `[text][label]` is a link if `label` is defined before the next block; a definition
//!   without an earlier link that refers to it is text;
//! - a footnote stands where it is written, and `[^1]` always points to one;
//! - a list item is followed by an empty row exactly when the source has an empty
//!   line there, whether or not the list is "loose";
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

/// The narrowest that text is rendered for, in columns.
pub const MIN_WIDTH: usize = 8;

/// How text is to be rendered.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The colours.
    pub theme: &'a Theme,
    /// Columns; at least [`MIN_WIDTH`] are used.
    pub width: usize,
    /// The style of ordinary text.
    pub base: Style,
    /// Numbers before lines of code.
    pub line_numbers: bool,
    /// For a screen reader: no boxes, no bars, no drawn signs.
    pub plain: bool,
    /// The source, its marks coloured, instead of what they mean.
    pub raw: bool,
}

impl<'a> Look<'a> {
    /// Ordinary rendering for a theme and a width.
    pub fn new(theme: &'a Theme, width: usize) -> Self {
        Self { theme, width, base: theme.response, line_numbers: false, plain: false, raw: false }
    }

    pub(crate) fn columns(&self) -> usize {
        self.width.max(MIN_WIDTH)
    }
}

/// The rows of a whole text.
pub fn render(text: &str, look: &Look<'_>) -> Vec<Line> {
    let mut stream = StreamedMarkdown::new();
    stream.push(text);
    stream.finish(look)
}

#[cfg(test)]
mod tests;
