//! The HTTP client of a provider and how it is used.

use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parallax_http::reqwest;
use parallax_http::url::Url;
use parallax_http::{ClientOptions, Redirects};
use parallax_protocol::local_host::is_this_machine;
use parallax_protocol::model::ModelError;
use parallax_protocol::secret::Secret;
use tokio::net::lookup_host;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::backoff::{Backoff, MAX_ATTEMPTS};
use crate::shared_pace::SharedPace;
use crate::silence::ServerContact;
use crate::wire_tap::WireTap;

/// How long resolving the name of a service that refused a connection may take.
const RESOLVE_LIMIT: Duration = Duration::from_secs(1);

/// Shorter secrets are not redacted: they would occur in ordinary text.
const MIN_SECRET: usize = 8;

/// How a service is reached.
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// The configured proxy; `None` = the system's.
    pub proxy: Option<String>,
    /// PEM files with additional trusted roots.
    pub extra_roots: Vec<PathBuf>,
    /// `general.maxAttempts`: 1 to 10.
    pub max_attempts: u32,
    /// Maximum number of attempts if connecting fails (refused, unknown host, no response): waiting
    /// longer rarely helps.
    pub connect_attempts: u32,
    /// How long connecting may take; `None` = the default.
    pub connect_timeout: Option<Duration>,
    /// After how much silence before the first response from the server a notice names it; `None` =
    /// never.
    pub silence_notice: Option<Duration>,
    /// How long a stream, or the wait for it, may be silent.
    pub idle_timeout: Duration,
    /// `general.retryFetchErrors`: whether unclear network errors and truncated JSON are retried.
    pub retry_fetch_errors: bool,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// The pace that it shares with other processes of a batch.
    pub shared_pace: Option<SharedPace>,
    /// Secrets to redact in all text from outside.
    pub secrets: Vec<Secret>,
    /// Observes the traffic while a viewer is attached.
    pub tap: Option<Arc<dyn WireTap>>,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            proxy: None,
            extra_roots: Vec::new(),
            max_attempts: MAX_ATTEMPTS,
            connect_attempts: 3,
            connect_timeout: None,
            silence_notice: None,
            idle_timeout: Duration::from_secs(120),
            retry_fetch_errors: true,
            backoff: Backoff::default(),
            shared_pace: None,
            secrets: Vec::new(),
            tap: None,
        }
    }
}

impl TransportOptions {
    /// Returns the defaults with the environment: additional roots, and `PARALLAX_RETRY_BASE_MS`,
    /// which shortens the backoff for tests against scripted servers.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let base = env("PARALLAX_RETRY_BASE_MS").filter(|value| !value.trim().is_empty());
        let backoff = Backoff::from_env(base.as_deref());
        Self {
            extra_roots: parallax_http::extra_roots_from_env(env),
            backoff,
            shared_pace: SharedPace::from_env(env, backoff.first()),
            ..Self::default()
        }
    }
}

/// The connections to one service. Nothing is loaded or opened before the first request.
#[derive(Debug)]
pub struct Transport {
    pub(crate) options: TransportOptions,
    client: OnceCell<reqwest::Client>,
    /// Whether TLS is not needed at all.
    plain: bool,
    /// Whether the service is on this machine, which needs no proxy.
    local: bool,
    /// Whether this machine refused a connection, although the name of the service does not say
    /// that it is on this machine.
    is_refused_here: AtomicBool,
    /// Whether the server is known to answer.
    pub(crate) contact: Arc<ServerContact>,
    /// Whether the server was asked about its models, and whether it answered.
    is_asked: AtomicBool,
    is_found: AtomicBool,
}

impl Transport {
    /// Creates the transport to a base URL.
    pub fn new(options: TransportOptions, base: &Url) -> Self {
        let plain = base.scheme() == "http";
        let local = base.host_str().is_some_and(is_this_machine);
        Self {
            options,
            client: OnceCell::new(),
            plain,
            local,
            is_refused_here: AtomicBool::new(false),
            contact: Arc::default(),
            is_asked: AtomicBool::new(false),
            is_found: AtomicBool::new(false),
        }
    }

