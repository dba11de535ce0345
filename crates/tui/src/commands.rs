//! Slash commands: one table for completion, help, and dispatch.

mod parse;

pub(crate) use parallax_commands::{CommandSpec, SlashCommand, TABLE};
pub(crate) use parse::{ParsedLine, available_names, parse};

/// Width of the name column in the help.
pub(crate) const NAME_COLUMNS: usize = 34;
