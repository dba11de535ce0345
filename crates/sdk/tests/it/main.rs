//! What a face asks of the sdk, with real files in homes of their own.

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
