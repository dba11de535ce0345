//! The text that an edit replaces, and its positions.

use std::ops::Range;

/// The old and new text of the model, with `\n` line endings.
pub(crate) struct RequestedEdit {
    pub(crate) old: String,
    pub(crate) new: String,
}

/// A replacement in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The range in [`SourceText::text`].
    pub range: Range<usize>,
    /// The replacement.
    pub new: String,
    /// The first and last line, from 1.
    pub lines: (usize, usize),
}
