//! The output of the tasks.

use std::io::Write as _;

/// Prints a line. A closed pipe is not a failure of the task.
pub fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints what is left out, and why.
pub fn print_skipped(what: &str, reason: &str) {
    print_line(&format!("skipped {what}: {reason}"));
}
