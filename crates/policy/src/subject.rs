//! The part of a call that a rule is evaluated against.

/// The part of a call that a rule is evaluated against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    /// The whole call.
    Whole,
    /// One command of a shell line, by index.
    Part(usize),
}
