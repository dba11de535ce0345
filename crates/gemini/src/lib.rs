//! The model on the wire: the Gemini API (Developer API, Vertex AI with an API key, gateways)
//! as a [`parallax_protocol::model::Model`], and scripted, recorded, and replayed models.
//!
//! This crate handles URLs, headers, JSON, event streams, errors, retries before the first
//! chunk, and the model table. The engine decides about the conversation, retries of streams
//! that break later, and fallback models.

mod auth;
mod body;
mod chunk;
mod client;
mod config;
mod digest;
mod endpoint;
mod error_classification;
mod fallback_chains;
mod headers;
mod key_check;
mod model_call;
mod models;
mod payload;
mod playback;
mod prices;
mod recording;
mod recording_redaction;
mod regular_file;
mod replay;
mod response_reader;
mod retry;
mod routes;
pub mod script;
mod scripted_model;
mod sse;

pub use auth::{Auth, AuthError, AuthKind, resolve_auth};
pub use body::request_body;
pub use chunk::parse_chunk;
pub use client::{Gemini, GeminiOptions};
pub use endpoint::EndpointError;
pub use headers::node_platform;
pub use headers::parse_custom_headers;
pub use models::{ModelChoice, ModelConfigError, ModelTable};

pub use playback::PlaybackModel;
pub use recording::{RecordError, RecordFormat, Recorder};
pub use replay::{RecordedReplies, ReplayModel};
pub use script::ScriptError;
pub use scripted_model::{ScriptMode, ScriptReplies, ScriptedModel};
pub use sse::{SseDecoder, SseError};
