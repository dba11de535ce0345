//! Shared types of Parallax: model contents, operations that front ends send, events that the
//! engine emits, and the traits between the crates.
//!
//! This crate does no I/O and does not depend on any tool, provider, or front end.

pub mod agent;
pub mod agent_progress;
pub mod approval_mode;
pub mod approval_response;
pub mod budget;
pub mod built_in_tools;
pub mod call_status;
pub mod checkpoint;
pub mod code_text;
pub mod coerce;
pub mod content;
pub mod context;
pub mod control_sequences;
pub mod editor_files;
pub mod editor_terminal;
pub mod event;
pub mod excerpt;
pub mod generation;
pub mod grounding;
pub mod hooks;
pub mod ids;
pub mod image;
pub mod image_defect;
pub mod lenient;
pub mod local_host;
pub mod media;
pub mod model;
pub mod notice_level;
pub mod observer;
pub mod op;
pub mod path_text;
pub mod paths;
pub mod permissions;
pub mod policy;
pub mod price;
pub mod process;
pub mod protected_links;
pub mod protected_names;
pub mod question;
pub mod requests;
pub mod routing;
pub mod secret;
pub mod session_selection;
pub mod session_view;
pub mod shell;
pub mod similar_texts;
pub mod store;
pub mod tool;
pub mod trace_headers;
pub mod typed_input;
pub mod untrusted;
pub mod usage;
pub mod write_scope;

/// A boxed future, as returned by the object-safe traits of this crate.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A boxed stream, as returned by [`model::Model::stream`].
pub type BoxStream<'a, T> = std::pin::Pin<Box<dyn futures_core::Stream<Item = T> + Send + 'a>>;
/// A JSON object that preserves key order.
pub type Object = serde_json::Map<String, serde_json::Value>;

pub use tokio_util::sync::CancellationToken;
