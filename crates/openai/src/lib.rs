//! The OpenAI APIs as a model: Responses, and Chat Completions, which many other services and local
//! servers also implement.
//!
//! Formats follow the public references of both APIs. [`parallax_models::Quirks`] describes the
//! deviations of servers.

mod chat_request;
mod chat_response;
mod client;
mod errors;
mod generation;
mod listing;
mod local_server;
mod ollama_request;
mod ollama_response;
mod rejected_fields;
mod responses_request;
mod responses_response;
mod strict_schema;
mod tagged_thought;
mod usage;

pub use client::{Api, OpenAiOptions, model};
