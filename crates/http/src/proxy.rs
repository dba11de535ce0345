//! Selects the proxy of a request by environment and settings.

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::NoProxy;

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

/// Returns the proxy for a request to the URL, without user name and password:
/// `http://proxy.example:3128`. `None`: a direct connection.
pub fn proxy_of(options: &ClientOptions, address: &str) -> Option<String> {
    if are_disabled() {
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
        // `proxy.example:3128` is an address, too.
        let full =
            if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        !url::Url::parse(&full).is_ok_and(|url| {
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
    fn proxy_is_named_without_its_password() {
        let proxy = Some("http://user:hunter2@proxy.example:3128".to_owned());
        let options = ClientOptions { proxy, ..ClientOptions::default() };
        let named = proxy_of(&options, "http://service.example/mcp");
        assert_eq!(named.as_deref(), Some("http://proxy.example:3128"));
        let direct = ClientOptions { system_proxy: false, ..ClientOptions::default() };
        assert_eq!(proxy_of(&direct, "http://service.example/mcp"), None);
    }
}
