//! The output of the tasks.

use std::io::Write as _;

/// Prints a line. A closed pipe is not a failure of the task.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints what is left out, and why.
pub fn print_skipped(what: &str, reason: &str) {
    line(&format!("skipped {what}: {reason}"));
}
