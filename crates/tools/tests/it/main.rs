//! Integration tests of the built-in tools on real files.
#![cfg(test)]

mod editing;
mod file_place;
mod listing;
mod reading;
mod stale;
