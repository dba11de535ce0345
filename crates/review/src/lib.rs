//! Reviews of changes: the diff, the prompt for the model, its findings, and how they are printed.
//! Without I/O: the caller gets the diff and runs the model.

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
