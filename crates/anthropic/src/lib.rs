//! The Anthropic Messages API as a model.
//!
//! Formats follow the public reference of the API, version `2023-06-01`, which gateways also
//! support.

mod client;
mod errors;
mod generation;
mod rejected;
mod request;
mod response;

pub use client::{AnthropicOptions, model};
