//! Sends records to a collector: OTLP over HTTP with Protocol Buffers.
//!
//! Each signal has its own sending task, so that neither the session, the telemetry thread, nor
//! another signal waits for the collector. What cannot be sent is dropped and counted, and reported
//! at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parallax_google_auth::TokenSource;
use parallax_http::ClientOptions;
use parallax_http::reqwest::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use parallax_http::reqwest::{Response, StatusCode};
use parallax_protocol::Object;
use parallax_protocol::observer::EventScope;
use tokio::sync::{OnceCell, mpsc, oneshot};

use crate::delivery::DeliveryState;
use crate::error::TelemetryError;
use crate::input::{InputKind, TelemetryInput};
use crate::metrics::Metrics;
use crate::options::OtlpOptions;
use crate::otlp_messages::{PartialSuccess, Program, export_request};
use crate::record::LogRecord;
use crate::spans::Span;

/// Maximum number of requests of a signal that wait for the collector.
const QUEUE: usize = 64;
/// Maximum number of attempts to send a request while the collector is too busy.
const ATTEMPTS: u32 = 3;
/// How long to wait before another attempt, unless the collector says otherwise.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The longest such wait.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Maximum number of bytes read from a response.
const MAX_RESPONSE: usize = 64 * 1024;
/// Maximum number of characters shown of a collector's error message.
const MAX_EXPLANATION: usize = 200;
/// The resource attribute that Google Cloud requires.
pub(crate) const GOOGLE_PROJECT: &str = "gcp.project_id";
/// How often pending records are sent.
const TICK: Duration = Duration::from_secs(5);

enum ExportJob {
    Send {
        /// The encoded items, without the resource.
        body: Vec<u8>,
        /// The number of records in it.
        records: u64,
    },
    /// Sends everything before it. The last signal answers by dropping the sender.
    Flush(Arc<oneshot::Sender<()>>),
}

/// The target of the requests for a signal.
struct SignalTarget {
    jobs: mpsc::Sender<ExportJob>,
    host: String,
}

/// The sending side.
pub(crate) struct Exporter {
    program: Program,
    traces: Option<SignalTarget>,
    metrics: Option<SignalTarget>,
    logs: Option<SignalTarget>,
    delivery: Arc<DeliveryState>,
}

impl Exporter {
    /// Starts the tasks that send. `thread` is asked regularly to hand over pending records.
    pub(crate) fn start(
        options: OtlpOptions,
        version: &'static str,
        resource: Object,
        thread: mpsc::WeakSender<TelemetryInput>,
        delivery: Arc<DeliveryState>,
    ) -> Result<Self, TelemetryError> {
        let http = ClientOptions { timeout: Some(options.timeout), ..options.http };
        let http = ClientOptions { identity: options.identity, ..http };
        let client = parallax_http::client(&http)?;
        let sender = Arc::new(Sender {
            client,
            resource,
            project: OnceCell::new(),
            headers: options.headers,
            google: options.google,
            is_explicit: options.is_explicit,
            has_failed: AtomicBool::new(false),
            delivery: Arc::clone(&delivery),
        });
        let signal = |url: Option<String>| {
            let (jobs, receiver) = mpsc::channel(QUEUE);
            url.map(|url| {
                let host = host(&url);
                tokio::spawn(Arc::clone(&sender).run(url, receiver));
                SignalTarget { jobs, host }
            })
        };
        let (traces, metrics) = (signal(options.traces), signal(options.metrics));
        let logs = signal(options.logs);
        tokio::spawn(tick(thread));
        Ok(Self { program: Program { version }, traces, metrics, logs, delivery })
    }

    pub(crate) fn export_spans(&self, spans: &[Span]) {
        self.send(self.traces.as_ref(), spans.len(), || self.program.spans(spans));
    }

    pub(crate) fn export_logs(&self, records: &[LogRecord]) {
        self.send(self.logs.as_ref(), records.len(), || self.program.logs(records));
    }

    pub(crate) fn export_metrics(&self, metrics: &Metrics) {
        self.send(self.metrics.as_ref(), 1, || self.program.metrics(metrics));
    }

    fn send(&self, signal: Option<&SignalTarget>, records: usize, body: impl FnOnce() -> Vec<u8>) {
        let Some(signal) = signal else { return };
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        self.delivery.add(records);
        let job = ExportJob::Send { body: body(), records };
        if signal.jobs.try_send(job).is_err() {
            self.delivery.count_lost(records);
            self.delivery.fail(&signal.host, "it is too slow");
        }
    }

    /// Answers once everything before is sent.
    pub(crate) fn flush(&self, done: oneshot::Sender<()>) {
        let done = Arc::new(done);
        for signal in [&self.traces, &self.metrics, &self.logs].into_iter().flatten() {
            // Called on the telemetry thread: waiting for the queue is fine there. If the task is
            // gone, dropping the sender is the answer.
            let _ = signal.jobs.blocking_send(ExportJob::Flush(Arc::clone(&done)));
        }
    }
}

