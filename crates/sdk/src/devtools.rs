//! Inspection of sessions: the page with its views, and the records that it shows.

mod page;
mod source;

pub(crate) use page::{Inline, document, json_for_script};
pub use page::{PAGE, SCRIPT, STYLE};
pub use source::{SessionSource, SourceError};
