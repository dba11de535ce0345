//! Display modes.

/// The display mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Finished rows go to the scrollback; live rows below them are repainted.
    #[default]
    Inline,
    /// The alternate screen, restored at the end. Committed rows are not shown.
    Alternate,
    /// Lines one after another; nothing is repainted.
    Plain,
}