/// Asks the thread every few seconds to hand over pending records while the session is open.
async fn tick(thread: mpsc::WeakSender<TelemetryInput>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(thread) = thread.upgrade() else { return };
        let (scope, time) = (EventScope::default(), SystemTime::now());
        // A full queue will be handed over soon anyway.
        let _ = thread.try_send(TelemetryInput { scope, time, kind: InputKind::Tick });
    }
}

struct Sender {
    client: parallax_http::reqwest::Client,
    /// The sender.
    resource: Object,
    /// The project of the Google Cloud credentials.
    project: OnceCell<Option<String>>,
    headers: Vec<(String, String)>,
    google: Option<TokenSource>,
    is_explicit: bool,
    /// Whether a request failed: later ones are tried only once.
    has_failed: AtomicBool,
    delivery: Arc<DeliveryState>,
}

impl Sender {
    /// Sends the requests of a signal to `url`.
    async fn run(self: Arc<Self>, url: String, mut jobs: mpsc::Receiver<ExportJob>) {
        while let Some(job) = jobs.recv().await {
            match job {
                ExportJob::Flush(done) => drop(done),
                ExportJob::Send { body, records } => {
                    let sent = self.send(&url, body).await;
                    let lost = match &sent {
                        // A request with metrics counts as one record, whatever is in it.
                        Ok(rejected) => (*rejected).min(records),
                        Err(reason) => {
                            tracing::debug!("telemetry was not sent to {url}: {reason}");
                            self.has_failed.store(true, Ordering::Relaxed);
                            records
                        }
                    };
                    // The default collector need not exist.
                    let lost = if self.is_explicit { lost } else { 0 };
                    self.delivery.deliver(records - lost);
                    self.delivery.count_lost(lost);
                }
            }
        }
    }

    /// Returns the number of records that the collector did not accept.
    async fn send(&self, url: &str, body: Vec<u8>) -> Result<u64, String> {
        let attempts = if self.has_failed.load(Ordering::Relaxed) { 1 } else { ATTEMPTS };
        let body = Bytes::from(self.with_resource(body).await);
        let mut number = 1;
        loop {
            let mut request = self
                .client
                .post(url)
                .header(CONTENT_TYPE, "application/x-protobuf")
                .body(body.clone());
            for (name, value) in &self.headers {
                request = request.header(name, value);
            }
            if let Some(google) = &self.google {
                let token = google.token().await.map_err(|error| {
                    let reason = error.to_string();
                    self.fail(url, &reason);
                    reason
                })?;
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
                if let Some(project) = google.quota_project().await {
                    request = request.header("x-goog-user-project", project);
                }
            }
            let response = request.send().await;
            let response = response.map_err(|error| {
                let reason = parallax_http::error_chain(&error.without_url());
                self.fail(url, &reason);
                reason
            })?;
            let status = response.status();
            if status.is_success() {
                return Ok(self.count_rejected_records(url, response).await);
            }
            let is_busy = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            let reason = format!("it responded with status {}", status.as_u16());
            self.fail(url, &reason);
            if !is_busy || number >= attempts {
                return Err(reason);
            }
            let retry_after = response.headers().get(RETRY_AFTER);
            let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
            let delay = retry_after.map_or(RETRY_DELAY * number, Duration::from_secs);
            tokio::time::sleep(delay.min(MAX_RETRY_DELAY)).await;
            number += 1;
        }
    }

    /// Adds the sender to encoded items. For Google Cloud, that includes the project.
    async fn with_resource(&self, body: Vec<u8>) -> Vec<u8> {
        let google = self.google.as_ref();
        let Some(google) = google.filter(|_| !self.resource.contains_key(GOOGLE_PROJECT)) else {
            return export_request(&self.resource, body);
        };
        // Without a token, the project is not needed.
        let find = async || match google.token().await {
            Ok(_) => google.project().await,
            Err(_) => None,
        };
        let mut resource = self.resource.clone();
        if let Some(project) = self.project.get_or_init(find).await {
            resource.insert(GOOGLE_PROJECT.to_owned(), project.clone().into());
        }
        export_request(&resource, body)
    }

    /// Returns how many records a collector rejected although it accepted the others.
    async fn count_rejected_records(&self, url: &str, mut response: Response) -> u64 {
        let mut body = Vec::new();
        // A truncated response still means success.
        while let Ok(Some(chunk)) = response.chunk().await
            && body.len() + chunk.len() <= MAX_RESPONSE
        {
            body.extend_from_slice(&chunk);
        }
        let PartialSuccess { rejected, message } = PartialSuccess::from_response(&body);
        let rejected = u64::try_from(rejected).unwrap_or(0);
        if rejected > 0 {
            let words: Vec<&str> =
                message.split(|it: char| it.is_whitespace() || it.is_control()).collect();
            let message: String = words.join(" ").trim().chars().take(MAX_EXPLANATION).collect();
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            self.fail(url, &format!("it rejected them{message}"));
        }
        rejected
    }

    fn fail(&self, url: &str, reason: &str) {
        if self.is_explicit {
            self.delivery.fail(&host(url), reason);
        }
    }
}

/// Returns the host and port of a URL.
fn host(url: &str) -> String {
    let host = parallax_http::url::Url::parse(url).ok().and_then(|url| {
        let host = url.host_str()?;
        Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    });
    host.unwrap_or_else(|| "the collector".to_owned())
}
