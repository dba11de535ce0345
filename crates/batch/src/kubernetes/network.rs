//! What pods may connect to. A NetworkPolicy supports addresses and ports, but not host names.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

/// Private and link-local addresses: the cluster itself, its nodes, and metadata services.
const NOT_PUBLIC_V4: [&str; 7] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "198.18.0.0/15",
];
const NOT_PUBLIC_V6: [&str; 3] = ["::1/128", "fc00::/7", "fe80::/10"];

/// Addresses that pods may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRule {
    cidr: String,
    port: Option<u16>,
}

impl std::str::FromStr for EgressRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || "expected addresses such as `203.0.113.0/24` or `10.1.2.3/32:443`".to_owned();
        let (address, rest) = text.split_once('/').ok_or_else(expected)?;
        let (bits, port) = match rest.split_once(':') {
            Some((bits, port)) => (bits, Some(port.parse::<u16>().map_err(|_| expected())?)),
            None => (rest, None),
        };
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let max_bits = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits.parse().map_err(|_| expected())?;
        if bits > max_bits || port == Some(0) {
            return Err(expected());
        }
        Ok(Self { cidr: format!("{address}/{bits}"), port })
    }
}

/// Returns the `egress` of the policy: name service, and the addresses of `rules`; without rules,
/// public addresses at `ports`.
pub(crate) fn egress(rules: &[EgressRule], ports: &BTreeSet<u16>) -> Vec<Value> {
    let port = |protocol: &str, port: u16| json!({"protocol": protocol, "port": port});
    let mut egress = vec![json!({"ports": [port("UDP", 53), port("TCP", 53)]})];
    for rule in rules {
        let mut value = json!({"to": [{"ipBlock": {"cidr": rule.cidr}}]});
        if let Some(number) = rule.port
            && let Some(fields) = value.as_object_mut()
        {
            fields.insert("ports".to_owned(), json!([port("TCP", number)]));
        }
        egress.push(value);
    }
    if rules.is_empty() {
        let ports: Vec<Value> = ports.iter().map(|number| port("TCP", *number)).collect();
        egress.push(json!({"ports": ports, "to": [
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": NOT_PUBLIC_V4}},
            {"ipBlock": {"cidr": "::/0", "except": NOT_PUBLIC_V6}},
        ]}));
    }
    egress
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_with_and_without_a_port() {
        let rule = |text: &str| text.parse::<EgressRule>().ok().map(|rule| (rule.cidr, rule.port));
        assert_eq!(rule("10.1.2.3/32:443"), Some(("10.1.2.3/32".to_owned(), Some(443))));
        assert_eq!(rule("2001:db8::/32:22"), Some(("2001:db8::/32".to_owned(), Some(22))));
        assert_eq!(rule("203.0.113.0/24"), Some(("203.0.113.0/24".to_owned(), None)));
        for invalid in ["example.org", "10.0.0.1", "10.0.0.0/33", "10.0.0.0/8:0", "10.0.0.0/8:x"] {
            assert_eq!(rule(invalid), None, "{invalid}");
        }
    }
}
