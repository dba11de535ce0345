//! Requests to model services over HTTP, for every provider: attempts, backoff, event streams, and
//! errors.
//!
//! A provider implements [`Wire`]: how a request is written, how the events of a response are
//! read, and what an error means. [`HttpModel`] does the rest.

mod address;
mod backoff;
mod call;
mod client;
mod continuation;
mod dialogue;
mod error_class;
mod error_payload;
mod failed_attempt;
mod headers;
mod listed_model;
mod listing;
mod model;
mod opaque_format;
mod parts;
mod paused_turn;
mod rejected_settings;
mod response_reader;
mod shared_pace;
mod silence;
mod sse;
mod tapped_request;
mod tools;
mod wire;
mod wire_tap;

pub use address::{BaseUrlError, model_id, parse_base, random_call_id, url_with_path};
pub use backoff::{Backoff, MAX_ATTEMPTS, UTILITY_ATTEMPTS, parse_retry_after};
pub use call::HttpCall;
pub use client::{Transport, TransportOptions};
pub use dialogue::{CallIdFormat, Dialogue, Media, ModelPart, ToolResult, Turn, UserPart};
pub use error_class::{CAPACITY, ErrorClass, ErrorResponse, MAX_WAIT};
pub use error_payload::ErrorPayload;
pub use headers::{
    HeaderError, RequestHeaders, node_platform, parse_custom_headers, secret_values, user_agent,
};
pub use listed_model::ListedModel;
pub use model::HttpModel;
pub use opaque_format::OpaqueFormat;
pub use parts::{function_call, thought};
pub use rejected_settings::RejectedSettings;
pub use sse::{SseDecoder, SseError};
pub use tools::{Declaration, DeclarationCache, Declarations, wire_name};
pub use wire::{Decoder, EventError, HttpRequest, ImmediateRetry, ResponseMode, SendAttempt, Wire};
pub use wire_tap::{SentRequest, WireObservation, WireTap};
