//! The interactive front end: builds the transcript from engine events and provides the composer,
//! dialogs, and the footer.

mod app;
mod attached;
mod clipboard;
mod code_pieces;
mod commands;
pub mod completion;
mod components;
mod context_view;
mod copied;
pub mod debug_console;
pub mod devtools;
mod dialog;
pub mod diff_view;
mod edit_arguments;
mod edit_text;
mod editors;
mod front_end;
mod hunks;
pub mod keymap;
mod notify;
mod phrases;
mod signals;
mod stats_view;
mod status;
mod status_line;
mod status_line_command;
mod terminal_keys;
mod terminal_setup;
#[cfg(test)]
mod test_launch;
mod theme_choice;
mod theme_sample;
mod title;
mod tokens;
pub mod transcript;
mod welcome;

pub use attached::{AttachedSession, AttachedUpdate};
pub use code_pieces::code_pieces;
pub use front_end::{ExitReason, TerminalOptions, run, setting_problems};
pub use parallax_screen::{emergency_restore, theme};

pub use parallax_composer as composer;
use parallax_markdown as markdown;
pub use parallax_markdown::highlight;
use parallax_screen::{layout, sanitize};
