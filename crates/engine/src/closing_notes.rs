//! Notes that complete the history of a turn without a response, so that roles alternate.

/// Replaces a response that was interrupted, so that roles alternate.
pub(crate) const INTERRUPTED: &str = "[The user interrupted this turn.]";
/// Replaces a response that the time limit interrupted.
pub(crate) const TIMED_OUT: &str = "[The time limit of this turn was reached.]";
/// Replaces a response that never came.
pub(crate) const UNANSWERED: &str = "[This turn ended without an answer.]";

/// The prompt that continues a turn that the user cancelled.
pub(crate) const CONTINUE: &str = "Continue where you left off.";

/// Follows a response that was interrupted because the program ended.
pub(crate) const PARTIAL_NOTE: &str =
    "[Your response was interrupted here. Continue where you left off.]";
