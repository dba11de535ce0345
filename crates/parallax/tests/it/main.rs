//! The built program, driven from outside: scenario folders, and what a folder
//! cannot say.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "a test says what it expects")]

mod container;
mod conversation;
mod disk;
mod kill;
mod limits;
mod privacy;
mod safety;
mod scenarios;
mod sessions;
mod signals;
mod stdin;
mod support;
mod trust;
