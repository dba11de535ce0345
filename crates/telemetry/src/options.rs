//! What is collected, and where it goes.

use std::path::PathBuf;
use std::time::Duration;

use parallax_google_auth::TokenSource;
use parallax_http::ClientOptions;

use crate::inherited_trace::InheritedTrace;

/// The telemetry of a session.
#[derive(Debug)]
pub struct TelemetryOptions {
    /// The file that records are appended to (`telemetry.outfile`).
    pub outfile: Option<PathBuf>,
    /// The directory that links must not point out of, for an `outfile` inside it.
    pub project: PathBuf,
    /// The collector, if records are sent.
    pub otlp: Option<OtlpOptions>,
    /// Whether contents are included: prompts, requests, responses, input and output of hooks
    /// (`telemetry.logPrompts`).
    pub log_prompts: bool,
    /// Whether the details of each response are recorded too (`telemetry.traces`).
    pub traces: bool,
    /// The session's id.
    pub session: String,
    /// The random id of this installation.
    pub installation: String,
    /// Whether a user can answer.
    pub interactive: bool,
    /// The auth method, as in `security.auth.selectedType`.
    pub auth_type: Option<String>,
    /// The version of the program.
    pub version: &'static str,
    /// `OTEL_SERVICE_NAME`.
    pub service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`, and the project for the target `gcp`, if a variable names it.
    pub resource: Vec<(String, String)>,
    /// The trace that the session is part of (`TRACEPARENT`).
    pub parent: Option<InheritedTrace>,
}

/// A collector that speaks OTLP over HTTP.
#[derive(Debug)]
pub struct OtlpOptions {
    /// Where spans go; `None`: nowhere.
    pub traces: Option<String>,
    /// Where metrics go.
    pub metrics: Option<String>,
    /// Where log records go.
    pub logs: Option<String>,
    /// Headers of all requests (`OTEL_EXPORTER_OTLP_HEADERS`).
    pub headers: Vec<(String, String)>,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Proxies and certificates.
    pub http: ClientOptions,
    /// PEM files with the client's certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The tokens for Google Cloud, for the target `gcp`.
    pub google: Option<TokenSource>,
    /// Whether the user configured the collector explicitly; if so, a failure to reach it is
    /// reported.
    pub is_explicit: bool,
}
