//! Classifies addresses and host names as public or private.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Why an address is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither `http` nor `https`.
    #[error("cannot fetch `{scheme}:` addresses, only `http:` and `https:`")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// The address has no host.
    #[error("the address has no host")]
    NoHost,
    /// The host is a name of this machine or of a local network.
    #[error("`{host}` is a local or private host; only public hosts may be fetched")]
    PrivateHost {
        /// The host as written.
        host: String,
    },
    /// The name resolves to a private address.
    #[error(
        "`{host}` resolves to {address}, which is not a public address; only public hosts may be fetched"
    )]
    PrivateAddress {
        /// The host's name.
        host: String,
        /// The resolved address.
        address: IpAddr,
    },
}

/// Whether an address is reachable on the public internet: not loopback, private, link-local,
/// shared (CGNAT), documentation, benchmarking, multicast, or reserved. IPv6 forms that embed an
/// IPv4 address are classified by the embedded address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [224..=255, ..]
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let from_halves = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // Includes unspecified and loopback: 0.0.0.0 and 0.0.0.1 are not public. Compatible,
        // mapped, translated, NAT64:
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => from_halves(high, low),
        // 6to4 embeds its gateway's address.
        [0x2002, high, low, ..] => from_halves(high, low),
        // Teredo (inverted client address) and other protocol assignments serve no web pages.
        [0x2001, 0..=0x1ff, ..] => false,
        // Documentation.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Only global unicast remains: this excludes unique local, link-local, site-local,
        // multicast, discard, and local NAT64 prefixes.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Whether a host, as written in a URL, is a name or literal of this machine or of a local network.
/// Names are not resolved. Decimal, octal, and hexadecimal spellings of IPv4 addresses are
/// recognized.
pub fn blocked_host_name(host: &str) -> bool {
    match Host::parse(host) {
        Ok(host) => blocked_host(&host),
        // The URL parser also rejects such a host.
        Err(_) => true,
    }
}

fn blocked_host<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Ipv4(address) => !is_public_v4(*address),
        Host::Ipv6(address) => !is_public_v6(*address),
        Host::Domain(name) => {
            let name = name.as_ref().trim_end_matches('.').to_ascii_lowercase();
            name.is_empty()
                || ["localhost", "local", "internal", "localdomain", "home.arpa"].iter().any(
                    |suffix| {
                        name.strip_suffix(suffix)
                            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                    },
                )
        }
    }
}

/// Checks what can be checked without resolving a name: the scheme, literal addresses, and names of
/// local hosts.
///
/// # Errors
/// Returns an error if the URL may not be fetched.
pub fn check_url(url: &Url, allowed: &[IpAddr]) -> Result<(), AddressError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(AddressError::Scheme { scheme: url.scheme().to_owned() });
    }
    let host = url.host().ok_or(AddressError::NoHost)?;
    let excepted = match host {
        Host::Ipv4(address) => allowed.contains(&address.into()),
        Host::Ipv6(address) => allowed.contains(&address.into()),
        Host::Domain(_) => false,
    };
    if !excepted && blocked_host(&host) {
        return Err(AddressError::PrivateHost { host: host.to_string() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn private_ranges_are_not_public() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:192.168.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().expect("an address")), "{text}");
        }
    }

    #[test]
    fn public_addresses_are_recognized() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public(text.parse().expect("an address")), "{text}");
        }
    }

    #[test]
    fn local_names_and_unusual_spellings_are_blocked() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "0x7f.1",
            "[::1]",
            "[::ffff:7f00:1]",
            "",
            "a b",
            "①②⑦.0.0.1",
        ] {
            assert!(blocked_host_name(host), "{host}");
        }
        for host in ["example.com", "notlocalhost", "local.example.com", "8.8.8.8", "134744072"] {
            assert!(!blocked_host_name(host), "{host}");
        }
    }

    #[test]
    fn only_web_schemes_are_fetched() {
        for text in ["file:///etc/passwd", "ftp://example.com/", "data:text/plain,x"] {
            assert!(check_url(&text.parse().expect("a URL"), &[]).is_err(), "{text}");
        }
        assert_eq!(check_url(&"https://example.com/".parse().expect("a URL"), &[]), Ok(()));
    }

    proptest! {
        /// An embedded IPv4 address is classified the same way in every form.
        #[test]
        fn embedded_ipv4_addresses_are_checked(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let public = is_public(v4.into());
            prop_assert_eq!(is_public(v4.to_ipv6_mapped().into()), public);
            prop_assert_eq!(blocked_host_name(&bits.to_string()), !public);
            prop_assert_eq!(blocked_host_name(&format!("{bits:#x}")), !public);
            prop_assert_eq!(blocked_host_name(&format!("0{bits:o}")), !public);
        }
    }
}
