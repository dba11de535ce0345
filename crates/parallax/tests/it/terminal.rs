//! The program in a terminal, from the user's point of view.

mod agents;
mod answers;
mod attached;
mod budgets;
mod commands;
mod devtools;
mod exiting;
mod extensions;
mod first_run;
mod footer;
mod gallery;
mod images;
mod key_counts;
mod questions;

mod display;
mod sessions;
mod signing_in;
mod snapshots;
pub(crate) mod terminal_driver;
mod transcript;
mod typing;
mod windows;
