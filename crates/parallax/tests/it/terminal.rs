//! The program in a terminal, from the user's point of view.

mod agents;
mod answers;
mod attached;
mod budgets;
mod commands;
mod devtools;
mod extensions;
mod first_run;
mod footer;
mod gallery;
mod key_counts;
mod leaving;
mod pictures;
mod questions;

pub(crate) mod seat;
mod sessions;
mod showing;
mod signing_in;
mod snapshots;
mod transcript;
mod typing;
mod windows;
