//! Building the one client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Proxy};

use crate::proxy;

/// How a client is to be built. `Default` gives a client for `https://` with
/// the system's trust store and proxies, and without redirects.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// `User-Agent`; empty = none. A request may set its own.
    pub user_agent: String,
    /// The proxy for all requests (`NO_PROXY` still applies); `None` = what the
    /// system says (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    pub proxy: Option<String>,
    /// Whether the system's proxies count when `proxy` is `None`. Switch it off
    /// for an address on this machine.
    pub system_proxy: bool,
    /// PEM files whose certificates are trusted beside the system's. One that
    /// cannot be read or parsed is left out with a warning in the log.
    pub extra_roots: Vec<PathBuf>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a request may take with its answer read to the end; `None` = as
    /// long as it does.
    pub timeout: Option<Duration>,
    /// What redirects are followed.
    pub redirects: Redirects,
    /// Only `http://` addresses will be asked, so no trust store is loaded
    /// (that costs milliseconds at start-up). An `https://` address fails.
    pub plain_http: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: String::new(),
            proxy: None,
            system_proxy: true,
            extra_roots: Vec::new(),
            connect_timeout: Duration::from_secs(30),
            timeout: None,
            redirects: Redirects::None,
            plain_http: false,
        }
    }
}

/// What redirects a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// None: the 3xx answer is given to the caller.
    None,
    /// At most so many, and only to the same host and port (or from `http` to
    /// `https` of the same host): for requests that carry secrets in headers.
    SameHost(usize),
    /// At most so many, anywhere: for requests without secrets of their own.
    /// (`Authorization` and cookies are dropped on the way to another host, a
    /// private header such as `x-goog-api-key` would not be.)
    Any(usize),
}

/// A client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The proxy's address does not parse.
    #[error(
        "the proxy address is not valid ({why}): check the `proxy` setting; it looks like `http://host:port`"
    )]
    Proxy {
        /// The parser's words (never the address itself: it may hold a password).
        why: String,
    },
    /// The TLS or trust-store set-up failed.
    #[error("cannot set up the HTTP client: {why}")]
    Build {
        /// What the library said.
        why: String,
    },
}

/// Builds a client.
///
/// # Errors
/// When the proxy's address is not valid or the system's trust store fails.
pub fn client(options: &ClientOptions) -> Result<reqwest::Client, HttpError> {
    finish(builder(options)?)
}

pub(crate) fn finish(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, HttpError> {
    builder.build().map_err(|error| HttpError::Build { why: chain(&error) })
}

pub(crate) fn builder(options: &ClientOptions) -> Result<reqwest::ClientBuilder, HttpError> {
    install_provider();
    let mut builder = reqwest::Client::builder()
        .redirect(policy(options.redirects))
        .referer(false)
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .pool_idle_timeout(Duration::from_secs(90))
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(20))
        .http2_adaptive_window(true);
    if let Some(timeout) = options.timeout {
        builder = builder.timeout(timeout);
    }
    if !options.user_agent.is_empty() {
        builder = builder.user_agent(&options.user_agent);
    }
    match &options.proxy {
        _ if proxy::are_off() => builder = builder.no_proxy(),
        Some(address) => {
            let through = Proxy::all(address.as_str())
                .map_err(|error| HttpError::Proxy { why: chain(&error.without_url()) })?;
            builder = builder.no_proxy().proxy(through.no_proxy(proxy::exceptions()));
        }
        None if !options.system_proxy => builder = builder.no_proxy(),
        None => {}
    }
    let through_tls_proxy = options.proxy.as_deref().is_some_and(|p| p.starts_with("https:"))
        || (options.proxy.is_none()
            && options.system_proxy
            && system_proxies().any(|p| p.starts_with("https:")));
    if options.plain_http && !through_tls_proxy {
        return Ok(builder.tls_certs_only([]));
    }
    let extra: Vec<Certificate> =
        options.extra_roots.iter().flat_map(|path| read_roots(path)).collect();
    Ok(if extra.is_empty() { builder } else { builder.tls_certs_merge(extra) })
}

/// The PEM files named by `NODE_EXTRA_CA_CERTS` and `SSL_CERT_FILE`.
pub fn extra_roots_from_env(env: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"]
        .into_iter()
        .filter_map(env)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect()
}

/// The proxies that the environment names.
pub(crate) fn system_proxies() -> impl Iterator<Item = String> {
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .filter(|address| !address.is_empty())
}

fn install_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race against another thread is as good as winning it.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn read_roots(path: &Path) -> Vec<Certificate> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read extra certificates");
            return Vec::new();
        }
    };
    Certificate::from_pem_bundle(&bytes).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "extra certificates do not parse");
        Vec::new()
    })
}

fn policy(redirects: Redirects) -> Policy {
    match redirects {
        Redirects::None => Policy::none(),
        Redirects::Any(most) => Policy::limited(most),
        Redirects::SameHost(most) => Policy::custom(move |attempt: Attempt<'_>| {
            if attempt.previous().len() > most {
                return attempt.error("too many redirects");
            }
            let same = attempt.previous().last().is_some_and(|from| same_host(from, attempt.url()));
            if same { attempt.follow() } else { attempt.stop() }
        }),
    }
}

/// Whether a request to `to` reaches the same server as one to `from`, with no
/// less protection.
fn same_host(from: &url::Url, to: &url::Url) -> bool {
    if from.host_str() != to.host_str() {
        return false;
    }
    match (from.scheme(), to.scheme()) {
        (a, b) if a == b => from.port_or_known_default() == to.port_or_known_default(),
        ("http", "https") => from.port().is_none() && to.port().is_none(),
        _ => false,
    }
}

/// An error and its causes in one line; a cause that repeats what was said is
/// left out.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> url::Url {
        text.parse().expect("a URL")
    }

    #[test]
    fn secrets_stay_with_their_host() {
        assert!(same_host(&url("http://a.example/x"), &url("https://a.example/y")));
        assert!(same_host(&url("https://a.example/x"), &url("https://a.example:443/y")));
        assert!(!same_host(&url("https://a.example/x"), &url("http://a.example/x")));
        assert!(!same_host(&url("https://a.example/x"), &url("https://b.example/x")));
        assert!(!same_host(&url("http://a.example:81/x"), &url("http://a.example:82/x")));
    }

    #[test]
    fn a_bad_proxy_is_named_without_its_password() {
        let options =
            ClientOptions { proxy: Some("http://u:hunter2@".into()), ..Default::default() };
        let error = client(&options).expect_err("no host").to_string();
        assert!(error.contains("proxy") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn roots_that_cannot_be_read_do_not_stop_the_client() {
        let directory = tempfile::tempdir().expect("a directory");
        let junk = directory.path().join("junk.pem");
        std::fs::write(&junk, "-----BEGIN CERTIFICATE-----\n!!!\n").expect("written");
        let extra_roots = vec![directory.path().join("absent.pem"), junk];
        assert!(client(&ClientOptions { extra_roots, ..Default::default() }).is_ok());
    }
}
