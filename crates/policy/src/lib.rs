//! May this happen? Rules, approval modes, guards, and the analysis of shell
//! commands, as pure functions: the caller resolves paths, nothing here touches
//! the disk.
//!
//! Not here: reading settings and rule files (`config`), asking a person (the
//! engine and the faces), and enforcing anything on a running process (`exec`).

mod call;
mod defaults;
mod guards;
mod hint;
mod judge;
mod names;
mod paths;
mod rule;
mod settings;
pub mod shell;

pub use guards::is_build_file;
pub use judge::Policy;
pub use rule::{CommandPrefix, PathScope, Priority, Rule, Source, ToolPattern};
pub use settings::{BuildFileGuard, PolicyOptions};
