//! Scripted, recorded, and replayed models.
#![expect(clippy::expect_used, reason = "a broken fixture must stop the test")]
mod recorded;
mod scripts;
mod support;
