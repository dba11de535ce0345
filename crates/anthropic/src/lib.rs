//! The Anthropic Messages API as a model.
//!
//! Formats follow the public reference of the API, version `2026-10-21`; requests and
//! responses of `2023-06-01`, which many gateways know, are the same.

mod client;
mod errors;
mod generation;
mod rejected;
mod rejection_learning;
mod request;
mod response;

pub use client::{AnthropicOptions, model};
