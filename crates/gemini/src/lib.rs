//! The model on the wire: the Gemini API (Developer API, Vertex AI with an API key, gateways)
//! as a [`parallax_protocol::model::Model`], and scripted, recorded, and replayed models.
//!
//! This crate handles URLs, headers, JSON, event streams, errors, retries before the first
//! chunk, and the model table. The engine decides about the conversation, retries of streams
//! that break later, and fallback models.

mod auth;
mod body;
mod call;
mod chains;
mod check;
mod chunk;
mod classify;
mod client;
mod config;
mod digest;
mod endpoint;
mod headers;
mod models;
mod payload;
mod played;
mod prices;
mod reader;
mod record;
mod redact;
mod regular;
mod replay;
mod retry;
mod routes;
pub mod script;
mod scripted;
mod sse;

pub use auth::{Auth, AuthError, AuthKind, resolve_auth};
pub use body::request_body;
pub use chunk::parse_chunk;
pub use client::{Gemini, GeminiOptions};
pub use endpoint::EndpointError;
pub use headers::machine_words;
pub use headers::parse_custom_headers;
pub use models::{ModelChoice, ModelConfigError, ModelTable};

pub use played::Played;
pub use record::{RecordError, RecordFormat, Recorder};
pub use replay::{Recorded, Replay};
pub use script::ScriptError;
pub use scripted::{ScriptMode, Scripted, ScriptedModel};
pub use sse::{SseDecoder, SseError};
