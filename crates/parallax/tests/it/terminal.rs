//! The program in a terminal, as a person sees it.

mod agents;
mod answers;
mod commands;
mod extending;
mod first_run;
mod leaving;
mod questions;
mod seat;
mod sessions;
mod snapshots;
mod windows;
