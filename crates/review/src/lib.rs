//! Reviews of changes: parses the diff, builds the prompt for the model, and parses and prints its
//! findings. Performs no I/O: the caller provides the diff and runs the model.

mod diff;
mod finding;
mod prompt;
mod sarif;
mod text;

pub use diff::{Diff, DiffFile};
pub use finding::{Finding, Severity, findings_of};
pub use prompt::{SCHEMA, review_prompt};
pub use sarif::sarif;
pub use text::findings_text;
