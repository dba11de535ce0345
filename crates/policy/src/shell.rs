//! What a shell command would do, as far as its text tells.
//!
//! Two readings: [`plain`] understands only words without any expansion and
//! gives up on the rest, so that what it says may allow; [`loose`] sees through
//! quotes and substitutions and over-reports, so that what it says may only
//! forbid.

mod danger;
mod git;
mod loose;
mod plain;
mod safe;

pub(crate) use danger::{is_dangerous, redirects, uses_git};
pub(crate) use loose::{Loose, loose};
pub(crate) use plain::{Part, Word, plain};
pub use safe::known_safe;
pub(crate) use safe::{Place, changes_directory, part_is_safe};
