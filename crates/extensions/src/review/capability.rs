//! Compares what two versions of an extension may do, where one may do a part of what the other
//! may.

use parallax_protocol::Object;
use serde_json::Value;

/// A capability that a newer version can narrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Capability {
    /// An agent with its tools; `None` means all tools.
    Agent { name: String, tools: Option<Vec<String>> },
    /// An MCP server of the extension or of one of its agents.
    Server { name: String, agent: Option<String>, value: Value },
    /// A hook. `details` are the settings that its line does not show.
    Hook { event: &'static str, command: String, matcher: String, details: String },
}

impl Capability {
    /// Whether the other capability includes this one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Agent { name, tools }, Self::Agent { name: known, tools: granted }) => {
                let is_granted = match (tools, granted) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(tools), Some(granted)) => tools.iter().all(|it| granted.contains(it)),
                };
                name == known && is_granted
            }
            (
                Self::Server { name, agent, value },
                Self::Server { name: known, agent: of, value: granted },
            ) => name == known && agent == of && is_narrower_server(value, granted),
            (
                Self::Hook { event, command, matcher, details },
                Self::Hook { event: at, command: known, matcher: granted, details: same },
            ) => {
                (event, command, details) == (at, known, same)
                    && is_narrower_matcher(matcher, granted)
            }
            _ => false,
        }
    }
}

/// Whether a server is the same or has fewer tools, variables, or headers.
fn is_narrower_server(requested: &Value, granted: &Value) -> bool {
    let (Some(own), Some(granted)) = (requested.as_object(), granted.as_object()) else {
        return requested == granted;
    };
    let list = |server: &Object, key: &str| -> Option<Vec<Value>> {
        server.get(key).and_then(Value::as_array).cloned()
    };
    let excluded = list(own, "excludeTools").unwrap_or_default();
    let keeps_excluded =
        list(granted, "excludeTools").into_iter().flatten().all(|it| excluded.contains(&it));
    let adds_no_tool = match (list(own, "includeTools"), list(granted, "includeTools")) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(own), Some(granted)) => own.iter().all(|it| granted.contains(it)),
    };
    let adds_none = |key: &str| {
        let pairs = |server: &Object| {
            server.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let known = pairs(granted);
        pairs(own).iter().all(|(name, it)| known.get(name) == Some(it))
    };
    let adds_no_variable = adds_none("env") && adds_none("headers");
    let rest = |server: &Object| {
        let mut rest = server.clone();
        let is_compared = |name: &str| {
            matches!(name, "includeTools" | "excludeTools" | "env" | "headers" | "description")
        };
        rest.retain(|name, _| !is_compared(name));
        rest
    };
    keeps_excluded && adds_no_tool && adds_no_variable && rest(own) == rest(granted)
}

/// Whether a matcher that lists plain names is a subset of another one.
fn is_narrower_matcher(requested: &str, granted: &str) -> bool {
    if requested == granted || matches!(granted, "" | "*" | ".*") {
        return true;
    }
    let is_plain = |matcher: &str| {
        matcher.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '|'))
    };
    let names: Vec<&str> = granted.split('|').collect();
    !requested.is_empty()
        && is_plain(requested)
        && is_plain(granted)
        && requested.split('|').all(|name| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn narrowed_capability_is_covered() {
        let agent = |tools: Option<&[&str]>| Capability::Agent {
            name: "a".to_owned(),
            tools: tools.map(|tools| tools.iter().map(|it| (*it).to_owned()).collect()),
        };
        let both = agent(Some(&["read_file", "glob"]));
        assert!(agent(Some(&["glob"])).is_within(&both));
        assert!(both.is_within(&agent(None)));
        assert!(!both.is_within(&agent(Some(&["glob"]))) && !agent(None).is_within(&both));

        let server = |value: Value| Capability::Server { name: "s".to_owned(), agent: None, value };
        let before = server(json!({"command": "x", "includeTools": ["r", "s"],
            "env": {"A": "$A", "B": "$B"}}));
        for (value, is_within) in [
            (json!({"command": "x", "includeTools": ["r"], "env": {"A": "$A", "B": "$B"}}), true),
            (json!({"command": "x", "includeTools": ["r"], "excludeTools": ["q"]}), true),
            (json!({"command": "x", "includeTools": ["r", "s"], "env": {"A": "$A"}}), true),
            (json!({"command": "x", "includeTools": ["r", "t"]}), false),
            (json!({"command": "x", "env": {"A": "$A"}}), false),
            (json!({"command": "x", "includeTools": ["r"], "env": {"A": "$B"}}), false),
            (json!({"command": "y", "includeTools": ["r"]}), false),
            (json!({"command": "x", "includeTools": ["r"], "cwd": "/"}), false),
        ] {
            assert_eq!(server(value.clone()).is_within(&before), is_within, "{value}");
        }
        let remote = |headers: Value| server(json!({"url": "http://x", "headers": headers}));
        let with_two = remote(json!({"K": "$K", "L": "1"}));
        assert!(remote(json!({"K": "$K"})).is_within(&with_two));
        assert!(!remote(json!({"K": "$J"})).is_within(&with_two));
        for (requested, granted, is_within) in [
            ("a", "a|b", true),
            ("a|b", "a", false),
            ("a", "", true),
            ("", "a", false),
            ("a", "a.*", false),
            ("a.*", "a.*|b", false),
            ("mcp_x-y", "b|mcp_x-y", true),
        ] {
            assert_eq!(is_narrower_matcher(requested, granted), is_within, "{requested} {granted}");
        }
    }
}