    /// Whether the server is on this machine and has not answered yet.
    pub(crate) fn is_unknown_local_server(&self) -> bool {
        // Only one attempt: the server is configured as one on this machine.
        self.options.connect_attempts == 1
            && !self.contact.is_known()
            && !self.is_found.load(Ordering::Relaxed)
    }

    /// Whether the address is on this machine and nothing there has answered yet.
    pub(crate) fn is_absent_local_server(&self) -> bool {
        (self.local || self.is_refused_here.load(Ordering::Relaxed)) && !self.contact.is_known()
    }

    /// Notes that a connection was refused: by this machine, if the name of the service resolves to
    /// its addresses only.
    pub(crate) async fn record_refusal(&self, base: &Url) {
        if !self.local && !self.contact.is_known() && resolves_to_this_machine(base).await {
            self.is_refused_here.store(true, Ordering::Relaxed);
        }
    }

    /// Notes whether the server answered a question about its models. It is not yet known to
    /// answer requests, for which it may have to load a model.
    pub(crate) fn record_question(&self, is_found: bool) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.is_found.fetch_or(is_found, Ordering::Relaxed);
    }

    /// Whether the server was asked about its models before a request.
    pub(crate) fn was_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Returns the client, built on first use and off the async threads.
    ///
    /// # Errors
    /// Returns an error if it cannot be built (a root that cannot be read, a bad proxy).
    pub async fn client(&self) -> Result<&reqwest::Client, ModelError> {
        self.client
            .get_or_try_init(|| async {
                let default = ClientOptions::default();
                let options = ClientOptions {
                    connect_timeout: self
                        .options
                        .connect_timeout
                        .unwrap_or(default.connect_timeout),
                    proxy: self.options.proxy.clone(),
                    system_proxy: !self.local,
                    extra_roots: self.options.extra_roots.clone(),
                    redirects: Redirects::None,
                    plain_http: self.plain,
                    ..default
                };
                let failed = |message: String| ModelError::Unavailable {
                    status: None,
                    delay: None,
                    class: "network",
                    message,
                };
                if options.plain_http {
                    return parallax_http::client(&options).map_err(|e| failed(e.to_string()));
                }
                tokio::task::spawn_blocking(move || parallax_http::client(&options))
                    .await
                    .map_err(|error| failed(error.to_string()))?
                    .map_err(|error| failed(error.to_string()))
            })
            .await
    }

    /// Loads the trust store and opens a connection while the user types, to speed up the first
    /// request. No key is sent; failures are ignored. Does nothing for a plain `http://` base.
    pub async fn warm_up(&self, base: &Url) {
        if self.plain {
            return;
        }
        if let Ok(client) = self.client().await {
            let request = client.head(base.clone());
            let _ = request.timeout(Duration::from_secs(10)).send().await;
        }
    }

    /// Redacts our secrets in text from outside.
    pub fn redact(&self, mut text: String) -> String {
        for secret in &self.options.secrets {
            let secret = secret.expose();
            if secret.len() >= MIN_SECRET && text.contains(secret) {
                text = text.replace(secret, "[secret]");
            }
        }
        text
    }
}

/// Whether a name or an address belongs to this machine only.
async fn resolves_to_this_machine(base: &Url) -> bool {
    let (Some(host), Some(port)) = (base.host_str(), base.port_or_known_default()) else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(Ok(found)) = timeout(RESOLVE_LIMIT, lookup_host((host, port))).await else {
        return false;
    };
    let mut addresses = found.map(|address| address.ip()).peekable();
    addresses.peek().is_some() && addresses.all(is_own_address)
}

/// Whether an address is one of this machine: only those can be bound.
fn is_own_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}
