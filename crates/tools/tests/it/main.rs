//! Integration tests of the built-in tools on real files.
#![cfg(test)]

mod editing;
mod listing;
mod reading;
mod stale;
mod test_project;
