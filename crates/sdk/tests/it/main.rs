//! Integration tests of the sdk crate, with real files in temporary home directories.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "a test says what it expects")]

mod browsing;
mod commands;
mod every_project;
mod examples;
mod keys;
mod support;
mod switching;
mod trust;
