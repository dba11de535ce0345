//! Selects the proxy of a request by environment and settings.

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{NoProxy, Proxy};
use url::Url;

use crate::client_options::ClientOptions;

/// Returns the hosts that are reached without a proxy: of the first variable that is not empty.
fn no_proxy_hosts() -> Option<String> {
    let value = |name| std::env::var(name).ok().filter(|hosts: &String| !hosts.trim().is_empty());
    ["NO_PROXY", "no_proxy"].into_iter().find_map(value)
}

/// Whether every host is reached without a proxy: `*` includes addresses, whereas the HTTP library
/// applies it to names only.
fn covers_all_hosts(hosts: Option<&str>) -> bool {
    hosts.is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
}

/// Whether `NO_PROXY` disables all proxies.
pub(crate) fn are_disabled() -> bool {
    covers_all_hosts(no_proxy_hosts().as_deref())
}

/// Returns the hosts that are reached directly although a proxy is set.
pub(crate) fn exceptions() -> Option<NoProxy> {
    NoProxy::from_string(&no_proxy_hosts()?)
}

/// An entry `host:port` of `NO_PROXY`. The HTTP library ignores such entries.
pub(crate) struct PortException {
    /// Finds a proxy for all hosts but this one.
    others: Matcher,
    port: u16,
}

impl PortException {
    fn parse(entry: &str) -> Option<Self> {
        let (host, port) = entry.trim().rsplit_once(':')?;
        let port = port.parse().ok()?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        // An IPv6 address without brackets has no port.
        if host.is_empty() || host.contains(':') && !is_bracketed {
            return None;
        }
        let others = Matcher::builder()
            .all("http://proxy.invalid")
            .no(host.trim_matches(['[', ']']))
            .build();
        Some(Self { others, port })
    }

    fn matches(&self, url: &Url) -> bool {
        url.port_or_known_default() == Some(self.port)
            && url.as_str().parse().is_ok_and(|uri| self.others.intercept(&uri).is_none())
    }
}

/// Returns the entries of `NO_PROXY` with a port.
pub(crate) fn port_exceptions() -> Vec<PortException> {
    let hosts = no_proxy_hosts().unwrap_or_default();
    hosts.split(',').filter_map(PortException::parse).collect()
}

/// Returns the proxy for requests except those to hosts and ports of the exceptions: the given one,
/// or the system's.
pub(crate) fn proxy_with(exceptions: Vec<PortException>, proxy: Option<Url>) -> Proxy {
    let through = Proxy::custom(move |url| {
        if exceptions.iter().any(|exception| exception.matches(url)) {
            return None;
        }
        match &proxy {
            Some(proxy) => Some(proxy.clone()),
            None => system_proxy(url.scheme()),
        }
    });
    through.no_proxy(self::exceptions())
}

/// Returns the system's proxy for a scheme.
fn system_proxy(scheme: &str) -> Option<Url> {
    let is_script = std::env::var_os("REQUEST_METHOD").is_some();
    let names: &[&str] = match scheme {
        "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        // A client of a CGI script can set `HTTP_PROXY`.
        _ if is_script => &["http_proxy", "ALL_PROXY", "all_proxy"],
        _ => &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let value = |name: &&str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    parse_address(&names.iter().find_map(value)?)
}

/// Parses the address of a proxy, with or without a scheme: `proxy.example:3128`.
pub(crate) fn parse_address(address: &str) -> Option<Url> {
    let address = address.trim();
    match address.contains("://") {
        true => Url::parse(address).ok(),
        false => Url::parse(&format!("http://{address}")).ok(),
    }
}

/// Returns the proxy for a request to the URL, without user name and password:
/// `http://proxy.example:3128`. `None`: a direct connection.
pub fn proxy_of(options: &ClientOptions, address: &str) -> Option<String> {
    let is_direct = |url: &Url| port_exceptions().iter().any(|exception| exception.matches(url));
    if are_disabled() || Url::parse(address).is_ok_and(|url| is_direct(&url)) {
        return None;
    }
    let matcher = match &options.proxy {
        Some(proxy) => {
            Matcher::builder().all(proxy.clone()).no(no_proxy_hosts().unwrap_or_default()).build()
        }
        None if options.system_proxy => Matcher::from_env(),
        None => return None,
    };
    let found = matcher.intercept(&address.parse().ok()?)?;
    let proxy = found.uri();
    let port = proxy.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{}{port}", proxy.scheme_str()?, proxy.host()?))
}

/// Returns the variables with proxy addresses that cannot be used: requests would go without a
/// proxy.
pub fn invalid_proxies(env: &dyn Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let is_invalid = |address: &str| {
        !parse_address(address).is_some_and(|url| {
            url.has_host()
                && matches!(
                    url.scheme(),
                    "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h"
                )
        })
    };
    let set = |name: &&str| {
        env(name).is_some_and(|address| !address.trim().is_empty() && is_invalid(address.trim()))
    };
    PROXY_VARIABLES.into_iter().filter(set).collect()
}

/// The variables that name proxies.
pub(crate) const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_every_host() {
        for hosts in ["*", " * ", "a.example, *"] {
            assert!(covers_all_hosts(Some(hosts)), "{hosts}");
        }
        for hosts in [None, Some(""), Some("*.example"), Some("localhost,10.0.0.0/8")] {
            assert!(!covers_all_hosts(hosts), "{hosts:?}");
        }
    }

    #[test]
    fn no_proxy_entry_with_a_port_applies_to_that_port() {
        for (entry, address, is_direct) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/x", true),
            ("127.0.0.1:8080", "http://127.0.0.1:8081/x", false),
            (" intern.example:443 ", "https://intern.example/", true),
            ("intern.example:443", "https://a.intern.example/", true),
            ("intern.example:443", "https://other.example/", false),
            ("[::1]:8080", "http://[::1]:8080/", true),
            ("10.0.0.0/8:80", "http://10.1.2.3/", true),
        ] {
            let exception = PortException::parse(entry).expect(entry);
            let url = Url::parse(address).expect("a URL");
            assert_eq!(exception.matches(&url), is_direct, "{entry} {address}");
        }
        for entry in ["", "*", "localhost", "::1", "fe80::1:80", "host:", ":80", "host:name"] {
            assert!(PortException::parse(entry).is_none(), "{entry}");
        }
    }

    #[test]
    fn proxy_addresses_that_cannot_be_used_are_found() {
        for (address, is_invalid) in [
            ("http://proxy.example:3128", false),
            ("proxy.example:3128", false),
            ("socks5h://127.0.0.1:1080", false),
            ("", false),
            ("http://:::bad", true),
            ("not a url", true),
            ("htp://127.0.0.1:4799", true),
        ] {
            let env = |name: &str| (name == "https_proxy").then(|| address.to_owned());
            assert_eq!(!invalid_proxies(&env).is_empty(), is_invalid, "{address}");
        }
    }

    #[test]
    fn proxy_is_reported_without_its_password() {
        let proxy = Some("http://user:hunter2@proxy.example:3128".to_owned());
        let options = ClientOptions { proxy, ..ClientOptions::default() };
        let named = proxy_of(&options, "http://service.example/mcp");
        assert_eq!(named.as_deref(), Some("http://proxy.example:3128"));
        let direct = ClientOptions { system_proxy: false, ..ClientOptions::default() };
        assert_eq!(proxy_of(&direct, "http://service.example/mcp"), None);
    }
}
