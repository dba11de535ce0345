//! Addresses in the memory of a command, and which of them a network setting allows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

use crate::plan::Network;

/// An address of any family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// An internet address with port and interface (0 means any).
    Internet { host: IpAddr, port: u16, scope: u32 },
    /// A unix socket with a path.
    Path(Vec<u8>),
    /// An abstract unix socket, with the NUL byte before its name.
    Abstract(Vec<u8>),
    /// The kernel, through netlink.
    Kernel,
    /// `AF_UNSPEC`, which dissolves an association.
    None,
    /// Anything else.
    Other,
}

impl Address {
    /// Parses a `sockaddr`; one that is too short yields [`Self::Other`].
    pub(super) fn read(bytes: &[u8]) -> Self {
        let Some((family, rest)) = bytes.split_first_chunk() else { return Self::Other };
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_UNSPEC => Self::None,
            libc::AF_INET => parse_ipv4(rest),
            libc::AF_INET6 => parse_ipv6(rest),
            libc::AF_NETLINK => match rest.get(2..6) {
                // Process 0 is the kernel; other processes might execute requests.
                Some([0, 0, 0, 0]) => Self::Kernel,
                _ => Self::Other,
            },
            libc::AF_UNIX => match rest.split_first() {
                None | Some((0, _)) => Self::Abstract(rest.to_vec()),
                Some(_) => Self::Path(rest.split(|b| *b == 0).next().unwrap_or(&[]).to_vec()),
            },
            _ => Self::Other,
        }
    }

    /// Parses an address as `sendmsg` on an internet socket does: `AF_UNSPEC` with the length of an
    /// IPv4 address is such an address.
    pub(super) fn from_message(bytes: &[u8]) -> Self {
        match Self::read(bytes) {
            Self::None => bytes.get(2..).map_or(Self::Other, parse_ipv4),
            other => other,
        }
    }
}

fn parse_ipv4(rest: &[u8]) -> Address {
    let (Some(&port), Some(&host)) =
        (rest.first_chunk(), rest.get(2..).and_then(<[u8]>::first_chunk::<4>))
    else {
        return Address::Other;
    };
    let host = IpAddr::V4(Ipv4Addr::from(host));
    Address::Internet { host, port: u16::from_be_bytes(port), scope: 0 }
}

fn parse_ipv6(rest: &[u8]) -> Address {
    let (Some(&port), Some(&host)) =
        (rest.first_chunk(), rest.get(6..).and_then(<[u8]>::first_chunk::<16>))
    else {
        return Address::Other;
    };
    let scope =
        rest.get(22..).and_then(<[u8]>::first_chunk).map_or(0, |scope| u32::from_ne_bytes(*scope));
    let host = Ipv6Addr::from(host).to_canonical();
    Address::Internet { host, port: u16::from_be_bytes(port), scope }
}

/// Ports of name servers, unencrypted and encrypted. A name server queries others, so it is a way
/// out even on the loopback interface.
const OF_NAMES: [u16; 2] = [53, 853];

/// Properties of the host that decide whether an internet address is allowed.
pub(super) trait HostEnvironment {
    /// Whether the host has this address.
    fn is_own_address(&self, host: IpAddr, scope: u32) -> bool;
    /// Whether the host is configured to use this name server.
    fn is_name_server(&self, host: IpAddr) -> bool;
    /// Whether every server on this port was started in the sandbox.
    fn is_session_port(&self, port: u16) -> bool;
}

/// Checks whether the network setting allows the address. The error is the one that a host without
/// such a peer returns.
pub(super) fn check_access(
    network: Network,
    host: IpAddr,
    port: u16,
    scope: u32,
    around: &dyn HostEnvironment,
) -> Result<(), Errno> {
    let loopback = host.is_loopback() || host.is_unspecified();
    match network {
        Network::Isolated => Err(Errno::NETUNREACH),
        Network::Host => Ok(()),
        Network::Loopback if loopback && !OF_NAMES.contains(&port) => Ok(()),
        Network::Loopback => Err(Errno::NETUNREACH),
        Network::External if !loopback && !around.is_own_address(host, scope) => Ok(()),
        Network::External if port == OF_NAMES[0] && around.is_name_server(host) => Ok(()),
        Network::External if around.is_session_port(port) => Ok(()),
        Network::External => Err(Errno::CONNREFUSED),
    }
}

