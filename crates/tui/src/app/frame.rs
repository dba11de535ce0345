//! What is drawn, and where.

use parallax_screen::Line;

/// A frame to draw.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// Final rows for the scrollback, each returned once.
    pub(crate) finished: Vec<Line>,
    /// The live region.
    pub(crate) live: Vec<Line>,
    /// Column and row in the live region.
    pub(crate) cursor: Option<(usize, usize)>,
    /// Whether and how the live region covers the whole window.
    pub(crate) cover: Option<FullWindowView>,
}

/// What covers the whole window until it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FullWindowView {
    /// A dialog below the end of the conversation. The mouse selects text.
    Dialog,
    /// The pager, which has the mouse.
    Pager,
}

/// The display mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A live region below the scrollback.
    Inline,
    /// The whole window.
    Full,
    /// Lines only, for a screen reader.
    Plain,
}
