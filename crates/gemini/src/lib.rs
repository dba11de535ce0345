//! The Gemini API (Developer API, Vertex AI with an API key, gateways) as a
//! [`parallax_protocol::model::Model`].
//!
//! This crate handles URLs, headers, JSON, and errors; [`parallax_model_http`] sends the requests.
//! The engine is responsible for the conversation, retries of streams that break later, and
//! fallback models.

mod auth;
mod body;
mod chunk;
mod chunk_encoder;
mod client;
mod credential_hints;
mod endpoint;
mod error_classification;
mod grounding;
mod headers;
mod key_check;
mod listing;

pub use auth::{Auth, AuthError, AuthKind, resolve_auth};
pub use body::request_body;
pub use chunk::{parse_chunk, parse_scripted_chunk};
pub use chunk_encoder::encode_chunk;
pub use client::{CREDENTIAL_VARIABLES, Gemini, GeminiOptions};
pub use endpoint::EndpointError;
pub use key_check::KeyCheck;
