//! The options of an HTTP client.

use std::path::PathBuf;
use std::time::Duration;

/// Client options. `Default` gives a client for `https://` with the system's trust store and
/// proxies, and without redirects.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// `User-Agent`; empty = none. A request may set its own.
    pub user_agent: String,
    /// The proxy for all requests (`NO_PROXY` still applies); `None` = the system's (`HTTPS_PROXY`,
    /// `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    pub proxy: Option<String>,
    /// Whether the system's proxies are used when `proxy` is `None`. Disable this for an address on
    /// this machine.
    pub system_proxy: bool,
    /// PEM files with certificates that are trusted in addition to the system's. One that cannot be
    /// read or parsed is skipped with a warning in the log.
    pub extra_roots: Vec<PathBuf>,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Time limit for a request including its response; `None` = no limit.
    pub timeout: Option<Duration>,
    /// Which redirects are followed.
    pub redirects: Redirects,
    /// PEM files with the client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether only `http://` URLs will be requested, so that no trust store is loaded (which takes
    /// milliseconds at startup). An `https://` URL fails.
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
            identity: None,
            plain_http: false,
        }
    }
}

/// Which redirects a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// None: a 3xx response is returned to the caller.
    None,
    /// At most this many, and only to the same host and port (or from `http` to `https` of the same
    /// host): for requests with secrets in headers.
    SameHost(usize),
    /// At most this many, to any host: for requests without secrets of their own. (`Authorization`
    /// and cookies are dropped when the host changes; a private header such as `x-goog-api-key`
    /// would not be.)
    Any(usize),
}
