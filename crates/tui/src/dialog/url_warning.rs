//! Warnings about suspicious addresses that the model wants to read.

use std::net::{IpAddr, Ipv4Addr};

/// Addresses of metadata services, which hand out the credentials of cloud machines.
pub(crate) const METADATA: [&str; 5] = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "fd00:ec2::254",
    "metadata.google.internal",
];
const OF_METADATA: &str = "a cloud's metadata, which contains credentials";

/// Returns a warning about text, such as a command, that contains the address of a metadata
/// service.
pub(crate) fn metadata_warning(text: &str) -> Option<String> {
    METADATA.iter().any(|known| text.contains(known)).then(|| format!("Address of {OF_METADATA}"))
}

/// Returns a warning about a URL if its host is not the one it seems to be, or not a public one.
pub(crate) fn warning(url: &str) -> Option<String> {
    let authority = authority(url);
    if let Some((user, host)) = authority.rsplit_once('@') {
        return Some(format!("The host is {host}; {user} is only a user name"));
    }
    let host = host_name(authority);
    if !url.is_ascii() || host.split('.').any(|label| label.starts_with("xn--")) {
        return Some("The URL contains letters that look like other letters".to_owned());
    }
    let what = match address(&host) {
        Some(address) if is_metadata(address) => OF_METADATA,
        None if METADATA.contains(&host.as_str()) => OF_METADATA,
        Some(address) if address.is_loopback() || address.is_unspecified() => "this machine",
        None if host == "localhost" || host.ends_with(".localhost") => "this machine",
        Some(address) if is_local(address) => "the local network",
        None if is_local_name(&host) => "the local network",
        _ => return None,
    };
    Some(format!("Address of {what}"))
}

/// Returns the part of a URL that names the host.
pub(crate) fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#', '\\']).next().unwrap_or_default()
}

/// Returns the host without brackets and port, in lower case.
fn host_name(authority: &str) -> String {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Reads an address, also one that is written as a single number, which programs accept.
fn address(host: &str) -> Option<IpAddr> {
    let number = match host.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => host.parse::<u32>().ok(),
    };
    match number {
        Some(number) => Some(IpAddr::V4(Ipv4Addr::from(number))),
        None => host.parse::<IpAddr>().ok().map(|address| address.to_canonical()),
    }
}

fn is_metadata(address: IpAddr) -> bool {
    METADATA.iter().any(|known| known.parse() == Ok(address))
}

fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            address.is_private() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    }
}

fn is_local_name(host: &str) -> bool {
    let suffixes = [".local", ".internal", ".lan", ".home.arpa"];
    !host.is_empty()
        && (!host.contains('.') || suffixes.iter().any(|suffix| host.ends_with(suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_suspicious_hosts_have_a_warning() {
        let metadata = Some("Address of a cloud's metadata, which contains credentials");
        let local = Some("Address of the local network");
        let machine = Some("Address of this machine");
        let letters = Some("The URL contains letters that look like other letters");
        for (url, expected) in [
            ("https://example.com/a?b=c#d", None),
            ("https://8.8.8.8/", None),
            ("http://169.254.169.254/latest/meta-data", metadata),
            ("http://metadata.google.internal/computeMetadata/v1/", metadata),
            ("http://2852039166/", metadata),
            ("http://0xa9fea9fe/", metadata),
            ("http://[::ffff:169.254.169.254]:80/", metadata),
            ("http://localhost:3000/", machine),
            ("http://app.localhost/", machine),
            ("http://127.0.0.1.:8080", machine),
            ("http://[::1]/", machine),
            ("http://0.0.0.0/", machine),
            ("http://192.168.1.1/admin", local),
            ("http://10.0.0.7/", local),
            ("http://100.64.0.1/", local),
            ("http://[fe80::1]/", local),
            ("http://printer.local/", local),
            ("http://intranet/", local),
            ("https://xn--80ak6aa92e.com/", letters),
            ("https://аpple.com/", letters),
            (
                "https://github.com@evil.example/x",
                Some("The host is evil.example; github.com is only a user name"),
            ),
        ] {
            assert_eq!(warning(url).as_deref(), expected, "{url}");
        }
    }
}
