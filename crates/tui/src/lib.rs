//! The interactive front end: builds the transcript from engine events and provides the composer,
//! dialogs, and the footer.

mod app;
pub mod clean;
mod commands;
pub mod completion;
mod components;
pub mod composer;
mod context_view;
mod copied;
pub mod debug_console;
pub mod devtools;
mod dialog;
pub mod diff_view;
mod face;
mod footer;
pub mod highlight;
mod hunks;
pub mod keymap;
mod layout;
#[cfg(test)]
mod looks;
pub mod markdown;
mod notify;
mod phrases;
mod signals;
mod stats_view;
mod status;
mod terminal_keys;
pub mod theme;
mod theme_choice;
mod theme_sample;
mod title;
mod tokens;
pub mod transcript;

pub use face::{FaceOptions, Left, run};
pub use parallax_screen::emergency_restore;
