//! Telemetry: what a session did, for other programs.
//!
//! [`Telemetry`] observes a session and passes on what it sees to its own thread, which
//! converts it to log records, metrics, and spans. These go to a file that other programs read, or
//! to an OpenTelemetry collector. Nothing is sent or written unless the user's settings name a
//! destination.
//!
//! Names of records and attributes: those of Gemini CLI (`gemini_cli.*`), and the OpenTelemetry
//! semantic conventions for generative AI (`gen_ai.*`).

mod content_policy;
mod delivery;
mod error;
mod file;
mod inherited_trace;
mod input;
mod metrics;
mod options;
mod otlp;
mod otlp_messages;
mod record;
mod settings;
mod spans;
mod telemetry;
mod telemetry_state;
mod thread;
mod trace_context;

pub use error::TelemetryError;
pub use inherited_trace::InheritedTrace;
pub use options::{OtlpOptions, TelemetryOptions};
pub use settings::TelemetrySettings;
pub use telemetry::Telemetry;
pub use trace_context::TraceContext;
