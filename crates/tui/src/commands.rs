//! Slash commands: one table for completion, help, and dispatch.

mod parse;
mod table;

pub(crate) use parse::{ParsedLine, called, parse};
pub(crate) use table::{CommandSpec, SlashCommand, TABLE};

/// Width of the name column in the help.
pub(crate) const NAME_COLUMNS: usize = 34;