/// Whether the host has the address, determined by binding a socket to it. Returns `true` if
/// unsure.
pub(super) fn is_own_address(host: IpAddr, scope: u32) -> bool {
    let family = if host.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let Ok(socket) = rustix::net::socket(family, SocketType::DGRAM, None) else { return true };
    let bound = match host {
        IpAddr::V4(host) => rustix::net::bind(&socket, &SocketAddrV4::new(host, 0)),
        IpAddr::V6(host) => rustix::net::bind(&socket, &SocketAddrV6::new(host, 0, 0, scope)),
    };
    bound != Err(Errno::ADDRNOTAVAIL)
}

/// Returns the name servers of `resolv.conf`.
pub(super) fn name_servers(text: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|rest| rest.split_whitespace().next())
        .filter_map(|word| word.split('%').next()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestEnvironment;

    impl HostEnvironment for TestEnvironment {
        fn is_own_address(&self, host: IpAddr, _: u32) -> bool {
            host.to_string() == "10.0.0.5"
        }
        fn is_name_server(&self, host: IpAddr) -> bool {
            host.to_string() == "127.0.0.53"
        }
        fn is_session_port(&self, port: u16) -> bool {
            port == 3000
        }
    }

    #[test]
    fn each_network_mode_reaches_its_own_addresses() {
        for (host, port, outward, loopback) in [
            ("93.184.216.34", 443, true, false),
            ("2606:2800::1", 443, true, false),
            ("10.0.0.9", 22, true, false),
            ("10.0.0.5", 22, false, false),
            ("127.0.0.1", 5432, false, true),
            ("127.9.9.9", 5432, false, true),
            ("::1", 5432, false, true),
            ("0.0.0.0", 5432, false, true),
            ("::", 5432, false, true),
            ("127.0.0.1", 3000, true, true),
            ("127.0.0.53", 53, true, false),
            ("127.0.0.1", 53, false, false),
            ("127.0.0.53", 853, false, false),
        ] {
            let host: IpAddr = host.parse().unwrap();
            let to = |network| check_access(network, host, port, 0, &TestEnvironment).is_ok();
            assert_eq!(
                (to(Network::External), to(Network::Loopback)),
                (outward, loopback),
                "{host}:{port}"
            );
        }
    }

    #[test]
    fn socket_addresses_are_parsed_like_the_kernel() {
        let internet =
            |host: &str, port| Address::Internet { host: host.parse().unwrap(), port, scope: 0 };
        let bytes = |family: i32, rest: &[u8]| {
            let mut bytes = u16::try_from(family).unwrap().to_ne_bytes().to_vec();
            bytes.extend_from_slice(rest);
            bytes
        };
        let four = [0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Address::read(&bytes(libc::AF_INET, &four)), internet("127.0.0.1", 80));
        assert_eq!(Address::read(&bytes(libc::AF_UNSPEC, &four)), Address::None);
        assert_eq!(
            Address::from_message(&bytes(libc::AF_UNSPEC, &four)),
            internet("127.0.0.1", 80)
        );
        let mut six = vec![1, 0, 0, 0, 0, 0];
        six.extend("::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap().octets());
        six.extend([0; 4]);
        assert_eq!(Address::read(&bytes(libc::AF_INET6, &six)), internet("127.0.0.1", 256));
        assert_eq!(
            Address::read(&bytes(libc::AF_UNIX, b"/run/x\0rest")),
            Address::Path(b"/run/x".to_vec())
        );
        assert_eq!(
            Address::read(&bytes(libc::AF_UNIX, b"\0bus")),
            Address::Abstract(b"\0bus".to_vec())
        );
        assert_eq!(Address::read(&bytes(libc::AF_NETLINK, &[0; 10])), Address::Kernel);
        assert_eq!(
            Address::read(&bytes(libc::AF_NETLINK, &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0])),
            Address::Other
        );
        for short in
            [&[][..], &[2], &bytes(libc::AF_INET, &[0, 80, 1]), &bytes(libc::AF_INET6, &[0; 20])]
        {
            assert_eq!(Address::read(short), Address::Other);
        }
    }

    #[test]
    fn name_servers_are_recognized() {
        let text =
            "# nameserver 9.9.9.9\nnameserver 127.0.0.53\n search x\nnameserver fe80::1%eth0\n";
        let found: Vec<String> = name_servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["127.0.0.53", "fe80::1"]);
    }

    #[test]
    fn own_addresses_of_the_machine_are_recognized() {
        assert!(is_own_address("127.0.0.1".parse().unwrap(), 0));
        assert!(!is_own_address("192.0.2.1".parse().unwrap(), 0));
    }
}
