//! Slash commands: one table for completion, help, and dispatch.

pub(crate) use parallax_commands::{
    CommandSpec, ParsedLine, SlashCommand, TABLE, available_names, parse,
};

/// Width of the name column in the help.
pub(crate) const NAME_COLUMNS: usize = 34;
