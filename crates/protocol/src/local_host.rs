//! Hosts of URLs that are this machine.

use std::net::IpAddr;

/// Whether the host of a URL is this machine by its name or address: `localhost`, a loopback
/// address, or the unspecified address, at which servers say that they listen. Other names of the
/// machine have to be resolved.
pub fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = address.to_canonical();
        return address.is_loopback() || address.is_unspecified();
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns the host of a URL, or an empty string.
pub fn host_of_url(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.rsplit_once(':') {
        // The last group of an IPv6 address is not a port.
        Some((name, _)) if !name.starts_with('[') || name.ends_with(']') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_recognized() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://127.9.9.9", true),
            ("http://localhost:1234", true),
            ("http://LOCALHOST.:1234/v1", true),
            ("http://server.localhost/", true),
            ("http://[::1]:11434", true),
            ("http://[::1]", true),
            ("http://[::]:11434", true),
            ("http://[::ffff:127.0.0.1]:1", true),
            ("http://0.0.0.0:8000/v1", true),
            ("http://user:key@127.0.0.1:1", true),
            ("http://localhost.example.com", false),
            ("http://127.example.com", false),
            ("http://192.168.0.2:8000", false),
            ("https://api.openai.com/v1", false),
            ("http://[2001:db8::1]:80", false),
            ("127.0.0.1:80", false),
            ("", false),
        ] {
            assert_eq!(is_this_machine(host_of_url(url)), expected, "{url}");
        }
    }
}
