//! Builds the HTTP client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Proxy};

use crate::client_options::{ClientOptions, Redirects};
use crate::proxy;

/// A failure to build a client.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The proxy's address is invalid.
    #[error(
        "invalid proxy address ({reason}): check the `proxy` setting, for example `http://host:port`"
    )]
    Proxy {
        /// The message of the parser, without the URL, which may contain a password.
        reason: String,
    },
    /// The client's certificate or key cannot be used.
    #[error("cannot use the client certificate `{}`: {reason}", .path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The system has no CA certificates, as in an empty container.
    #[error(
        "this system has no CA certificates: install them (package \
         `ca-certificates`), or set `SSL_CERT_FILE` to a file with them in PEM form"
    )]
    NoAuthorities,
    /// Setting up TLS or the trust store failed.
    #[error("failed to set up the HTTP client: {reason}")]
    Build {
        /// The library's message.
        reason: String,
    },
}

/// Builds a client.
///
/// # Errors
/// Returns an error if the proxy's address is invalid or the system's trust store fails.
pub fn client(options: &ClientOptions) -> Result<reqwest::Client, HttpError> {
    finish(builder(options)?)
}

pub(crate) fn finish(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, HttpError> {
    builder.build().map_err(|error| match error_chain(&error) {
        reason if reason.contains("No CA certificates") => HttpError::NoAuthorities,
        reason => HttpError::Build { reason },
    })
}

/// Reads the certificate and the key of the client.
fn identity(certificate: &Path, key: &Path) -> Result<reqwest::Identity, HttpError> {
    let failed =
        |path: &Path, reason: String| HttpError::Identity { path: path.to_owned(), reason };
    let read = |path: &Path| std::fs::read(path).map_err(|error| failed(path, error.to_string()));
    let mut pem = read(certificate)?;
    pem.push(b'\n');
    pem.extend(read(key)?);
    reqwest::Identity::from_pem(&pem)
        .map_err(|error| failed(certificate, error_chain(&error.without_url())))
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
    if let Some((certificate, key)) = &options.identity {
        builder = builder.identity(identity(certificate, key)?);
    }
    if !options.user_agent.is_empty() {
        builder = builder.user_agent(&options.user_agent);
    }
    let ports = proxy::port_exceptions();
    match &options.proxy {
        _ if proxy::are_disabled() => builder = builder.no_proxy(),
        Some(address) => {
            let through = Proxy::all(address.as_str())
                .map_err(|error| HttpError::Proxy { reason: error_chain(&error.without_url()) })?;
            let through = match proxy::parse_address(address) {
                Some(address) if !ports.is_empty() => proxy::proxy_with(ports, Some(address)),
                _ => through.no_proxy(proxy::exceptions()),
            };
            builder = builder.no_proxy().proxy(through);
        }
        None if !options.system_proxy => builder = builder.no_proxy(),
        None if !ports.is_empty() => {
            builder = builder.no_proxy().proxy(proxy::proxy_with(ports, None));
        }
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

/// Returns the PEM files named by `NODE_EXTRA_CA_CERTS` and `SSL_CERT_FILE`.
pub fn extra_roots_from_env(env: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"]
        .into_iter()
        .filter_map(env)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect()
}

/// Returns the proxies in the environment.
pub(crate) fn system_proxies() -> impl Iterator<Item = String> {
    proxy::PROXY_VARIABLES
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .filter(|address| !address.is_empty())
}

fn install_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may install it first.
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

/// Returns why files with extra certificates cannot be used; requests ignore such a file.
pub fn unusable_roots(paths: &[PathBuf]) -> Vec<String> {
    let reason = |path: &PathBuf| {
        let reason = match std::fs::read(path) {
            Err(error) => error.to_string(),
            Ok(bytes) => match Certificate::from_pem_bundle(&bytes) {
                Ok(found) if !found.is_empty() => return None,
                Ok(_) => "it contains no PEM certificate".to_owned(),
                Err(error) => error.to_string(),
            },
        };
        Some(format!("{}: {reason}", path.display()))
    };
    paths.iter().filter_map(reason).collect()
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

/// Whether a request to `to` reaches the same server as one to `from`, with at least the same
/// protection.
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

/// Formats an error and its causes on one line, without repetitions and numbers of the operating
/// system.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = without_number(&error.to_string()).to_owned();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        let more = without_number(&more);
        if !text.contains(more) {
            text.push_str(": ");
            text.push_str(more);
        }
        cause = inner.source();
    }
    text
}

/// Returns the text without the number that `std::io::Error` appends, which users cannot use.
fn without_number(text: &str) -> &str {
    let is_number = |number: &str| {
        number.strip_suffix(')').is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match text.rsplit_once(" (os error ") {
        Some((before, number)) if is_number(number) => before,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> url::Url {
        text.parse().expect("a URL")
    }

    #[test]
    fn error_causes_are_listed_once_without_os_error_numbers() {
        let io = std::io::Error::from_raw_os_error(111);
        assert_eq!(error_chain(&io), "Connection refused");
        let wrapped = std::io::Error::other(WrappedError(io));
        assert_eq!(error_chain(&wrapped), "it failed: Connection refused");
        assert_eq!(without_number("a (os error x)"), "a (os error x)");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("it failed")]
    struct WrappedError(#[source] std::io::Error);

    #[test]
    fn secrets_are_sent_only_to_their_host() {
        assert!(same_host(&url("http://a.example/x"), &url("https://a.example/y")));
        assert!(same_host(&url("https://a.example/x"), &url("https://a.example:443/y")));
        assert!(!same_host(&url("https://a.example/x"), &url("http://a.example/x")));
        assert!(!same_host(&url("https://a.example/x"), &url("https://b.example/x")));
        assert!(!same_host(&url("http://a.example:81/x"), &url("http://a.example:82/x")));
    }

    #[test]
    fn invalid_proxy_is_reported_without_its_password() {
        let options =
            ClientOptions { proxy: Some("http://u:hunter2@".into()), ..Default::default() };
        let error = client(&options).expect_err("no host").to_string();
        assert!(error.contains("proxy") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn unreadable_root_certificates_do_not_prevent_the_client() {
        let directory = tempfile::tempdir().expect("a directory");
        let junk = directory.path().join("junk.pem");
        std::fs::write(&junk, "-----BEGIN CERTIFICATE-----\n!!!\n").expect("written");
        let extra_roots = vec![directory.path().join("absent.pem"), junk];
        assert!(client(&ClientOptions { extra_roots, ..Default::default() }).is_ok());
    }
}
