//! The size of a terminal.

use std::num::NonZeroU16;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters per row.
    pub columns: NonZeroU16,
    /// Rows.
    pub rows: NonZeroU16,
}

impl TerminalSize {
    /// Creates a size; 0 is treated as 1.
    pub fn new(columns: u16, rows: u16) -> Self {
        let at_least_one = |size| NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN);
        Self { columns: at_least_one(columns), rows: at_least_one(rows) }
    }
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self::new(80, 30)
    }
}
