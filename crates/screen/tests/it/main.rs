//! Integration tests of the screen against terminal emulators.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects")]

mod budget;
mod child;
mod emulators;
mod frames;
mod terminal;
mod tmux;
