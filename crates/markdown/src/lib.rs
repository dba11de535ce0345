//! Renders Markdown and code as rows of the terminal. Independent of the agent.
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

#[cfg(feature = "rows")]
mod block;
#[cfg(feature = "rows")]
mod code;
#[cfg(feature = "rows")]
mod excess_cells;
#[cfg(feature = "rows")]
pub mod highlight;
#[cfg(feature = "rows")]
mod inline;
#[cfg(feature = "rows")]
mod latex;
#[cfg(feature = "rows")]
mod links;
pub mod literal;
#[cfg(feature = "rows")]
mod mermaid;
#[cfg(feature = "rows")]
mod numbers;
#[cfg(feature = "rows")]
mod open_block;
#[cfg(feature = "rows")]
mod raw;
#[cfg(feature = "rows")]
mod streamed;
#[cfg(feature = "rows")]
mod table;

#[cfg(feature = "rows")]
mod render;
#[cfg(feature = "rows")]
mod render_options;

#[cfg(feature = "rows")]
pub use code::code_spans;
#[cfg(feature = "rows")]
pub use links::href;
#[cfg(feature = "rows")]
pub use render::render;
#[cfg(feature = "rows")]
pub use render_options::{MIN_WIDTH, RenderOptions};
#[cfg(feature = "rows")]
pub use streamed::StreamedMarkdown;

#[cfg(all(test, feature = "rows"))]
mod tests;
