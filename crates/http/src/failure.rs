//! Classifies failed requests by who can act.

use std::error::Error;
use std::io::ErrorKind;

use crate::client::error_chain;

/// Maximum depth of the chain of causes.
const DEPTH: usize = 8;

/// Prefixes of the client's own layers in messages before the actual cause.
const LIBRARY_WORDS: &[&str] = &[
    "error sending request: ",
    "client error (Connect): ",
    "client error (SendRequest): ",
    "connection error: ",
    "tcp connect error: ",
    "dns error: ",
    "error resolving DNS: ",
    "failed to lookup address information: ",
    "error decoding response body: ",
    "error reading a body from connection: ",
];

/// The kind of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Waiting took too long.
    Timeout,
    /// Connecting took too long.
    ConnectTimeout,
    /// The name could not be resolved.
    Dns,
    /// The connection was refused.
    Refused,
    /// The connection was reset or closed too early.
    Connection,
    /// The server's certificate is not trusted: retrying is useless.
    Certificate,
    /// TLS failed in another way.
    Tls,
    /// The request itself is invalid: retrying is useless.
    Request,
    /// Another failure.
    Other,
}

impl FailureKind {
    /// Whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        !matches!(self, Self::Certificate | Self::Request)
    }
}

/// A failed request: its kind, and a one-line message without the URL's query or any header.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// What happened, with its causes.
    pub message: String,
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let kind = kind(&error);
        let mut message = error_chain(&error);
        for words in LIBRARY_WORDS {
            message = message.replace(words, "");
        }
        if kind == FailureKind::Dns {
            message = format!("the host name cannot be resolved: {message}");
        }
        if kind == FailureKind::Certificate {
            message.push_str(
                "; if a company proxy replaces certificates, set \
                `NODE_EXTRA_CA_CERTS` to its root certificate",
            );
        }
        Self { kind, message }
    }
}

fn kind(error: &reqwest::Error) -> FailureKind {
    if error.is_builder() || error.is_redirect() {
        return FailureKind::Request;
    }
    if error.is_timeout() {
        return match error.is_connect() {
            true => FailureKind::ConnectTimeout,
            false => FailureKind::Timeout,
        };
    }
    let cause_kind = kind_of_chain(error);
    let otherwise =
        || if error.is_connect() { FailureKind::Connection } else { FailureKind::Other };
    cause_kind.unwrap_or_else(otherwise)
}

/// Returns the kind of the first cause that determines it.
fn kind_of_chain(error: &(dyn Error + 'static)) -> Option<FailureKind> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    for _ in 0..DEPTH {
        let Some(inner) = cause else { break };
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return Some(tls_kind(tls));
        }
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            if let Some(wrapped) = io.get_ref() {
                // `source` of such an error skips the wrapped error.
                cause = Some(wrapped);
                continue;
            }
            match io.kind() {
                ErrorKind::TimedOut => return Some(FailureKind::Timeout),
                ErrorKind::ConnectionRefused => return Some(FailureKind::Refused),
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::NotConnected
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
                | ErrorKind::UnexpectedEof => return Some(FailureKind::Connection),
                _ => {}
            }
        }
        let text = inner.to_string();
        if text.contains("dns error") || text.contains("failed to lookup address") {
            return Some(FailureKind::Dns);
        }
        if text.contains("connection closed before message completed")
            || text.contains("unexpected EOF")
            || text.contains("end of file before message length reached")
        {
            return Some(FailureKind::Connection);
        }
        cause = inner.source();
    }
    None
}

fn tls_kind(error: &rustls::Error) -> FailureKind {
    match error {
        rustls::Error::InvalidCertificate(_) => FailureKind::Certificate,
        _ => FailureKind::Tls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_found_below_wrapped_errors() {
        let untrusted =
            || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = || std::io::Error::new(ErrorKind::InvalidData, untrusted());
        let (certificate, refused) = (FailureKind::Certificate, FailureKind::Refused);
        assert_eq!(kind_of_chain(&untrusted()), Some(certificate));
        assert_eq!(kind_of_chain(&wrapped()), Some(certificate));
        assert_eq!(kind_of_chain(&std::io::Error::other(wrapped())), Some(certificate));
        let io = std::io::Error::from(ErrorKind::ConnectionRefused);
        assert_eq!(kind_of_chain(&std::io::Error::other(io)), Some(refused));
        assert_eq!(kind_of_chain(&std::io::Error::other("something")), None);
    }
}
