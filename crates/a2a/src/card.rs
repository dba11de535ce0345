//! The card of an agent: where it is, and which form of the protocol it speaks.

use parallax_config::agents::{is_on_this_machine, is_private_to_peer};
use parallax_http::address::check_url;
use parallax_http::url::Url;
use serde_json::Value;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// 0.3 and older.
    V03,
    /// 1.0.
    V10,
}

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// JSON-RPC over HTTP.
    JsonRpc,
    /// REST-style HTTP paths and methods.
    Http,
}

/// What the client needs of a card.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentCard {
    /// The address of the agent.
    pub(crate) url: Url,
    pub(crate) binding: Binding,
    pub(crate) version: Version,
    /// The part of the address that selects one of several agents.
    pub(crate) tenant: Option<String>,
    pub(crate) is_streaming: bool,
    /// The kinds of credentials that the agent names, for messages.
    pub(crate) credentials: Vec<String>,
}

impl AgentCard {
    /// Reads a card. `from` is its address, if it was fetched.
    ///
    /// # Errors
    /// Returns the reason if it names no address that can be used.
    pub(crate) fn read(card: &Value, from: Option<&Url>) -> Result<Self, String> {
        let text = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).map(str::to_owned).filter(|it| !it.is_empty())
        };
        let list = |key: &str| card.get(key).and_then(Value::as_array).into_iter().flatten();
        let mut found: Vec<(Version, Binding, String, Option<String>)> = Vec::new();
        let mut others = Vec::new();
        let mut add = |version, transport: Option<String>, url, tenant| {
            let (Some(url), transport) = (url, transport.unwrap_or_else(|| "JSONRPC".to_owned()))
            else {
                return;
            };
            match transport.to_ascii_uppercase().as_str() {
                "JSONRPC" => found.push((version, Binding::JsonRpc, url, tenant)),
                "HTTP+JSON" => found.push((version, Binding::Http, url, tenant)),
                _ => others.push(transport),
            }
        };
        for interface in list("supportedInterfaces") {
            let version = match text(interface, "protocolVersion") {
                Some(version) if version.starts_with("0.") => Version::V03,
                _ => Version::V10,
            };
            let binding = text(interface, "protocolBinding").or(text(interface, "transport"));
            add(version, binding, text(interface, "url"), text(interface, "tenant"));
        }
        add(Version::V03, text(card, "preferredTransport"), text(card, "url"), None);
        for interface in list("additionalInterfaces") {
            add(Version::V03, text(interface, "transport"), text(interface, "url"), None);
        }
        // The order is that of the agent, but the newest version comes first.
        let newest = found.iter().map(|(version, ..)| *version).max();
        let best = found.into_iter().find(|(version, ..)| Some(*version) == newest);
        let Some((version, binding, url, tenant)) = best else {
            return Err(match others.is_empty() {
                true => "it has no address (`supportedInterfaces` or `url`)".to_owned(),
                false => format!(
                    "it offers only {}; `JSONRPC` or `HTTP+JSON` is needed",
                    others.join(", ")
                ),
            });
        };
        let capabilities = card.get("capabilities");
        let streams = capabilities.and_then(|it| it.get("streaming")).and_then(Value::as_bool);
        let schemes = card.get("securitySchemes").and_then(Value::as_object);
        Ok(Self {
            url: address(&url, from)?,
            binding,
            version,
            tenant,
            is_streaming: streams == Some(true),
            credentials: schemes
                .map(|it| it.keys().take(10).cloned().collect())
                .unwrap_or_default(),
        })
    }
}

/// Returns the address of an agent, unless its card leads where its author must not send requests.
fn address(text: &str, from: Option<&Url>) -> Result<Url, String> {
    let parsed = match from {
        Some(from) => from.join(text),
        None => Url::parse(text),
    };
    let url = parsed.map_err(|error| format!("its address `{text}` is not a URL: {error}"))?;
    if !is_private_to_peer(&url) {
        return Err(format!("its address `{url}` is not an `https://` URL"));
    }
    let is_elsewhere =
        from.is_some_and(|from| from.host() != url.host() && !is_on_this_machine(from));
    if is_elsewhere && check_url(&url, &[]).is_err() {
        return Err(format!("its address `{url}` is on a private network, but the card is not"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn newest_version_with_a_known_binding_is_chosen() {
        let interface = |binding: &str, version: &str| {
            json!({"url": format!("https://x.example/{binding}/{version}"),
                "protocolBinding": binding, "protocolVersion": version})
        };
        for (interfaces, version, binding) in [
            (vec![("JSONRPC", "0.3"), ("HTTP+JSON", "1.0")], Version::V10, Binding::Http),
            (vec![("GRPC", "1.0"), ("JSONRPC", "1.0")], Version::V10, Binding::JsonRpc),
            (vec![("GRPC", "1.0"), ("HTTP+JSON", "0.3.0")], Version::V03, Binding::Http),
        ] {
            let list: Vec<Value> = interfaces.iter().map(|it| interface(it.0, it.1)).collect();
            let card = json!({"supportedInterfaces": list, "capabilities": {"streaming": true}});
            let card = AgentCard::read(&card, None).expect("a card");
            assert_eq!((card.version, card.binding, card.is_streaming), (version, binding, true));
        }
    }

    #[test]
    fn version_0_3_card_may_name_several_addresses() {
        let old = json!({"url": "https://x.example/a2a"});
        let card = AgentCard::read(&old, None).expect("a card");
        assert_eq!((card.version, card.binding), (Version::V03, Binding::JsonRpc));
        let other = json!({"url": "https://x.example/a", "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "https://x.example/b", "transport": "HTTP+JSON"}]});
        let card = AgentCard::read(&other, None).expect("a card");
        assert_eq!((card.binding, card.url.path()), (Binding::Http, "/b"));
        let grpc = json!({"url": "https://x.example/a", "preferredTransport": "GRPC"});
        assert!(AgentCard::read(&grpc, None).expect_err("none").contains("only GRPC"));
        assert!(AgentCard::read(&json!({}), None).expect_err("none").contains("no address"));
    }

    #[test]
    fn agent_card_cannot_lead_to_plain_http_or_private_networks() {
        let from = url("https://agents.example/card");
        let read = |address: &str, from: &Url| {
            AgentCard::read(&json!({"url": address}), Some(from)).map(|card| card.url)
        };
        for address in [
            "http://agents.example/",
            "file:///etc/passwd",
            "http://127.0.0.1:1/",
            "https://127.0.0.1/",
            "https://10.0.0.1/",
            "https://169.254.169.254/",
        ] {
            assert!(read(address, &from).is_err(), "{address}");
        }
        assert_eq!(read("/a2a", &from).expect("a URL"), url("https://agents.example/a2a"));
        assert!(read("https://other.example/", &from).is_ok());
        let local = url("http://127.0.0.1:9/card");
        assert!(read("http://localhost:8/a", &local).is_ok());
        assert!(read("http://10.0.0.1/", &local).is_err());
    }
}
