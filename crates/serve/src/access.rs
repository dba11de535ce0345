//! Who may use the server: the token, and the headers that show where a request comes from.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, StatusCode};
use sha2::{Digest as _, Sha256};

/// Why a request is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestRejection {
    pub(crate) status: StatusCode,
    pub(crate) message: &'static str,
}

/// The rules for all requests of a server.
pub(crate) struct ServerAccess {
    token: SecretDigest,
    address: IpAddr,
    port: u16,
}

impl ServerAccess {
    pub(crate) fn new(token: &str, address: IpAddr, port: u16) -> Self {
        Self { token: SecretDigest::new(token), address, port }
    }

    /// Checks where a request comes from, before the rest of it is read.
    ///
    /// # Errors
    /// Returns why it is rejected.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), RequestRejection> {
        let host = single_value(headers, &HOST);
        if !host.is_some_and(|host| self.is_own_host(host)) {
            return Err(RequestRejection {
                status: StatusCode::FORBIDDEN,
                message: "the `Host` header does not name this server",
            });
        }
        // Only browsers send it, and this server has no pages from which they could send it.
        if headers.contains_key(ORIGIN) {
            return Err(RequestRejection {
                status: StatusCode::FORBIDDEN,
                message: "requests from web pages are not accepted",
            });
        }
        Ok(())
    }

    /// Checks the token.
    ///
    /// # Errors
    /// Returns why the request is rejected.
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Result<(), RequestRejection> {
        let token = single_value(headers, &AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        if !token.is_some_and(|token| self.token.matches(token)) {
            return Err(RequestRejection {
                status: StatusCode::UNAUTHORIZED,
                message: "send `Authorization: Bearer TOKEN` with the token that the server printed",
            });
        }
        Ok(())
    }

    /// Whether the host is this server's own. A page can point its own name at this machine, but
    /// cannot make the browser send an address in its place.
    fn is_own_host(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        if port != Some(self.port) {
            return false;
        }
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let name = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
        let named: Option<IpAddr> = name.parse().ok();
        named.is_some_and(|named| named.is_loopback() || !self.address.is_loopback())
    }
}

/// Returns the value of a header that occurs exactly once.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// The digest of a secret. Comparing digests takes the same time however much of a guess is
/// correct.
pub(crate) struct SecretDigest([u8; 32]);

impl SecretDigest {
    pub(crate) fn new(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Returns the beginning of the digest, as lowercase hexadecimal digits.
    pub(crate) fn id(&self) -> String {
        self.0.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compares without stopping at the first difference.
    pub(crate) fn matches(&self, secret: &str) -> bool {
        let other = Self::new(secret);
        let difference = self.0.iter().zip(other.0).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn status(access: &ServerAccess, headers: &[(&'static str, &str)]) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        let checked = access.check_origin(&map).and_then(|()| access.check_token(&map));
        checked.err().map(|rejection| rejection.status.as_u16())
    }

    #[test]
    fn only_the_token_at_an_own_address_is_valid() {
        let access = ServerAccess::new("secret", Ipv4Addr::LOCALHOST.into(), 80);
        let good = ("authorization", "Bearer secret");
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:80", "[::1]:80", "[::1]"] {
            assert_eq!(status(&access, &[("host", host), good]), None, "{host}");
        }
        let hosts =
            ["evil.example:80", "127.0.0.1:81", "127.0.0.1.evil.example", "10.0.0.1:80", "", ":80"];
        for host in hosts {
            assert_eq!(status(&access, &[("host", host), good]), Some(403), "{host}");
        }
        assert_eq!(status(&access, &[good]), Some(403));
        let own = ("host", "localhost:80");
        assert_eq!(status(&access, &[own, own, good]), Some(403));
        for origin in ["null", "http://localhost:80", "https://evil.example"] {
            assert_eq!(status(&access, &[own, ("origin", origin), good]), Some(403));
        }
        for token in
            ["Bearer", "Bearer ", "Bearer secret2", "Bearer secre", "Basic secret", "secret"]
        {
            assert_eq!(status(&access, &[own, ("authorization", token)]), Some(401), "{token}");
        }
        assert_eq!(status(&access, &[own]), Some(401));
        assert_eq!(status(&access, &[own, good, good]), Some(401));
    }

    #[test]
    fn host_header_is_accepted_for_public_servers() {
        let access = ServerAccess::new("secret", Ipv4Addr::UNSPECIFIED.into(), 8000);
        let good = ("authorization", "bearer secret");
        assert_eq!(status(&access, &[("host", "10.0.0.1:8000"), good]), None);
        assert_eq!(status(&access, &[("host", "evil.example:8000"), good]), Some(403));
    }
}
